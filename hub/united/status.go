package united

import (
	"context"
	"fmt"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
)

// writeStatus writes the decided status if it differs from the stored one, at most once in StatusEvery; it returns the
// time after which it may be written. Events of a pass go out with its status, so that a pass that is repeated does not
// repeat them.
func (r *Reconciler) writeStatus(ctx context.Context, ud *appsv1alpha1.UnitedDeployment, seen *observation, d *plan.Decision) (time.Duration, error) {
	if apiequality.Semantic.DeepEqual(seen.United.Status, d.Status) {
		return 0, nil
	}
	now := r.Clock.Now()
	if left := seen.memory.wroteAt.Add(r.StatusEvery).Sub(now); left > 0 && !d.DropFinalizer {
		return left, nil
	}
	ud.Status = d.Status
	// Not a patch: it would leave out the counts that are 0, and the CRD requires them.
	err := r.Client.Status().Update(ctx, ud)
	if tooLarge(err) {
		plan.Lean(&ud.Status) // a status of few words is better than none: what it grants must be stored
		if apiequality.Semantic.DeepEqual(seen.United.Status, ud.Status) {
			return 0, nil
		}
		err = r.Client.Status().Update(ctx, ud)
	}
	if err != nil {
		return 0, fmt.Errorf("writing the status: %w", err)
	}
	seen.memory.wroteAt = now
	r.tell(ud, d.Happened)
	return 0, nil
}

// tooLarge is true for an object that the API server, or the etcd behind it, does not take for its size.
func tooLarge(err error) bool {
	return err != nil && (apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "request is too large") ||
		strings.Contains(err.Error(), "larger than max"))
}

package united

import (
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

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
	if err := r.Client.Status().Update(ctx, ud); err != nil {
		return 0, fmt.Errorf("writing the status: %w", err)
	}
	seen.memory.wroteAt = now
	r.tell(ud, d.Happened)
	return 0, nil
}

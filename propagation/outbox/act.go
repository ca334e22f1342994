package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/push"
)

func intentOf(live *unstructured.Unstructured) string {
	return live.GetAnnotations()[appsv1alpha1.AnnotationIntent]
}

// takeBack acts on an apply; where somebody wrote over our fields, a fresh read with all managedFields names them.
func (a *attempt) takeBack(ctx context.Context, live *unstructured.Unstructured, d changeset.Decision) (*unstructured.Unstructured, bool) {
	if d.Reason != changeset.ReasonDrifted && d.Reason != changeset.ReasonOwnershipLost {
		return a.act(ctx, d)
	}
	fresh, done := a.read(ctx)
	if done {
		return nil, true
	}
	if fresh == nil || fresh.GetUID() != live.GetUID() {
		return fresh, false
	}
	again := a.decide(fresh)
	if again.Op != changeset.OpApply {
		return fresh, false
	}
	taken := changeset.Culprits(again.Object, fresh)
	next, done := a.act(ctx, again)
	if a.wrote {
		a.outcome.TookBack = taken
	}
	return next, done
}

// act sends one operation, if that may be done now.
func (a *attempt) act(ctx context.Context, d changeset.Decision) (*unstructured.Unstructured, bool) {
	if a.gated(ctx, d) {
		return nil, true
	}
	now := a.outbox.Clock.Now()
	answer, err := a.outbox.Pusher.Do(ctx, a.key.Member, push.Operation{
		Decision: d, Kind: a.item.Kind, OwnerUID: a.item.Intent.OwnerUID, At: now,
	})
	if err != nil {
		return a.refused(ctx, d, err)
	}
	klog.FromContext(ctx).Info("Wrote to a member", "op", d.Op, "reason", d.Reason, "message", d.Message)
	a.outbox.countWrite(a.key.Member, d.Op)
	a.wrote, a.outcome.WrittenAt, a.outcome.TookBack = true, now, nil
	switch d.Op {
	case changeset.OpDelete:
		a.known = known{epoch: a.known.epoch}
		return nil, a.end(StateTerminating, "it is being deleted", nil)
	case changeset.OpHandover:
		return answer, false
	case changeset.OpOrphan:
		a.known = known{epoch: a.known.epoch}
	case changeset.OpApply, changeset.OpCreate:
		memory := changeset.Remember(d.Object, answer)
		a.known.memory, a.known.version, a.known.wrote = &memory, answer.GetResourceVersion(), &d
	case changeset.OpNothing, changeset.OpConflict, changeset.OpHubBehind:
	}
	a.outcome.UID, a.outcome.Generation = answer.GetUID(), answer.GetGeneration()
	return nil, a.end(StateDone, d.Message, nil)
}

// gated ends the attempt when nothing may be written now, or when a delete is not wanted any more.
func (a *attempt) gated(ctx context.Context, d changeset.Decision) bool {
	if stops := a.outbox.Stopped(); len(stops) > 0 {
		return a.end(StateStopped, fmt.Sprintf("every write is stopped: %s, seen on member %q", stops[0].Condition, stops[0].Member), nil)
	}
	message, err := a.outbox.Fence.Frozen(ctx)
	if err != nil {
		return a.end(StateFrozen, "whether a freeze is in force cannot be read: "+err.Error(), err)
	}
	if message != "" {
		return a.end(StateFrozen, message, nil)
	}
	if d.Op != changeset.OpDelete {
		return false
	}
	if a.item.StillWanted == nil {
		return a.end(StateUnwantedDelete, "nobody answers for this delete", nil)
	}
	wanted, err := a.item.StillWanted(ctx)
	if err != nil {
		return a.failed(fmt.Errorf("reading the owner before a delete: %w", err))
	}
	if !wanted {
		return a.end(StateUnwantedDelete, "its owner does not want it gone any more", nil)
	}
	return false
}

// refused sorts what the member answered; it returns the object for another round where a new look resolves it.
func (a *attempt) refused(ctx context.Context, d changeset.Decision, err error) (*unstructured.Unstructured, bool) {
	switch {
	case errors.Is(err, push.ErrForeign):
		return nil, a.end(StateConflict, err.Error(), err)
	case errors.Is(err, push.ErrUndeclared):
		return nil, a.end(StateRefused, err.Error(), err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, a.end(StateNamespaceTerminating, "the namespace is being deleted on the member", err)
	case apierrors.IsConflict(err):
		return a.conflicted(ctx, d, err)
	case apierrors.IsInvalid(err):
		// A wrong UID is answered as invalid, not as a conflict.
		live, done := a.read(ctx)
		if done || live == nil || live.GetUID() != d.UID {
			return live, done
		}
		if a.item.Shared {
			return nil, a.end(StateRefused, err.Error(), err)
		}
		return nil, a.end(StateRefused, inWords(d, err), err)
	case apierrors.IsNotFound(err):
		return a.notFound(ctx, err)
	case apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return nil, a.end(StateRefused, err.Error(), err)
	}
	return nil, a.failed(err)
}

// inWords adds to the API server's refusal of a change that it never lets anybody make, which may not name the field: what we
// would change, and what helps.
func inWords(d changeset.Decision, err error) string {
	text := err.Error()
	if !strings.Contains(text, "field is immutable") && !strings.Contains(text, "updates to statefulset spec for fields other than") &&
		!strings.Contains(text, "cannot be changed") {
		return text
	}
	return fmt.Sprintf("%s; it changes %s, and a field of these cannot be changed once the child exists: put its old value back, "+
		"or make another UnitedDeployment with the new one and move over", text, strings.Join(d.Fields, ", "))
}

// conflicted looks anew after a conflict. A create that conflicts with nothing that can be read is tried later.
func (a *attempt) conflicted(ctx context.Context, d changeset.Decision, err error) (*unstructured.Unstructured, bool) {
	if a.overtaken() {
		return nil, a.end(StatePending, "", nil)
	}
	live, done := a.read(ctx)
	if done {
		return nil, true
	}
	if live == nil && d.Op == changeset.OpCreate {
		return nil, a.failed(err)
	}
	if d.Op == changeset.OpCreate {
		return live, false
	}
	// Somebody wrote meanwhile. That may have been the next leader of this hub, whose plan an older one must not replace.
	leading, err := a.outbox.Fence.Leading(ctx)
	if err != nil {
		return nil, a.failed(fmt.Errorf("reading our leader Lease: %w", err))
	}
	if !leading {
		return nil, a.end(StateNotLeading, "another process of this hub leads", nil)
	}
	return live, false
}

// notFound is a namespace or a kind that the member lacks; an object that is gone is decided anew.
func (a *attempt) notFound(ctx context.Context, err error) (*unstructured.Unstructured, bool) {
	if !missingNamespace(err, a.key.Namespace) {
		if missingKind(err) {
			return nil, a.end(StateKindMissing, "the member does not serve "+a.key.GVK.GroupKind().String(), err)
		}
		return a.read(ctx)
	}
	if !a.item.EnsureNamespace {
		return nil, a.end(StateNamespaceMissing, fmt.Sprintf("namespace %s does not exist on the member", a.key.Namespace), err)
	}
	err = a.outbox.Pusher.EnsureNamespace(ctx, a.key.Member, a.key.Namespace)
	switch {
	case err == nil:
		return nil, false
	case apierrors.IsForbidden(err):
		return nil, a.end(StateNamespaceMissing, fmt.Sprintf(
			"namespace %s does not exist on the member and the hub may not create it", a.key.Namespace), err)
	case errors.Is(err, push.ErrNamespaceTerminating):
		return nil, a.end(StateNamespaceTerminating, "the namespace is being deleted on the member", err)
	default:
		return nil, a.failed(err)
	}
}

func missingNamespace(err error, namespace string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces" && details.Name == namespace
}

// missingKind is the API server's answer to a URL that it does not know.
func missingKind(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return strings.Contains(status.Status().Message, "could not find the requested resource") || (details != nil &&
		slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeUnexpectedServerResponse }))
}

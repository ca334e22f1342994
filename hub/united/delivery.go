package united

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/outbox"
)

// deliveries reads what became of what was posted.
func (r *Reconciler) deliveries(m *memory) map[plan.Target]plan.Delivery {
	out := map[plan.Target]plan.Delivery{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range m.posted {
		if o, ok := r.Outbox.Outcome(key); ok {
			out[plan.Target{Member: key.Member, Kind: key.GVK.GroupKind().String(), Name: key.Name}] = deliveryOf(o)
		}
	}
	return out
}

// deliveryOf puts an outcome into words that do not change from try to try: they go into the status.
func deliveryOf(o outbox.Outcome) plan.Delivery {
	switch o.State {
	case outbox.StateDone:
		return plan.Delivery{Gone: ended(o)}
	case outbox.StateConflict:
		return plan.Delivery{Problem: plan.ProblemConflict, Message: o.Message}
	case outbox.StateNamespaceMissing:
		return plan.Delivery{Problem: plan.ProblemNamespaceMissing, Message: o.Message}
	case outbox.StateRefused:
		return plan.Delivery{Problem: plan.ProblemRefused, Message: o.Message}
	case outbox.StateFrozen:
		why := o.Message
		if o.Err != nil {
			why = "whether a freeze is in force cannot be read"
		}
		return plan.Delivery{Problem: plan.ProblemOther, Message: "no member is written to (" + why + "): kubectl underway unfreeze --all"}
	case outbox.StateStopped:
		return plan.Delivery{Problem: plan.ProblemOther, Message: "all writes to members are stopped: kubectl underway confirm hub"}
	case outbox.StateNamespaceTerminating, outbox.StateKindMissing, outbox.StateMissing, outbox.StateUnwantedDelete:
		return plan.Delivery{Problem: plan.ProblemOther, Message: o.Message}
	case outbox.StateFailed:
		return plan.Delivery{Problem: plan.ProblemOther, Message: "the last write failed and is tried again: " + stable(o)}
	case outbox.StatePending, outbox.StateMemberNotReady, outbox.StateNotLeading, outbox.StateReplan, outbox.StateTerminating:
	}
	return plan.Delivery{}
}

// ended is true for a delete or a letting go that was carried out, or that there is nothing of ours to do it to.
func ended(o outbox.Outcome) bool {
	return slices.Contains([]changeset.Reason{
		changeset.ReasonGone, changeset.ReasonLetGo, changeset.ReasonNotOurs, changeset.ReasonOtherHub, changeset.ReasonOtherOwner,
		changeset.ReasonManagedElsewhere, changeset.ReasonIntentUnreadable,
	}, o.Reason)
}

// stable is an error without what differs from try to try, such as ports.
func stable(o outbox.Outcome) string {
	if reason := apierrors.ReasonForError(o.Err); reason != metav1.StatusReasonUnknown {
		return fmt.Sprintf("%s: %v", reason, o.Err)
	}
	return "the member did not answer"
}

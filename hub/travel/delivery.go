package travel

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/underway-dev/underway/hub/travel/plan"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/outbox"
)

var errAnother = errors.New("it is another object by now")

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// deliveryOf puts an outcome into words that do not change from try to try.
func deliveryOf(o outbox.Outcome, owner types.UID) plan.Delivery {
	trouble := func(message string) plan.Delivery {
		return plan.Delivery{Problem: string(o.State), Message: message, Barred: o.State == outbox.StateRefused && apierrors.IsForbidden(o.Err)}
	}
	switch o.State {
	case outbox.StateDone:
		return doneOf(o, owner)
	case outbox.StatePending, outbox.StateReplan, outbox.StateNotLeading, outbox.StateUnwantedDelete:
		return plan.Delivery{Moving: true}
	case outbox.StateTerminating:
		return trouble("it is being deleted on the member")
	case outbox.StateFrozen:
		if o.Err != nil {
			return trouble("whether a freeze is in force cannot be read")
		}
		return trouble("no member is written to (" + o.Message + "): kubectl underway unfreeze --all")
	case outbox.StateStopped:
		return trouble("all writes to members are stopped: kubectl underway confirm hub")
	case outbox.StateFailed:
		return trouble("the last write failed and is tried again: " + stable(o.Err))
	case outbox.StateConflict:
		return trouble(o.Message + "; choose: remove it there, annotate the hub's object fleet.underway.dev/adopt=Any to take it over, " +
			`or the member's fleet.underway.dev/propagate: "false" to leave it`)
	case outbox.StateKindMissing, outbox.StateMemberNotReady, outbox.StateNamespaceMissing, outbox.StateNamespaceTerminating, outbox.StateMissing, outbox.StateRefused:
	}
	if o.State == outbox.StateRefused && strings.Contains(o.Message, "field is immutable") {
		return trouble(o.Message + "; give the new content a new name, or delete the copy there")
	}
	return trouble(o.Message)
}

func doneOf(o outbox.Outcome, owner types.UID) plan.Delivery {
	gone := !slices.Contains(o.Marked, string(owner)) || slices.Contains([]changeset.Reason{
		changeset.ReasonGone, changeset.ReasonLetGo, changeset.ReasonNotOurs, changeset.ReasonOtherHub,
	}, o.Reason)
	if o.Reason == changeset.ReasonManagedElsewhere {
		return plan.Delivery{Gone: true, Problem: "ManagedElsewhere", Message: "the member's object is marked as managed elsewhere"}
	}
	if o.Reason == changeset.ReasonRewritten {
		return plan.Delivery{Done: true, Gone: gone, Problem: string(o.Reason), Message: o.Message}
	}
	return plan.Delivery{Done: true, Gone: gone}
}

// stable is an error without what differs from try to try, such as ports.
func stable(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return fmt.Sprintf("%s: %v", reason, err)
	}
	return "the member did not answer"
}

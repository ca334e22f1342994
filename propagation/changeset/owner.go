package changeset

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// claim is what a live object says about whose it is.
type claim struct {
	ours bool
	// orphaned: a hub let it go.
	orphaned bool
	// intent of the live object; nil when it has none of our owner.
	intent  *render.Intent
	reason  Reason
	message string
}

func claimOf(live *unstructured.Unstructured, hubID string, intent render.Intent) claim {
	labels, annotations := live.GetLabels(), live.GetAnnotations()
	if annotations[appsv1alpha1.AnnotationPropagate] == "false" {
		return claim{reason: ReasonManagedElsewhere, message: "it is marked as managed elsewhere"}
	}
	if _, ok := annotations[appsv1alpha1.AnnotationOrphaned]; ok {
		return claim{orphaned: true, reason: ReasonNotOurs, message: "a hub let it go at " + annotations[appsv1alpha1.AnnotationOrphaned]}
	}
	hub := labels[appsv1alpha1.LabelHub]
	if hub == hubID {
		return stamped(annotations, intent)
	}
	if ref := metav1.GetControllerOfNoCopy(live); ref != nil && ref.UID == intent.OwnerUID {
		return claim{ours: true}
	}
	if hub != "" {
		return claim{reason: ReasonOtherHub, message: "it belongs to hub " + hub}
	}
	return claim{reason: ReasonNotOurs, message: "it was not made by a hub"}
}

// stamped reads an object with our hub's id.
func stamped(annotations map[string]string, intent render.Intent) claim {
	live, err := render.ParseIntent(annotations[appsv1alpha1.AnnotationIntent])
	if err != nil {
		return claim{reason: ReasonIntentUnreadable, message: fmt.Sprintf("its owner cannot be told: %v", err)}
	}
	if !live.Plausible(intent.Term) {
		return claim{reason: ReasonIntentUnreadable, message: fmt.Sprintf("its term %d is of no hub (this one's is %d)", live.Term, intent.Term)}
	}
	if live.OwnerUID != intent.OwnerUID {
		return claim{
			reason: ReasonOtherOwner,
			message: fmt.Sprintf("it belongs to %s with UID %s",
				annotations[appsv1alpha1.AnnotationOwner], live.OwnerUID),
		}
	}
	return claim{ours: true, intent: &live}
}

// adoptable says whether the owner's policy allows to take an object over that is not ours.
func (c claim) adoptable(policy appsv1alpha1.AdoptPolicy) bool {
	if c.reason == ReasonManagedElsewhere || c.reason == ReasonIntentUnreadable {
		return false
	}
	return policy == appsv1alpha1.AdoptAny || (policy == appsv1alpha1.AdoptOrphaned && c.orphaned)
}

// newer is true when the live intent is above ours.
func (c claim) newer(intent render.Intent) bool {
	if c.intent == nil {
		return false
	}
	order, ordered := c.intent.Compare(intent)
	return ordered && order > 0
}

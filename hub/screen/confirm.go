package screen

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// Confirmation is one thing that waits until a person accepts it.
type Confirmation struct {
	// Value of the annotation fleet.underway.dev/confirm: "<condition>/<value seen>".
	Value string
	// Condition and Message say what is accepted.
	Condition, Message string
}

// Confirmable finds, in the object's conditions, the first of kinds that is True, and what accepts it. The hub says that
// at the end of the condition's message ("(annotation fleet.underway.dev/confirm: <value>)"), so that nobody composes it twice; seen
// is the value for hubs that do not. ok is false when nothing waits, or when what is seen cannot be told.
func Confirmable(conditions []metav1.Condition, kinds []string, seen string) (c Confirmation, ok bool) {
	for _, kind := range kinds {
		held := trueCondition(conditions, kind)
		if held == nil {
			continue
		}
		value := confirmationIn(held.Message)
		if value == "" && seen != "" {
			value = kind + "/" + seen
		}
		if strings.HasPrefix(value, kind+"/") {
			return Confirmation{Value: value, Condition: kind, Message: Clean(held.Message)}, true
		}
	}
	return Confirmation{}, false
}

// confirmationIn finds the annotation's value in a message that ends with "(annotation <key>: <value>)".
func confirmationIn(message string) string {
	_, rest, found := strings.Cut(message, "(annotation "+appsv1alpha1.AnnotationConfirm+": ")
	end := strings.LastIndexByte(rest, ')')
	if !found || end < 0 {
		return ""
	}
	return rest[:end]
}

// ClusterConfirmation is what waits on one member.
func ClusterConfirmation(m *fleetv1alpha1.MemberCluster) (Confirmation, bool) {
	return Confirmable(m.Status.Conditions, []string{fleetv1alpha1.ConditionIdentityChanged}, m.Status.SeenIdentity)
}

// HubConfirmation is what waits for the hub itself, as seen on one member.
func HubConfirmation(m *fleetv1alpha1.MemberCluster) (Confirmation, bool) {
	kinds := []string{fleetv1alpha1.ConditionHubBehind, fleetv1alpha1.ConditionTwoHubs}
	return Confirmable(m.Status.Conditions, kinds, "")
}

// UDConfirmation is what waits on a UnitedDeployment.
func UDConfirmation(ud *appsv1alpha1.UnitedDeployment) (Confirmation, bool) {
	return Confirmable(ud.Status.Conditions, []string{appsv1alpha1.ConditionRemovalHeld}, "")
}

package screen

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// TestMemberNote: what is as it should be is no note, whichever way its condition is meant.
func TestMemberNote(t *testing.T) {
	t.Parallel()
	m := &fleetv1alpha1.MemberCluster{}
	set := func(kind string, status metav1.ConditionStatus, message string) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: kind, Status: status, Message: message})
	}
	for _, kind := range []string{"Ready", "Reachable", "CredentialsValid", "AgentReady", "ClusterFollowed"} {
		set(kind, metav1.ConditionTrue, "underway-member v0.1.0")
	}
	set("Upgrading", metav1.ConditionFalse, "")
	if got := memberNote(m); got != "" {
		t.Errorf("a member that is fine has the note %q", got)
	}
	m.Spec.Drain = true
	set("HubBehind", metav1.ConditionTrue, "stopped")
	m.Status.Conditions[3].Status = metav1.ConditionFalse
	m.Status.Conditions[3].Message = "nobody reconciles"
	if got, want := memberNote(m), "AgentReady=False: nobody reconciles; HubBehind=True: stopped; being drained"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

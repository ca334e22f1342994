package changeset_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/underway-dev/underway/propagation/changeset"
)

// TestReplicasAreTakenBack from an autoscaler that is gone, though the object still has its entry; without being told so
// the hub leaves them, and what was taken back is not sent again.
func TestReplicasAreTakenBack(t *testing.T) {
	t.Parallel()
	in := intent(1, 5, 0)
	want := desired(in)
	before := desired(in)
	unstructured.RemoveNestedField(before.Object, "spec", "replicas")
	live := server(before)
	set(live, int64(8), "spec", "replicas")
	manage(live, replicasOf("kube-controller-manager", "scale"))
	input := changeset.Input{Want: changeset.WantApplied, Desired: want, Live: live, HubID: hub, Intent: in}
	if got := changeset.Decide(input); got.Op != changeset.OpNothing {
		t.Fatalf("%s: %s", got.Op, got.Message)
	}
	input.TakeReplicas = true
	got := changeset.Decide(input)
	if n, _, _ := unstructured.NestedInt64(got.Object.Object, "spec", "replicas"); got.Op != changeset.OpApply || n != 3 {
		t.Fatalf("%s with %d replicas: %s", got.Op, n, got.Message)
	}
	// Where the number is the same the other entry stays beside ours.
	after := server(got.Object)
	manage(after, replicasOf("kube-controller-manager", "scale"))
	m := changeset.Remember(got.Object, after)
	input.Live, input.Memory = after, &m
	if got := changeset.Decide(input); got.Op != changeset.OpNothing {
		t.Errorf("it does not settle: %s %s", got.Op, got.Message)
	}
}

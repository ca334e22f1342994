package changeset_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/render"
)

// TestHeldContentIsNotTakenOver: an object of somebody else that may be adopted stays as it is while the release has not come
// to those that use it.
func TestHeldContentIsNotTakenOver(t *testing.T) {
	t.Parallel()
	config := func(value string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": value}}}
		u.SetName("a")
		u.SetNamespace("n")
		return u
	}
	live := config("what the held pods run with")
	live.SetUID("live")
	live.SetResourceVersion("5")
	for hold, want := range map[bool]changeset.Op{true: changeset.OpNothing, false: changeset.OpApply} {
		d := changeset.DecideShared(changeset.SharedInput{
			Desired: config("of the release"), Live: live, HubID: "0123456789abcdef", Owners: []string{"u"}, Hold: hold,
			Source: render.Intent{Term: 1, OwnerUID: "src", Generation: 9}, Adopt: appsv1alpha1.AdoptAny,
		})
		if d.Op != want {
			t.Errorf("hold %t: %s %s", hold, d.Op, d.Message)
		}
	}
}

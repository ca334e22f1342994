package outbox_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// TestB159: somebody sets another image on a member, then deletes the child. The image is put back, with the reason; the
// owner is told to plan anew for the child that is gone, and the next plan makes it again.
func TestB159(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	o := start(t, w)
	told := make(chan types.NamespacedName, 100)
	o.Subscribe(func(owner types.NamespacedName) { told <- owner })
	changed := clusters.Event{Member: "m1", GVK: render.CloneSet().GVK, Owner: owner(), Object: types.NamespacedName{Namespace: "shop", Name: "a"}}
	i := item("m1", "a", "v1", intent(1, 0))
	o.Post(i)
	i.Judged = eventually(t, o, i, outbox.StateDone).UID
	o.Post(i)
	eventually(t, o, i, outbox.StateDone)

	w.with(func() {
		live := w.members["m1"].objects["shop/a"].DeepCopy()
		if err := unstructured.SetNestedField(live.Object, "hacked:1", "spec", "image"); err != nil {
			t.Error(err)
		}
		live.SetResourceVersion("900")
		w.members["m1"].objects["shop/a"] = live
	})
	w.event(changed)
	until(t, "the image is back", func() bool { return image(w.live("m1", "a")) == "v1" })
	if got := eventually(t, o, i, outbox.StateDone); got.Reason != changeset.ReasonDrifted {
		t.Errorf("reason %s", got.Reason)
	}

	w.with(func() { delete(w.members["m1"].objects, "shop/a") })
	w.event(changed)
	eventually(t, o, i, outbox.StateReplan)
	if len(told) == 0 {
		t.Error("the owner was not told")
	}
	again := item("m1", "a", "v1", intent(1, 0))
	o.Post(again)
	until(t, "it is there again", func() bool { return image(w.live("m1", "a")) == "v1" })
}

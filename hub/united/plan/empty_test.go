package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// emptied is a world with a subset that has pods and one that has none, both granted whole.
func emptied(t *testing.T, kind string) *world {
	t.Helper()
	w := newWorld(t, united("web", 3, "web:1", sub("a", "east", "3"), sub("b", "west", "0")))
	template(w.ud, kind, "web:1")
	partitions(w.ud, map[string]string{"a": "0", "b": "0"})
	w.run()
	clear(w.writes)
	return w
}

// TestOneWriteForAChildWithoutPods: a release is one write for a child without pods, too: it is left as it is until the
// release is finished.
func TestOneWriteForAChildWithoutPods(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cloneSet", "advancedStatefulSet", "statefulSet", "deployment"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := emptied(t, kind)
			old := w.child("b").label
			template(w.ud, kind, "web:2")
			w.members["east"].agentOff = true // the release cannot be finished
			w.run()
			if c := w.child("b"); c.label != old || w.writes["b"] != 0 {
				t.Errorf("in mid-release it was written %d times: %+v", w.writes["b"], *c)
			}
			w.members["east"].agentOff = false
			w.run()
			if diff := cmp.Diff(map[string]int{"a": 1, "b": 1}, w.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if s := &w.ud.Status; s.CurrentRevision != s.UpdatedRevision || w.child("b").label == old {
				t.Errorf("not finished: %v", w.child("b"))
			}
		})
	}
}

// TestOneWriteForAHeldChildWithoutPods: neither is a hold taken off before the template comes.
func TestOneWriteForAHeldChildWithoutPods(t *testing.T) {
	t.Parallel()
	w := emptied(t, "cloneSet")
	total := func(n int32) {
		w.ud.Spec.UpdateStrategy.ManualUpdate.Partitions = nil
		w.ud.Spec.UpdateStrategy.ManualUpdate.Partition = new(intstr.FromInt32(n))
		w.ud.Generation++
		w.run()
	}
	total(2)
	if !w.child("b").part.Hold {
		t.Fatalf("a total above 0 holds what has no pods: %+v", w.child("b"))
	}
	clear(w.writes)
	template(w.ud, "cloneSet", "web:2")
	w.run()
	total(0)
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 1}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestPodsOfAChildThatHadNone: in mid-release it gets pods by the hub's number, or by an autoscaler on the member. Those that
// nobody granted are of the completed template, though no hold was sent.
func TestPodsOfAChildThatHadNone(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cloneSet", "advancedStatefulSet", "statefulSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := emptied(t, kind)
			old := w.child("b").label
			w.members["east"].agentOff = true
			template(w.ud, kind, "web:2")
			w.run()
			w.ud.Spec.Replicas, w.ud.Spec.Topology.Subsets[1].Replicas = ptr.To[int32](7), new(intstr.FromInt32(4))
			partitions(w.ud, map[string]string{"a": "0", "b": "3"})
			w.run()
			if c := w.child("b"); c.count(old) != 3 || len(c.pods) != 4 {
				t.Errorf("3 of 4 are to stay: %+v", *c)
			}
		})
	}
	t.Run("autoscaler", func(t *testing.T) {
		t.Parallel()
		w := emptied(t, "cloneSet")
		old := w.child("b").label
		w.members["east"].agentOff = true
		template(w.ud, "cloneSet", "web:2")
		w.run()
		c := w.child("b")
		c.scaledBy, c.replicas, c.gen = []string{"kube-controller-manager"}, 4, c.gen+1
		c.agent()
		if c.count(old) != 4 {
			t.Errorf("pods that come before the hub looks are of the completed template: %+v", *c)
		}
		partitions(w.ud, map[string]string{"a": "0", "b": "100%"})
		w.run()
		if c := w.child("b"); c.count(old) != 4 || !c.part.Hold {
			t.Errorf("held: %+v", *c)
		}
	})
}

package plan

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// ordinals is a world with a StatefulSet of Kubernetes whose pods are told by their ordinals: those at the partition and above
// are new, and what is new stays so.
type ordinals struct {
	*world

	pods    map[int32]bool
	largest int32
}

func (o *ordinals) steps(n int) {
	for range n {
		for _, p := range o.pass() {
			o.deliver(p)
		}
		o.largest = max(o.largest, o.ud.Status.Release.Grants["a"])
		c, partition := o.child("a"), int32(render.HoldOrdinal)
		if !c.part.Hold {
			partition = c.part.Value.IntVal
		}
		if o.ud.Status.CurrentRevision != o.ud.Status.UpdatedRevision && c.label != o.first() {
			for i := partition; i < c.replicas; i++ {
				o.pods[i] = true
			}
		}
		o.agents()
		o.now = o.now.Add(time.Second)
	}
}

// first is the subset revision of the template before the release.
func (o *ordinals) first() string { return o.child("a").current }

func (o *ordinals) scale(n int32) {
	o.ud.Spec.Replicas = &n
	o.ud.Generation++
	o.steps(10)
}

func (o *ordinals) partition(value string) {
	partitions(o.ud, map[string]string{"a": value})
	o.steps(10)
}

// TestAdvancedStatefulSetGrownInMidRelease: OpenKruise's manager creates pods by position as well, and says nothing that our agent
// would say. The agent counts: there nothing has to be held.
func TestAdvancedStatefulSetGrownInMidRelease(t *testing.T) {
	t.Parallel()
	for name, ours := range map[string]bool{"OpenKruise's": false, "ours": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 5, "web:1", sub("a", "a", "")))
			template(w.ud, "advancedStatefulSet", "web:1")
			w.run()
			w.child("a").silent = !ours
			o := &ordinals{world: w, pods: map[int32]bool{}}
			template(w.ud, "advancedStatefulSet", "web:2")
			o.partition("60%")
			o.scale(7)
			if !ours && int32(len(o.pods)) > o.largest {
				t.Errorf("ordinals %v are new, and the largest grant was %d", o.pods, o.largest)
			}
			if held := w.child("a").part.Hold; held == ours {
				t.Errorf("held: %v", held)
			}
			w.members["a"].down = true // what is known of one that is not heard from stands
			o.steps(3)
			w.members["a"].down = false
			o.steps(3)
			if held := w.child("a").part.Hold; held == ours {
				t.Errorf("held, when it is heard from again: %v", held)
			}
		})
	}
}

// TestR2NativeStatefulSetGrownInMidRelease: whatever scales it, the new pods are never more than the largest grant, and the
// release can be finished.
func TestR2NativeStatefulSetGrownInMidRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		play func(o *ordinals)
		held bool
	}{
		"scaled":                {func(o *ordinals) { o.scale(7) }, true},
		"twice, and back":       {func(o *ordinals) { o.scale(7); o.scale(9); o.scale(4); o.scale(8) }, true},
		"granted more later":    {func(o *ordinals) { o.scale(7); o.partition("40%") }, true},
		"scaled while it waits": {func(o *ordinals) { o.partition("100%"); o.scale(7); o.partition("60%") }, true},
		"while it is upgraded":  {func(o *ordinals) { o.members["a"].noGrants = "it is being upgraded"; o.scale(7) }, true},
		"by its member": {func(o *ordinals) {
			c := o.child("a")
			c.scaledBy = []string{"kube-controller-manager"}
			o.steps(10)
			c = o.child("a")
			c.replicas, c.gen = 7, c.gen+1
			o.steps(10)
			c = o.child("a")
			c.scaledBy = nil
			o.scale(7)
		}, true},
		"held and let go, not scaled": {func(o *ordinals) { o.partition("100%"); o.partition("40%") }, false},
		"scaled down":                 {func(o *ordinals) { o.scale(4) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 5, "web:1", sub("a", "a", "")))
			template(w.ud, "statefulSet", "web:1")
			w.run()
			o := &ordinals{world: w, pods: map[int32]bool{}}
			template(w.ud, "statefulSet", "web:2")
			o.partition("60%")
			if len(o.pods) != 2 || o.largest != 2 {
				t.Fatalf("2 are granted: %v, %d", o.pods, o.largest)
			}
			tc.play(o)
			if int32(len(o.pods)) > o.largest {
				t.Errorf("ordinals %v are new, and the largest grant was %d", o.pods, o.largest)
			}
			e := w.entry("a")
			if c := w.child("a"); c.part.Hold != tc.held || (len(e.Conditions) == 1) != tc.held {
				t.Errorf("partition %+v, entry %+v", c.part, e)
			}
			if name == "scaled" && !strings.Contains(e.Message, "scaled in mid-release") {
				t.Errorf("it does not say so: %s", e.Message)
			}
			w.members["a"].noGrants = ""
			w.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Partition: new(intstr.FromInt32(0))}
			w.ud.Generation++
			w.run()
			if s := &w.ud.Status; s.CurrentRevision != s.UpdatedRevision || len(w.entry("a").Conditions) > 0 {
				t.Errorf("not finished: %+v", w.entry("a"))
			}
		})
	}
}

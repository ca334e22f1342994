package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
	"github.com/underway-dev/underway/test/seeds"
)

// pods are all ready pods, allotted all replicas that are allotted.
func (w *world) readyAndAllotted() (pods, allotted int32) {
	for _, m := range w.members {
		for _, c := range m.children {
			pods += c.ready
		}
	}
	for _, n := range w.ud.Status.SubsetReplicas {
		allotted += n
	}
	return pods, allotted
}

// tick is one pass, what it wants, and one step of every member.
func (w *world) tick() {
	w.t.Helper()
	for _, p := range w.pass() {
		w.deliver(p)
	}
	for _, name := range w.memberNames() {
		for _, key := range sortedKeys(w.members[name].children) {
			if !w.members[name].agentOff && !w.members[name].down {
				w.members[name].children[key].agent()
			}
		}
	}
	w.now = w.now.Add(1e9)
	w.check()
}

// TestAJoinTakesNothingBeforeItIsReady: what a member gets that joins is taken from the others as its pods become ready.
func TestAJoinTakesNothingBeforeItIsReady(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{tmpl("", "")}, "a", "b")
	w.run()
	w.join("c").agentOff = true
	w.run()
	w.wants("a Current 6/6", "b Current 6/6", "c Starting 4/0")
	if e := w.entry("c"); e.AwaitedReplicas != 4 {
		t.Errorf("entry %+v", e)
	}
	if n := w.ud.Status.Replicas; n != 12 {
		t.Errorf("an autoscaler reads %d replicas", n)
	}
	w.members["c"].agentOff = false
	for range 30 {
		w.tick()
		if ready, allotted := w.readyAndAllotted(); ready < 12 || allotted > 16 {
			t.Fatalf("%d ready, %d allotted: %v", ready, allotted, w.states())
		}
	}
	w.wants("a Current 4/4", "b Current 4/4", "c Current 4/4")
	// A total that falls meanwhile is obeyed, whoever is awaited.
	w.join("d").agentOff = true
	w.run()
	w.ud.Spec.Replicas = new(int32(4))
	w.ud.Generation++
	w.edited()
	w.run()
	if _, allotted := w.readyAndAllotted(); allotted > 5 {
		t.Errorf("scaled to 4: %v", w.states())
	}
}

// TestDraining: a member with a drain mark gives up what a template made of it once the others have taken over, whatever the
// template says of members that are not selected; nothing new is made there, and taking the mark back brings it back.
func TestDraining(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{tmpl("", "")}, "a", "b", "c")
	w.run()
	w.members["c"].draining = true
	w.join("late").draining = true
	w.members["b"].agentOff = true
	w.run()
	w.wants("a Current 6/6", "b Returning 6/4", "c Leaving 0/4")
	if e := w.entry("c"); !strings.Contains(e.Message, "being drained") || !strings.Contains(e.Message, "taken over: b") {
		t.Errorf("entry %+v", e)
	}
	w.members["c"].draining = false
	w.run()
	if n := len(w.members["c"].children); n != 1 {
		t.Fatalf("the mark was taken back and c has %d children", n)
	}
	w.members["c"].draining = true
	w.members["b"].agentOff = false
	w.run()
	w.wants("a Current 6/6", "b Current 6/6")
	if len(w.members["c"].children)+len(w.members["late"].children) > 0 {
		t.Error("children are left")
	}
	w.idle()
}

// TestDrainingTheLastOnesIsAsked: nobody empties every member without being asked.
func TestDrainingTheLastOnesIsAsked(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 6, []appsv1alpha1.SubsetSelector{tmpl("", "")}, "a", "b")
	w.run()
	w.members["a"].draining, w.members["b"].draining = true, true
	w.run()
	if c := w.condition(appsv1alpha1.ConditionRemovalHeld); c == nil || len(w.members["a"].children)+len(w.members["b"].children) != 2 {
		t.Errorf("condition %+v, %v", c, w.states())
	}
}

// TestDrainingAListedSubset: what the list says is to be there stays and is told; what the allocator is free to move goes,
// make-before-break.
func TestDrainingAListedSubset(t *testing.T) {
	t.Parallel()
	bounded := func(name string, least, most int32) appsv1alpha1.Subset {
		s := sub(name, name, "")
		if least > 0 {
			s.MinReplicas = new(intstr.FromInt32(least))
		}
		if most > 0 {
			s.MaxReplicas = new(intstr.FromInt32(most))
		}
		return s
	}
	for name, tc := range map[string]struct {
		subsets  []appsv1alpha1.Subset
		adaptive bool
		want     []string
	}{
		"a number":                {[]appsv1alpha1.Subset{sub("a", "a", "4"), sub("b", "b", "")}, false, []string{"a 4", "b 6"}},
		"a percent":               {[]appsv1alpha1.Subset{sub("a", "a", "40%"), sub("b", "b", "")}, false, []string{"a 4", "b 6"}},
		"what is left":            {[]appsv1alpha1.Subset{sub("a", "a", ""), sub("b", "b", "")}, false, []string{"a 0", "b 10"}},
		"nobody else is free":     {[]appsv1alpha1.Subset{sub("a", "a", ""), sub("b", "b", "6")}, false, []string{"a 4", "b 6"}},
		"a minimum":               {[]appsv1alpha1.Subset{bounded("a", 2, 4), bounded("b", 0, 0)}, false, []string{"a 2", "b 8"}},
		"up to a maximum":         {[]appsv1alpha1.Subset{bounded("a", 0, 4), bounded("b", 0, 0)}, false, []string{"a 0", "b 10"}},
		"no room elsewhere":       {[]appsv1alpha1.Subset{bounded("a", 0, 0), bounded("b", 0, 6)}, false, []string{"a 4", "b 6"}},
		"Adaptive":                {[]appsv1alpha1.Subset{bounded("a", 0, 4), bounded("b", 0, 0)}, true, []string{"a 0", "b 10"}},
		"Adaptive without room":   {[]appsv1alpha1.Subset{bounded("a", 0, 0), bounded("b", 0, 6)}, true, []string{"a 4", "b 6"}},
		"Adaptive with a minimum": {[]appsv1alpha1.Subset{bounded("a", 3, 4), bounded("b", 0, 0)}, true, []string{"a 3", "b 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ud := united("web", 10, "web:1", tc.subsets...)
			partitions(ud, map[string]string{"a": "0", "b": "0"})
			if tc.adaptive {
				ud.Spec.Topology.ScheduleStrategy.Type = appsv1alpha1.ScheduleAdaptive
			}
			w := newWorld(t, ud)
			w.run()
			if name == "no room elsewhere" || name == "Adaptive without room" {
				w.ud.Status.SubsetReplicas = map[string]int32{"a": 4, "b": 6}
				for range 10 {
					w.tick()
				}
			}
			before, _ := w.readyAndAllotted()
			w.members["a"].draining = true
			for range 40 {
				w.tick()
				if ready, _ := w.readyAndAllotted(); ready < before {
					t.Fatalf("%d of %d are ready: %v", ready, before, w.states())
				}
			}
			var got []string
			for _, s := range w.ud.Status.SubsetStatuses {
				got = append(got, fmt.Sprintf("%s %d", s.Name, s.DesiredReplicas))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v: %+v", got, tc.want, w.ud.Status.Conditions)
			}
			if c := w.condition(appsv1alpha1.ConditionAllocation); c == nil || !strings.Contains(c.Message, "member a is being drained and subset a stays there") {
				t.Errorf("condition %+v", c)
			}
			if len(w.members["a"].children) != 1 {
				t.Error("the child of a listed subset is gone")
			}
		})
	}
}

// TestNoChildOnAMemberThatGoes: neither on first install, nor when a child is missing, nor for a change of kind.
func TestNoChildOnAMemberThatGoes(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"deleting", "draining"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 6, "web:1", sub("a", "a", "3"), sub("b", "b", "3")))
			partitions(w.ud, map[string]string{"a": "0", "b": "0"})
			m := w.members["a"]
			m.deleting, m.draining = how == "deleting", how == "draining"
			w.run()
			if e := w.entry("a"); len(m.children) > 0 || e.State != stateWaiting || !strings.Contains(e.Message, "no child is made there; take the subset out") {
				t.Fatalf("%d children, entry %+v", len(m.children), e)
			}
			m.deleting, m.draining = false, false
			w.run()
			w.wants("a Current 3/3", "b Current 3/3")
			m.deleting, m.draining = how == "deleting", how == "draining"
			template(w.ud, "deployment", "web:2")
			w.run()
			if n := len(m.children); n != 1 || w.child("a").kind.GVK.Kind != "CloneSet" || w.entry("a").Replicas != 3 {
				t.Errorf("%d children, entry %+v", n, w.entry("a"))
			}
			clear(m.children)
			w.run()
			if len(m.children) > 0 {
				t.Error("a child that was deleted by hand is made again")
			}
		})
	}
}

// TestNothingIsTakenAwayEarly plays members that join, are emptied and taken back, at random, with agents that stop: ready pods
// are never fewer than what is asked for, or than they were, and what is allotted comes to rest at the total.
func TestNothingIsTakenAwayEarly(t *testing.T) {
	t.Parallel()
	for seed, to := seeds.Range(t, 60); seed < to; seed++ {
		r := rand.New(rand.NewPCG(seed, 5))
		total := int32(1 + r.IntN(20))
		w := selectedFleet(&failure{TB: t, seed: seed}, total, []appsv1alpha1.SubsetSelector{tmpl("", "")}, "m0", "m1")
		w.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Unnamed: appsv1alpha1.UnnamedHold}
		w.run()
		for n := range 60 {
			m := w.members[fmt.Sprintf("m%d", r.IntN(len(w.members)-1))]
			switch r.IntN(6) {
			case 0:
				if len(w.members) < 7 {
					w.join(fmt.Sprintf("m%d", len(w.members)-1))
				}
			case 1:
				m.draining = !m.draining
			case 2:
				m.agentOff = !m.agentOff
			case 3:
				setImage(w.ud, fmt.Sprintf("web:%d", n))
			}
			before, _ := w.readyAndAllotted()
			w.tick()
			if ready, _ := w.readyAndAllotted(); ready < min(before, total) {
				w.t.Fatalf("step %d: %d were ready and %d are, of %d: %v", n, before, ready, total, w.states())
			}
		}
		for _, m := range w.members {
			m.agentOff, m.draining = false, false
		}
		w.run()
		ready, allotted := w.readyAndAllotted()
		if ready != total || allotted != total {
			w.t.Fatalf("at rest with %d ready, %d allotted, of %d: %v", ready, allotted, total, w.states())
		}
	}
}

// TestAnEmptySubsetOnADrainedMemberHoldsNoReleaseUp: a subset of the list that has no child on a member where none is made has no
// pods and gets none, so a release does not wait for it; for its grant it does, and for what may be on its way.
func TestAnEmptySubsetOnADrainedMemberHoldsNoReleaseUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 6, "web:1", sub("a", "a", "3"), sub("b", "b", "3")))
	w.members["a"].draining = true
	partitions(w.ud, map[string]string{"a": "3", "b": "0"})
	w.run()
	setImage(w.ud, "web:2")
	w.run()
	finished := func() bool { return w.ud.Status.CurrentRevision == w.ud.Status.UpdatedRevision }
	if finished() {
		t.Fatal("it is held, and the release is finished")
	}
	partitions(w.ud, map[string]string{"a": "0", "b": "0"})
	w.members["a"].down = true
	w.run()
	if finished() {
		t.Fatal("the member is not heard from, and the release is finished")
	}
	w.members["a"].down = false
	for range 4 {
		o := w.observe()
		o.Deliveries = map[Target]Delivery{{Member: "a", Kind: w.child("b").report().Kind, Name: render.ChildName("web", "a")}: {}}
		w.passOn(o)
	}
	if finished() || w.last.LookAgainIn == 0 {
		t.Fatal("a create may be on its way, and the release is finished")
	}
	w.run()
	if e := w.entry("a"); !finished() || e.State != stateWaiting {
		t.Errorf("not finished: %+v", e)
	}
	w.members["a"].draining = false
	w.run()
	w.wants("a Current 3/3", "b Current 3/3")
	if c := w.child("a"); c.label != w.child("b").label {
		t.Errorf("a comes from the completed template: %+v", *c)
	}
}

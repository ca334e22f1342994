package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/seeds"
)

// adaptiveSelected is an Adaptive object whose members are selected; each takes most replicas at the most, one of tier=burst any
// number.
func adaptiveSelected(tb testing.TB, replicas, most int32, members ...string) *scarce {
	tb.Helper()
	web, burst := tmpl("tier=web", ""), tmpl("tier=burst", "")
	web.MaxReplicas = new(intstr.FromInt32(most))
	w := &scarce{
		world: selectedFleet(tb, replicas, []appsv1alpha1.SubsetSelector{web, burst}, members...), room: map[string]int32{}, bad: map[string]bool{},
		unscheduled: map[string]time.Time{}, ready: map[string]time.Time{}, last: map[string]int32{}, rises: map[string]int{},
	}
	w.ud.Spec.Topology.ScheduleStrategy = appsv1alpha1.ScheduleStrategy{Type: appsv1alpha1.ScheduleAdaptive, Adaptive: unreachable(60)}
	return w
}

// kept is how many of the ready pods are to stay.
func (w *scarce) kept() (kept int32) {
	for _, m := range w.members {
		for _, c := range m.children {
			most := c.replicas
			if n, planned := w.ud.Status.SubsetReplicas[c.subset]; planned {
				most = n // a member may not have heard of it
			}
			kept += min(c.ready, most)
		}
	}
	return kept
}

// watched is a second in which no ready pod is taken away before another one is ready instead.
func (w *scarce) watched() {
	w.t.Helper()
	for _, name := range w.memberNames() {
		for _, c := range w.members[name].children {
			if !w.members[name].down {
				c.agent()
				w.place(name, c)
			}
		}
	}
	before := w.kept()
	o := w.observe()
	w.look(&o)
	for _, p := range w.passOn(o) {
		w.deliver(p)
	}
	w.check()
	w.count()
	total := *w.ud.Spec.Replicas
	// A total that falls is obeyed where the order of the places wants it, ready or not.
	if after := w.kept(); after < min(before, total) && w.now.Sub(w.seenAt) > 5*time.Second {
		w.t.Fatalf("%d were ready, %d of them stay, of %d: %v %v", before, after, total, w.states(), w.ud.Status.SubsetReplicas)
	}
	var allotted int32
	for _, n := range w.ud.Status.SubsetReplicas {
		allotted += n
	}
	if allotted < total && w.condition(appsv1alpha1.ConditionAllocation) == nil {
		w.t.Fatalf("%d of %d are allotted: %v", allotted, total, w.states())
	}
	w.now = w.now.Add(time.Second)
}

// TestAdaptiveJoinsWhileReplicasAreMoved: a member loses its room, one joins before the replicas have moved, and the one that
// had taken over leaves.
func TestAdaptiveJoinsWhileReplicasAreMoved(t *testing.T) {
	t.Parallel()
	w := adaptiveSelected(t, 8, 4, "a:tier=web", "b:tier=web", "z:tier=burst")
	w.seconds(20)
	w.wants("a Current 4/4", "b Current 4/4", "z Current 0/0")
	w.room["a"] = 1
	w.seconds(33)
	w.join("c:tier=web")
	for range 40 {
		w.watched()
	}
	if got := w.ud.Status.SubsetReplicas; got["a"] != 1 || got["b"] != 4 || got["c"]+got["z"] != 3 {
		t.Fatalf("%v", w.states())
	}
	w.members["z"].relabel("tier=none")
	for range 30 {
		w.watched()
	}
	w.watch()
	for range 120 {
		w.watched()
	}
	if w.moves != 0 {
		t.Errorf("at rest it moves %d times: %v", w.moves, w.states())
	}
}

// TestAdaptiveSelectedStories plays members that join, leave, are emptied, lose room or go out of reach, and totals that are
// scaled, while replicas are moved, in and out of a release: no ready pod is given up early, all replicas stay allotted, and
// when everything heals it comes to rest at the total and moves no more.
func TestAdaptiveSelectedStories(t *testing.T) {
	t.Parallel()
	for seed, to := seeds.Range(t, 6); seed < to; seed++ {
		r := rand.New(rand.NewPCG(seed, 49))
		w := adaptiveSelected(&failure{TB: t, seed: seed}, int32(4+r.IntN(12)), int32(2+r.IntN(5)), "m0:tier=web", "m1:tier=web", "m2:tier=burst")
		w.seconds(20)
		for n := range 16 {
			w.happens(r, n)
			for range 5 + r.IntN(60) {
				w.watched()
			}
		}
		for _, m := range w.members {
			m.down, m.draining = false, false
		}
		clear(w.room)
		w.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Unnamed: appsv1alpha1.UnnamedUpdate}
		w.ud.Generation++
		for range 1200 {
			w.watched()
		}
		w.watch()
		for range 400 {
			w.watched()
		}
		ready, allotted := w.readyAndAllotted()
		if total := *w.ud.Spec.Replicas; w.moves != 0 || ready != total || allotted != total {
			w.t.Fatalf("in the end %d moves, %d ready, %d allotted, of %d: %v", w.moves, ready, allotted, total, w.states())
		}
		w.idleScarce()
	}
}

// happens is one thing.
func (w *scarce) happens(r *rand.Rand, n int) {
	m := w.members[fmt.Sprintf("m%d", r.IntN(len(w.members)-1))]
	switch r.IntN(9) {
	case 0:
		if len(w.members) < 7 {
			w.join(fmt.Sprintf("m%d:tier=web", len(w.members)-1))
		}
	case 1:
		if m.name != "m2" {
			m.relabel([]string{"tier=web", "tier=none"}[r.IntN(2)])
		}
	case 2:
		m.draining = !m.draining && m.name != "m2"
	case 3, 4:
		w.room[m.name] = int32(r.IntN(4))
	case 5:
		delete(w.room, m.name)
	case 6:
		m.down = !m.down
	case 7:
		w.ud.Spec.Replicas = new(int32(1 + r.IntN(16)))
		w.ud.Generation++
		w.edited()
	case 8:
		w.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Partition: new(intstr.FromInt32(int32(r.IntN(5))))}
		setImage(w.ud, fmt.Sprintf("web:%d", n+2))
	}
}

package plan

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Inputs that nobody named.

// TestSelectorOfNobody: a selector that matches nothing, with a share of the whole held of nothing, is planned, released and
// joined like any other; nothing is asked of the members that it does not match.
func TestSelectorOfNobody(t *testing.T) {
	t.Parallel()
	for _, partition := range []string{"0", "3", "50%", "100%"} {
		w := selectedFleet(t, 6, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "a:tier=db", "b")
		w.hold(partition)
		w.run()
		setImage(w.ud, "web:2")
		w.run()
		if len(w.ud.Status.SubsetStatuses) != 0 || w.condition("Invalid") != nil || w.condition("RemovalHeld") != nil || len(w.writes) > 0 {
			t.Errorf("partition %s: %+v, writes %v", partition, w.ud.Status, w.writes)
		}
		w.join("c:tier=web")
		w.run()
		c := w.child("c")
		if c == nil || len(c.pods) != 6 || w.entry("c").DesiredReplicas != 6 {
			t.Fatalf("partition %s: who comes later gets %+v", partition, c)
		}
		w.hold("0")
		w.run()
		if w.ud.Status.UpdatedReplicas != 6 || w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision {
			t.Errorf("partition %s: %v, %+v", partition, w.states(), w.ud.Status.Release)
		}
	}
}

// TestMemberRenamed: the same cluster is taken off and joined again under another name. Listed, its child is found by what it
// says of itself and moves nothing; by selector another subset takes over before the old one goes.
func TestMemberRenamed(t *testing.T) {
	t.Parallel()
	rename := func(w *world) {
		m := w.members["east"]
		delete(w.members, "east")
		m.name = "orient"
		w.members["orient"] = m
	}
	t.Run("listed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, united("web", 6, "web:1", sub("a", "east", "3"), sub("b", "west", "3")))
		w.run()
		uid := w.child("a").uid
		clear(w.writes)
		rename(w)
		w.run()
		if e := w.entry("a"); e.State != stateWaiting || !strings.Contains(e.Message, "MemberCluster east does not exist any more") {
			t.Errorf("between the two edits: %+v", e)
		}
		w.ud.Spec.Topology.Subsets[0].Cluster = "orient"
		w.ud.Generation++
		w.run()
		if c := w.child("a"); c == nil || c.uid != uid || len(w.writes) > 0 || len(w.ud.Status.SubsetStatuses) != 2 || w.entry("a").State != stateCurrent {
			t.Errorf("%+v, writes %v, %v", c, w.writes, w.states())
		}
	})
	t.Run("by selector", func(t *testing.T) {
		t.Parallel()
		w := selectedFleet(t, 6, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "east:tier=web", "west:tier=web")
		w.run()
		rename(w)
		for range 60 {
			for _, p := range w.pass() {
				w.deliver(p)
			}
			w.agents()
			ready := int32(0)
			for _, m := range w.members {
				for _, c := range m.children {
					ready += c.ready
				}
			}
			if ready < 6 {
				t.Fatalf("%d pods are ready, 6 are wanted", ready)
			}
		}
		w.run()
		w.wants("orient Current 3/3", "west Current 3/3")
		if n := len(w.members["orient"].children); n != 1 {
			t.Errorf("%d children on the member that was renamed", n)
		}
	})
}

// TestMemberClusterDeletedWhileHeld: the MemberCluster of a subset that is partly released is deleted, and made again. What
// it was granted is neither given to others nor forgotten, and nothing beyond it moves.
func TestMemberClusterDeletedWhileHeld(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*world{
		"listed":      newWorld(t, united("web", 12, "web:1", sub("a", "a", ""), sub("b", "b", ""), sub("c", "c", ""))),
		"by selector": selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "a:tier=web", "b:tier=web", "c:tier=web"),
	} {
		w.run()
		w.hold("6")
		setImage(w.ud, "web:2")
		w.run()
		before := w.ud.Status.DeepCopy()
		granted := before.Release.Grants["b"]
		updated := func() int32 { c := w.child("b"); return c.count(c.label) }
		if granted != 2 || updated() != 2 {
			t.Fatalf("%s: %d granted, %+v", name, granted, w.child("b"))
		}
		b := w.members["b"]
		delete(w.members, "b")
		w.run()
		if w.ud.Status.CurrentRevision == w.ud.Status.UpdatedRevision {
			t.Errorf("%s: the release ends because a member is gone", name)
		}
		for _, other := range []string{"a", "c"} {
			if e := w.entry(other); e.Granted > before.Release.Grants[other] {
				t.Errorf("%s: %s was granted %d, now %d", name, other, before.Release.Grants[other], e.Granted)
			}
		}
		w.members["b"] = b
		w.run()
		if updated() > granted || w.entry("b").DesiredReplicas != 4 {
			t.Errorf("%s: %d of the member that is back run the template, %d were granted: %+v", name, updated(), granted, w.entry("b"))
		}
		w.hold("0")
		w.run()
		if w.ud.Status.UpdatedReplicas != 12 || w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision {
			t.Errorf("%s: at the end %v", name, w.states())
		}
	}
}

// TestHistoryLimitZero: no history is kept, and all the same nothing that is needed is thrown away: in mid-release the way
// back is there, a lost child comes back as it was, and a member that is out of reach keeps the template that it holds.
func TestHistoryLimitZero(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
	w.ud.Spec.RevisionHistoryLimit = new(int32(0))
	partitions(w.ud, map[string]string{"a": "0", "b": "4"})
	w.run()
	first := w.ud.Status.CurrentRevision
	for _, image := range []string{"web:2", "web:3", "web:4"} {
		setImage(w.ud, image)
		w.run()
	}
	if w.ud.Status.CurrentRevision != first || !slices.ContainsFunc(HistoryOf(w.ud, w.revs), func(x Past) bool { return x.Name == first }) || len(w.revs) > 3 {
		t.Fatalf("%d kept, the completed one is %q", len(w.revs), w.ud.Status.CurrentRevision)
	}
	held := w.child("b").label
	delete(w.members["west"].children, w.child("b").key())
	w.run()
	if got := w.child("b"); got == nil || got.label != held {
		t.Errorf("a lost child comes back as %+v, want %s", got, held)
	}
	if way := w.undo(0, nil); way.To.Name != first {
		t.Errorf("the way back is %+v", way.To)
	}
	w.run()
	if w.ud.Status.UpdatedRevision != first || w.ud.Status.UpdatedReplicas != 8 {
		t.Errorf("not back: %+v", w.ud.Status)
	}
	if _, err := w.tryUndo(0, nil); err == nil || !strings.Contains(err.Error(), "no revision before") {
		t.Errorf("after that there is no way back, and it is not said: %v", err)
	}
}

// TestOneMemberRefuses: a webhook, a quota or a namespace that is going on one member. Its subset says so, nobody else waits,
// the release does not end without it, and when it takes the object nothing beyond the grant moves.
func TestOneMemberRefuses(t *testing.T) {
	t.Parallel()
	for _, problem := range []Problem{ProblemRefused, ProblemNamespaceMissing, ProblemOther} {
		w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
		partitions(w.ud, map[string]string{"a": "0", "b": "2"})
		w.run()
		w.members["west"].problem = problem
		setImage(w.ud, "web:2")
		w.run()
		if e := w.entry("b"); !strings.Contains(e.Message, "told by the test") || e.UpdatedReplicas != 0 || e.State == stateCurrent {
			t.Errorf("%s: %+v", problem, e)
		}
		if w.entry("a").UpdatedReadyReplicas != 4 || w.condition("Ready").Status == "True" {
			t.Errorf("%s: %+v, %+v", problem, w.entry("a"), w.condition("Ready"))
		}
		partitions(w.ud, map[string]string{"a": "0", "b": "0"})
		w.run()
		if w.ud.Status.CurrentRevision == w.ud.Status.UpdatedRevision {
			t.Errorf("%s: the release ends without it", problem)
		}
		partitions(w.ud, map[string]string{"a": "0", "b": "3"})
		w.members["west"].problem = NoProblem
		w.run()
		if got := w.entry("b").UpdatedReplicas; got != 1 {
			t.Errorf("%s: %d updated when it takes the object, 1 is granted", problem, got)
		}
	}
}

// TestNamespaceTerminating: the namespace goes on one member, and the child with it, in mid-release. Nothing is sent to a
// child that is being deleted; what comes back later is what it held.
func TestNamespaceTerminating(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
	partitions(w.ud, map[string]string{"a": "0", "b": "2"})
	w.run()
	old := w.child("b").label
	setImage(w.ud, "web:2")
	w.run()
	b := w.child("b")
	b.deleting = true
	for range 3 {
		for _, p := range w.pass() {
			if p.Subset == "b" {
				t.Errorf("it is sent %s %s", p.Want, p.Because)
			}
		}
	}
	if e := w.entry("b"); e.State != stateWaiting || !strings.Contains(e.Message, "being deleted") {
		t.Errorf("%+v", e)
	}
	delete(w.members["west"].children, b.key())
	pushes := w.pass()
	if at := slices.IndexFunc(pushes, func(p Push) bool { return p.Subset == "b" }); at < 0 || pushes[at].Input.Revision != old || !pushes[at].Input.Partition.Hold {
		t.Errorf("it is made anew with %+v", pushes)
	}
	w.run()
	if c := w.child("b"); c.count(c.label) != 2 || w.entry("b").UpdatedReplicas != 2 {
		t.Errorf("%+v", w.entry("b"))
	}
}

// TestSumsThatCannotBe: whatever the percents and minimums sum to, the total is placed, each pass gives the same, and it is
// said.
func TestSumsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(ud *appsv1alpha1.UnitedDeployment){
		"percents of 150":            share3(func(s *appsv1alpha1.Subset) { s.Replicas = new(intstr.FromString("50%")) }),
		"percents of 99":             share3(func(s *appsv1alpha1.Subset) { s.Replicas = new(intstr.FromString("33%")) }),
		"percents of 3":              share3(func(s *appsv1alpha1.Subset) { s.Replicas = new(intstr.FromString("1%")) }),
		"each the whole":             share3(func(s *appsv1alpha1.Subset) { s.Replicas = new(intstr.FromString("100%")) }),
		"minimums above the total":   share3(func(s *appsv1alpha1.Subset) { s.MinReplicas = new(intstr.FromInt32(7)) }),
		"minimums of 150":            share3(func(s *appsv1alpha1.Subset) { s.MinReplicas = new(intstr.FromString("50%")) }),
		"numbers far above the rest": share3(func(s *appsv1alpha1.Subset) { s.Replicas = new(intstr.FromInt32(2147483647)) }),
	} {
		w := newWorld(t, united("web", 10, "web:1", sub("a", "a", ""), sub("b", "b", ""), sub("c", "c", "")))
		w.run()
		edit(w.ud)
		w.ud.Generation++
		w.edited()
		w.run()
		sum := int32(0)
		for _, n := range w.ud.Status.SubsetReplicas {
			sum += n
		}
		if sum != 10 || w.ud.Status.ReadyReplicas != 10 {
			t.Errorf("%s: %v", name, w.ud.Status.SubsetReplicas)
		}
		if said := w.condition("AllocationCorrected"); said == nil && !strings.HasPrefix(name, "minimums") {
			t.Errorf("%s: nothing is said of %v", name, w.ud.Status.SubsetReplicas)
		}
	}
}

func share3(edit func(s *appsv1alpha1.Subset)) func(ud *appsv1alpha1.UnitedDeployment) {
	return func(ud *appsv1alpha1.UnitedDeployment) {
		for i := range ud.Spec.Topology.Subsets {
			edit(&ud.Spec.Topology.Subsets[i])
		}
	}
}

// TestDeletedWhileOutOfReach: the object is deleted while one member does not answer. The finalizer stays for it, by name;
// taking its MemberCluster off ends the wait, and deletes nothing there.
func TestDeletedWhileOutOfReach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 4, "web:1", sub("a", "a", ""), sub("b", "b", "")))
	w.run()
	b := w.members["b"]
	b.down = true
	w.ud.DeletionTimestamp = second(w.now)
	gone := map[Target]bool{}
	end := func() {
		o := w.observe()
		o.Ending = EndingDelete
		for at := range gone {
			o.Deliveries[at] = Delivery{Gone: true}
		}
		for _, p := range w.passOn(o) {
			if p.Member == "b" {
				t.Errorf("something is sent where nobody answers: %+v", p)
			}
			delete(w.members[p.Member].children, KindName(p.Kind)+"/"+p.Name)
			gone[Target{p.Member, KindName(p.Kind), p.Name}] = true
		}
	}
	for range 5 {
		end()
	}
	if c := w.condition("Deleting"); w.last.DropFinalizer || c == nil || !strings.Contains(c.Message, "member b") || strings.Contains(c.Message, "member a") {
		t.Errorf("%+v, finalizer goes: %v", c, w.last.DropFinalizer)
	}
	delete(w.members, "b")
	end()
	if !w.last.DropFinalizer || len(b.children) != 1 || len(w.members["a"].children) != 0 {
		t.Errorf("finalizer goes: %v, children of b %d, of a %d", w.last.DropFinalizer, len(b.children), len(w.members["a"].children))
	}
}

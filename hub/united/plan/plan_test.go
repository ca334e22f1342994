package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/revision"
	"github.com/underway-dev/underway/propagation/render"
)

func (w *world) decoded(list []revision.Stored) []inplace.Revision {
	w.t.Helper()
	var out []inplace.Revision
	for _, s := range list {
		raw, err := revision.Decode(s.Data)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, inplace.Revision{Name: s.Name, Number: s.Number, Template: raw})
	}
	return out
}

// TestM019 is the manifest of that id of reference/manifests.md.
func TestM019(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("checkout", 9, "checkout:1", sub("east", "east", "4"), sub("west", "west", "3"), sub("north", "north", "")))
	partitions(w.ud, map[string]string{"east": "3", "west": "3", "north": "2"})
	w.run()
	if got := w.ud.Status.SubsetReplicas; !cmp.Equal(got, map[string]int32{"east": 4, "west": 3, "north": 2}) {
		t.Fatalf("replicas are %v", got)
	}
	first := w.ud.Status.CurrentRevision
	if first == "" || first != w.ud.Status.UpdatedRevision {
		t.Fatalf("the first template is not the completed one: %q, %q", first, w.ud.Status.UpdatedRevision)
	}

	clear(w.writes)
	setImage(w.ud, "checkout:2")
	w.run()
	s := &w.ud.Status
	if s.UpdatedReplicas != 1 || w.entry("east").UpdatedReplicas != 1 {
		t.Errorf("%d updated, want 1 in east", s.UpdatedReplicas)
	}
	if diff := cmp.Diff(map[string]int32{"east": 3, "west": 3, "north": 2}, s.UpdateStatus.CurrentPartitions); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"east": 1}, w.writes); diff != "" {
		t.Errorf("writes to members (-want +got):\n%s", diff)
	}
	if s.CurrentRevision != first || s.UpdatedRevision == first {
		t.Errorf("N13: revisions are %q and %q in mid-release", s.CurrentRevision, s.UpdatedRevision)
	}
	if c := w.condition("Held"); c == nil || !strings.Contains(c.Message, "kubectl patch ud checkout -n demo") {
		t.Errorf("the hold does not name the command: %+v", c)
	}
	if w.condition("Ready").Status != metav1.ConditionTrue {
		t.Errorf("a held canary is healthy: %+v", w.condition("Ready"))
	}

	partitions(w.ud, map[string]string{"east": "0", "west": "3", "north": "2"})
	w.run()
	if got := w.entry("east").UpdatedReplicas; got != 4 {
		t.Errorf("east has %d updated, want 4", got)
	}
	partitions(w.ud, map[string]string{"east": "0", "west": "3", "north": "2", "south": "1"})
	w.run()
	if c := w.condition("UnknownSubsets"); c == nil || !strings.Contains(c.Message, "south") || w.ud.Status.UpdatedReplicas != 4 {
		t.Errorf("an unknown key: %+v, %d updated", c, w.ud.Status.UpdatedReplicas)
	}
	partitions(w.ud, map[string]string{"east": "0", "west": "0", "north": "0"})
	w.run()
	if s.UpdatedReplicas != 9 || s.CurrentRevision != s.UpdatedRevision {
		t.Errorf("%d updated, revisions %q and %q", s.UpdatedReplicas, s.CurrentRevision, s.UpdatedRevision)
	}
	if w.condition("UnitedDeploymentUpdated").Status != metav1.ConditionTrue {
		t.Errorf("finished: %+v", w.condition("UnitedDeploymentUpdated"))
	}
}

// TestB009 divides a total: east 10, west 5, hold 9.
func TestB009(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 15, "web:1", sub("east", "east", "10"), sub("west", "west", "5")))
	w.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Partition: new(intstr.FromInt32(9))}
	w.run()
	setImage(w.ud, "web:2")
	w.run()
	if diff := cmp.Diff(map[string]int32{"east": 6, "west": 3}, w.ud.Status.UpdateStatus.CurrentPartitions); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
	if w.ud.Status.UpdatedReplicas != 6 || w.entry("east").UpdatedReplicas != 4 || w.entry("west").UpdatedReplicas != 2 {
		t.Errorf("%+v", w.ud.Status)
	}
	// Scaling in mid-release grants nothing: the replicas are those of the release's beginning.
	w.ud.Spec.Replicas = ptr.To[int32](30)
	w.ud.Spec.Topology.Subsets[0].Replicas = new(intstr.FromInt32(20))
	w.ud.Spec.Topology.Subsets[1].Replicas = new(intstr.FromInt32(10))
	w.ud.Generation++
	w.run()
	if w.ud.Status.UpdatedReplicas != 6 || w.ud.Status.Replicas != 30 {
		t.Errorf("after scaling %d of %d updated", w.ud.Status.UpdatedReplicas, w.ud.Status.Replicas)
	}
	w.ud.Spec.UpdateStrategy.ManualUpdate.Partition = new(intstr.FromString("0%"))
	w.ud.Generation++
	w.run()
	if w.ud.Status.UpdatedReplicas != 30 || w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision {
		t.Errorf("at the end %d updated", w.ud.Status.UpdatedReplicas)
	}
}

// TestB047 writes one change of scale as one edit and as two a moment apart.
func TestB047(t *testing.T) {
	t.Parallel()
	build := func(t *testing.T, total int32, a, b string) *world {
		t.Helper()
		w := newWorld(t, united("web", total, "web:1", sub("a", "a", a), sub("b", "b", b)))
		partitions(w.ud, map[string]string{"a": "0", "b": "0"})
		w.run()
		clear(w.writes)
		return w
	}
	steps := map[string]func(w *world, total int32, a string){
		"replicas first": func(w *world, total int32, a string) {
			w.ud.Spec.Replicas = &total
			w.ud.Generation++
			w.edited()
			w.halfway()
			w.ud.Spec.Topology.Subsets[0].Replicas = new(intstr.Parse(a))
			w.ud.Generation++
			w.edited()
		},
		"subset first": func(w *world, total int32, a string) {
			w.ud.Spec.Topology.Subsets[0].Replicas = new(intstr.Parse(a))
			w.ud.Generation++
			w.edited()
			w.halfway()
			w.ud.Spec.Replicas = &total
			w.ud.Generation++
			w.edited()
		},
		"in one edit": func(w *world, total int32, a string) {
			w.ud.Spec.Topology.Subsets[0].Replicas = new(intstr.Parse(a))
			w.ud.Spec.Replicas = &total
			w.ud.Generation++
			w.edited()
		},
	}
	for name, step := range steps {
		for direction, tc := range map[string]struct {
			before, after int32
			a, toA, b     string
		}{
			"up":                    {10, 12, "5", "7", "5"},
			"down":                  {12, 10, "7", "5", "5"},
			"down with a free rest": {12, 10, "7", "5", ""},
		} {
			t.Run(name+" "+direction, func(t *testing.T) {
				t.Parallel()
				w := build(t, tc.before, tc.a, tc.b)
				step(w, tc.after, tc.toA)
				least := map[string]int32{"a": 5, "b": 5}
				for range 20 {
					for _, p := range w.pass() {
						w.deliver(p)
					}
					for subset, n := range least {
						if got := w.child(subset).replicas; got < n {
							t.Fatalf("%s saw %d replicas, fewer than before and after", subset, got)
						}
					}
					w.now = w.now.Add(300 * time.Millisecond)
				}
				w.run()
				want := map[string]int{"a": 1}
				if name == "subset first" && tc.b == "" {
					want["b"] = 2 // what a gives up is its own until the second edit takes it away
				}
				if diff := cmp.Diff(want, w.writes); diff != "" {
					t.Errorf("writes (-want +got):\n%s", diff)
				}
				if got := w.child("a").replicas + w.child("b").replicas; got != tc.after {
					t.Errorf("%d replicas, want %d", got, tc.after)
				}
			})
		}
	}
}

// halfway is the moment between two edits: the hub acts on what it sees.
func (w *world) halfway() {
	for range 2 {
		for _, p := range w.pass() {
			w.deliver(p)
		}
		w.now = w.now.Add(5 * time.Millisecond)
	}
}

func TestContradictionDegradesAfterAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 12, "web:1", sub("a", "a", "6"), sub("b", "b", "6")))
	w.run()
	w.ud.Spec.Replicas = ptr.To[int32](8)
	w.ud.Generation++
	w.edited()
	w.pass()
	if got := w.ud.Status.SubsetReplicas["a"]; got != 6 {
		t.Errorf("at once a has %d", got)
	}
	w.now = w.now.Add(3 * time.Second)
	w.run()
	if diff := cmp.Diff(map[string]int32{"a": 4, "b": 4}, w.ud.Status.SubsetReplicas); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c := w.condition("AllocationCorrected"); c == nil || !strings.Contains(c.Message, "sum to 12, spec.replicas is 8") {
		t.Errorf("no reason: %+v", c)
	}
}

// TestUnnamed is N3: a subset that partitions does not name.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		cluster, unnamed string
		wantUpdated      int32
	}{
		"a plain manifest updates, as upstream": {"", "", 4},
		"a fleet holds":                         {"east", "", 0},
		"a fleet told to update":                {"east", "Update", 4},
		"a plain manifest told to hold":         {"", "Hold", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 4, "web:1", sub("a", tc.cluster, "")))
			if tc.unnamed != "" {
				w.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Unnamed: tc.unnamed}
			}
			w.run()
			setImage(w.ud, "web:2")
			w.run()
			if w.ud.Status.UpdatedReplicas != tc.wantUpdated {
				t.Errorf("%d updated, want %d", w.ud.Status.UpdatedReplicas, tc.wantUpdated)
			}
			held := w.condition("Held")
			if (held != nil) != (tc.wantUpdated == 0) {
				t.Errorf("held: %+v", held)
			}
			if held != nil && !strings.Contains(held.Message, "a: held") {
				t.Errorf("the warning does not name the subset: %s", held.Message)
			}
		})
	}
}

// TestUnreadablePartition: what our admission refuses moves nothing when it comes through a CRD without our rules.
func TestUnreadablePartition(t *testing.T) {
	t.Parallel()
	for _, bad := range []intstr.IntOrString{intstr.FromString("abc"), intstr.FromString("50"), intstr.FromInt32(-1), intstr.FromString("-10%"), intstr.FromString("")} {
		for _, field := range []string{"partitions[a]", "partition"} {
			w := newWorld(t, united("web", 4, "web:1", sub("a", "east", "")))
			partitions(w.ud, map[string]string{"a": "4"})
			w.run()
			setImage(w.ud, "web:2")
			w.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Partition: &bad}
			if field != "partition" {
				w.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{"a": bad}}
			}
			w.run()
			if got := w.child("a").count(w.child("a").update); got != 4 || w.ud.Status.UpdatedRevision != w.ud.Status.CurrentRevision {
				t.Errorf("%s %q moved something", field, bad.String())
			}
			c := w.condition("Invalid")
			if c == nil || !strings.Contains(c.Message, "spec.updateStrategy.manualUpdate."+field) {
				t.Errorf("%s %q: %+v", field, bad.String(), c)
			}
			if w.condition("Ready").Status != metav1.ConditionFalse || w.ud.Status.ObservedGeneration != w.ud.Generation {
				t.Errorf("%s %q: %+v", field, bad.String(), w.condition("Ready"))
			}
		}
	}
}

func TestInPlaceOnlyRefuses(t *testing.T) {
	t.Parallel()
	spec := func(image, extra string) string {
		return `{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"` + image + `"` + extra + `}]}},
			"updateStrategy":{"type":"InPlaceOnly"}}`
	}
	w := newWorld(t, united("web", 4, "web:1", sub("a", "east", "2"), sub("b", "west", "2")))
	setSpec(w.ud, spec("web:1", ""))
	partitions(w.ud, map[string]string{"a": "0", "b": "0"})
	w.run()
	clear(w.writes)
	setSpec(w.ud, spec("web:2", `,"command":["sh"]`))
	w.run()
	if w.ud.Status.UpdatedReplicas != 0 {
		t.Errorf("%d pods moved", w.ud.Status.UpdatedReplicas)
	}
	c := w.condition("Refused")
	if c == nil || !strings.Contains(c.Message, "command") {
		t.Errorf("the refusal does not name the field: %+v", c)
	}
	for _, subset := range []string{"a", "b"} {
		if !w.child(subset).part.Hold {
			t.Errorf("%s is not held", subset)
		}
	}
	setSpec(w.ud, spec("web:3", ""))
	w.run()
	if w.ud.Status.UpdatedReplicas != 4 || w.condition("Refused") != nil {
		t.Errorf("the corrected template does not move: %+v", w.ud.Status)
	}
}

// TestRollback: a template that goes back to the completed one is pushed at once, without partitions.
func TestRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 9, "web:1", sub("a", "east", "4"), sub("b", "west", "5")))
	partitions(w.ud, map[string]string{"a": "3", "b": "5"})
	w.run()
	first := w.child("a").label
	setImage(w.ud, "web:2")
	w.run()
	if w.ud.Status.UpdatedReplicas != 1 {
		t.Fatalf("%d updated", w.ud.Status.UpdatedReplicas)
	}
	clear(w.writes)
	setImage(w.ud, "web:1")
	w.run()
	if got := w.child("a").count(first); got != 4 {
		t.Errorf("%d pods of a are back, want all 4", got)
	}
	if w.writes["b"] != 0 {
		t.Errorf("b held the completed template all the time and was written %d times", w.writes["b"])
	}
	if w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision || w.ud.Status.UpdatedReplicas != 9 {
		t.Errorf("%+v", w.ud.Status)
	}
	if w.entry("a").Partition != 3 {
		t.Errorf("when it is back, the partitions of the spec are in force again: %+v", w.entry("a"))
	}
}

// TestUnfinishedIsReplaced: a template that replaces an unfinished one leaves the completed one as it was.
func TestUnfinishedIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
	partitions(w.ud, map[string]string{"a": "2", "b": "4"})
	w.run()
	first, label := w.ud.Status.CurrentRevision, w.child("b").label
	setImage(w.ud, "web:2")
	w.run()
	partitions(w.ud, map[string]string{"a": "4", "b": "4"})
	setImage(w.ud, "web:3")
	w.run()
	if w.ud.Status.CurrentRevision != first {
		t.Errorf("completed is %q, want %q", w.ud.Status.CurrentRevision, first)
	}
	if got := w.child("a"); got.label == label || !got.part.Hold || got.count(got.label) != 2 {
		t.Errorf("a keeps what it holds, held: %+v", got)
	}
	// Its child is deleted by hand: it comes back from the completed template.
	delete(w.members["east"].children, w.child("a").key())
	w.run()
	if got := w.child("a"); got.label != label || got.count(label) != 4 || !got.part.Hold {
		t.Errorf("a came back as %+v", got)
	}
}

// TestHeldChildDeleted: in mid-release a held child is deleted by hand.
func TestHeldChildDeleted(t *testing.T) {
	t.Parallel()
	for name, partition := range map[string]string{"held": "4", "granted two": "2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
			partitions(w.ud, map[string]string{"a": "0", "b": partition})
			w.run()
			old := w.child("b").label
			setImage(w.ud, "web:2")
			w.run()
			delete(w.members["west"].children, w.child("b").key())
			w.pass()
			for _, p := range w.pass() {
				w.deliver(p)
			}
			if c := w.child("b"); c == nil || c.label != old || !c.part.Hold {
				t.Fatalf("created from the completed template and held, want; got %+v", c)
			}
			w.members["west"].agentOff = true
			w.run()
			if c := w.child("b"); c.label != old {
				t.Fatalf("the new template came before the member had observed the old one: %+v", c)
			}
			w.members["west"].agentOff = false
			w.run()
			want := int32(4)
			if name == "granted two" {
				want = 2
			}
			if got := w.child("b").count(old); got != want {
				t.Errorf("%d pods on the completed revision, want %d", got, want)
			}
		})
	}
}

// TestMemberScalesHeldChild: the member's own autoscaler doubles a held child.
func TestMemberScalesHeldChild(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		partition string
		most      int32
	}{"held": {"4", 0}, "a quarter granted": {"3", 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
			partitions(w.ud, map[string]string{"a": "0", "b": tc.partition})
			w.run()
			scale := func(n int32) {
				c := w.child("b")
				c.replicas, c.scaledBy = n, []string{"horizontal-pod-autoscaler"}
				c.gen++
			}
			scale(4) // it has scaled before: the hub knows that somebody does
			w.run()
			old := w.child("b").label
			setImage(w.ud, "web:2")
			w.run()
			scale(8)
			for range 20 {
				w.child("b").agent()
				if c := w.child("b"); int32(len(c.pods))-c.count(old) > tc.most {
					t.Fatalf("%d pods of the new revision", int32(len(c.pods))-c.count(old))
				}
				for _, p := range w.pass() {
					w.deliver(p)
				}
			}
			if got := w.child("b").replicas; got != 8 {
				t.Errorf("the autoscaler's replicas are gone: %d", got)
			}
			if got := w.entry("b").Message; !strings.Contains(got, "horizontal-pod-autoscaler") {
				t.Errorf("it is not shown: %q", got)
			}
		})
	}
}

// TestStale: a member that is not heard from keeps its numbers, marked, and holds up nobody.
func TestStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
	partitions(w.ud, map[string]string{"a": "0", "b": "2"})
	w.run()
	setImage(w.ud, "web:2")
	w.pass()
	for _, p := range w.pass() {
		w.deliver(p)
	}
	w.child("b").agent()
	w.pass()
	w.members["west"].down = true
	heard := w.members["west"].heard
	w.run()
	e := w.entry("b")
	if !e.Stale || e.State != "Stale" || e.Replicas != 4 || e.HeardAt == nil || !e.HeardAt.Time.Equal(heard.Truncate(time.Second)) {
		t.Errorf("b is %+v, heard at %v", e, heard)
	}
	if e.Granted != 2 || w.ud.Status.SubsetReplicas["b"] != 4 {
		t.Errorf("b lost its grant or replicas: %+v", e)
	}
	if got := w.entry("a").UpdatedReplicas; got != 4 {
		t.Errorf("a was held up: %d", got)
	}
	setImage(w.ud, "web:3")
	w.run()
	if e := w.entry("b"); e.UpdatedReplicas != 0 || e.Replicas != 4 || !e.Stale {
		t.Errorf("what was known of another revision counts as this one: %+v", e)
	}
	if w.ud.Status.Replicas != 8 || w.condition("Stale") == nil {
		t.Errorf("%+v", w.ud.Status)
	}
	partitions(w.ud, map[string]string{"a": "0", "b": "0"})
	w.run()
	if w.ud.Status.CurrentRevision == w.ud.Status.UpdatedRevision {
		t.Error("finished without a fresh report of b")
	}
	w.members["west"].down = false
	w.run()
	if w.ud.Status.UpdatedReplicas != 8 || w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision || w.condition("Stale") != nil {
		t.Errorf("b did not catch up: %+v", w.ud.Status)
	}
}

// TestSettling is B139 in the plan: right after its start the hub knows nothing, and changes nothing.
func TestSettling(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
	partitions(w.ud, map[string]string{"a": "0", "b": "2"})
	w.run()
	setImage(w.ud, "web:2")
	w.run()
	o := w.observe()
	o.Children = nil
	for name := range o.Members {
		o.Members[name] = Member{Settling: true}
	}
	d := Next(o, w.now.Add(time.Hour))
	if !equal(d.Status, w.ud.Status) || len(d.Pushes) > 0 || d.StoreFirst || len(d.Happened) > 0 {
		t.Errorf("a hub that knows nothing decided %+v", d)
	}
}

// TestLeaving: subsets taken out of the list.
func TestLeaving(t *testing.T) {
	t.Parallel()
	build := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, united("web", 6, "web:1", sub("a", "a", ""), sub("b", "b", ""), sub("c", "c", "")))
		w.run()
		return w
	}
	drop := func(w *world, replicas int32, keep ...string) {
		all := w.ud.Spec.Topology.Subsets
		w.ud.Spec.Topology.Subsets = nil
		for _, s := range all {
			for _, k := range keep {
				if s.Name == k {
					w.ud.Spec.Topology.Subsets = append(w.ud.Spec.Topology.Subsets, s)
				}
			}
		}
		w.ud.Spec.Replicas = &replicas
		w.ud.Generation++
	}
	t.Run("one is drained when the others have taken over", func(t *testing.T) {
		t.Parallel()
		w := build(t)
		drop(w, 6, "a", "b")
		for range 3 {
			for _, p := range w.pass() {
				w.deliver(p)
			}
			if w.child("c") == nil {
				t.Fatal("c went before the others had taken over")
			}
		}
		w.run()
		if w.child("c") != nil || len(w.ud.Status.SubsetStatuses) != 2 || w.ud.Status.Replicas != 6 {
			t.Errorf("%+v", w.ud.Status)
		}
	})
	t.Run("two of three wait for a person", func(t *testing.T) {
		t.Parallel()
		w := build(t)
		drop(w, 6, "a")
		w.run()
		c := w.condition("RemovalHeld")
		if w.child("b") == nil || w.child("c") == nil || c == nil || !strings.Contains(c.Message, "b,c") {
			t.Fatalf("%+v", c)
		}
		w.ud.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: "RemovalHeld/b"}
		w.run()
		if w.child("b") == nil {
			t.Fatal("another value counted as confirmed")
		}
		w.ud.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: "RemovalHeld/b,c"}
		w.run()
		if w.child("b") != nil || w.child("c") != nil || w.condition("RemovalHeld") != nil {
			t.Errorf("confirmed: %+v", w.ud.Status)
		}
	})
	t.Run("one confirmation is used once", func(t *testing.T) {
		t.Parallel()
		w := build(t)
		all := slices.Clone(w.ud.Spec.Topology.Subsets)
		drop(w, 6, "a")
		w.ud.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: "RemovalHeld/b,c"}
		w.run()
		if v, there := w.ud.Annotations[appsv1alpha1.AnnotationConfirm]; there || w.child("b") != nil {
			t.Fatalf("the removal is done and %q stays", v)
		}
		w.ud.Spec.Topology.Subsets = all
		w.ud.Generation++
		w.run()
		drop(w, 6, "a")
		w.run()
		if w.child("b") == nil || w.child("c") == nil || w.condition("RemovalHeld") == nil {
			t.Error("the used confirmation confirmed the next removal")
		}
	})
	t.Run("the first to go does not revoke what was confirmed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, united("web", 8, "web:1", sub("a", "a", ""), sub("b", "b", ""), sub("c", "c", ""), sub("d", "d", "")))
		w.run()
		w.members["b"].down, w.members["c"].down = true, true
		drop(w, 8, "d")
		w.ud.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: "RemovalHeld/a,b,c"}
		w.run()
		if w.child("a") != nil || w.condition("RemovalHeld") != nil || w.ud.Annotations[appsv1alpha1.AnnotationConfirm] == "" {
			t.Fatalf("a is gone, b and c are still confirmed: %+v", w.condition("RemovalHeld"))
		}
		w.members["b"].down, w.members["c"].down = false, false
		w.run()
		if w.child("b") != nil || w.child("c") != nil || len(w.ud.Annotations) > 0 {
			t.Errorf("%+v, %v", w.ud.Status.SubsetStatuses, w.ud.Annotations)
		}
	})
	t.Run("what somebody else scaled down has taken over", func(t *testing.T) {
		t.Parallel()
		w := build(t)
		c := w.child("a")
		c.replicas, c.scaledBy = 1, []string{"horizontal-pod-autoscaler"}
		c.gen++
		w.run()
		if got := w.condition("Ready"); got.Status != metav1.ConditionTrue {
			t.Errorf("the scaler's number is reached: %+v", got)
		}
		drop(w, 6, "a", "b")
		w.run()
		if w.child("c") != nil {
			t.Errorf("c is never drained: %+v", w.entry("c"))
		}
	})
	t.Run("the last one waits too", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, united("web", 2, "web:1", sub("a", "a", "")))
		w.run()
		drop(w, 2)
		w.run()
		if w.child("a") == nil || w.condition("RemovalHeld") == nil {
			t.Errorf("%+v", w.ud.Status)
		}
	})
	t.Run("an unreachable one stays", func(t *testing.T) {
		t.Parallel()
		w := build(t)
		w.members["c"].down = true
		drop(w, 6, "a", "b")
		w.run()
		if e := w.entry("c"); e.State != "Leaving" || !e.Stale {
			t.Errorf("%+v", e)
		}
		w.members["c"].down = false
		w.run()
		if w.child("c") != nil {
			t.Error("c is still there")
		}
	})
	t.Run("a subset that moves to another member is there first", func(t *testing.T) {
		t.Parallel()
		w := build(t)
		w.members["d"] = &member{name: "d", children: map[string]*cloneSet{}}
		w.ud.Spec.Topology.Subsets[2].Cluster = "d"
		w.ud.Generation++
		w.run()
		if len(w.members["c"].children) != 0 || len(w.members["d"].children) != 1 || len(w.ud.Status.SubsetStatuses) != 3 {
			t.Errorf("%+v", w.ud.Status)
		}
	})
}

// TestEnding is rule 8 in the plan.
func TestEnding(t *testing.T) {
	t.Parallel()
	build := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, united("web", 6, "web:1", sub("a", "a", ""), sub("b", "b", ""), sub("l", "", "")))
		w.run()
		w.ud.DeletionTimestamp = new(metav1.NewTime(w.now))
		return w
	}
	t.Run("deleting waits for every member and names it", func(t *testing.T) {
		t.Parallel()
		w := build(t)
		w.members["b"].down = true
		o := w.observe()
		o.Ending = EndingDelete
		pushes := w.passOn(o)
		if len(pushes) != 2 || pushes[0].Want != WantDeleted {
			t.Fatalf("pushes are %+v", pushes)
		}
		if c := w.condition("Deleting"); c == nil || !strings.Contains(c.Message, "member b, which is not heard from") || w.last.DropFinalizer {
			t.Errorf("%+v", c)
		}
		w.members["b"].down = false
		o = w.observe()
		o.Ending, o.Children = EndingDelete, nil
		if w.passOn(o); w.last.DropFinalizer {
			t.Error("an empty cache counted as gone")
		}
		for _, p := range w.last.Pushes {
			o.Deliveries[Target{p.Member, KindName(p.Kind), p.Name}] = Delivery{Gone: true}
		}
		if w.passOn(o); !w.last.DropFinalizer {
			t.Error("everything is proven gone and the finalizer stays")
		}
	})
	t.Run("letting go deletes nothing and waits for no dead member", func(t *testing.T) {
		t.Parallel()
		w := build(t)
		w.members["b"].down = true
		o := w.observe()
		o.Ending = EndingOrphan
		for _, p := range w.passOn(o) {
			if p.Want != WantOrphaned {
				t.Errorf("%+v", p)
			}
			o.Deliveries[Target{p.Member, KindName(p.Kind), p.Name}] = Delivery{Gone: true}
		}
		if w.last.DropFinalizer {
			t.Error("the finalizer went before the children were marked")
		}
		if w.passOn(o); !w.last.DropFinalizer {
			t.Error("the finalizer stays")
		}
	})
	for name, tc := range map[string]struct {
		ending    Ending
		notServed bool
		want      bool
	}{
		"letting go, the kind is gone":           {EndingOrphan, true, true},
		"letting go, this cluster is not heard":  {EndingOrphan, false, false},
		"deleting waits for this cluster anyway": {EndingDelete, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := build(t)
			o := w.observe()
			o.Ending = tc.ending
			o.Members[""] = Member{Problem: "it does not answer"}
			if tc.notServed {
				o.Members[""] = Member{Ready: true, NotServed: []string{"CloneSet.apps.kruise.io"}}
			}
			for _, p := range w.passOn(o) {
				o.Deliveries[Target{p.Member, KindName(p.Kind), p.Name}] = Delivery{Gone: true}
			}
			if w.passOn(o); w.last.DropFinalizer != tc.want {
				t.Errorf("the finalizer goes: %v, want %v", w.last.DropFinalizer, tc.want)
			}
		})
	}
	t.Run("a hub that knows nothing yet lets nothing go", func(t *testing.T) {
		t.Parallel()
		w := build(t)
		o := w.observe()
		o.Ending, o.Children = EndingOrphan, nil
		for name := range o.Members {
			o.Members[name] = Member{Settling: true}
		}
		if w.passOn(o); w.last.DropFinalizer || len(w.last.Pushes) > 0 {
			t.Errorf("%+v", w.last)
		}
	})
}

// TestNewSubset: what a subset that never had a child is created from, and what one that had.
func TestNewSubset(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 4, "web:1", sub("a", "a", "")))
	partitions(w.ud, map[string]string{"a": "2"})
	w.run()
	setImage(w.ud, "web:2")
	w.run()
	gpu := sub("gpu", "gpu", "2")
	gpu.Patch = rawJSON(`{"spec":{"containers":[{"name":"web","env":[{"name":"GPU","value":"1"}]}]}}`)
	w.members["gpu"] = &member{name: "gpu", children: map[string]*cloneSet{}}
	w.ud.Spec.Topology.Subsets = append(w.ud.Spec.Topology.Subsets, gpu)
	w.ud.Generation++
	w.run()
	c := w.child("gpu")
	b, err := newBook(w.decoded(w.revs))
	if err != nil {
		t.Fatal(err)
	}
	want, err := b.render(w.ud.Status.CurrentRevision, overrideOf(&gpu.SubsetPlace))
	if err != nil || c.label != want.revision || !c.part.Hold {
		t.Errorf("a new subset is made of the completed template with its own patch, want %s; got %+v (%v)", want.revision, c, err)
	}
}

func TestPushesRender(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 4, "web:1", sub("a", "", ""), sub("b", "west", "")))
	w.pass()
	pushes := w.pass()
	if len(pushes) != 2 {
		t.Fatalf("%d pushes", len(pushes))
	}
	for _, p := range pushes {
		obj, err := render.Child(p.Input)
		if err != nil {
			t.Fatal(err)
		}
		if owned := len(obj.GetOwnerReferences()) == 1; owned != (p.Member == "") {
			t.Errorf("child in %q has owner references %v", p.Member, obj.GetOwnerReferences())
		}
		if obj.GetName() != p.Name {
			t.Errorf("named %s, pushed as %s", obj.GetName(), p.Name)
		}
	}
}

// TestHeldRevisionStays: a revision that a child still holds is not trimmed, so that the child can be held with it.
func TestHeldRevisionStays(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int32{"none kept": 0, "one kept": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
			w.ud.Spec.RevisionHistoryLimit = &limit
			partitions(w.ud, map[string]string{"a": "4", "b": "4"})
			w.run()
			old := w.child("a").label
			partitions(w.ud, map[string]string{"a": "0", "b": "4"})
			setImage(w.ud, "web:2")
			for range 3 {
				for _, p := range w.pass() {
					w.deliver(p)
				}
			}
			second := w.ud.Status.UpdatedRevision
			c := w.child("a")
			if c.agent(); c.label == old || c.count(c.label) != 1 {
				t.Fatalf("a is not in the middle of the second template: %+v", c)
			}
			partitions(w.ud, map[string]string{"a": "4", "b": "4"})
			setImage(w.ud, "web:3")
			carried := c.label
			w.run()
			if !slices.ContainsFunc(w.revs, func(s revision.Stored) bool { return s.Name == second }) {
				t.Errorf("%s was trimmed while a holds it", second)
			}
			if c := w.child("a"); c.label != carried || !c.part.Hold || c.count(carried) == 4 {
				t.Errorf("a goes on rolling: %+v", c)
			}
			partitions(w.ud, map[string]string{"a": "0", "b": "0"})
			w.run()
			if got := len(w.revs); got != 1+int(limit) {
				t.Errorf("when nobody holds them, %d revisions are kept, want %d", got, 1+limit)
			}
		})
	}
}

// TestUnreadableMetadata: template metadata that no child can be made with opens no release, and says which field.
func TestUnreadableMetadata(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ metadata, want string }{
		"a number":        {`{"annotations":{"team":7}}`, `annotations["team"]`},
		"a list":          {`{"labels":["x"]}`, "labels"},
		"not an object":   {`7`, "cloneSetTemplate.metadata"},
		"the hub's label": {`{"labels":{"` + appsv1alpha1.LabelHub + `":"x"}}`, appsv1alpha1.LabelHub},
		"the hub's text":  {`{"annotations":{"` + appsv1alpha1.AnnotationIntent + `":"x"}}`, appsv1alpha1.AnnotationIntent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 4, "web:1", sub("a", "east", "")))
			partitions(w.ud, map[string]string{"a": "0"})
			w.run()
			clear(w.writes)
			release, revs := w.ud.Status.Release.DeepCopy(), len(w.revs)
			setImage(w.ud, "web:2")
			w.ud.Spec.Template.CloneSetTemplate.Metadata = rawJSON(tc.metadata)
			w.run()
			c := w.condition("Invalid")
			if c == nil || !strings.Contains(c.Message, tc.want) || !strings.Contains(c.Message, "cloneSetTemplate") {
				t.Errorf("the field is not named: %+v", c)
			}
			if !equal(release, w.ud.Status.Release) || len(w.revs) != revs || len(w.writes) > 0 {
				t.Errorf("a release was opened: %+v, %d revisions", w.ud.Status.Release, len(w.revs))
			}
			w.ud.Spec.Template.CloneSetTemplate.Metadata = rawJSON(`{"annotations":{"team":"7"}}`)
			w.ud.Generation++
			w.run()
			if w.condition("Invalid") != nil || w.ud.Status.UpdatedReplicas != 4 || w.ud.Status.Release.Revision == release.Revision {
				t.Errorf("the corrected template does not move: %+v", w.ud.Status)
			}
		})
	}
}

package plan

import (
	"slices"
	"testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestAHoldOutlivesAReleaseThatWasFinishedWithoutIt: members that are put aside in mid-release, because several are to be drained
// at once or because no template selects them, come back after the release was finished without them, and are held as the
// partitions say.
func TestAHoldOutlivesAReleaseThatWasFinishedWithoutIt(t *testing.T) {
	t.Parallel()
	for name, aside := range map[string]func(m *member, out bool){
		"drained by mistake": func(m *member, out bool) { m.draining = out },
		"relabelled": func(m *member, out bool) {
			m.relabel("tier=web")
			if out {
				m.relabel("")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "a:tier=web", "b:tier=web", "c:tier=web")
			w.run()
			setImage(w.ud, "web:2")
			partitions(w.ud, map[string]string{"a": "0", "b": "100%", "c": "100%"})
			aside(w.members["b"], true)
			aside(w.members["c"], true)
			w.run()
			if w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision {
				t.Fatalf("the release waits: %v", w.states())
			}
			aside(w.members["b"], false)
			aside(w.members["c"], false)
			w.run()
			w.wants("a Current 4/4", "b Held 4/4", "c Held 4/4")
			for _, name := range []string{"b", "c"} {
				if c := w.child(name); slices.Contains(c.pods, w.child("a").label) {
					t.Errorf("%s is held at 100%% and runs %v", name, c.pods)
				}
			}
			partitions(w.ud, map[string]string{"a": "0", "b": "0", "c": "0"})
			w.run()
			w.wants("a Current 4/4", "b Current 4/4", "c Current 4/4")
		})
	}
}

// TestWhatWasTakenBackMeanwhileGoesBack: a member that was granted a revision is put aside, and the revision is taken back while
// it is. When it is in the plan again it goes back to the completed revision, whatever the partitions hold; one that never was
// granted anything of it is not written.
func TestWhatWasTakenBackMeanwhileGoesBack(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "a:tier=web", "b:tier=web", "c:tier=web")
	w.run()
	first := w.child("b").label
	partitions(w.ud, map[string]string{"a": "100%", "b": "2", "c": "100%"})
	setImage(w.ud, "web:2")
	w.run()
	if c := w.child("b"); c.label == first || c.count(c.label) != 2 {
		t.Fatalf("b was granted 2: %+v", *c)
	}
	for _, name := range []string{"b", "c"} {
		w.members[name].relabel("")
	}
	w.run()
	setImage(w.ud, "web:1")
	w.run()
	clear(w.writes)
	for _, name := range []string{"b", "c"} {
		w.members[name].relabel("tier=web")
	}
	w.run()
	if c := w.child("b"); c.count(first) != 4 {
		t.Errorf("b runs %v, and %s was taken back", c.pods, c.label)
	}
	if w.writes["c"] != 0 {
		t.Errorf("c had what is completed and was written %d times", w.writes["c"])
	}
}

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

package plan

import (
	"testing"
	"time"
)

// TestRelabelledChild: somebody on a member writes another subset's name on a child, or takes it off, while the hub is away. The
// child is the one of its name: it is pushed, with its UID, so that the label is taken back.
func TestRelabelledChild(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]string{"nobody's name": "zzz", "a sibling's name": "b", "no name": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 10, "web:1", sub("a", "a", "5"), sub("b", "b", "5")))
			w.run()
			c := w.child("a")
			c.subset = to
			pushed := false
			for range 3 {
				for _, p := range w.pass() {
					pushed = pushed || (p.Subset == "a" && p.Want == WantApplied && string(p.Judged) == c.uid)
				}
				w.now = w.now.Add(time.Second)
			}
			if !pushed || len(w.ud.Status.SubsetStatuses) != 2 {
				t.Errorf("its label is not taken back: %+v", w.ud.Status.SubsetStatuses)
			}
		})
	}
}

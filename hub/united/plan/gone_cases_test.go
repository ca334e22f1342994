package plan

import (
	"strings"
	"testing"
	"time"
)

// TestB159Plan: somebody deletes a child on its member. The pass that sees it says so, once, with what it was and where; it
// comes back with what it held. A member that is out of reach, or was taken off, is no such case, and neither is a subset
// that leaves.
func TestB159Plan(t *testing.T) {
	t.Parallel()
	build := func() *world {
		w := newWorld(t, united("web", 9, "web:1", sub("a", "east", "3"), sub("b", "west", "3"), sub("l", "", "3")))
		partitions(w.ud, map[string]string{"a": "0", "b": "1", "l": "0"})
		w.run()
		setImage(w.ud, "web:2")
		w.run()
		return w
	}
	// told runs some passes without any answer, and then all.
	told := func(w *world) []string {
		var out []string
		for step := range 30 {
			for _, p := range w.pass() {
				if step > 3 {
					w.deliver(p)
				}
			}
			for _, e := range w.last.Happened {
				if e.Reason == reasonChildGone && e.Warning {
					out = append(out, e.Message)
				}
			}
			w.agents()
		}
		w.run()
		return out
	}
	for name, where := range map[string]string{"b": "member west", "l": "this cluster"} {
		w := build()
		gone := w.child(name)
		for _, m := range w.members {
			delete(m.children, gone.key())
		}
		got := told(w)
		if len(got) != 1 || !strings.Contains(got[0], gone.name+" with 3 pods is gone from "+where) || !strings.Contains(got[0], "created") {
			t.Errorf("%s: %q", name, got)
		}
		if c := w.child(name); c == nil || len(c.pods) != 3 || w.entry(name).UpdatedReplicas != gone.count(gone.label) {
			t.Errorf("%s is back as %+v", name, c)
		}
	}
	for name, edit := range map[string]func(w *world){
		"nothing":                      func(*world) {},
		"out of reach":                 func(w *world) { w.members["west"].down = true },
		"the MemberCluster is deleted": func(w *world) { delete(w.members, "west") },
		"the subset leaves": func(w *world) {
			w.ud.Spec.Topology.Subsets = w.ud.Spec.Topology.Subsets[1:]
			w.ud.Generation++
		},
		"scaled to nothing": func(w *world) {
			w.ud.Spec.Replicas = new(int32(0))
			for i := range w.ud.Spec.Topology.Subsets {
				w.ud.Spec.Topology.Subsets[i].Replicas = nil
			}
			w.ud.Generation++
		},
		"the kind changes": func(w *world) {
			template(w.ud, "deployment", "web:3")
			partitions(w.ud, map[string]string{"a": "0", "b": "0", "l": "0"})
		},
	} {
		w := build()
		edit(w)
		if got := told(w); len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
		w.now = w.now.Add(time.Hour)
	}
}

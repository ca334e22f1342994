package plan

import (
	"testing"
	"time"

	"github.com/underway-dev/underway/hub/check"
)

// spoil is passes in which the members' API servers refuse the template of the spec.
func (w *world) spoil(passes int) {
	for range passes {
		o := w.observe()
		o.Checker = true
		if w.last.Ask != nil {
			o.Checks = []check.Result{{Revision: w.last.Ask.Revision, Version: "1.37", Invalid: "spec.x: bad"}}
		}
		for _, p := range w.passOn(o) {
			w.deliver(p)
		}
		for _, m := range w.members {
			for _, c := range m.children {
				c.agent()
			}
		}
		w.now = w.now.Add(5 * time.Second)
	}
}

// TestARefusedTemplateStopsNothingElse: below a template that API servers refuse, what runs is scaled, a lost child comes
// back, a release that was open goes on as far as it was granted, and nothing of the template is sent.
func TestARefusedTemplateStopsNothingElse(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cloneSet", "advancedStatefulSet", "statefulSet", "deployment"} {
		for _, next := range []string{kind, "deployment"} {
			t.Run(kind+" to "+next, func(t *testing.T) {
				t.Parallel()
				w := fleetOf(t, kind, map[string]string{"a": "0", "b": "0"})
				first := w.ud.Status.UpdatedRevision
				template(w.ud, next, "web:2")
				w.ud.Spec.Replicas = nil
				w.ud.Spec.Topology.Subsets[0].Replicas.IntVal = 5
				w.edited()
				w.spoil(30)
				c := w.child("a")
				if c.replicas != 5 || c.count(c.label) != 5 || w.ud.Status.UpdatedRevision != first || w.condition("TemplateInvalid") == nil {
					t.Errorf("%d replicas, want 5; %+v", c.replicas, w.ud.Status)
				}
				label := c.label
				clear(w.members["a"].children)
				w.spoil(30)
				if c = w.child("a"); c == nil || c.label != label || c.count(label) != 5 {
					t.Errorf("a lost child: %+v", c)
				}
				clear(w.writes)
				w.spoil(10)
				if len(w.writes) > 0 {
					t.Errorf("written at rest: %v", w.writes)
				}
			})
		}
	}
}

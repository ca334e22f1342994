package plan

import (
	"math"
	"testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// TestAMemberThatLiesTakesNothingFromTheOthers: what a member that is not selected says of a child that the hub has no entry
// of, takes no replicas from the members that have them.
func TestAMemberThatLiesTakesNothingFromTheOthers(t *testing.T) {
	t.Parallel()
	for name, says := range map[string][]int32{
		"a million": {1_000_000}, "more than a number holds": {math.MaxInt32, math.MaxInt32}, "as many as all": {9}, "negative": {-5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := selectedFleet(t, 9, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "a:tier=web", "b:tier=web", "c:tier=web")
			w.run()
			for i, n := range says {
				m := w.join([]string{"y", "z"}[i])
				kind := render.CloneSet()
				c := &cloneSet{
					name: render.ChildName("web", m.name), subset: m.name, uid: "u" + m.name, kind: kind, gen: 1, observed: 1,
					label: w.child("a").label, replicas: n, intent: w.child("a").intent,
				}
				m.children[c.key()] = c
			}
			for range 3 {
				for _, p := range w.pass() {
					w.deliver(p)
				}
			}
			var sum int32
			for _, s := range []string{"a", "b", "c"} {
				sum += w.entry(s).DesiredReplicas
			}
			if sum != 9 {
				t.Errorf("a, b and c have %d of 9 replicas left: %v", sum, w.states())
			}
		})
	}
}

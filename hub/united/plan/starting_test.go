package plan

import (
	"slices"
	"testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestWhoStartsDoesNotReturn: a first install and a member that joins are Starting, and only who goes back is Returning.
func TestWhoStartsDoesNotReturn(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 6, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "a:tier=web")
	states := func(name string) []string {
		var out []string
		for range 40 {
			for _, p := range w.pass() {
				w.deliver(p)
			}
			w.pass() // it is there, and its agent has not looked yet
			if i := slices.IndexFunc(w.ud.Status.SubsetStatuses, func(e appsv1alpha1.SubsetStatus) bool { return e.Name == name }); i >= 0 {
				out = append(out, w.ud.Status.SubsetStatuses[i].State)
			}
			w.agents()
			w.now = w.now.Add(1e9)
		}
		w.run()
		return slices.Compact(out)
	}
	for name, got := range map[string][]string{"a": states("a"), "b": func() []string { w.join("b:tier=web"); return states("b") }()} {
		if slices.Contains(got, stateReturning) || !slices.Contains(got, stateStarting) || got[len(got)-1] != stateCurrent {
			t.Errorf("%s was %v", name, got)
		}
	}
	partitions(w.ud, map[string]string{"a": "0", "b": "100%"})
	setImage(w.ud, "web:2")
	w.run()
	setImage(w.ud, "web:1")
	if got := states("a"); !slices.Contains(got, stateReturning) || slices.Contains(got, stateStarting) {
		t.Errorf("a goes back and was %v", got)
	}
}

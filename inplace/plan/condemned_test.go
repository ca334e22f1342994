package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/plan"
)

// TestCondemnedPodsInTheGrant: pods without a slot that run the update revision. While it is being released they are of the
// number that is granted, until they are gone; where nothing is released there is nothing to keep count of, and a broken pod
// moves beside them.
func TestCondemnedPodsInTheGrant(t *testing.T) {
	t.Parallel()
	finished := func(in *inplace.Intent) { in.Current = in.Update }
	cases := map[string]struct {
		partition int32
		change    func(*inplace.Intent)
		// pods have the letters of pods; condemned and deleted are some of them.
		pods               string
		condemned, deleted []string
		outside            []string
		writes             []string
	}{
		"a release: they are counted":  {pods: "nNNNN", condemned: []string{"N3", "N4"}},
		"a release: there is room yet": {pods: "nnNN", condemned: []string{"N3"}, writes: []string{"Drain n0"}},
		"a release: those that go in this pass are counted, too": {
			pods: "nNNNN", condemned: []string{"N3", "N4"}, deleted: []string{"N4"}, writes: []string{"Delete N4"},
		},
		"a release under a partition":                           {partition: 2, pods: "OOnNN", condemned: []string{"N3", "N4"}, outside: []string{"O0", "O1"}},
		"a release: those on the revision before take no place": {pods: "nNNOO", condemned: []string{"O3", "O4"}, writes: []string{"Drain n0"}},
		"a template that went back":                             {change: finished, pods: "nNNNN", condemned: []string{"N3", "N4"}, writes: []string{"Drain n0"}},
		"a template that went back, under a partition": {
			partition: 2, change: finished, pods: "NNnNN", condemned: []string{"N3", "N4"}, outside: []string{"N0", "N1"}, writes: []string{"Drain n2"},
		},
		"a template that went back: one goes": {
			change: finished, pods: "nNNN", condemned: []string{"N3"}, deleted: []string{"N3"}, writes: []string{"Delete N3", "Drain n0"},
		},
		"a pod that is drained keeps its place for the next pass": {
			pods: "dNNNN", condemned: []string{"N3", "N4"}, deleted: []string{"N3", "N4"}, writes: []string{"Delete N3", "Delete N4"},
		},
		"a pod that is drained is returned when none is coming free": {
			pods: "dNNNN", condemned: []string{"N3", "N4"}, writes: []string{"Return d0"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := intent(3, tc.partition, 1)
			if tc.change != nil {
				tc.change(&in)
			}
			in.Outside = tc.outside
			p := &in.Population
			p.Condemned, p.Leaving = tc.condemned, tc.condemned
			for _, name := range tc.deleted {
				p.Deletes = append(p.Deletes, inplace.Delete{Ref: inplace.Ref{Name: name}})
			}
			d := plan.Next(in, pods(tc.pods), now)
			if diff := cmp.Diff(tc.writes, writes(d)); diff != "" {
				t.Errorf("writes differ (-want +got):\n%s\nholds %v", diff, holds(d))
			}
		})
	}
}

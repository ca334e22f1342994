package plan_test

import (
	"testing"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/plan"
)

func TestMustRecreate(t *testing.T) {
	t.Parallel()
	edit := func(in inplace.Intent, f func(*inplace.Intent)) inplace.Intent { f(&in); return in }
	recreate := func(in *inplace.Intent) { in.Policy = inplace.PolicyReCreate }
	cases := map[string]struct {
		in                  inplace.Intent
		pods                string
		toUpdate, toCurrent int32
	}{
		"W6, N6: what changes in place needs no surge": {in: intent(3, 0, 1), pods: "OOO"},
		"ReCreate":                       {in: edit(intent(3, 0, 1), recreate), pods: "OOO", toUpdate: 3},
		"ReCreate, beyond the partition": {in: edit(intent(5, 3, 1), recreate), pods: "OOOOO", toUpdate: 2},
		"the surge pod that is there already does not change it": {in: edit(intent(5, 3, 1), recreate), pods: "NOOOOO", toUpdate: 2},
		"ended and terminating pods do not count":                {in: edit(intent(3, 0, 1), recreate), pods: "OOtf", toUpdate: 2},
		"claims of other templates": {
			in:   edit(intent(3, 0, 1), func(in *inplace.Intent) { in.RecreateOnly = map[string]string{"O1": "its claims"} }),
			pods: "OOO", toUpdate: 1,
		},
		"a pod that would not be among those to move": {
			in:   edit(intent(3, 2, 1), func(in *inplace.Intent) { in.RecreateOnly = map[string]string{"O2": "its claims"} }),
			pods: "OOO",
		},
		"InPlaceOnly recreates nobody": {
			in: edit(intent(3, 0, 1), func(in *inplace.Intent) {
				in.Policy, in.RecreateOnly = inplace.PolicyInPlaceOnly, map[string]string{"O1": "its claims"}
			}),
			pods: "OOO",
		},
		"beyond the partition, and nobody asked for them to go back": {in: edit(intent(5, 3, 1), recreate), pods: "NNNNO"},
		"partitionRollback": {
			in:   edit(intent(5, 3, 1), func(in *inplace.Intent) { in.Policy, in.PartitionRollback = inplace.PolicyReCreate, true }),
			pods: "NNNNO", toCurrent: 2,
		},
		"paused":   {in: edit(intent(3, 0, 1), func(in *inplace.Intent) { in.Policy, in.Paused = inplace.PolicyReCreate, true }), pods: "OOO"},
		"OnDelete": {in: edit(intent(3, 0, 1), func(in *inplace.Intent) { in.Policy, in.OnDelete = inplace.PolicyReCreate, true }), pods: "OOO"},
		"invalid":  {in: edit(intent(3, 0, 1), func(in *inplace.Intent) { in.Policy, in.Invalid = inplace.PolicyReCreate, "no" }), pods: "OOO"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			toUpdate, toCurrent := plan.MustRecreate(tc.in, pods(tc.pods))
			if toUpdate != tc.toUpdate || toCurrent != tc.toCurrent {
				t.Errorf("%d, %d; want %d, %d", toUpdate, toCurrent, tc.toUpdate, tc.toCurrent)
			}
		})
	}
}

// TestRecreateOnly: a pod whose claims are of other templates is recreated, and stays under InPlaceOnly.
func TestRecreateOnly(t *testing.T) {
	t.Parallel()
	in := intent(2, 0, 2)
	in.RecreateOnly = map[string]string{"O1": "its claims were made from other templates"}
	d := plan.Next(in, pods("OO"), now)
	if len(d.Deletes) != 1 || d.Deletes[0].Name != "O1" || d.Deletes[0].Because != "cannot be updated in place: its claims were made from other templates" {
		t.Errorf("deletes %v", d.Deletes)
	}
	in.Policy = inplace.PolicyInPlaceOnly
	if d = plan.Next(in, pods("OO"), now); len(d.Deletes) != 0 || len(d.Patches) != 2 {
		t.Errorf("under InPlaceOnly deletes %v patches %v", d.Deletes, d.Patches)
	}
}

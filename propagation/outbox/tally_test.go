package outbox_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
)

// TestDepthAndTallies: what waits is counted per member whatever it waits for; an accepted write once; a refusal once, however
// often it is tried; and a member that is forgotten is not counted any more.
func TestDepthAndTallies(t *testing.T) {
	t.Parallel()
	w := newWorld("good", "bad", "down")
	w.members["bad"].errs = slices.Repeat([]error{errors.New("boom")}, 1000)
	w.members["down"].view.State = clusters.StateDegraded
	o := start(t, w)
	for _, name := range []string{"a", "b"} {
		for _, m := range []string{"good", "bad", "down"} {
			o.Post(item(m, name, "v1", intent(1, 0)))
		}
	}
	for m, want := range map[string]outbox.State{"good": outbox.StateDone, "bad": outbox.StateFailed, "down": outbox.StateMemberNotReady} {
		for _, name := range []string{"a", "b"} {
			eventually(t, o, item(m, name, "", intent(1, 0)), want)
		}
	}
	until(t, "it is tried again", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.members["bad"].errs) < 996
	})
	members, states := o.Depth()
	if diff := cmp.Diff(map[string]int{"good": 0, "bad": 2, "down": 2}, members); diff != "" {
		t.Errorf("depth (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[outbox.State]int{outbox.StateDone: 2, outbox.StateFailed: 2, outbox.StateMemberNotReady: 2}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	want := map[string]outbox.Tally{
		"good": {Writes: map[changeset.Op]int64{changeset.OpCreate: 2}, Refusals: map[outbox.State]int64{}},
		"bad":  {Writes: map[changeset.Op]int64{}, Refusals: map[outbox.State]int64{outbox.StateFailed: 2}},
		"down": {Writes: map[changeset.Op]int64{}, Refusals: map[outbox.State]int64{}},
	}
	if diff := cmp.Diff(want, o.Tallies()); diff != "" {
		t.Errorf("tallies (-want +got):\n%s", diff)
	}
	o.WithdrawMember("bad")
	members, _ = o.Depth()
	if _, left := members["bad"]; left || len(o.Tallies()) != 2 {
		t.Errorf("a member that is forgotten is still counted: %v %v", members, o.Tallies())
	}
}

package workload

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/underway-dev/underway/inplace"
)

// told keeps reason and action of each event.
type told [][2]string

func (t *told) Eventf(_, _ runtime.Object, _, reason, action, _ string, _ ...any) {
	*t = append(*t, [2]string{reason, action})
}

// TestEachReleaseIsALineOfItsOwn: client-go counts events of one object, reason and action as one, and keeps the first words:
// what a second release says must not be counted to the first. Creations, one a pass, are counted.
func TestEachReleaseIsALineOfItsOwn(t *testing.T) {
	t.Parallel()
	var got told
	r := &Reconciler{Options: Options{Events: &got}}
	for _, to := range []string{"v2", "v3", "v3"} {
		d := inplace.Decision{Creates: make([]inplace.Create, 1), Events: []inplace.Event{{Type: "Normal", Reason: "UpdatedInPlace", Message: "5 of 5 pods were updated in place to app:" + to}}}
		a := acted{ok: true}
		a.Created = 1
		r.tell(t.Context(), seenOf(inplace.Intent{}), d, a)
	}
	var moves, creates []string
	for _, e := range got {
		if e[0] == "UpdatedInPlace" {
			moves = append(moves, e[1])
		} else {
			creates = append(creates, e[1])
		}
	}
	if len(moves) != 3 || moves[0] == moves[1] || moves[1] != moves[2] {
		t.Errorf("the releases have the actions %q", moves)
	}
	if len(slices.Compact(creates)) != 1 {
		t.Errorf("creations have the actions %q", creates)
	}
}

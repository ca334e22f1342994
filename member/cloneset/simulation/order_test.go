package simulation

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRandomStoriesInOrder: the StatefulSet's rules hold after every step, and in the end it is quiet and as wanted.
func TestRandomStoriesInOrder(t *testing.T) {
	t.Parallel()
	from, to := seeds(t)
	has := features(t)
	// The unit tier tells a third of what the CloneSet's does.
	if to-from == 2000 {
		to = from + 700
	}
	tally := map[string]int{}
	for seed := from; seed < to; seed++ {
		p := plot{seed: uint64(seed), has: has}
		s, err := p.tellOrdered()
		if err != nil {
			if os.Getenv("UNDERWAY_TALLY") != "" {
				tally["FAIL "+strings.SplitN(err.Error(), "\n", 2)[0]+fmt.Sprintf(" (seed %d)", seed)]++
				continue
			}
			t.Fatal(explainBy(p, err, "TestRandomStoriesInOrder", plot.tellOrdered))
		}
		for deed, n := range s.a.order.tally {
			tally[deed] += n
		}
	}
	for _, deed := range slices.Sorted(maps.Keys(tally)) {
		t.Logf("%7d %s", tally[deed], deed)
	}
}

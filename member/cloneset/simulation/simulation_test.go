package simulation

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/underway-dev/underway/test/seeds"
)

// TestRandomStories: whatever happens, the rules of DESIGN.md hold after every step, and in the end it is quiet and as
// wanted.
func TestRandomStories(t *testing.T) {
	t.Parallel()
	tellAll(t, plot.tell, "TestRandomStories", deedsToSee())
}

// TestRandomStoriesInOrder: the StatefulSet's rules hold after every step, and in the end it is quiet and as wanted.
func TestRandomStoriesInOrder(t *testing.T) {
	t.Parallel()
	tellAll(t, plot.tellOrdered, "TestRandomStoriesInOrder", orderedDeedsToSee())
}

// tellAll tells the stories of all seeds until one fails. With UNDERWAY_TALLY it tells them all, and only counts which fail.
// Of five hundred stories and more each deed must be in one.
func tellAll(t *testing.T, tell func(plot) (*story, error), test string, toSee []string) {
	t.Helper()
	from, to := seeds.Range(t, 500)
	has, count := features(t), os.Getenv("UNDERWAY_TALLY") != ""
	var next atomic.Uint64
	next.Store(from)
	var wg sync.WaitGroup
	var mu sync.Mutex
	tally := map[string]int{}
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < to && !t.Failed(); seed = next.Add(1) - 1 {
				p := plot{seed: seed, has: has}
				s, err := tell(p)
				if err != nil && !count {
					t.Error(explain(p, err, test, tell))
				}
				mu.Lock()
				if err != nil {
					tally["FAIL "+strings.SplitN(err.Error(), "\n", 2)[0]+fmt.Sprintf(" (seed %d)", seed)]++
				}
				for deed, n := range s.deeds() {
					tally[deed] += n
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, deed := range slices.Sorted(maps.Keys(tally)) {
		t.Logf("%7d %s", tally[deed], deed)
	}
	if to-from < 500 || t.Failed() {
		return
	}
	for _, deed := range toSee {
		if tally[deed] == 0 {
			t.Errorf("no story has a %q: the rules prove nothing about it", deed)
		}
	}
}

// deedsToSee are what five hundred stories must contain.
func deedsToSee() []string {
	return []string{
		"create", "create at the current revision", "create as surge", "create with claims of before", "delete", "delete what was asked to go",
		"delete what its hook let go", "drain", "update", "update of labels only", "return", "roll back", "adopt", "let go",
		"state PreparingUpdate", "state Updating", "state Updated", "state Normal", "state PreparingDelete", "state back from PreparingDelete",
		"claim create", "claim delete",
	}
}

func orderedDeedsToSee() []string {
	return []string{
		"create", "delete what was asked to go", "recreate", "scale-in", "update", "drains", "deletes", "claim create", "claim patch",
	}
}

// rule is the first word of an error: the rule that is broken.
func rule(err error) string {
	if err == nil {
		return ""
	}
	word, _, _ := strings.Cut(err.Error(), ":")
	return word
}

// explain shrinks a story that fails: without the features and the steps that it does not need.
func explain(p plot, err error, test string, tell func(plot) (*story, error)) string {
	want := rule(err)
	fails := func(q plot) bool {
		_, err := tell(q)
		return rule(err) == want
	}
	for f := feature(1); f < allFeatures; f <<= 1 {
		q := p
		q.has &^= f
		if fails(q) {
			p = q
		}
	}
	const steps = 90
	for size := 16; size > 0; size /= 2 {
		for begin := 0; begin < steps; begin += size {
			q := p
			q.skip = maps.Clone(p.skip)
			if q.skip == nil {
				q.skip = map[int]bool{}
			}
			for i := begin; i < min(begin+size, steps); i++ {
				q.skip[i] = true
			}
			if len(q.skip) > len(p.skip) && fails(q) {
				p = q
			}
		}
	}
	s, last := tell(p)
	log := s.c.log
	return fmt.Sprintf("seed %d: %v\n\nshrunk to (UNDERWAY_SEED=%d go test ./member/cloneset/simulation -run %s; features %b, steps %v):\n%s\n%v",
		p.seed, err, p.seed, test, p.has, kept(p.skip, steps), strings.Join(log[max(len(log)-120, 0):], "\n"), last)
}

func kept(skip map[int]bool, steps int) []int {
	var out []int
	for i := range steps {
		if !skip[i] {
			out = append(out, i)
		}
	}
	return slices.Clip(out)
}

// features are what stories have: UNDERWAY_FEATURES as a binary number, else all.
func features(t *testing.T) feature {
	t.Helper()
	s := os.Getenv("UNDERWAY_FEATURES")
	if s == "" {
		return allFeatures
	}
	n, err := strconv.ParseUint(s, 2, 64)
	if err != nil {
		t.Fatal(err)
	}
	return feature(n)
}

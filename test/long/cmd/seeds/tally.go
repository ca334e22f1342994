package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// slice is how long a slice should take, first how many stories the first one of a suite has.
	slice = 20 * time.Second
	first = 10
	// enough failures of a suite say what there is to say of it.
	enough = 3
)

// tally is how far a suite has come.
type tally struct {
	suite

	state      state
	want, told uint64
	// left are the spans that nobody has taken yet, in order.
	left []span
	// running are slices that were taken and have not come back.
	running int
	// size is how many stories the next slice has.
	size uint64
	// took is time by the clock, cpu of processors.
	took, cpu time.Duration
	failures  []failure
}

// state is whether the tests of a suite can be run.
type state int

const (
	unbuilt state = iota
	built
	spoilt
)

// failure is a story that failed.
type failure struct {
	again, output string
}

// tallies are those of the suites, with so many seeds asked for, from one on.
func tallies(list []suite, from, seeds uint64) []*tally {
	var out []*tally
	for _, s := range list {
		n := max(seeds/s.each, 1)
		begin := from / s.each
		out = append(out, &tally{suite: s, want: n, left: []span{{begin, begin + n}}, size: first})
	}
	return out
}

// rest is how many stories nobody has taken yet.
func (t *tally) rest() uint64 {
	n := uint64(0)
	for _, at := range t.left {
		n += at.len()
	}
	return n
}

// next is the suite that has had the least time of those that are built and have something left; wait when there is none yet.
func next(list []*tally) (least *tally, wait bool) {
	had := func(t *tally) time.Duration { return t.took + time.Duration(t.running)*slice }
	for _, t := range list {
		wait = wait || t.state == unbuilt
		if t.state == built && len(t.left) > 0 && (least == nil || had(t) < had(least)) {
			least = t
		}
	}
	return least, wait
}

// take cuts a slice off what is left.
func (t *tally) take() span {
	at := t.left[0]
	if at.len() > t.size {
		at.to = at.from + t.size
		t.left[0].from = at.to
	} else {
		t.left = t.left[1:]
	}
	t.running++
	return at
}

// result is what became of a slice.
type result struct {
	at        span
	took, cpu time.Duration
	failed    bool
	// seed is the one that failed, if that was said.
	seed uint64
	said bool
	// output is all that the test said.
	output string
}

// done books a slice. A suite stops at the story that fails: the ones after it are left to be told. Of a rapid one it is not
// known where in the slice that was.
func (t *tally) done(r result) {
	t.running--
	t.took, t.cpu = t.took+r.took, t.cpu+r.cpu
	if !r.failed {
		t.told += r.at.len()
		t.resize(r)
		return
	}
	t.failures = append(t.failures, failure{again: t.again(r.at, r.seed, r.said), output: r.output})
	if !t.rapid && r.said && r.seed >= r.at.from && r.seed < r.at.to {
		t.told += r.seed + 1 - r.at.from
		if r.seed+1 < r.at.to {
			t.left = slices.Insert(t.left, 0, span{r.seed + 1, r.at.to})
		}
	}
	if len(t.failures) >= enough {
		t.left = nil
	}
}

// resize makes slices take as long as they should, never more than four times as much at once.
func (t *tally) resize(r result) {
	n := float64(r.at.len()) * float64(slice) / float64(max(r.took, time.Millisecond))
	t.size = min(max(uint64(n), 1), 4*max(t.size, r.at.len()))
}

// remaining is how long the rest takes one process, by what was told so far; not known before each suite has told some.
func remaining(list []*tally) (d time.Duration, known bool) {
	for _, t := range list {
		if t.told == 0 && len(t.left) > 0 {
			return 0, false
		}
		if t.told > 0 {
			d += time.Duration(float64(t.took) / float64(t.told) * float64(t.rest()))
		}
	}
	return d, true
}

// table is the result as a table of a document.
func table(list []*tally) string {
	var out strings.Builder
	out.WriteString("| suite | stories told | of | CPU seconds | stories a CPU second | failed |\n| --- | ---: | ---: | ---: | ---: | ---: |\n")
	for _, t := range list {
		names := strings.ReplaceAll(t.tests, "|", ", ")
		rate := "-"
		if t.told > 0 && t.cpu > 0 {
			rate = fmt.Sprintf("%.3g", float64(t.told)/t.cpu.Seconds())
		}
		fmt.Fprintf(&out, "| %s: %s | %d | %d | %.0f | %s | %d |\n", t.pkg, names, t.told, t.want, t.cpu.Seconds(), rate, len(t.failures))
	}
	return out.String()
}

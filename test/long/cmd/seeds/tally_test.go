package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func ready(list []*tally) {
	for _, t := range list {
		t.state = built
	}
}

// TestEverySeedIsToldOnce: whatever fails on the way and wherever slices end, each seed is told once; the slices of a suite of
// rapid that fails are told but for the rest of the slice.
func TestEverySeedIsToldOnce(t *testing.T) {
	t.Parallel()
	list := tallies([]suite{{pkg: "a", each: 1}, {pkg: "b", each: 20}}, 100, 1000)
	ready(list)
	told := map[string]map[uint64]int{"a": {}, "b": {}}
	for n := range 1000 {
		s, _ := next(list)
		if s == nil {
			break
		}
		r := result{at: s.take(), took: time.Duration(n) * time.Second}
		to := r.at.to
		if bad := uint64(333); s.pkg == "a" && r.at.from <= bad && bad < to {
			r.failed, r.seed, r.said, to = true, bad, true, bad+1
		}
		for seed := r.at.from; seed < to; seed++ {
			told[s.pkg][seed]++
		}
		s.done(r)
	}
	for pkg, want := range map[string]span{"a": {100, 1100}, "b": {5, 55}} {
		for seed := want.from; seed < want.to; seed++ {
			if told[pkg][seed] != 1 {
				t.Errorf("seed %d of %s was told %d times", seed, pkg, told[pkg][seed])
			}
		}
		if n := len(told[pkg]); n != int(want.len()) {
			t.Errorf("%d seeds of %s, want %d", n, pkg, want.len())
		}
	}
	if a, b := list[0], list[1]; a.told != 1000 || b.told != 50 || len(a.failures) != 1 || a.failures[0].again != "UNDERWAY_SEED=333 go test ./a -run '^()$'" {
		t.Errorf("told %d and %d, failed %v", a.told, b.told, a.failures)
	}
}

// TestAllGetTheSameTime: whatever a story costs, and slices take about as long as they should. One that is done leaves its time
// to the others.
func TestAllGetTheSameTime(t *testing.T) {
	t.Parallel()
	list := tallies([]suite{{pkg: "quick", each: 1}, {pkg: "slow", each: 1}, {pkg: "small", each: 100_000}}, 0, 100_000)
	ready(list)
	cost := map[string]time.Duration{"quick": time.Millisecond, "slow": time.Second, "small": time.Millisecond}
	for range 9 {
		s, _ := next(list)
		at := s.take()
		took := time.Duration(at.len()) * cost[s.pkg]
		s.done(result{at: at, took: took})
		if took > 2*slice {
			t.Fatalf("a slice of %s took %s", s.pkg, took)
		}
	}
	if quick, slow, small := list[0], list[1], list[2]; (quick.took-slow.took).Abs() > 2*slice || slow.told < 10 || quick.told < 300 || small.told != 1 {
		t.Errorf("%d told in %s, %d in %s, and %d", quick.told, quick.took, slow.told, slow.took, small.told)
	}
}

func TestASuiteThatFailsAgainAndAgainIsGivenUp(t *testing.T) {
	t.Parallel()
	list := tallies([]suite{{pkg: "a", each: 1}}, 0, 1000)
	ready(list)
	for n := range enough {
		s, _ := next(list)
		if s == nil {
			t.Fatalf("given up after %d", n)
		}
		at := s.take()
		s.done(result{at: at, failed: true, seed: at.from, said: true})
	}
	if s, wait := next(list); s != nil || wait {
		t.Errorf("%d are left", s.rest())
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		suite  suite
		output string
		err    error
		failed bool
		again  string
	}{
		"well":                {suite{pkg: "a", tests: "T"}, "PASS", nil, false, ""},
		"no test is no proof": {suite{pkg: "a", tests: "T"}, "testing: warning: no tests to run\nPASS", nil, true, "UNDERWAY_FROM=10 UNDERWAY_SEEDS=10 go test ./a -run '^(T)$'"},
		"a seed":              {suite{pkg: "a", tests: "T"}, "--- FAIL: T\n  x_test.go:3: seed 12: it grew", errors.New("1"), true, "UNDERWAY_SEED=12 go test ./a -run '^(T)$'"},
		"a panic":             {suite{pkg: "a", tests: "T"}, "panic: nil", errors.New("2"), true, "UNDERWAY_FROM=10 UNDERWAY_SEEDS=10 go test ./a -run '^(T)$'"},
		"rapid": {
			suite{pkg: "a", tests: "T", rapid: true},
			`specify -run="T" -rapid.seed=99`, errors.New("1"), true,
			"go test ./a -run '^(T)$' -rapid.seed=99",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := span{10, 20}
			got := judge(tc.suite, at, tc.output, tc.err)
			if got.failed != tc.failed {
				t.Fatalf("failed %v", got.failed)
			}
			if again := tc.suite.again(at, got.seed, got.said); tc.failed && again != tc.again {
				t.Errorf("again by %q, want %q", again, tc.again)
			}
		})
	}
}

// TestRun: neither a test that fails for one seed nor one that does not compile keeps the others from being told.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `#!/bin/sh
[ "$GOMAXPROCS" = 1 ] || exit 9
echo "$UNDERWAY_FROM $UNDERWAY_SEEDS" >>told
if [ $UNDERWAY_FROM -le 13 ] && [ $((UNDERWAY_FROM + UNDERWAY_SEEDS)) -gt 13 ]; then echo "seed 13: bad"; exit 1; fi
`
	for _, pkg := range []string{"good", "bad"} {
		if err := os.MkdirAll(filepath.Join(dir, pkg), 0o700); err != nil {
			t.Fatal(err)
		}
		text := script
		if pkg == "good" {
			text = strings.ReplaceAll(script, "exit 1;", "exit 0;")
		}
		if err := os.WriteFile(filepath.Join(dir, pkg+".test"), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	r := &runner{
		out: &out, root: dir, bin: dir, procs: 2, began: time.Now(),
		list: tallies([]suite{{pkg: "good", tests: "T", each: 1}, {pkg: "bad", tests: "T", each: 1}, {pkg: "worse", tests: "T", each: 1}}, 0, 50),
	}
	err := r.tellAll(t.Context(), func(_ context.Context, s suite) error {
		if s.pkg == "worse" {
			return errors.New("does not compile")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "2 stories failed") {
		t.Errorf("error %v", err)
	}
	written, _ := os.ReadFile(filepath.Join(dir, "out", "seeds.md"))
	for _, want := range []string{"| good: T | 50 | 50 |", "| bad: T | 50 | 50 |", "| worse: T | 0 | 50 |", "does not compile", "failed: UNDERWAY_SEED=13 go test ./bad -run '^(T)$'"} {
		if !strings.Contains(out.String(), want) || (want != "does not compile" && !strings.Contains(string(written), want)) {
			t.Errorf("no %q in\n%s\nor\n%s", want, out.String(), written)
		}
	}
}

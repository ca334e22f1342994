package subset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

func TestHold(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		targets       []int32
		at            []Standing
		want, awaited []int32
		homeless      int32
	}{
		"replicas that move stay until they are ready": {
			[]int32{2, 0, 3},
			[]Standing{{Last: 2, Ready: 2}, {Last: 2}, {Last: 1, Ready: 1}},
			[]int32{2, 2, 3},
			[]int32{0, 0, 2},
			0,
		},
		"one is ready": {
			[]int32{2, 0, 3},
			[]Standing{{Last: 2, Ready: 2}, {Last: 2}, {Last: 3, Ready: 2, Awaited: 2}},
			[]int32{2, 1, 3},
			[]int32{0, 0, 1},
			0,
		},
		"all are": {
			[]int32{2, 0, 3},
			[]Standing{{Last: 2, Ready: 2}, {Last: 1}, {Last: 3, Ready: 3, Awaited: 1}},
			[]int32{2, 0, 3},
			[]int32{0, 0, 0},
			0,
		},
		"a pod that was never moved keeps nobody waiting": {
			[]int32{2, 0, 3},
			[]Standing{{Last: 2, Ready: 0}, {Last: 2}, {Last: 3, Ready: 3, Awaited: 2}},
			[]int32{2, 0, 3},
			[]int32{0, 0, 0},
			0,
		},
		"a total that falls is obeyed, ready or not": {
			[]int32{2, 0}, []Standing{{Last: 5}, {Last: 5}}, []int32{2, 0}, []int32{0, 0}, 0,
		},
		"what has no place stays where it is": {
			[]int32{3, 2}, []Standing{{Last: 4, Ready: 3}, {Last: 4, Ready: 2}}, []int32{4, 3}, []int32{0, 0}, 2,
		},
		"a total that rises takes nothing away": {
			[]int32{5, 5}, []Standing{{Last: 2}, {Last: 0}}, []int32{5, 5}, []int32{3, 5}, 0,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, awaited := Hold(tc.targets, tc.at, tc.homeless)
			if diff := cmp.Diff(tc.want, got) + cmp.Diff(tc.awaited, awaited); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReturn(t *testing.T) {
	t.Parallel()
	steady := func(last, ready int32) Standing { return Standing{Last: last, Ready: ready, Steady: true} }
	cases := map[string]struct {
		preferred []int32
		at        []Standing
		budget    int32
		want      []int32
		step      bool
	}{
		"a place that was empty is tried with one":   {[]int32{4, 0}, []Standing{steady(0, 0), steady(4, 4)}, 3, []int32{1, 3}, true},
		"then with as many as are ready":             {[]int32{8, 0}, []Standing{steady(2, 2), steady(6, 6)}, 3, []int32{4, 4}, true},
		"never above the budget":                     {[]int32{9, 0}, []Standing{steady(4, 4), steady(5, 5)}, 2, []int32{6, 3}, true},
		"never to a marked place":                    {[]int32{9, 0}, []Standing{{Last: 4, Ready: 4}, steady(5, 5)}, 2, []int32{4, 5}, false},
		"never from a place that does not answer":    {[]int32{9, 0}, []Standing{steady(4, 4), {Last: 5, Ready: 5}}, 2, []int32{4, 5}, false},
		"from the last":                              {[]int32{6, 1, 1}, []Standing{steady(3, 3), steady(2, 2), steady(3, 3)}, 3, []int32{6, 1, 1}, true},
		"not while a step is under way":              {[]int32{9, 0}, []Standing{{Last: 4, Ready: 3, Awaited: 1, Steady: true}, steady(6, 6)}, 2, []int32{4, 6}, false},
		"nothing to do where it is as it is to be":   {[]int32{4, 5}, []Standing{steady(4, 4), steady(5, 5)}, 2, []int32{4, 5}, false},
		"a pod that is not ready for another reason": {[]int32{9, 0}, []Standing{steady(4, 3), steady(5, 5)}, 2, []int32{6, 3}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			targets := make([]int32, len(tc.at))
			for i := range targets {
				targets[i] = tc.at[i].Last
			}
			step := Return(targets, tc.preferred, tc.at, tc.budget)
			if diff := cmp.Diff(tc.want, targets); diff != "" || step != tc.step {
				t.Errorf("step %v (-want +got):\n%s", step, diff)
			}
		})
	}
}

// TestMoves plays members that lose and regain the ability to place pods, at random: what was ready stays ready until as
// many are ready elsewhere, the surplus is never more than what is on its way, and where nothing changes it comes to rest.
func TestMoves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "subsets")
		sum := rapid.Int32Range(0, 30).Draw(t, "total")
		f := fleetOf(t, n, sum)
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			i := rapid.IntRange(0, n-1).Draw(t, "subset")
			if !f.marked[i] && rapid.Bool().Draw(t, "mark") {
				f.marked[i] = true
				f.room[i] = rapid.Int32Range(0, f.at[i].Ready).Draw(t, "room")
				f.at[i].Ready = f.room[i]
			} else {
				f.unmark(i)
			}
			for range rapid.IntRange(0, 6).Draw(t, "steps") {
				f.step(t)
			}
		}
		for i := range f.marked {
			f.unmark(i)
		}
		for range 200 {
			if !f.step(t) {
				if got := f.ready(); got != sum {
					t.Fatalf("at rest with %d of %d ready: %+v", got, sum, f.at)
				}
				if diff := cmp.Diff(f.preferred(t), f.last()); diff != "" {
					t.Fatalf("at rest elsewhere (-preferred +got):\n%s", diff)
				}
				return
			}
		}
		t.Fatalf("does not come to rest: %+v", f.at)
	})
}

// fleet are subsets that have room for so many pods each.
type fleet struct {
	sum    int32
	shares []Share
	at     []Standing
	marked []bool
	room   []int32
}

func fleetOf(t *rapid.T, n int, sum int32) *fleet {
	f := &fleet{sum: sum, shares: make([]Share, n), at: make([]Standing, n), marked: make([]bool, n), room: make([]int32, n)}
	for i := range f.shares {
		f.shares[i].Name = string(rune('a' + i))
		f.room[i] = sum
		if i < n-1 && rapid.Bool().Draw(t, "bounded") {
			f.shares[i].Max = new(intstr.FromInt32(rapid.Int32Range(0, 10).Draw(t, "max")))
		}
	}
	first := f.allocate(t)
	for i, r := range first {
		f.at[i] = Standing{Last: r, Ready: r}
	}
	return f
}

// unmark: all that a subset which comes back is allotted is awaited.
func (f *fleet) unmark(i int) {
	if f.marked[i] {
		f.at[i].Awaited = f.at[i].Last
	}
	f.marked[i], f.room[i] = false, f.sum
}

func (f *fleet) allocate(t *rapid.T) []int32 {
	got, err := AllocateAdaptive(&f.sum, f.shares, false)
	if err != nil {
		t.Fatal(err)
	}
	return got.Replicas
}

func (f *fleet) preferred(t *rapid.T) []int32 {
	shares := f.shares
	defer func() { f.shares = shares }()
	f.shares = make([]Share, len(shares))
	copy(f.shares, shares)
	for i := range f.shares {
		if !f.marked[i] {
			f.shares[i].Ready = 0
		}
	}
	return f.allocate(t)
}

func (f *fleet) ready() int32 {
	var out int32
	for _, s := range f.at {
		out += s.Ready
	}
	return out
}

func (f *fleet) last() []int32 {
	out := make([]int32, len(f.at))
	for i, s := range f.at {
		out[i] = s.Last
	}
	return out
}

// step plans once and lets one pod of each subset become ready; false when nothing changed.
func (f *fleet) step(t *rapid.T) bool {
	before, had := f.ready(), sumOf(f.last())
	for i := range f.shares {
		f.shares[i].Last, f.shares[i].Ready, f.shares[i].Unschedulable = f.at[i].Last, f.at[i].Last, f.marked[i]
		f.at[i].Steady = !f.marked[i]
		if f.marked[i] {
			f.shares[i].Ready = min(f.at[i].Ready, f.at[i].Last)
		}
	}
	targets := f.allocate(t)
	moved := Return(targets, f.preferred(t), f.at, max(f.sum/4, 1))
	replicas, awaits := Hold(targets, f.at, f.sum-sumOf(targets))
	var placed, waiting int32
	for i := range f.at {
		moved = moved || replicas[i] != f.at[i].Last || awaits[i] != f.at[i].Awaited
		placed += replicas[i]
		waiting += awaits[i]
		f.at[i].Last, f.at[i].Awaited = replicas[i], awaits[i]
		f.at[i].Ready = min(f.at[i].Ready, replicas[i])
	}
	if placed < min(f.sum, had) || placed > f.sum+waiting {
		t.Fatalf("%d of %d are placed, %d awaited", placed, f.sum, waiting)
	}
	if now := f.ready(); now < min(before, f.sum) {
		t.Fatalf("%d were ready and %d are: %+v", before, now, f.at)
	}
	for i := range f.at {
		if s := &f.at[i]; s.Ready < min(s.Last, f.room[i]) {
			s.Ready++
			moved = true
		}
	}
	return moved
}

func sumOf(numbers []int32) int32 {
	var out int32
	for _, n := range numbers {
		out += n
	}
	return out
}

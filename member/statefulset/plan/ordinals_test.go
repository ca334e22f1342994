package plan

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

func only(ordinals ...int32) []appsv1alpha1.OrdinalRange {
	var out []appsv1alpha1.OrdinalRange
	for _, n := range ordinals {
		out = append(out, appsv1alpha1.OrdinalRange{From: n, To: n})
	}
	return out
}

// TestO174: upstream's range of slots, from start to the end.
func TestO174(t *testing.T) {
	t.Parallel()
	for start, want := range map[int32]int64{0: 6, 2: 5, 3: 5, 4: 4} {
		o := NewOrdinals(start, only(1, 3))
		if got := o.End(4) - o.Start; got != want {
			t.Errorf("start %d: %d slots, want %d", start, got, want)
		}
	}
}

// TestOrdinalsAreWhatCountingGives: the arithmetic over ranges and one by one.
func TestOrdinalsAreWhatCountingGives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int32Range(0, 20).Draw(t, "start")
		reserved := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1alpha1.OrdinalRange {
			from := rapid.Int32Range(0, 40).Draw(t, "from")
			return appsv1alpha1.OrdinalRange{From: from, To: from + rapid.Int32Range(0, 6).Draw(t, "wide")}
		}), 0, 8).Draw(t, "reserved")
		n := rapid.Int64Range(0, 30).Draw(t, "n")
		o := NewOrdinals(start, reserved)
		var want []int64
		for at := int64(start); int64(len(want)) < n; at++ {
			free := !slices.ContainsFunc(reserved, func(r appsv1alpha1.OrdinalRange) bool { return int64(r.From) <= at && at <= int64(r.To) })
			position, ok := o.Position(at)
			if ok != free || ok && position != int64(len(want)) {
				t.Fatalf("ordinal %d: position %d, %t", at, position, ok)
			}
			if free {
				if got := o.At(position); got != at {
					t.Fatalf("at %d: %d, want %d", position, got, at)
				}
				want = append(want, at)
			}
		}
		var got []int64
		for position, ordinal := range o.First(n) {
			if position != int64(len(got)) {
				t.Fatalf("position %d after %d", position, len(got))
			}
			got = append(got, ordinal)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		end := int64(start)
		if n > 0 {
			end = want[n-1] + 1
		}
		if o.End(n) != end {
			t.Fatalf("end %d, want %d", o.End(n), end)
		}
		if _, ok := o.Position(int64(start) - 1); ok {
			t.Fatal("an ordinal below the start")
		}
	})
}

func TestTheWidestRanges(t *testing.T) {
	t.Parallel()
	o := NewOrdinals(0, []appsv1alpha1.OrdinalRange{{From: 0, To: math.MaxInt32}})
	if got := o.At(0); got != math.MaxInt32+1 {
		t.Errorf("%d", got)
	}
	if got := o.End(math.MaxInt32); got != 2*math.MaxInt32+1 {
		t.Errorf("%d", got)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{
		"web-0": 0, "web-17": 17, "web-2147483648": 2147483648,
		"web-": -1, "web-01": -1, "web-a": -1, "web--1": -1, "web": -1, "webb-1": -1, "web-1-2": -1, "web-+1": -1, "web-99999999999999999999": -1,
	} {
		got, ok := OrdinalOf("web", name)
		if ok != (want >= 0) || ok && (got != want || PodName("web", got) != name) {
			t.Errorf("%s: %d, %t", name, got, ok)
		}
	}
}

package subset

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDivide(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		number   int32
		replicas []int32
		want     []int32
	}{
		"B009 nine of ten and five":    {9, []int32{10, 5}, []int32{6, 3}},
		"eleven of 6, 6, 2":            {11, []int32{6, 6, 2}, []int32{5, 5, 1}},
		"ten of 6, 6, 2 takes none up": {10, []int32{6, 6, 2}, []int32{5, 4, 1}},
		"all":                          {14, []int32{6, 6, 2}, []int32{6, 6, 2}},
		"more than all":                {99, []int32{6, 6, 2}, []int32{6, 6, 2}},
		"none":                         {0, []int32{6, 6, 2}, []int32{0, 0, 0}},
		"negative is none":             {-3, []int32{6, 6, 2}, []int32{0, 0, 0}},
		"the first of equals":          {1, []int32{3, 3}, []int32{1, 0}},
		"an empty place takes none":    {3, []int32{0, 4}, []int32{0, 3}},
		"no places":                    {3, nil, []int32{}},
		"numbers at the end of int32":  {2147483647, []int32{2147483647, 2147483647}, []int32{1073741824, 1073741823}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Divide(tc.number, tc.replicas)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDivideProperties checks what largest remainder would break: shares sum, none exceeds its replicas, and none rises
// while the number falls.
func TestDivideProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.SliceOfN(rapid.Int32Range(0, 60), 1, 12).Draw(t, "replicas")
		var sum int32
		for _, n := range replicas {
			sum += n
		}
		before := Divide(sum, replicas)
		if !slices.Equal(before, replicas) {
			t.Fatalf("all of %v is %v", replicas, before)
		}
		for number := sum; number >= 0; number-- {
			now := Divide(number, replicas)
			var given int32
			for i, n := range now {
				given += n
				if n > replicas[i] || n > before[i] {
					t.Fatalf("%d of %v: %v after %v", number, replicas, now, before)
				}
			}
			if given != number {
				t.Fatalf("%d of %v sums to %d: %v", number, replicas, given, now)
			}
			before = now
		}
	})
}

// TestDivideByHand compares with the method as the text books have it, one pod after the other.
func TestDivideByHand(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.SliceOfN(rapid.Int32Range(0, 500), 1, 20).Draw(t, "replicas")
		number := rapid.Int32Range(0, 3000).Draw(t, "number")
		want := make([]int32, len(replicas))
		for range number {
			best := -1
			for i, n := range replicas {
				if want[i] < n && (best < 0 || int64(n)*int64(2*want[best]+1) > int64(replicas[best])*int64(2*want[i]+1)) {
					best = i
				}
			}
			if best < 0 {
				break
			}
			want[best]++
		}
		if diff := cmp.Diff(want, Divide(number, replicas)); diff != "" {
			t.Fatalf("%d of %v (-want +got):\n%s", number, replicas, diff)
		}
	})
}

package subset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// share reads "name=last" and the bounds in the order replicas, min, max; "" is not written.
func share(name string, last int32, bounds ...string) Share {
	s := Share{Name: name, Last: last}
	for i, to := range []**intstr.IntOrString{&s.Replicas, &s.Min, &s.Max} {
		if i < len(bounds) && bounds[i] != "" {
			*to = new(intstr.Parse(bounds[i]))
		}
	}
	return s
}

func fourOf(t1, t2, t3, t4 string) []Share {
	return []Share{share("t1", 2, t1), share("t2", 4, t2), share("t3", 2, t3), share("t4", 2, t4)}
}

// TestAllocateUpstream is upstream's table, by the ids of reference/oracles.md 5.2 and bugs.md. O23, O78 and O79 are
// refusals there; here they are a defined allocation with its reason.
func TestAllocateUpstream(t *testing.T) {
	t.Parallel()
	type result struct {
		Replicas      []int32
		Corrected     string
		Contradiction bool
	}
	cases := map[string]struct {
		total  *int32
		shares []Share
		want   result
	}{
		"O13 the remainder goes to the largest": {
			ptr.To[int32](5),
			[]Share{share("t1", 1), share("t2", 4), share("t3", 2), share("t4", 2)},
			result{Replicas: []int32{1, 2, 1, 1}},
		},
		"O14 nothing is nothing": {ptr.To[int32](0), []Share{share("t1", 2)}, result{Replicas: []int32{0}}},
		"O16 the remainder goes to the largest, not the last named": {
			ptr.To[int32](9), fourOf("", "", "", ""), result{Replicas: []int32{2, 3, 2, 2}},
		},
		"O17 an odd total":       {ptr.To[int32](19), []Share{share("t1", 0), share("t2", 10)}, result{Replicas: []int32{9, 10}}},
		"O17 and a larger":       {ptr.To[int32](21), []Share{share("t1", 0), share("t2", 10)}, result{Replicas: []int32{10, 11}}},
		"O19 two named take all": {ptr.To[int32](8), fourOf("4", "", "4", ""), result{Replicas: []int32{4, 0, 4, 0}}},
		"O20 all named":          {ptr.To[int32](16), fourOf("4", "4", "4", "4"), result{Replicas: []int32{4, 4, 4, 4}}},
		"O22 total unset":        {nil, fourOf("1", "2", "3", "4"), result{Replicas: []int32{1, 2, 3, 4}}},
		"O23 a contradiction keeps the last allocation": {
			ptr.To[int32](14),
			[]Share{share("t1", 10, "6"), share("t2", 4, "6")},
			result{[]int32{10, 4}, "sum to 12, spec.replicas is 14; the last allocation is kept", true},
		},
		"O78 one subset that says too little": {
			ptr.To[int32](10),
			[]Share{share("a", 0, "1")},
			result{[]int32{10}, "sum to 1, spec.replicas is 10; divided in proportion", true},
		},
		"O79 number and percent that do not fill the total": {
			ptr.To[int32](10),
			[]Share{share("a", 0, "1"), share("b", 0, "71%")},
			result{[]int32{1, 9}, "sum to 8, spec.replicas is 10; divided in proportion", true},
		},
		"O81 percents that fill the total": {
			ptr.To[int32](10), []Share{share("a", 0, "71%"), share("b", 0, "29%")}, result{Replicas: []int32{7, 3}},
		},
		"O25 minimums": {
			ptr.To[int32](10),
			[]Share{share("1", 0, "", "2", "5"), share("2", 0, "", "2", "5"), share("3", 0, "", "2", "5"), share("4", 0, "", "2", "5"), share("5", 0, "", "2")},
			result{Replicas: []int32{2, 2, 2, 2, 2}},
		},
		"O27 less than the minimums": {
			ptr.To[int32](5),
			[]Share{share("1", 0, "", "2", "5"), share("2", 0, "", "2", "5"), share("3", 0, "", "2", "5"), share("4", 0, "", "2", "5"), share("5", 0, "", "2")},
			result{Replicas: []int32{2, 2, 1, 0, 0}},
		},
		"M021 the open subset takes the rest": {
			ptr.To[int32](12),
			[]Share{share("a", 0, "", "2", "4"), share("b", 0, "", "1", "50%"), share("c", 0, "")},
			result{Replicas: []int32{4, 6, 2}},
		},
		"M021 twelve, with percents": {
			ptr.To[int32](12),
			[]Share{share("fixed", 0, "", "4", "6"), share("spot", 0, "", "25%", "25%"), share("burst", 0)},
			result{Replicas: []int32{6, 3, 3}},
		},
		"M021 scaled to five": {
			ptr.To[int32](5),
			[]Share{share("fixed", 6, "", "4", "6"), share("spot", 3, "", "25%", "25%"), share("burst", 3)},
			result{Replicas: []int32{4, 1, 0}},
		},
		"O88 minimums above the total are given in order": {
			ptr.To[int32](5),
			[]Share{share("a", 0, "", "4"), share("b", 0, "", "4")},
			result{Replicas: []int32{4, 1}},
		},
		"O86 a minimum above the maximum": {
			ptr.To[int32](10),
			[]Share{share("a", 0, "", "7", "5"), share("b", 0)},
			result{Replicas: []int32{5, 5}, Corrected: "minReplicas 7 of subset \"a\" is above its maxReplicas; 5 is used"},
		},
		"O87 no place for all": {
			ptr.To[int32](10),
			[]Share{share("a", 0, "", "", "5"), share("b", 0, "", "", "3")},
			result{Replicas: []int32{5, 3}, Corrected: "2 of 10 replicas have no place"},
		},
		"replicas beside bounds are both bounds": {
			ptr.To[int32](10),
			[]Share{share("a", 0, "3"), share("b", 0, "", "1")},
			result{Replicas: []int32{3, 7}, Corrected: "3 is taken as both bounds"},
		},
		"B045 halves of an odd total": {
			ptr.To[int32](5),
			[]Share{share("a", 0, "50%"), share("b", 0, "50%")},
			result{Replicas: []int32{3, 2}, Corrected: "round to 6 of 5 replicas; corrected to 5"},
		},
		"B045 halves of an even total": {
			ptr.To[int32](6), []Share{share("a", 0, "50%"), share("b", 0, "50%")}, result{Replicas: []int32{3, 3}},
		},
		"N1 W27 halves of three": {
			ptr.To[int32](3),
			[]Share{share("a", 0, "50%"), share("b", 0, "50%")},
			result{Replicas: []int32{2, 1}, Corrected: "round to 4 of 3 replicas; corrected to 3"},
		},
		"percents beside an open subset never take more than there is": {
			ptr.To[int32](2),
			[]Share{share("a", 0, "25%"), share("b", 0, "25%"), share("c", 0, "25%"), share("d", 0)},
			result{Replicas: []int32{1, 1, 0, 0}, Corrected: "round to 3 of 2 replicas; corrected to 2"},
		},
		"thirds that leave one over": {
			ptr.To[int32](10),
			[]Share{share("a", 0, "33%"), share("b", 0, "33%"), share("c", 0, "33%")},
			result{[]int32{4, 3, 3}, "sum to 9, spec.replicas is 10; divided in proportion", true},
		},
		"all at zero stay there": {
			ptr.To[int32](4),
			[]Share{share("a", 1, "0"), share("b", 1, "0%")},
			result{[]int32{0, 0}, "every subset of spec.topology.subsets says 0", true},
		},
		"M019 two named, one takes the rest": {
			ptr.To[int32](9), []Share{share("east", 0, "4"), share("west", 0, "3"), share("north", 0)}, result{Replicas: []int32{4, 3, 2}},
		},
		"no subsets": {ptr.To[int32](9), nil, result{}},
		"unset total without numbers is one": {
			nil, []Share{share("a", 0), share("b", 0)}, result{Replicas: []int32{0, 1}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Allocate(tc.total, tc.shares)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want.Replicas, got.Replicas); diff != "" {
				t.Errorf("replicas (-want +got):\n%s", diff)
			}
			if got.Contradiction != tc.want.Contradiction {
				t.Errorf("contradiction is %v", got.Contradiction)
			}
			notes := strings.Join(got.Corrections, "; ")
			if !strings.Contains(notes, tc.want.Corrected) || (tc.want.Corrected == "") != (notes == "") {
				t.Errorf("corrections are %q, want %q", notes, tc.want.Corrected)
			}
		})
	}
}

func TestAllocateRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"33.3%", "150%", "-10%", "#%", "90#", "", "+5%", "five", "%"} {
		for field, s := range map[string]Share{
			"replicas":    {Name: "b", Replicas: &intstr.IntOrString{Type: intstr.String, StrVal: bad}},
			"minReplicas": {Name: "b", Min: &intstr.IntOrString{Type: intstr.String, StrVal: bad}},
			"maxReplicas": {Name: "b", Max: &intstr.IntOrString{Type: intstr.String, StrVal: bad}},
		} {
			got, err := Allocate(ptr.To[int32](6), []Share{share("a", 0), s})
			if err == nil {
				t.Errorf("%s %q was accepted as %v", field, bad, got.Replicas)
				continue
			}
			if !strings.Contains(err.Error(), "spec.topology.subsets[1]."+field) {
				t.Errorf("%s %q: the error does not name the field: %v", field, bad, err)
			}
		}
	}
	if _, err := Allocate(ptr.To[int32](6), []Share{{Name: "a", Replicas: new(intstr.FromInt32(-1))}}); err == nil {
		t.Error("-1 was accepted")
	}
	if _, err := Allocate(ptr.To[int32](-1), []Share{share("a", 0)}); err == nil {
		t.Error("a total of -1 was accepted")
	}
}

func TestAllocateProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sum := rapid.Int32Range(0, 2000).Draw(t, "total")
		n := rapid.IntRange(1, 8).Draw(t, "subsets")
		bounds := rapid.Bool().Draw(t, "bounds")
		shares := make([]Share, n)
		for i := range shares {
			s := Share{Name: string(rune('a' + i)), Last: rapid.Int32Range(0, 300).Draw(t, "last")}
			fields := []**intstr.IntOrString{&s.Replicas}
			if bounds {
				fields = []**intstr.IntOrString{&s.Min, &s.Max}
			}
			for _, f := range fields {
				switch rapid.IntRange(0, 2).Draw(t, "kind") {
				case 0:
					*f = new(intstr.FromInt32(rapid.Int32Range(0, 300).Draw(t, "number")))
				case 1:
					*f = new(intstr.FromString(rapid.StringMatching(`[1-9]?[0-9]%`).Draw(t, "percent")))
				}
			}
			shares[i] = s
		}
		got, err := Allocate(&sum, shares)
		if err != nil {
			t.Fatal(err)
		}
		var placed int32
		for i, r := range got.Replicas {
			if r < 0 {
				t.Fatalf("negative: %v", got.Replicas)
			}
			placed += r
			shares[i].Last = r
		}
		if placed > sum || (placed != sum && len(got.Corrections) == 0) {
			t.Fatalf("placed %d of %d without a reason: %v", placed, sum, got)
		}
		again, err := Allocate(&sum, shares)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got.Replicas, again.Replicas); diff != "" {
			t.Fatalf("fed back it changes (-first +second):\n%s", diff)
		}
	})
}

func TestAllocateLargeNumbers(t *testing.T) {
	t.Parallel()
	big := int32(2_000_000_000)
	got, err := Allocate(&big, []Share{share("a", 0, "1500000000"), share("b", 0, "7")})
	if err != nil {
		t.Fatal(err)
	}
	if sum := int64(got.Replicas[0]) + int64(got.Replicas[1]); sum != int64(big) || got.Replicas[1] > 20 {
		t.Errorf("got %v", got.Replicas)
	}
}

// TestN1 (W27): whole percents that sum to 100 always sum to the total, each within one of its exact share, and where one is
// left to take the rest they never take more than there is.
func TestN1(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sum := rapid.Int32Range(0, 500).Draw(t, "total")
		left := int32(100)
		var shares []Share
		var percents []int32
		for left > 0 {
			p := rapid.Int32Range(1, left).Draw(t, "percent")
			left -= p
			percents = append(percents, p)
			shares = append(shares, Share{Name: string(rune('a' + len(shares))), Replicas: new(intstr.FromString(fmt.Sprintf("%d%%", p)))})
		}
		got, err := Allocate(&sum, shares)
		if err != nil || got.Contradiction {
			t.Fatalf("%v, %v", got, err)
		}
		var placed int32
		for i, n := range got.Replicas {
			placed += n
			if exact := percents[i] * sum; 100*n <= exact-100 || 100*n >= exact+100 {
				t.Fatalf("%d%% of %d is %d", percents[i], sum, n)
			}
		}
		if placed != sum {
			t.Fatalf("%d of %d: %v", placed, sum, got)
		}
		open, err := Allocate(&sum, append(shares[:len(shares)-1:len(shares)-1], Share{Name: "rest"}))
		if err != nil || open.Contradiction || sumOf(open.Replicas) != sum {
			t.Fatalf("with one that takes the rest: %v, %v", open, err)
		}
	})
}

// TestSpecifiedPermuted: without percents the order in which subsets are written changes nothing.
func TestSpecifiedPermuted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sum := rapid.Int32Range(0, 300).Draw(t, "total")
		var shares []Share
		for i := range rapid.IntRange(1, 7).Draw(t, "subsets") {
			s := Share{Name: string(rune('a' + i)), Last: rapid.Int32Range(0, 50).Draw(t, "last")}
			if i > 0 && rapid.Bool().Draw(t, "named") {
				s.Replicas = new(intstr.FromInt32(rapid.Int32Range(0, 40).Draw(t, "replicas")))
			}
			shares = append(shares, s)
		}
		other := rapid.Permutation(shares).Draw(t, "order")
		a, errA := Allocate(&sum, shares)
		b, errB := Allocate(&sum, other)
		if errA != nil || errB != nil || a.Contradiction != b.Contradiction {
			t.Fatalf("%v %v %v %v", a, errA, b, errB)
		}
		if a.Contradiction {
			return // divided by largest remainder, ties in the order written
		}
		want := map[string]int32{}
		for i, s := range shares {
			want[s.Name] = a.Replicas[i]
		}
		for i, s := range other {
			if want[s.Name] != b.Replicas[i] {
				t.Fatalf("%s gets %d or %d", s.Name, want[s.Name], b.Replicas[i])
			}
		}
	})
}

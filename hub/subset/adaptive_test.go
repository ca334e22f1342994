package subset

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// row reads the columns of a table of reference/oracles.md 5.2: comma separated, "-" for not written.
func row(columns ...string) [][]string {
	out := make([][]string, len(columns))
	for i, c := range columns {
		out[i] = strings.Split(c, ",")
	}
	return out
}

func bound(t *testing.T, columns [][]string, column, i int) *intstr.IntOrString {
	t.Helper()
	if column >= len(columns) || i >= len(columns[column]) || columns[column][i] == "-" {
		return nil
	}
	return new(intstr.FromInt32(number(t, columns[column][i])))
}

func number(t *testing.T, text string) int32 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(n)
}

func shown(a Allocation) string {
	out := make([]string, len(a.Replicas))
	for i, n := range a.Replicas {
		out[i] = strconv.FormatInt(int64(n), 10)
	}
	return strings.Join(out, ",")
}

// TestAllocateAdaptiveUpstream is upstream's table of the default mode; the columns are pods, minimum, maximum and pending
// (-1: unschedulable without pods).
func TestAllocateAdaptiveUpstream(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		total   int32
		columns [][]string
		want    string
	}{
		"O28 five pending":                {10, row("5,5", "3,-", "5,-", "5,0"), "3,7"},
		"O28 four pending":                {10, row("5,5", "3,-", "5,-", "4,0"), "3,7"},
		"O28 three pending":               {10, row("5,5", "3,-", "5,-", "3,0"), "3,7"},
		"O28 two pending":                 {10, row("5,5", "3,-", "5,-", "2,0"), "3,7"},
		"O29 none pending":                {10, row("5,5", "3,-", "5,-", "0,0"), "5,5"},
		"O30 growing":                     {4, row("1,1", "1,-", "2,-", "0,0"), "2,2"},
		"O32 shrinking":                   {1, row("2,1", "1,-", "2,-", "0,0"), "1,0"},
		"O34 one pending in a full place": {3, row("1,3", "0,-", "2,-", "1,0"), "0,3"},
		"O35 from nothing":                {4, row("0,0,0,0", "0,0,0,0", "2,-,-,-", "0,0,0,0"), "2,2,0,0"},
		"O37 two places cannot":           {4, row("2,0,2,0", "0,0,0,0", "2,-,-,-", "0,-1,2,0"), "2,0,0,2"},
		"O39 ready pods stay":             {8, row("2,0,0,2", "0,0,0,0", "2,-,-,-", "0,0,0,0"), "2,4,0,2"},
		"O40 too many":                    {4, row("2,0,0,6", "0,0,0,0", "-,-,-,-", "0,0,0,0"), "2,0,0,2"},
		"B049 nothing fits into b":        {5, row("2,0,1", "-,-,-", "2,2,-", "0,-1,0"), "2,0,3"},
		"B049 and ready pods stay":        {4, row("2,0,3", "-,-,-", "2,2,-", "0,-1,0"), "2,0,2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shares := make([]Share, len(tc.columns[0]))
			for i := range shares {
				pods, pending := number(t, tc.columns[0][i]), number(t, tc.columns[3][i])
				shares[i] = Share{
					Name: fmt.Sprint(i), Min: bound(t, tc.columns, 1, i), Max: bound(t, tc.columns, 2, i),
					Ready: pods - max(pending, 0), Unschedulable: pending != 0, Last: pods,
				}
			}
			got, err := AllocateAdaptive(&tc.total, shares, false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, shown(got)); diff != "" || len(got.Corrections) > 0 {
				t.Errorf("(-want +got):\n%s%v", diff, got.Corrections)
			}
		})
	}
}

// TestAllocateReservedUpstream is upstream's table of the reservation; the columns are minimum, maximum, current and
// reserved (-1: marked, none reserved).
func TestAllocateReservedUpstream(t *testing.T) {
	t.Parallel()
	const ones, twos = "1,1,1,1", "2,2,2,-"
	cases := map[string]struct {
		total   int32
		columns [][]string
		want    string
	}{
		"O41 from nothing":                   {8, row(ones, twos, "0,0,0,0", "0,0,0,0"), "2,2,2,2"},
		"O43 substitutes at the end":         {8, row(ones, twos, "2,2,2,6", "0,1,1,0"), "2,2,2,4"},
		"O44 one place is back":              {8, row(ones, twos, "2,2,2,4", "0,-1,1,0"), "2,2,2,3"},
		"O45 and the other":                  {8, row(ones, twos, "2,2,2,3", "0,0,-1,0"), "2,2,2,2"},
		"O47 shrinking":                      {8, row(ones, twos, "4,2,2,10", "0,1,1,0"), "2,2,2,4"},
		"O48 growing places that were back":  {16, row("2,2,2,2", "4,4,4,-", "4,2,2,10", "0,-1,-1,0"), "4,4,4,8"},
		"O50 and proven":                     {16, row("2,2,2,2", "4,4,4,-", "4,4,4,8", "0,-1,-1,0"), "4,4,4,4"},
		"O51 no bounds":                      {2, row("-,-,-", "-,-,-", "0,0,0", "0,0,0"), "2,0,0"},
		"O52 the first cannot":               {2, row("-,-,-", "-,-,-", "2,0,0", "2,0,0"), "2,2,0"},
		"O54 nor the second":                 {4, row("-,-,-", "-,-,-", "2,2,2", "2,2,0"), "2,2,4"},
		"O56 more reserved than current":     {4, row("-,-,-", "-,-,-", "2,4,2", "4,2,0"), "2,4,2"},
		"O57 the second is back":             {4, row("-,-,-", "-,-,-", "2,4,2", "4,-1,0"), "2,4,0"},
		"O58 one of the second":              {2, row("-,-,-", "-,-,-", "2,2,2", "2,1,0"), "2,2,1"},
		"O60 all back":                       {2, row("-,-,-", "-,-,-", "2,2,0", "0,0,0"), "2,0,0"},
		"O61 the first is back and grows":    {4, row("-,-,-", "-,-,-", "2,2,4", "-1,2,0"), "4,2,2"},
		"O62 minimums":                       {2, row("1,1,0", "-,-,-", "0,0,0", "0,0,0"), "1,1,0"},
		"O64 minimums, the first is back":    {2, row("1,1,0", "-,-,-", "1,1,2", "-1,1,0"), "2,1,1"},
		"O65 minimums, both cannot":          {2, row("1,1,0", "-,-,-", "2,1,1", "1,1,0"), "2,1,1"},
		"O66 minimums, the second cannot":    {2, row("1,1,0", "-,-,-", "2,1,1", "0,1,0"), "2,1,0"},
		"O67 minimums, the second is back":   {2, row("1,1,0", "-,-,-", "2,1,0", "0,-1,0"), "1,1,0"},
		"a reserved place keeps what it has": {2, row("-,-,-", "-,-,-", "5,0,0", "5,0,0"), "2,2,0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shares := make([]Share, len(tc.columns[2]))
			for i := range shares {
				reserved := number(t, tc.columns[3][i])
				shares[i] = Share{
					Name: fmt.Sprint(i), Min: bound(t, tc.columns, 0, i), Max: bound(t, tc.columns, 1, i),
					Last: number(t, tc.columns[2][i]), Reserved: max(reserved, 0), Marked: reserved < 0,
				}
			}
			got, err := AllocateAdaptive(&tc.total, shares, true)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, shown(got)); diff != "" || len(got.Corrections) > 0 {
				t.Errorf("(-want +got):\n%s%v", diff, got.Corrections)
			}
		})
	}
}

// TestAdaptiveLost: others stand in for a place that is out of reach, and what it has is left.
func TestAdaptiveLost(t *testing.T) {
	t.Parallel()
	shares := []Share{
		{Name: "a", Max: new(intstr.FromInt32(4)), Last: 4, Ready: 4, Lost: true},
		{Name: "b", Max: new(intstr.FromInt32(3)), Last: 3, Ready: 3},
		{Name: "c", Last: 3, Ready: 3},
	}
	for _, reserve := range []bool{false, true} {
		got, err := AllocateAdaptive(ptr.To[int32](10), shares, reserve)
		if err != nil || shown(got) != "4,3,7" {
			t.Errorf("reserve %v: %s, %v", reserve, shown(got), err)
		}
	}
}

func TestAdaptiveRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	if _, err := AllocateAdaptive(ptr.To[int32](3), []Share{share("a", 0, "", "x%")}, false); err == nil {
		t.Error("x% was accepted")
	}
	if _, err := AllocateAdaptive(ptr.To[int32](-3), []Share{share("a", 0)}, true); err == nil {
		t.Error("-3 was accepted")
	}
	if got, err := AllocateAdaptive(ptr.To[int32](3), nil, true); err != nil || got.Replicas != nil {
		t.Errorf("no subsets: %v, %v", got, err)
	}
}

// B051: a nil bound is no bound, in every allocator and both modes.
func TestB051NilBounds(t *testing.T) {
	t.Parallel()
	for _, reserve := range []bool{false, true} {
		got, err := AllocateAdaptive(ptr.To[int32](3), []Share{{Name: "normal"}, {Name: "elastic"}}, reserve)
		if err != nil || shown(got) != "3,0" {
			t.Errorf("reserve %v: %s, %v", reserve, shown(got), err)
		}
	}
}

func drawShares(t *rapid.T) []Share {
	shares := make([]Share, rapid.IntRange(1, 7).Draw(t, "subsets"))
	for i := range shares {
		s := &shares[i]
		s.Name = string(rune('a' + i))
		s.Last = rapid.Int32Range(0, 60).Draw(t, "last")
		s.Ready = rapid.Int32Range(0, s.Last).Draw(t, "ready")
		s.Unschedulable = rapid.Bool().Draw(t, "unschedulable")
		s.Lost = rapid.IntRange(0, 5).Draw(t, "lost") == 0
		if s.Unschedulable {
			s.Reserved = rapid.Int32Range(0, s.Last).Draw(t, "reserved")
			s.Marked = s.Reserved == 0
		}
		low := rapid.Int32Range(0, 30).Draw(t, "min")
		if rapid.Bool().Draw(t, "has min") {
			s.Min = new(intstr.FromInt32(low))
		}
		if rapid.Bool().Draw(t, "has max") {
			s.Max = new(intstr.FromInt32(low + rapid.Int32Range(0, 30).Draw(t, "more")))
		}
	}
	return shares
}

// TestAdaptiveProperties: what counts sums to the total or the reason is said, no place is above its maximum but for pods
// that are ready in a place that cannot place more, minimums come first, and the same again changes nothing.
func TestAdaptiveProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sum := rapid.Int32Range(0, 200).Draw(t, "total")
		shares := drawShares(t)
		got, err := AllocateAdaptive(&sum, shares, false)
		if err != nil {
			t.Fatal(err)
		}
		var placed int32
		short := false
		for i, n := range got.Replicas {
			s := &shares[i]
			if s.Lost {
				if n != min(s.Last, sum) {
					t.Fatalf("%s is lost and gets %d of %d", s.Name, n, s.Last)
				}
				continue
			}
			placed += n
			low, high := int32(0), sum
			if s.Min != nil {
				low = s.Min.IntVal
			}
			if s.Max != nil {
				high = s.Max.IntVal
			}
			if s.Unschedulable {
				high = max(low, s.Ready)
			}
			if n < 0 || n > high {
				t.Fatalf("%s gets %d, at most %d: %v", s.Name, n, high, got)
			}
			short = short || n < low
		}
		if placed > sum || (placed < sum && len(got.Corrections) == 0) || (short && placed < sum) {
			t.Fatalf("placed %d of %d, below a minimum: %v, %v", placed, sum, short, got)
		}
		for i := range shares {
			s := &shares[i]
			if s.Last = got.Replicas[i]; !s.Unschedulable || s.Ready > s.Last {
				s.Ready = s.Last
			}
		}
		again, err := AllocateAdaptive(&sum, shares, false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got.Replicas, again.Replicas); diff != "" {
			t.Fatalf("fed back it changes (-first +second):\n%s", diff)
		}
	})
}

// TestReservedProperties: what can be counted on sums to the total, or every place is full.
func TestReservedProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sum := rapid.Int32Range(0, 200).Draw(t, "total")
		shares := drawShares(t)
		got, err := AllocateAdaptive(&sum, shares, true)
		if err != nil {
			t.Fatal(err)
		}
		counted := int32(0)
		for i, n := range got.Replicas {
			s := &shares[i]
			if n < 0 || (s.Reserved > 0 && !s.Lost && n > max(s.Last, minOf(s))) {
				t.Fatalf("%s gets %d of %d", s.Name, n, s.Last)
			}
			switch {
			case s.Lost:
			case s.Reserved > 0 || s.Marked:
				counted += min(n, max(s.Last-s.Reserved, 0))
			default:
				counted += n
			}
		}
		if counted > sum || (counted < sum && len(got.Corrections) == 0) {
			t.Fatalf("%d of %d can be counted on: %v", counted, sum, got)
		}
	})
}

func minOf(s *Share) int32 {
	if s.Min == nil {
		return 0
	}
	return s.Min.IntVal
}

// TestPatience is upstream's timing (TestDefaultAdaptiveStrategy), with its defaults of 30 s and 300 s.
func TestPatience(t *testing.T) {
	t.Parallel()
	p := Patience{Pending: 30 * time.Second, Mark: 300 * time.Second}
	cases := map[string]struct {
		mark  Mark
		waits []time.Duration
		want  Verdict
	}{
		"O74 a pod waits for half of its time": {Mark{}, []time.Duration{15 * time.Second}, Verdict{Again: 15 * time.Second}},
		"a pod has waited too long":            {Mark{}, []time.Duration{3 * time.Second, 30 * time.Second}, Verdict{Unschedulable: true, Renewed: true, Again: 300 * time.Second}},
		"O76 marked and its pods are ready":    {Mark{true, time.Minute}, nil, Verdict{Unschedulable: true, Again: 240 * time.Second}},
		"O77 the mark has worn off":            {Mark{true, 6 * time.Minute}, nil, Verdict{Expired: true}},
		"worn off, and a pod waits":            {Mark{true, 6 * time.Minute}, []time.Duration{time.Second}, Verdict{Expired: true, Again: 29 * time.Second}},
		"worn off, and a pod waits too long":   {Mark{true, 6 * time.Minute}, []time.Duration{time.Minute}, Verdict{Unschedulable: true, Renewed: true, Again: 300 * time.Second}},
		"a mark is not prolonged":              {Mark{true, time.Minute}, []time.Duration{time.Minute}, Verdict{Unschedulable: true, Again: 240 * time.Second}},
		"nothing waits":                        {Mark{}, nil, Verdict{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, p.Judge(tc.mark, tc.waits)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReserve is upstream's TestCheckPodReserved: a pod may wait 10 s, and is proven after 5 s.
func TestReserve(t *testing.T) {
	t.Parallel()
	p := Patience{Pending: 10 * time.Second, Mark: 5 * time.Second}
	seconds := func(n int) *time.Duration { return new(time.Duration(n) * time.Second) }
	type verdict struct {
		Reserved, Overdue bool
		Again             time.Duration
	}
	cases := map[string]struct {
		pod  Pod
		want verdict
	}{
		"O68 it waits for 3 s":               {Pod{Unscheduled: seconds(3)}, verdict{Again: 7 * time.Second}},
		"it has waited too long":             {Pod{Unscheduled: seconds(10)}, verdict{Reserved: true, Again: 5 * time.Second}},
		"O70 ready":                          {Pod{Ready: seconds(0)}, verdict{}},
		"scheduled, not ready":               {Pod{}, verdict{}},
		"O71 reserved, waiting":              {Pod{Reserved: true, Unscheduled: seconds(100)}, verdict{Reserved: true, Again: 5 * time.Second}},
		"reserved, ready for 2 s":            {Pod{Reserved: true, Ready: seconds(2)}, verdict{Reserved: true, Again: 3 * time.Second}},
		"reserved, proven":                   {Pod{Reserved: true, Ready: seconds(5)}, verdict{}},
		"O73 old, for 11 s":                  {Pod{Old: true, Overdue: 11 * time.Second, Ready: seconds(60)}, verdict{Reserved: true, Overdue: true, Again: 5 * time.Second}},
		"O73 old, for 4 s":                   {Pod{Old: true, Overdue: 4 * time.Second, Ready: seconds(60)}, verdict{Again: 6 * time.Second}},
		"reserved and old: it is not back":   {Pod{Reserved: true, Old: true, Overdue: time.Second, Ready: seconds(60)}, verdict{Reserved: true, Again: 9 * time.Second}},
		"reserved and updated for too short": {Pod{Reserved: true, Ready: seconds(0)}, verdict{Reserved: true, Again: 5 * time.Second}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got verdict
			got.Reserved, got.Overdue, got.Again = p.Reserve(tc.pod)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

package partition_test

import (
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/underway-dev/underway/inplace/partition"
)

func num(n int32) *intstr.IntOrString   { return new(intstr.FromInt32(n)) }
func text(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }

func TestOld(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		v        *intstr.IntOrString
		replicas int32
		want     int32
		wantErr  string
	}{
		"O1: nothing of nothing":                    {v: text("99%"), replicas: 0, want: 0},
		"O2: no partition":                          {replicas: 10, want: 0},
		"O4: 90% of 10":                             {v: text("90%"), replicas: 10, want: 9},
		"O6: 99% of 99":                             {v: text("99%"), replicas: 99, want: 98},
		"O6: 100% of 99":                            {v: text("100%"), replicas: 99, want: 99},
		"O6: 0% of 99":                              {v: text("0%"), replicas: 99, want: 0},
		"O8: 5 of 10":                               {v: num(5), replicas: 10, want: 5},
		"O8: 10 of 10":                              {v: num(10), replicas: 10, want: 10},
		"O9: a number in quotes":                    {v: text("99"), replicas: 9, wantErr: "percent sign"},
		"B001: 99% of 3 is a canary of one":         {v: text("99%"), replicas: 3, want: 2},
		"B001: 99% of 1 keeps it":                   {v: text("99%"), replicas: 1, want: 1},
		"B001: 95% of 10":                           {v: text("95%"), replicas: 10, want: 9},
		"B003: 25% of 10 pods of a CloneSet":        {v: text("25%"), replicas: 10, want: 3},
		"B007: more than all, percent":              {v: text("150%"), replicas: 4, want: 4},
		"B007: more than all, number":               {v: num(12), replicas: 4, want: 4},
		"B007: negative percent":                    {v: text("-10%"), replicas: 4, wantErr: "not a percent"},
		"B007: no digits":                           {v: text("#%"), replicas: 4, wantErr: "not a percent"},
		"B007: junk for the sign":                   {v: text("90#"), replicas: 4, wantErr: "percent sign"},
		"B007: empty":                               {v: text(""), replicas: 4, wantErr: "empty"},
		"B007: negative number":                     {v: num(-1), replicas: 4, wantErr: "negative"},
		"words":                                     {v: text("abc"), replicas: 4, wantErr: "percent sign"},
		"exact decimals: 99.99% of 10001":           {v: text("99.99%"), replicas: 10001, want: 10000},
		"exact decimals: 33.3% of 1000 is not 334":  {v: text("33.3%"), replicas: 1000, want: 333},
		"exact decimals: 0.1% of 1000 is not 2":     {v: text("0.1%"), replicas: 1000, want: 1},
		"100.0% is 100%":                            {v: text("100.0%"), replicas: 3, want: 3},
		"99.999999% of 2 updates one":               {v: text("99.999999%"), replicas: 2, want: 1},
		"nothing before the dot":                    {v: text(".5%"), replicas: 4, wantErr: "not a percent"},
		"nothing behind the dot":                    {v: text("5.%"), replicas: 4, wantErr: "not a percent"},
		"a space":                                   {v: text("50 %"), replicas: 4, wantErr: "not a percent"},
		"an exponent":                               {v: text("1e1%"), replicas: 4, wantErr: "not a percent"},
		"too long to be a percent":                  {v: text(strings.Repeat("9", 40) + "%"), replicas: 4, wantErr: "longer"},
		"the largest that is allowed does not wrap": {v: text("999999999999999%"), replicas: 1<<31 - 1, want: 1<<31 - 1},
		"negative replicas are none":                {v: num(5), replicas: -3, want: 0},
		"a type that is neither number nor text":    {v: &intstr.IntOrString{Type: 7}, replicas: 4, wantErr: "neither"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := partition.Old(tc.v, tc.replicas)
			switch {
			case tc.wantErr == "" && err != nil:
				t.Fatal(err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Fatalf("error %v, want one that says %q", err, tc.wantErr)
			case got != tc.want:
				t.Errorf("got %d, want %d", got, tc.want)
			}
			if check := partition.Check(tc.v); (check != nil) != (err != nil) {
				t.Errorf("Check says %v, Old says %v", check, err)
			}
		})
	}
}

func TestOthersRound(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		got  func() (int32, error)
		want int32
	}{
		"B003: a DaemonSet rounds down":          {func() (int32, error) { return partition.OldDaemons(text("25%"), 10) }, 2},
		"B003: one node and 99%":                 {func() (int32, error) { return partition.OldDaemons(text("99%"), 1) }, 0},
		"a DaemonSet without partition":          {func() (int32, error) { return partition.OldDaemons(nil, 7) }, 0},
		"a DaemonSet's number is clamped":        {func() (int32, error) { return partition.OldDaemons(num(9), 7) }, 7},
		"surge rounds up":                        {func() (int32, error) { return partition.MaxSurge(text("30%"), 5) }, 2},
		"no surge":                               {func() (int32, error) { return partition.MaxSurge(nil, 5) }, 0},
		"maxUnavailable: default 20%, up":        {func() (int32, error) { return partition.MaxUnavailable(nil, 0, 3) }, 1},
		"maxUnavailable: 40% of 5":               {func() (int32, error) { return partition.MaxUnavailable(text("40%"), 0, 5) }, 2},
		"maxUnavailable: up without surge":       {func() (int32, error) { return partition.MaxUnavailable(text("25%"), 0, 10) }, 3},
		"maxUnavailable: down with surge":        {func() (int32, error) { return partition.MaxUnavailable(text("25%"), 1, 10) }, 2},
		"maxUnavailable: default, down to none":  {func() (int32, error) { return partition.MaxUnavailable(nil, 1, 3) }, 0},
		"maxUnavailable: a number is not scaled": {func() (int32, error) { return partition.MaxUnavailable(num(3), 2, 10) }, 3},
		"maxUnavailable: clamped":                {func() (int32, error) { return partition.MaxUnavailable(text("150%"), 0, 10) }, 10},
		"a limit rounds up":                      {func() (int32, error) { return partition.Limit(text("11%"), 10) }, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.got()
			if err != nil || got != tc.want {
				t.Errorf("got %d, %v; want %d", got, err, tc.want)
			}
		})
	}
}

func TestB005NumericTextIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"5", "2", "", "-10%", "abc"} {
		_, errOld := partition.Old(text(bad), 10)
		_, errDaemons := partition.OldDaemons(text(bad), 10)
		_, errSurge := partition.MaxSurge(text(bad), 10)
		_, errUnavailable := partition.MaxUnavailable(text(bad), 0, 10)
		for i, err := range []error{errOld, errDaemons, errSurge, errUnavailable} {
			if err == nil {
				t.Errorf("%q was accepted by function %d", bad, i)
			}
		}
	}
	if _, err := partition.Limit(nil, 10); err == nil {
		t.Error("a missing limit was accepted")
	}
}

func TestHoldHoldsUnderAnyScaling(t *testing.T) {
	t.Parallel()
	hold := partition.Hold()
	for _, replicas := range []int32{0, 1, 2, 3, 1000, 1<<31 - 1} {
		if got, err := partition.Old(&hold, replicas); err != nil || got != replicas {
			t.Errorf("%d of %d held, %v", got, replicas, err)
		}
	}
}

// A partition never keeps more than there are, always leaves one to update below 100% of several, never falls when the
// percent grows, and half up lies between down and up.
func TestPercentProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(0, 100000).Draw(t, "replicas")
		whole := rapid.IntRange(0, 120).Draw(t, "whole")
		fraction := rapid.StringMatching(`(\.[0-9]{1,6})?`).Draw(t, "fraction")
		p, err := partition.ParsePercent(itoa(whole) + fraction + "%")
		if err != nil {
			t.Fatal(err)
		}
		next, err := partition.ParsePercent(itoa(whole+1) + fraction + "%")
		if err != nil {
			t.Fatal(err)
		}
		if !(p.Down(replicas) <= p.HalfUp(replicas) && p.HalfUp(replicas) <= p.Up(replicas) && p.Up(replicas) <= p.Down(replicas)+1) {
			t.Fatalf("down %d, half up %d, up %d", p.Down(replicas), p.HalfUp(replicas), p.Up(replicas))
		}
		old, err := partition.Old(text(itoa(whole)+fraction+"%"), replicas)
		if err != nil {
			t.Fatal(err)
		}
		if old > replicas || (replicas > 1 && !p.Full() && old == replicas) || (p.Full() && old != replicas) {
			t.Fatalf("%d of %d stay", old, replicas)
		}
		if p.Up(replicas) > next.Up(replicas) {
			t.Fatal("a larger percent is less")
		}
	})
}

func itoa(n int) string { return strconv.Itoa(n) }

func FuzzOld(f *testing.F) {
	for _, seed := range []string{"", "%", "5", "50%", "99.99%", "-1%", "#%", "0x10%", "999999999999999%", "1.%", "٣%"} {
		f.Add(seed, int32(10))
	}
	f.Fuzz(func(t *testing.T, s string, replicas int32) {
		got, err := partition.Old(text(s), replicas)
		if err != nil {
			if got != 0 {
				t.Errorf("%q: an error and the number %d", s, got)
			}
			return
		}
		if got < 0 || got > max(replicas, 0) || !strings.HasSuffix(s, "%") {
			t.Errorf("%q of %d: %d", s, replicas, got)
		}
	})
}

// FuzzBudget: budgets are inside their bounds, round in the direction they should, and are 0 where they cannot be read.
func FuzzBudget(f *testing.F) {
	for _, seed := range []string{"", "%", "5", "0%", "1%", "20%", "99.99%", "100%", "100.0%", "150%", "-1%", "1e1%", "+5%", ".5%", "999999999999999%", "00000000000000000", "٣%"} {
		f.Add(seed, int32(10), int32(0))
		f.Add(seed, int32(3), int32(1))
	}
	f.Fuzz(func(t *testing.T, s string, replicas, surge int32) {
		up, err := partition.MaxUnavailable(text(s), 0, replicas)
		down, errDown := partition.MaxUnavailable(text(s), max(surge, 1), replicas)
		most, errSurge := partition.MaxSurge(text(s), replicas)
		old, errOld := partition.Old(text(s), replicas)
		if (err != nil) != (errDown != nil) || (err != nil) != (errSurge != nil) || (err != nil) != (errOld != nil) || (err != nil) != (partition.Check(text(s)) != nil) {
			t.Fatalf("%q can be read by some: %v, %v, %v, %v", s, err, errDown, errSurge, errOld)
		}
		if err != nil {
			if up+down+most+old != 0 {
				t.Errorf("%q: an error and the numbers %d, %d, %d, %d", s, up, down, most, old)
			}
			if !strings.Contains(err.Error(), "write ") {
				t.Errorf("%q: %v names no remedy", s, err)
			}
			return
		}
		whole := max(replicas, 0)
		if down < 0 || up < down || up > down+1 || up > whole || most < up || old > up {
			t.Errorf("%q of %d: down %d, up %d, surge %d, old %d", s, replicas, down, up, most, old)
		}
	})
}

package order_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/order"
)

// labelled are ready pods named 0, 1, ... with labels "k=v k=v".
func labelled(labels ...string) []inplace.Pod {
	pods := make([]inplace.Pod, 0, len(labels))
	for i, text := range labels {
		p := pod(fmt.Sprint(i), inplace.PhaseRunning, true)
		p.Labels = map[string]string{}
		for kv := range strings.FieldsSeq(text) {
			k, v, _ := strings.Cut(kv, "=")
			p.Labels[k] = v
		}
		pods = append(pods, p)
	}
	return pods
}

func weight(n int32, key, value string) appsv1alpha1.UpdatePriorityWeightTerm {
	return appsv1alpha1.UpdatePriorityWeightTerm{
		Weight: n, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
	}
}

func TestPriority(t *testing.T) {
	t.Parallel()
	type weights = []appsv1alpha1.UpdatePriorityWeightTerm
	type keys = []appsv1alpha1.UpdatePriorityOrderTerm
	cases := map[string]struct {
		weights weights
		keys    keys
		labels  []string
		want    []string
	}{
		"O136": {
			weights: weights{weight(100, "foo", "bar"), weight(90, "hello", "world")},
			labels:  []string{"hello=world", "", "foo=bar", ""}, want: []string{"2", "0", "1", "3"},
		},
		"O138: the sum 25 wins over 20": {
			weights: weights{weight(20, "a", "1"), weight(10, "b", "1"), weight(15, "c", "1")},
			labels:  []string{"a=1", "b=1 c=1"}, want: []string{"1", "0"},
		},
		"O138: 20 wins over 15": {
			weights: weights{weight(20, "a", "1"), weight(10, "b", "1"), weight(5, "c", "1")},
			labels:  []string{"b=1 c=1", "a=1"}, want: []string{"1", "0"},
		},
		"the earlier key, then the larger number; without a key first": {
			keys:   keys{{OrderedKey: "x"}, {OrderedKey: "y"}},
			labels: []string{"y=a-9", "x=a-2", "x=a-10", "", "x=a y=a-99"}, want: []string{"3", "2", "1", "4", "0"},
		},
		"A01: weight first, the ordered key breaks ties": {
			weights: weights{weight(50, "test-key", "foo"), weight(30, "test-key", "bar")}, keys: keys{{OrderedKey: "some"}},
			labels: []string{"test-key=bar some=9", "test-key=foo some=1", "test-key=foo some=2", "some=7"},
			want:   []string{"2", "1", "0", "3"},
		},
		"a number too large is the largest": {
			keys:   keys{{OrderedKey: "x"}},
			labels: []string{"x=9", "x=99999999999999999999"}, want: []string{"1", "0"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare, err := order.Priority(&appsv1alpha1.UpdatePriorityStrategy{WeightPriority: tc.weights, OrderPriority: tc.keys})
			if err != nil {
				t.Fatal(err)
			}
			pods := labelled(tc.labels...)
			slices.SortStableFunc(pods, compare)
			if diff := cmp.Diff(tc.want, names(pods)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPriorityNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	bad := weight(1, "a", "b")
	bad.MatchSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	for want, strategy := range map[string]appsv1alpha1.UpdatePriorityStrategy{
		"weightPriority[0].weight: 101":     {WeightPriority: []appsv1alpha1.UpdatePriorityWeightTerm{weight(101, "a", "b")}},
		"weightPriority[0].weight: -1":      {WeightPriority: []appsv1alpha1.UpdatePriorityWeightTerm{weight(-1, "a", "b")}},
		"weightPriority[1].matchSelector: ": {WeightPriority: []appsv1alpha1.UpdatePriorityWeightTerm{weight(1, "a", "b"), bad}},
		"orderPriority[0].orderedKey: ":     {OrderPriority: []appsv1alpha1.UpdatePriorityOrderTerm{{}}},
	} {
		if _, err := order.Priority(&strategy); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// sides makes pods of a text: A carries the label, - does not.
func sides(text string) []inplace.Pod {
	var labels []string
	for _, side := range text {
		labels = append(labels, map[bool]string{true: "labelA=AAA", false: ""}[side == 'A'])
	}
	return labelled(labels...)
}

func TestScatter(t *testing.T) {
	t.Parallel()
	terms := []appsv1alpha1.UpdateScatterTerm{{Key: "labelA", Value: "AAA"}}
	for text, want := range map[string]string{
		"----AA":  "401235",
		"---A--A": "3012456",
		"--AAAA":  "230415",
		// B097.
		"AAA--": "03142",
		"AA---": "02341",
		// Too few to spread.
		"A----": "01234",
		"AAAA-": "01234",
		"":      "",
	} {
		if got := strings.Join(names(order.Scatter(terms, sides(text), nil)), ""); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestB097: one pod at a time is spread like all at once, whatever the numbers.
func TestB097(t *testing.T) {
	t.Parallel()
	terms := []appsv1alpha1.UpdateScatterTerm{{Key: "labelA", Value: "AAA"}}
	rapid.Check(t, func(t *rapid.T) {
		all := sides(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"A", "-"}), 0, 30).Draw(t, "pods"), ""))
		want := names(order.Scatter(terms, all, nil))
		var moved []inplace.Pod
		rest := all
		for len(rest) > 0 {
			next := order.Scatter(terms, rest, moved)[0]
			moved = append(moved, next)
			rest = slices.DeleteFunc(slices.Clone(rest), func(p inplace.Pod) bool { return p.Name == next.Name })
		}
		if diff := cmp.Diff(want, names(moved)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestScatterLosesNobody: with any terms the result is a permutation.
func TestScatterLosesNobody(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.SampledFrom([]string{"", "a=1", "b=1", "a=1 b=1", "a=2"})
		pods := labelled(rapid.SliceOfN(label, 0, 20).Draw(t, "pods")...)
		split := rapid.IntRange(0, len(pods)).Draw(t, "moved")
		terms := []appsv1alpha1.UpdateScatterTerm{{Key: "a", Value: "1"}, {Key: "b", Value: "1"}}
		got := names(order.Scatter(terms, pods[split:], pods[:split]))
		want := names(pods[split:])
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

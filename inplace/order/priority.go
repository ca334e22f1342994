package order

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// maxWeight is the largest weight of one term.
const maxWeight = 100

// Priority is the order that a priorityStrategy asks for: the larger sum of the weights of the terms that a pod matches
// goes first, then who carries the earlier of the ordered keys, then the larger number at the end of that label's value.
// A pod with none of the ordered keys goes before all that have one, as in OpenKruise (reference: its priority sort). Pods
// that are alike by it are in the order of Default. A nil strategy is Default. The error names the field that cannot be
// read.
func Priority(strategy *appsv1alpha1.UpdatePriorityStrategy) (func(a, b inplace.Pod) int, error) {
	if strategy == nil {
		return Default, nil
	}
	weights, err := compile(strategy.WeightPriority)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(strategy.OrderPriority))
	for i := range strategy.OrderPriority {
		key := strategy.OrderPriority[i].OrderedKey
		if key == "" {
			return nil, fmt.Errorf("orderPriority[%d].orderedKey: is empty; name a label", i)
		}
		keys = append(keys, key)
	}
	return func(a, b inplace.Pod) int {
		return cmp.Or(
			cmp.Compare(weightOf(weights, b.Labels), weightOf(weights, a.Labels)),
			byKey(keys, a.Labels, b.Labels),
			Default(a, b),
		)
	}, nil
}

// weighted is one compiled term.
type weighted struct {
	weight   int32
	selector labels.Selector
}

func compile(terms []appsv1alpha1.UpdatePriorityWeightTerm) ([]weighted, error) {
	out := make([]weighted, 0, len(terms))
	for i := range terms {
		t := &terms[i]
		if t.Weight < 0 || t.Weight > maxWeight {
			return nil, fmt.Errorf("weightPriority[%d].weight: %d is not between 0 and %d", i, t.Weight, maxWeight)
		}
		selector, err := metav1.LabelSelectorAsSelector(&t.MatchSelector)
		if err != nil {
			return nil, fmt.Errorf("weightPriority[%d].matchSelector: %w", i, err)
		}
		out = append(out, weighted{weight: t.Weight, selector: selector})
	}
	return out, nil
}

func weightOf(terms []weighted, of map[string]string) int64 {
	var sum int64
	for _, t := range terms {
		if t.selector.Matches(labels.Set(of)) {
			sum += int64(t.weight)
		}
	}
	return sum
}

func byKey(keys []string, a, b map[string]string) int {
	i, j := first(keys, a), first(keys, b)
	if i != j || i < 0 {
		return cmp.Compare(i, j)
	}
	return cmp.Compare(suffix(b[keys[j]]), suffix(a[keys[i]]))
}

// first is the index of the first key that is there, -1 when none is.
func first(keys []string, of map[string]string) int {
	return slices.IndexFunc(keys, func(key string) bool {
		_, there := of[key]
		return there
	})
}

// suffix is the number that the text ends in, 0 without one, and the largest number where it is larger than that.
func suffix(text string) int64 {
	digits := text[len(strings.TrimRight(text, "0123456789")):]
	if digits == "" {
		return 0
	}
	// ParseInt returns the largest number beside the error of one that is too large.
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

package subset

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Share is what one subset asks for.
type Share struct {
	// Name of the subset.
	Name string
	// Replicas, Min and Max as written: a number or a whole percent; nil: not written.
	Replicas, Min, Max *intstr.IntOrString
	// Last is what the subset was allotted last; 0 for a new one. It orders the subsets that share what is left, and it
	// is what an allocation that contradicts itself falls back to.
	Last int32

	// What follows is looked at by AllocateAdaptive only.

	// Ready is how many of its pods are ready.
	Ready int32
	// Unschedulable is true while the subset is marked: it could not place pods, and the mark has not worn off.
	Unschedulable bool
	// Reserved is how many of its pods are kept although they could not be scheduled in time; Marked is true for a subset
	// that had some until now.
	Reserved int32
	Marked   bool
	// Lost is true for a subset that is out of reach for longer than it may be: it keeps Last, others stand in for it.
	Lost bool
}

// Allocation is the result, in the order of the shares.
type Allocation struct {
	// Total is the number of replicas that was divided.
	Total int32
	// Replicas per share.
	Replicas []int32
	// Corrections says, in order, what was done differently from what is written, and why; empty: nothing was.
	Corrections []string
	// Contradiction is true when the numbers written cannot all be true. The allocation is then a defined one that
	// nobody wrote, so a caller may wait a moment for the second half of an edit.
	Contradiction bool
}

// Allocate divides the total over the shares. total nil means the sum of the numbers that the shares name, or 1 when
// none does. Any bound on any share selects the min/max allocator, otherwise the specified one is used.
//
// An error means that a value could not be read; it names the field.
func Allocate(total *int32, shares []Share) (Allocation, error) {
	wishes, err := parseShares(shares)
	if err != nil {
		return Allocation{}, err
	}
	sum, err := resolveTotal(total, wishes)
	if err != nil {
		return Allocation{}, err
	}
	out := result{total: sum, replicas: make([]int64, len(shares))}
	switch {
	case len(shares) == 0:
		out.replicas = nil
	case bounded(wishes):
		out.allocateBounded(wishes)
	default:
		out.allocateSpecified(wishes)
	}
	return out.allocation(), nil
}

// wish is a share that was read.
type wish struct {
	name               string
	replicas, min, max *amount
	last               int64
}

// result is an allocation in the making.
type result struct {
	total         int64
	replicas      []int64
	corrections   []string
	contradiction bool
}

func (r *result) note(format string, args ...any) {
	r.corrections = append(r.corrections, fmt.Sprintf(format, args...))
}

func (r *result) allocation() Allocation {
	a := Allocation{Corrections: r.corrections, Contradiction: r.contradiction}
	a.Total = int32(min(r.total, math.MaxInt32)) //nolint:gosec // just bounded
	if r.replicas != nil {
		a.Replicas = make([]int32, len(r.replicas))
		for i, n := range r.replicas {
			a.Replicas[i] = int32(min(n, math.MaxInt32)) //nolint:gosec // just bounded
		}
	}
	return a
}

func parseShares(shares []Share) ([]wish, error) {
	out := make([]wish, len(shares))
	for i := range shares {
		s := &shares[i]
		out[i] = wish{name: s.Name, last: int64(s.Last)}
		for _, f := range []struct {
			name string
			from *intstr.IntOrString
			to   **amount
		}{{"replicas", s.Replicas, &out[i].replicas}, {"minReplicas", s.Min, &out[i].min}, {"maxReplicas", s.Max, &out[i].max}} {
			if f.from == nil {
				continue
			}
			a, err := parseAmount(*f.from)
			if err != nil {
				return nil, fmt.Errorf("spec.topology.subsets[%d].%s (subset %q): %w", i, f.name, s.Name, err)
			}
			*f.to = &a
		}
	}
	return out, nil
}

func resolveTotal(total *int32, wishes []wish) (int64, error) {
	if total != nil {
		if *total < 0 {
			return 0, fmt.Errorf("spec.replicas: %d is negative", *total)
		}
		return int64(*total), nil
	}
	var sum int64
	named := false
	for i := range wishes {
		if r := wishes[i].replicas; r != nil && !r.percent {
			sum += r.value
			named = true
		}
	}
	if !named {
		return 1, nil
	}
	if sum > math.MaxInt32 {
		return 0, fmt.Errorf("spec.topology.subsets: the replicas sum to %d, more than a number of replicas can be", sum)
	}
	return sum, nil
}

func bounded(wishes []wish) bool {
	for i := range wishes {
		if wishes[i].min != nil || wishes[i].max != nil {
			return true
		}
	}
	return false
}

func total(numbers []int64) int64 {
	var sum int64
	for _, n := range numbers {
		sum += n
	}
	return sum
}

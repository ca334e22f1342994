package subset

import (
	"cmp"
	"math/bits"
	"slices"
)

// allocateSpecified gives each subset the number it names and divides what is left over the others: equally, the
// remainder one each to those that have most already (ties: the larger name), so that an allocation is its own successor.
//
// Percents are rounded half up each. Where that makes them overshoot (50% and 50% of 5 are 3 and 3) they are corrected
// to the total by largest remainder. Numbers that cannot be true together are a contradiction.
func (r *result) allocateSpecified(wishes []wish) {
	var rounded, exact int64
	var rest []int
	for i := range wishes {
		w := &wishes[i]
		if w.replicas == nil {
			rest = append(rest, i)
			continue
		}
		r.replicas[i] = w.replicas.rounded(r.total)
		rounded += r.replicas[i]
		exact += w.replicas.exact(r.total)
	}
	whole := r.total * hundred
	switch {
	case rounded <= r.total && len(rest) > 0:
		r.shareRest(wishes, rest, r.total-rounded)
	case rounded == r.total:
	case exact == whole || (exact < whole && len(rest) > 0):
		r.correctPercents(wishes, rounded)
	default:
		r.contradict(wishes, rounded)
	}
}

func (r *result) shareRest(wishes []wish, rest []int, left int64) {
	order := slices.Clone(rest)
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(wishes[a].last, wishes[b].last), cmp.Compare(wishes[a].name, wishes[b].name))
	})
	n := int64(len(order))
	for k, i := range order {
		r.replicas[i] = left / n
		if int64(k) >= n-left%n {
			r.replicas[i]++
		}
	}
}

// correctPercents makes the percents sum to what the plain numbers leave.
func (r *result) correctPercents(wishes []wish, rounded int64) {
	target := r.total
	var percents []int
	var parts []part
	for i := range wishes {
		w := wishes[i].replicas
		switch {
		case w == nil:
		case w.percent:
			exact := w.exact(r.total)
			percents = append(percents, i)
			parts = append(parts, part{whole: exact / hundred, rest: uint64(exact % hundred)}) //nolint:gosec // not negative
		default:
			target -= w.value
		}
	}
	for k, n := range largestRemainder(target, parts) {
		r.replicas[percents[k]] = n
	}
	r.note("the percents of spec.topology.subsets round to %d of %d replicas; corrected to %d by largest remainder, ties in the order written",
		rounded, r.total, r.total)
}

// contradict keeps the last allocation where it sums to the total, and otherwise divides the total in proportion to
// what is written. A subset that says 0 gets none.
func (r *result) contradict(wishes []wish, rounded int64) {
	r.contradiction = true
	var last int64
	for i := range wishes {
		last += wishes[i].last
	}
	if last == r.total {
		for i := range wishes {
			r.replicas[i] = wishes[i].last
		}
		r.note("the replicas of spec.topology.subsets sum to %d, spec.replicas is %d; the last allocation is kept: make the two equal, or leave one subset without replicas",
			rounded, r.total)
		return
	}
	weights := make([]int64, len(wishes))
	for i := range wishes {
		if w := wishes[i].replicas; w != nil {
			weights[i] = w.exact(r.total)
		}
	}
	weight := total(weights)
	if weight == 0 {
		clear(r.replicas)
		r.note("every subset of spec.topology.subsets says 0 and spec.replicas is %d; none is placed", r.total)
		return
	}
	parts := make([]part, len(weights))
	for i, w := range weights {
		hi, lo := bits.Mul64(uint64(w), uint64(r.total))  //nolint:gosec // not negative
		whole, rest := bits.Div64(hi, lo, uint64(weight)) //nolint:gosec // above 0
		parts[i] = part{whole: int64(whole), rest: rest}  //nolint:gosec // at most the total
	}
	r.replicas = largestRemainder(r.total, parts)
	r.note("the replicas of spec.topology.subsets sum to %d, spec.replicas is %d; divided in proportion to what they say: make the two equal, or leave one subset without replicas",
		rounded, r.total)
}

// part is a rational number of replicas: a whole one and a rest, in units that all parts of one division share.
type part struct {
	whole int64
	rest  uint64
}

// largestRemainder rounds the parts down and hands what the target lacks to those with the largest rest, ties in order.
func largestRemainder(target int64, parts []part) []int64 {
	out := make([]int64, len(parts))
	order := make([]int, len(parts))
	for i, p := range parts {
		out[i] = p.whole
		order[i] = i
		target -= p.whole
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(parts[b].rest, parts[a].rest) })
	for _, i := range order {
		if target <= 0 {
			break
		}
		out[i]++
		target--
	}
	return out
}

package order

import (
	"cmp"
	"slices"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// fewest is how many pods of each side a term needs to be worth spreading, as in OpenKruise.
const fewest = 2

// Scatter reorders candidates so that the pods that carry a term's label are spread over the release: the first and the
// last of it carry it, and the others stand in the gaps, evenly, the later gaps first (O139, O141, O143; B097: 3 of 5
// alternate, 2 of 5 are never neighbours). The candidates keep their order among those that carry the label, and among
// those that do not.
//
// moved are the pods that have moved already: they have used up the beginning of the pattern, so that a release of one pod
// at a time is spread like one of all at once. Several terms are applied one after the other, the one that most candidates
// carry first; the last one decides where they disagree.
func Scatter(terms []appsv1alpha1.UpdateScatterTerm, candidates, moved []inplace.Pod) []inplace.Pod {
	out := slices.Clone(candidates)
	byCount := slices.Clone(terms)
	slices.SortStableFunc(byCount, func(a, b appsv1alpha1.UpdateScatterTerm) int {
		return cmp.Compare(carrying(b, candidates), carrying(a, candidates))
	})
	for _, term := range byCount {
		out = scatter(term, out, moved)
	}
	return out
}

func carries(term appsv1alpha1.UpdateScatterTerm, p *inplace.Pod) bool {
	value, there := p.Labels[term.Key]
	return there && value == term.Value
}

func carrying(term appsv1alpha1.UpdateScatterTerm, pods []inplace.Pod) int {
	n := 0
	for i := range pods {
		if carries(term, &pods[i]) {
			n++
		}
	}
	return n
}

func scatter(term appsv1alpha1.UpdateScatterTerm, candidates, moved []inplace.Pod) []inplace.Pod {
	doneWith := carrying(term, moved)
	doneWithout := len(moved) - doneWith
	var with, without []inplace.Pod
	for i := range candidates {
		if carries(term, &candidates[i]) {
			with = append(with, candidates[i])
		} else {
			without = append(without, candidates[i])
		}
	}
	if doneWith+len(with) < fewest || doneWithout+len(without) < fewest {
		return candidates
	}
	out := make([]inplace.Pod, 0, len(candidates))
	for _, carrier := range pattern(doneWith+len(with), doneWithout+len(without)) {
		used, from := &doneWithout, &without
		if carrier {
			used, from = &doneWith, &with
		}
		switch {
		case *used > 0:
			*used--
		case len(*from) > 0:
			out = append(out, (*from)[0])
			*from = (*from)[1:]
		}
	}
	return out
}

// pattern is the ideal sequence of so many that carry the label and so many that do not; true carries it.
func pattern(with, without int) []bool {
	gaps := with - 1
	out := make([]bool, 0, with+without)
	for i := range with {
		out = append(out, true)
		if i < gaps {
			out = append(out, make([]bool, (i+1)*without/gaps-i*without/gaps)...)
		}
	}
	return out
}

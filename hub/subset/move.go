package subset

import "slices"

// Standing is where one subset is on its way to what it is to have.
type Standing struct {
	// Last is what it was allotted last, Ready how many of its pods are ready, Awaited how many of those that were added
	// to it were not ready when it was looked at last; all of Last for a subset that has just lost its mark or come back.
	Last, Ready, Awaited int32
	// Steady is true for a subset that replicas may go back to or be taken from: it answers and is not marked.
	Steady bool
}

// Return moves targets one step towards where the replicas would be if every subset had always placed its pods, and reports
// whether there was a step to do. A step is no larger than budget, and than what is ready at the subset it goes to, so that
// a subset that has just recovered is tried with one pod. There is no step while anything else is under way.
func Return(targets, preferred []int32, at []Standing, budget int32) bool {
	for i := range at {
		if targets[i] != at[i].Last || awaited(targets[i], at[i]) > 0 {
			return false
		}
	}
	to := -1
	for i := range at {
		if at[i].Steady && preferred[i] > targets[i] {
			to = i
			break
		}
	}
	if to < 0 {
		return false
	}
	want := min(preferred[to]-targets[to], max(at[to].Ready, 1), max(budget, 1))
	left := want
	for i := len(at) - 1; i >= 0; i-- {
		if at[i].Steady && preferred[i] < targets[i] {
			n := min(left, targets[i]-preferred[i])
			targets[i] -= n
			left -= n
		}
	}
	targets[to] += want - left
	return want > left
}

// Hold makes before it breaks: of what the targets take away, as much stays where it is as has been added elsewhere and is
// not ready there yet, pods that are ready first. It returns what each subset is allotted now, and how many pods of each are
// awaited.
//
// homeless are the replicas that have no place in the targets: as many stay where they are, ready or not, too.
//
// A total that falls is obeyed at once where nothing was added: pods that were never moved are not awaited.
func Hold(targets []int32, at []Standing, homeless int32) (replicas, awaits []int32) {
	replicas, awaits = slices.Clone(targets), make([]int32, len(at))
	held := max(homeless, 0)
	for i := range at {
		s := at[i]
		s.Awaited += max(targets[i]-s.Last, 0)
		awaits[i] = awaited(targets[i], s)
		held += awaits[i]
	}
	keep := func(i int, most int32) {
		n := min(max(most-replicas[i], 0), held)
		held -= n
		replicas[i] += n
	}
	for i := range at {
		keep(i, min(at[i].Ready, at[i].Last)) // pods that are ready before those that wait
	}
	for i := range at {
		keep(i, at[i].Last)
	}
	return replicas, awaits
}

// awaited is how many of those that were added to a subset are not ready there.
func awaited(target int32, s Standing) int32 {
	return max(min(s.Awaited, target-s.Ready), 0)
}

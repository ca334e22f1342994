package subset

import "time"

// Patience are the times of type Adaptive.
type Patience struct {
	// Pending is how long a pod may wait to be scheduled.
	Pending time.Duration
	// Mark is how long a subset stays marked after it could not place a pod, and how long a reserved pod must be ready before
	// it counts again.
	Mark time.Duration
}

// Mark is what is known of a subset's ability to place pods.
type Mark struct {
	// Unschedulable is true while the mark is there; Age is for how long.
	Unschedulable bool
	Age           time.Duration
}

// Verdict is what follows for a subset.
type Verdict struct {
	Unschedulable bool
	// Renewed is true when the mark is set now, Expired when it has worn off now.
	Renewed, Expired bool
	// Again is when to look again; 0: when something changes.
	Again time.Duration
}

// Judge says whether a subset can place pods. waits are the times for which its unscheduled pods have been waiting. A mark
// lasts, whatever its pods do meanwhile; when it has worn off, the pods are looked at as if it had never been.
func (p Patience) Judge(mark Mark, waits []time.Duration) Verdict {
	if mark.Unschedulable && mark.Age < p.Mark {
		return Verdict{Unschedulable: true, Again: p.Mark - mark.Age}
	}
	out := Verdict{Expired: mark.Unschedulable}
	for _, waited := range waits {
		if waited >= p.Pending {
			return Verdict{Unschedulable: true, Renewed: true, Again: p.Mark}
		}
		if left := p.Pending - waited; out.Again == 0 || left < out.Again {
			out.Again = left
		}
	}
	return out
}

// Pod is what tells whether a pod is reserved: kept for its place, and not counted on.
type Pod struct {
	// Reserved is true for a pod that is reserved already.
	Reserved bool
	// Unscheduled is for how long it has been waiting to be scheduled; nil: it is scheduled.
	Unscheduled *time.Duration
	// Ready is for how long it has been ready; nil: it is not.
	Ready *time.Duration
	// Old is true for a pod that is to be moved to another revision, and has been for Overdue.
	Old     bool
	Overdue time.Duration
}

// Reserve says whether a pod is reserved, and when to look again (0: when it changes). overdue is true for a pod that is
// reserved because it has not been moved to its revision in time.
//
// A pod that waits for a node longer than it may is reserved, and stays so until it has been ready for as long as a mark
// lasts.
func (p Patience) Reserve(pod Pod) (reserved, overdue bool, again time.Duration) {
	switch {
	case pod.Old:
		if pod.Overdue >= p.Pending {
			return true, true, p.Mark
		}
		return pod.Reserved, false, p.Pending - pod.Overdue
	case pod.Reserved:
		if pod.Ready == nil {
			return true, false, p.Mark
		}
		if *pod.Ready >= p.Mark {
			return false, false, 0
		}
		return true, false, p.Mark - *pod.Ready
	case pod.Unscheduled == nil:
		return false, false, 0
	case *pod.Unscheduled >= p.Pending:
		return true, false, p.Mark
	default:
		return false, false, p.Pending - *pod.Unscheduled
	}
}

package plan

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Ordinals are the ordinals of a StatefulSet: all from Start on that are not reserved. Ranges may be as wide as numbers go;
// nothing is counted out.
type Ordinals struct {
	// Start is the first ordinal.
	Start int64
	// reserved are disjoint and ascending, and end at Start or above.
	reserved []span
}

// span are ordinals from..to, both of them included.
type span struct {
	from, to int64
}

// NewOrdinals are the ordinals from start on without those reserved. Ranges may overlap.
func NewOrdinals(start int32, reserved []appsv1alpha1.OrdinalRange) Ordinals {
	o := Ordinals{Start: int64(start)}
	sorted := slices.SortedFunc(slices.Values(reserved), func(a, b appsv1alpha1.OrdinalRange) int {
		return cmp.Compare(a.From, b.From)
	})
	for _, r := range sorted {
		next := span{max(int64(r.From), o.Start), int64(r.To)}
		last := len(o.reserved) - 1
		switch {
		case next.to < next.from:
		case last >= 0 && next.from <= o.reserved[last].to+1:
			o.reserved[last].to = max(o.reserved[last].to, next.to)
		default:
			o.reserved = append(o.reserved, next)
		}
	}
	return o
}

// Position is how many free ordinals come before this one; ok is false when it is reserved itself or below Start.
func (o Ordinals) Position(ordinal int64) (position int64, ok bool) {
	if ordinal < o.Start {
		return 0, false
	}
	position = ordinal - o.Start
	for _, r := range o.reserved {
		if ordinal < r.from {
			break
		}
		if ordinal <= r.to {
			return 0, false
		}
		position -= r.to - r.from + 1
	}
	return position, true
}

// At is the free ordinal at a position, counted from 0.
func (o Ordinals) At(position int64) int64 {
	at := o.Start + position
	for _, r := range o.reserved {
		if at < r.from {
			break
		}
		at += r.to - r.from + 1
	}
	return at
}

// End is one more than the last of the first n free ordinals; Start when there are none.
func (o Ordinals) End(n int64) int64 {
	if n <= 0 {
		return o.Start
	}
	return o.At(n-1) + 1
}

// First are the first n free ordinals with their positions.
func (o Ordinals) First(n int64) iter.Seq2[int64, int64] {
	return func(yield func(position, ordinal int64) bool) {
		at, r := o.Start, 0
		for position := range n {
			for r < len(o.reserved) && at >= o.reserved[r].from {
				at = o.reserved[r].to + 1
				r++
			}
			if !yield(position, at) {
				return
			}
			at++
		}
	}
}

// PodName is the name of the pod with that ordinal.
func PodName(set string, ordinal int64) string {
	return fmt.Sprintf("%s-%d", set, ordinal)
}

// OrdinalOf reads the ordinal of a pod of the set; ok is false for a name that PodName does not make.
func OrdinalOf(set, pod string) (ordinal int64, ok bool) {
	digits, ok := strings.CutPrefix(pod, set+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || PodName(set, n) != pod {
		return 0, false
	}
	return n, true
}

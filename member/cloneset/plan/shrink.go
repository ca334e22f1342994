package plan

import (
	"fmt"

	"github.com/underway-dev/underway/inplace"
)

// shrink deletes surplus pods: old ones down to the partition, the rest new. Within each, who serves least goes first.
// Serving pods go only while enough others serve. Where that holds up the scale-in, pods that do not serve go instead,
// whatever their revision; not, though, those that surge has just made, which would be made again. Nothing waits for
// minReadySeconds: Ready counts here, not available (W13).
func (s *scaling) shrink(d Diff) {
	surplus, fromOld := d.ScaleDown, d.ScaleDownOld
	if !s.Strategy.ExcludePreparingDelete {
		for _, m := range s.marks {
			if m.preparing && !m.restored {
				surplus--
				fromOld -= one(!m.fresh)
			}
		}
	}
	if surplus <= 0 {
		return
	}
	fromOld = min(max(fromOld, 0), surplus)
	ranked, total := s.ranked(), len(s.marks)
	left := surplus
	left -= s.pick(ranked, fromOld, func(m *mark) bool { return !m.fresh })
	left -= s.pick(ranked, surplus-fromOld, func(m *mark) bool { return m.fresh })
	beyond := s.staying() - int(s.Intent.Replicas) - s.surgeable() - (surplus - left)
	left -= s.pick(ranked, min(left, max(beyond, 0)), func(m *mark) bool { return !m.pod.Ready })
	for _, m := range ranked {
		if m.picked {
			s.leave(m, fmt.Sprintf("%d of %d wanted", total, s.Intent.Replicas))
		}
	}
	if left > 0 {
		s.hold(inplace.HoldScale, left, fmt.Sprintf("pods that serve are too many, and at most %d of %d may be unavailable: the "+
			"scale-in waits for others to become ready", s.knobs().MaxUnavailable, s.Intent.Replicas))
	}
}

// staying are the pods that are neither asked to go nor in PreparingDelete.
func (s *scaling) staying() int {
	n := 0
	for _, m := range s.marks {
		n += one(!m.asked && (!m.preparing || m.restored))
	}
	return n
}

// surgeable is how many pods more than replicas an update may make.
func (s *scaling) surgeable() int {
	if s.Intent.Paused {
		return 0
	}
	return int(s.Strategy.MaxSurge)
}

// pick chooses up to n of the pods, in their order, and says how many it could.
func (s *scaling) pick(ranked []*mark, n int, of func(*mark) bool) int {
	picked := 0
	for _, m := range ranked {
		if picked >= n {
			break
		}
		if m.picked || m.preparing || m.asked || !of(m) || !s.takeServing(m) {
			continue
		}
		m.picked = true
		picked++
	}
	return picked
}

// takeServing is take by what serves.
func (s *scaling) takeServing(m *mark) bool {
	if m.serves && s.spareServing <= 0 {
		return false
	}
	s.spareAvailable -= one(m.available)
	s.spareServing -= one(m.serves)
	return true
}

package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/crowd"
	"github.com/underway-dev/underway/inplace/hooks"
)

// refusedFor is how long a pod that its node refused is kept: the next one has the same name, so it cannot be made before,
// and would be refused at once where the node is the same.
const refusedFor = 16 * time.Second

// clearTerminal deletes finished pods: an evicted pod never runs again, and what replaces it has its name. OrderedReady
// deletes a condemned one in its turn.
func (s *scaling) clearTerminal() {
	for _, m := range s.sortedSlots() {
		if m.pod.Phase == inplace.PhaseTerminal {
			s.clearOne(m)
		}
	}
	for _, m := range s.condemned {
		if m.pod.Phase == inplace.PhaseTerminal && s.Strategy.Parallel && s.marked(m) {
			s.clearOne(m)
		}
	}
}

func (s *scaling) clearOne(m *member) {
	if left := m.pod.Created.Add(refusedFor).Sub(s.Now); left > 0 && m.wanted && crowd.NeverStarted(m.pod) {
		s.waits.Add(inplace.HoldScale, 1, "pods were refused by their nodes, the next try waits")
		s.later(left)
		return
	}
	const because = "it has finished and will not run again"
	switch {
	case !s.untied(m):
	case crowd.NeverStarted(m.pod):
		// It is in no registry, so there is nothing for its hook to do.
		m.deleted = true
		s.out.Deletes = append(s.out.Deletes, inplace.Delete{Ref: m.pod.Ref, Because: because})
	default:
		// Its preDelete hook is asked as for any other: whoever takes it out of a registry acts on PreparingDelete.
		s.leave(m, because)
	}
}

// restore takes pods back that are waiting to be deleted and have a slot again. Who was asked to go still goes, and so does
// who was taken out of service for it (hooks.Restore).
func (s *scaling) restore() {
	for _, m := range s.members {
		to, ok := hooks.Restore(s.Intent.Lifecycle, m.pod)
		if !ok || !m.wanted || m.pod.SpecifiedDelete {
			continue
		}
		m.restored = true
		s.out.Patches = append(s.out.Patches, inplace.Patch{
			Ref: m.pod.Ref, Kind: inplace.PatchState, At: s.Now, To: m.pod.Revision, Metadata: hooks.Change(to, s.Now),
			Because: fmt.Sprintf("ordinal %d is wanted again, so it stays", m.ordinal),
		})
	}
}

// shrink deletes condemned pods, the highest ordinal first: with Parallel all of them, within the budget; with OrderedReady
// one after the other.
func (s *scaling) shrink() {
	if !s.Strategy.Parallel {
		s.shrinkOne()
		return
	}
	for _, m := range s.condemned {
		if m.pod.Active() && s.mayGo(m) {
			s.leave(m, s.tooMany())
		}
	}
}

// shrinkOne deletes the highest of the condemned pods, when those above it are gone and those below it ready.
func (s *scaling) shrinkOne() {
	if len(s.condemned) == 0 {
		return
	}
	m, more := s.condemned[0], len(s.condemned)-1
	switch {
	case m.pod.Phase == inplace.PhaseTerminating && more > 0:
		s.waits.Add(inplace.HoldScale, more, fmt.Sprintf("OrderedReady: pods that are too many wait for %s to be gone", m.pod.Name))
	case m.pod.Phase == inplace.PhaseTerminal && s.marked(m):
		s.clearOne(m)
	case m.pod.Active() && s.inTurn(m) && s.mayGo(m):
		s.leave(m, s.tooMany())
	}
}

func (s *scaling) tooMany() string {
	return fmt.Sprintf("its ordinal is not one of the %d wanted", s.Intent.Replicas)
}

// inTurn reports whether all pods before this one are ready, which OrderedReady asks of a pod that serves. It waits for none
// that waits for its place in the grant.
func (s *scaling) inTurn(m *member) bool {
	if !m.serves {
		return true
	}
	crowded := s.crowded()
	for position, ordinal := range s.Strategy.Ordinals.First(int64(s.Intent.Replicas)) {
		// The first slot without a pod ends the walk, so it is never longer than the pods are many.
		if ordinal > m.ordinal {
			return true
		}
		before := s.slots[ordinal]
		if crowded && before != nil && s.stranded(before) {
			continue
		}
		if before == nil || !before.pod.Ready || before.pod.Gate == inplace.GateFalse || !before.pod.Active() {
			s.waits.Add(inplace.HoldScale, len(s.condemned), fmt.Sprintf("OrderedReady: pods that are too many wait for %s to be ready, "+
				"which comes before them", PodName(s.Owner.Name, s.Strategy.Ordinals.At(position))))
			return false
		}
	}
	return true
}

// crowded reports whether pods without a slot keep the last places of the grant.
func (s *scaling) crowded() bool {
	if s.standstill() || s.Intent.Current.Name == "" || s.Intent.Current.Name == s.Intent.Update.Name {
		return false
	}
	updated, condemned := 0, 0
	for _, m := range s.members {
		updated += one(m.updated)
		condemned += one(m.updated && !m.wanted)
	}
	return condemned > 0 && updated >= int(s.Intent.Grant())
}

// stranded reports whether a pod is down and only another place in the grant brings it back.
func (s *scaling) stranded(m *member) bool {
	return m.stays() && !m.updated && !s.outside(m) && m.pod.Down && !m.pod.InService()
}

// mayGo reports whether the budget lets a condemned pod go, and its claims know what becomes of them.
func (s *scaling) mayGo(m *member) bool {
	if m.serves && s.spareServing <= 0 {
		s.waits.Add(inplace.HoldScale, 1, fmt.Sprintf("pods that serve are too many, and at most %d of %d may be unavailable: the "+
			"scale-in waits for others to become ready", s.Intent.MaxUnavailable, s.Intent.Replicas))
		return false
	}
	if !s.marked(m) {
		return false
	}
	if m.serves {
		s.spareServing--
	}
	return true
}

// deleteAsked deletes wanted pods that were asked to go, also below the partition: those that do not serve always, the others
// inside the budget, the highest ordinal first. Those in PreparingDelete that could not come back go on.
func (s *scaling) deleteAsked() {
	blocked := 0
	for _, m := range slices.Backward(s.members) {
		switch {
		case !m.wanted || m.stays() || m.deleted || !s.untied(m):
		case m.preparing && !m.restored:
			s.leave(m, "its preDelete hook has let it go")
		case !s.take(m):
			blocked++
		default:
			s.leave(m, "it was asked to go (apps.kruise.io/specified-delete)")
		}
	}
	if blocked > 0 {
		s.waits.Add(inplace.HoldBudget, blocked, fmt.Sprintf("pods that were asked to go wait: of %d pods at most %d may be unavailable",
			s.Intent.Replicas, s.Intent.MaxUnavailable))
	}
}

// take spends the budget for one wanted pod. One that serves and is not available any more or not yet makes no more pods
// unavailable.
func (s *scaling) take(m *member) bool {
	if m.serves && (s.spareAvailable < 0 || s.spareAvailable == 0 && m.available) {
		return false
	}
	if m.available {
		s.spareAvailable--
	}
	if m.serves {
		s.spareServing--
	}
	return true
}

// leave deletes a pod, or brings it into PreparingDelete where a hook holds it.
func (s *scaling) leave(m *member, because string) {
	answer, patch := hooks.Depart(s.Intent.Lifecycle, m.pod, s.Now)
	if answer.Ready {
		m.deleted = true
		s.out.Deletes = append(s.out.Deletes, inplace.Delete{Ref: m.pod.Ref, Because: because})
		return
	}
	if patch != nil {
		s.out.Patches = append(s.out.Patches, *patch)
	}
	s.waits.Add(inplace.HoldHook, 1, answer.Because)
}

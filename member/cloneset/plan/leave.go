package plan

import (
	"fmt"
	"slices"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

// restore takes pods back that are waiting to be deleted, when so many are wanted again: those that would be deleted last.
// Who was asked to go still goes, and so does who was taken out of service for it.
func (s *scaling) restore() {
	if !slices.ContainsFunc(s.marks, func(m *mark) bool { return m.preparing }) {
		return
	}
	wanted, fresh, old := int(s.Intent.Replicas), 0, 0
	for _, m := range s.marks {
		wanted -= one(!m.preparing)
		fresh += one(m.updated && !m.preparing)
		old += one(!m.updated && !m.preparing)
	}
	ranked := s.ranked()
	slices.Reverse(ranked)
	for _, m := range ranked {
		to, ok := hooks.Restore(s.Intent.Lifecycle, m.pod)
		if !ok || m.asked || wanted <= 0 || s.unwanted(m, fresh, old) {
			continue
		}
		wanted--
		fresh += one(m.updated)
		old += one(!m.updated)
		m.restored = true
		s.population.Patches = append(s.population.Patches, inplace.Patch{
			Ref: m.pod.Ref, Kind: inplace.PatchState, At: s.Now, To: m.pod.Revision, Metadata: hooks.Change(to, s.Now),
			Because: fmt.Sprintf("%d pods are wanted again, so it stays", s.Intent.Replicas),
		})
	}
}

// unwanted reports whether a pod that is taken back would be one too many of its revision: of the update revision beyond
// the grant, or of another one and recreated right away.
func (s *scaling) unwanted(m *mark, fresh, old int) bool {
	in := s.Intent
	if m.updated {
		return in.Current.Name != in.Update.Name && fresh >= int(in.Grant())
	}
	moves := !in.Paused && !in.OnDelete && s.MustRecreate.ToUpdate > 0
	return moves && old >= int(in.Partition)
}

// release deletes pods in PreparingDelete whose hooks have let them go.
func (s *scaling) release() {
	for _, m := range s.marks {
		if m.preparing && !m.restored {
			s.leave(m, "its preDelete hook has let it go")
		}
	}
}

// deleteAsked deletes pods that were asked to go, by label or by name, to be replaced or as a scale-in: those that do not
// serve always, the others inside the budget.
func (s *scaling) deleteAsked() {
	if !slices.ContainsFunc(s.marks, func(m *mark) bool { return m.asked }) {
		return
	}
	blocked := 0
	for _, m := range s.ranked() {
		switch {
		case !m.asked || m.preparing:
		case m.pod.Ready && (s.ready <= 0 || !s.take(m, s.spareAvailable)):
			blocked++
		default:
			s.ready -= one(m.pod.Ready)
			s.leave(m, "it was asked to go (apps.kruise.io/specified-delete or podsToDelete)")
		}
	}
	if blocked > 0 {
		s.hold(inplace.HoldBudget, blocked, fmt.Sprintf("pods that were asked to go wait: of %d pods at most %d may be unavailable",
			s.Intent.Replicas, s.knobs().MaxUnavailable))
	}
}

// take spends the budget for one pod; false when spare has no room for it. A pod that is Ready and not available any more
// or not yet makes no more pods unavailable.
func (s *scaling) take(m *mark, spare int) bool {
	if m.serves && (spare < 0 || spare == 0 && m.available) {
		return false
	}
	s.spareAvailable -= one(m.available)
	s.spareServing -= one(m.serves)
	return true
}

// leave deletes a pod, or brings it into PreparingDelete where a hook holds it.
func (s *scaling) leave(m *mark, because string) {
	answer, patch := hooks.Depart(s.Intent.Lifecycle, m.pod, s.Now)
	// One that waits in PreparingDelete and cannot be taken back may be wanted again by now: then another replaces it.
	scaleIn := s.surplus > 0 || m.preparing && !m.asked && s.staying() >= int(s.Intent.Replicas)
	s.surplus = max(s.surplus-1, 0)
	if answer.Ready {
		s.population.Deletes = append(s.population.Deletes, inplace.Delete{Ref: m.pod.Ref, Claims: s.lose(m, scaleIn), Because: because})
		return
	}
	if patch != nil {
		s.population.Patches = append(s.population.Patches, *patch)
	}
	s.hold(inplace.HoldHook, 1, answer.Because)
}

// lose are the claims that go with a pod: those of a scale-in. An old pod that a surge pod has replaced keeps its claims
// where they are used again.
func (s *scaling) lose(m *mark, scaleIn bool) []inplace.Ref {
	replaced := s.Strategy.MaxSurge > 0 && !m.updated && s.Intent.Current.Name != s.Intent.Update.Name
	if !scaleIn || replaced && s.Strategy.ReuseClaims || len(s.ids.holders[idOf(m.pod)]) > 1 {
		// With the same id a copy of the pod uses the same claims.
		return nil
	}
	var out []inplace.Ref
	for _, c := range s.ids.byID[idOf(m.pod)] {
		if !c.Terminating {
			out = append(out, c.Ref)
		}
	}
	return out
}

package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/crowd"
	"github.com/underway-dev/underway/inplace/hooks"
)

const (
	// keepRefused is how many pods that their nodes refused are kept to look at, keepRefusedFor how long.
	keepRefused    = 5
	keepRefusedFor = 10 * time.Minute
	// claimRetry is how long a pod is kept, and the next create waits, where the next pod is to have its claims.
	claimRetry = 16 * time.Second
)

// clearTerminal deletes finished pods: an evicted pod never runs again and its replacement has another name. Of pods that
// a node refused before any container started a few are kept for a while: their number slows the next try down.
func (s *scaling) clearTerminal() {
	refused := s.refused()
	keepFor := keepRefusedFor
	if s.keepsClaims() {
		keepFor = claimRetry
	}
	keep := map[string]bool{}
	for i := max(len(refused)-keepRefused, 0); i < len(refused); i++ {
		left := refused[i].Created.Add(keepFor).Sub(s.Now)
		keep[refused[i].Name] = left > 0
		s.later(left)
	}
	for i := range s.terminal {
		if p := &s.terminal[i]; !keep[p.Name] {
			s.clearOne(p)
		}
	}
}

// asksHook reports whether a finished pod's preDelete hook is asked. One that never started is in no registry, and a node that
// refuses every pod would make more of them than anybody lets go.
func (s *scaling) asksHook(p *inplace.Pod) bool {
	return !crowd.NeverStarted(p)
}

// clearOne deletes a finished pod when its preDelete hook lets it go, as any other that we delete: whoever takes it out of a
// registry acts on PreparingDelete, also when its containers have ended without him.
func (s *scaling) clearOne(p *inplace.Pod) {
	answer, patch := hooks.Answer{Ready: true}, (*inplace.Patch)(nil)
	if s.asksHook(p) {
		answer, patch = hooks.Depart(s.Intent.Lifecycle, p, s.Now)
	}
	switch {
	case answer.Ready:
		s.population.Deletes = append(s.population.Deletes, inplace.Delete{Ref: p.Ref, Because: "it has finished and will not run again"})
		return
	case patch != nil:
		s.population.Patches = append(s.population.Patches, *patch)
	}
	s.hold(inplace.HoldHook, 1, answer.Because)
}

// keepsClaims reports whether a new pod has the claims of the one before it.
func (s *scaling) keepsClaims() bool {
	return s.Strategy.ReuseClaims && !s.set.Empty()
}

// refused are finished pods of which no container ever started, oldest first.
func (s *scaling) refused() []inplace.Pod {
	var out []inplace.Pod
	for i := range s.terminal {
		if crowd.NeverStarted(&s.terminal[i]) {
			out = append(out, s.terminal[i])
		}
	}
	slices.SortFunc(out, func(a, b inplace.Pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// backoff is how long the next create waits because nodes refused pods: 2, 4, ... 32 seconds after the last one. Where the
// next pod is to have the same claims, only one pod is refused at a time: then it is always the same.
func (s *scaling) backoff() time.Duration {
	refused := s.refused()
	n := len(refused)
	if n == 0 {
		return 0
	}
	wait := time.Second << min(n, keepRefused)
	if s.keepsClaims() {
		wait = claimRetry
	}
	return max(refused[n-1].Created.Add(wait).Sub(s.Now), 0)
}

// tell says what somebody should look at and nothing here waits for: pods that should be gone, and names that no pod has.
func (s *scaling) tell() {
	var late []*inplace.Pod
	for i := range s.away {
		p := &s.away[i]
		left := crowd.Late(p, s.Now)
		if left <= 0 {
			late = append(late, p)
		} else if !p.GoneBy.IsZero() {
			s.later(left)
		}
	}
	if len(late) > 0 {
		s.hold(inplace.HoldScale, len(late), crowd.Stuck(late)+". It is not waited for")
	}
	for _, m := range s.marks {
		if m.asked || m.preparing && !m.restored {
			s.population.Leaving = append(s.population.Leaving, m.pod.Name)
		}
	}
	s.population.NoSuchPods = s.noSuchPods()
}

// noSuchPods are the names in podsToDelete that no pod has, terminating ones included.
func (s *scaling) noSuchPods() []string {
	missing := map[string]bool{}
	for _, name := range s.Strategy.PodsToDelete {
		if !s.ids.pods[name] {
			missing[name] = true
		}
	}
	return sorted(missing)
}

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/underway-dev/underway/inplace"
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
			s.population.Deletes = append(s.population.Deletes, inplace.Delete{Ref: p.Ref, Because: "it has finished and will not run again"})
		}
	}
}

// keepsClaims reports whether a new pod has the claims of the one before it.
func (s *scaling) keepsClaims() bool {
	return s.Strategy.ReuseClaims && !s.set.Empty()
}

// refused are finished pods of which no container ever started, oldest first.
func (s *scaling) refused() []inplace.Pod {
	var out []inplace.Pod
	for i := range s.terminal {
		if !slices.ContainsFunc(s.terminal[i].Containers, func(c inplace.Container) bool { return c.Known }) {
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
		left := s.late(p)
		if left <= 0 {
			late = append(late, p)
		} else if !p.GoneBy.IsZero() {
			s.later(left)
		}
	}
	if len(late) > 0 {
		s.hold(inplace.HoldScale, len(late), stuck(late))
	}
	for _, m := range s.marks {
		if m.asked || m.preparing && !m.restored {
			s.population.Leaving = append(s.population.Leaving, m.pod.Name)
		}
	}
	s.population.NoSuchPods = s.noSuchPods()
}

// stuck is a sentence about pods that should be gone.
func stuck(late []*inplace.Pod) string {
	first := late[0]
	who := "pod " + first.Name
	if more := len(late) - 1; more > 0 {
		who = fmt.Sprintf("pods %s and %d more", first.Name, more)
	}
	why := "its node may be lost: when it is off for good, delete the pod with --force"
	if len(first.Finalizers) > 0 {
		why = "held by " + strings.Join(first.Finalizers, ", ")
	}
	return fmt.Sprintf("%s should have been gone by %s and %s terminating; %s. It is not waited for",
		who, first.GoneBy.UTC().Format(time.RFC3339), map[bool]string{true: "is still", false: "are still"}[len(late) == 1], why)
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

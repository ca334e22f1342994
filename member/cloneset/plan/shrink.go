package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/underway-dev/underway/inplace"
)

// shrink deletes surplus pods: old ones down to the partition, the rest new. Within each, who serves least goes first.
// Serving pods go only while enough others serve; where that holds up the scale-in, pods that do not serve go instead,
// whatever their revision. Nothing waits for minReadySeconds: Ready counts here, not available.
func (s *scaling) shrink(surplus int) {
	slices.SortFunc(s.active, firstToGo)
	serving := 0
	for i := range s.active {
		if s.active[i].Ready {
			serving++
		}
	}
	spare := max(serving-max(int(s.Intent.Replicas)-int(s.Intent.MaxUnavailable), 0), 0)
	fromOld := min(max(s.old-int(s.Intent.Partition), 0), surplus)
	p := picking{spare: spare, picked: make([]bool, len(s.active))}
	p.take(s.active, fromOld, func(pod *inplace.Pod) bool { return !s.isNew(pod) })
	p.take(s.active, surplus-fromOld, s.isNew)
	p.take(s.active, surplus-p.count, func(pod *inplace.Pod) bool { return !pod.Ready })
	for i, yes := range p.picked {
		if yes {
			s.remove(&s.active[i], fmt.Sprintf("%d of %d wanted", len(s.active), s.Intent.Replicas))
		}
	}
	if left := surplus - p.count; left > 0 {
		s.hold(left, fmt.Sprintf("%d pods serve and %d are wanted with at most %d unavailable: the scale-in waits for pods "+
			"to become ready", serving, s.Intent.Replicas, s.Intent.MaxUnavailable))
	}
}

// picking chooses pods to delete.
type picking struct {
	// spare is how many serving pods may still be chosen.
	spare  int
	picked []bool
	count  int
}

// take chooses up to n of the pods, in their order.
func (p *picking) take(pods []inplace.Pod, n int, of func(*inplace.Pod) bool) {
	for i := range pods {
		if n == 0 {
			return
		}
		if p.picked[i] || !of(&pods[i]) || (pods[i].Ready && p.spare == 0) {
			continue
		}
		if pods[i].Ready {
			p.spare--
		}
		p.picked[i] = true
		p.count++
		n--
	}
}

// firstToGo orders pods for a scale-in; the smaller goes first: asked to go (apps.kruise.io/specified-delete),
// unassigned, pending, not ready, cheaper to delete, ready for a shorter time, restarted more often, younger. Ties end
// at the name, so that the order is the same on every pass.
func firstToGo(a, b inplace.Pod) int {
	return cmp.Or(
		before(a.SpecifiedDelete, b.SpecifiedDelete),
		before(a.Node == "", b.Node == ""),
		before(a.Phase == inplace.PhasePending, b.Phase == inplace.PhasePending),
		before(!a.Ready, !b.Ready),
		cmp.Compare(a.DeletionCost, b.DeletionCost),
		b.ReadySince.Compare(a.ReadySince),
		cmp.Compare(restarts(b), restarts(a)),
		b.Created.Compare(a.Created),
		cmp.Compare(a.Name, b.Name),
	)
}

// before puts who has a quality in front of who has not.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func restarts(p inplace.Pod) int32 {
	var n int32
	for i := range p.Containers {
		n += p.Containers[i].RestartCount
	}
	return n
}

const (
	// keepRefused is how many pods that their nodes refused are kept to look at, keepRefusedFor how long.
	keepRefused    = 5
	keepRefusedFor = 10 * time.Minute
)

// clearTerminal deletes finished pods: an evicted pod never runs again and its replacement has another name. Of pods that
// a node refused before any container started a few are kept for a while: their number slows the next try down.
func (s *scaling) clearTerminal() {
	refused := s.refused()
	keep := map[string]bool{}
	for i := max(len(refused)-keepRefused, 0); i < len(refused); i++ {
		keep[refused[i].Name] = s.Now.Sub(refused[i].Created) < keepRefusedFor
	}
	for i := range s.terminal {
		if p := &s.terminal[i]; !keep[p.Name] {
			s.remove(p, "it has finished and will not run again")
		}
	}
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

// backoff is how long the next create waits because nodes refused pods: 2, 4, ... 32 seconds after the last one.
func (s *scaling) backoff() time.Duration {
	refused := s.refused()
	n := len(refused)
	if n == 0 {
		return 0
	}
	wait := time.Second << min(n, keepRefused)
	return max(refused[n-1].Created.Add(wait).Sub(s.Now), 0)
}

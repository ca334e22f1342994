package plan

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/underway-dev/underway/inplace"
)

// ranked are the active pods in the order in which they would be deleted: the first is missed least.
func (s *scaling) ranked() []*mark {
	ranks := s.ranks()
	out := slices.Clone(s.marks)
	slices.SortFunc(out, func(a, b *mark) int {
		return firstToGo(a.pod, b.pod, ranks[a.pod.Name], ranks[b.pod.Name])
	})
	return out
}

// firstToGo orders pods for a deletion, as OpenKruise does; the smaller goes first: unassigned, pending, not ready, not
// available, cheaper to delete, of the larger rank, ready for a shorter time, restarted more often, younger. Ties end at
// the name, so that the order is the same on every pass.
func firstToGo(a, b *inplace.Pod, rankA, rankB float64) int {
	return cmp.Or(
		before(a.Node == "", b.Node == ""),
		before(a.Phase == inplace.PhasePending, b.Phase == inplace.PhasePending),
		before(!a.Ready, !b.Ready),
		before(!a.Available, !b.Available),
		cmp.Compare(a.DeletionCost, b.DeletionCost),
		cmp.Compare(rankB, rankA),
		b.ReadySince.Compare(a.ReadySince),
		cmp.Compare(restarts(b), restarts(a)),
		b.Created.Compare(a.Created),
		byName(a, b),
	)
}

func byName(a, b *inplace.Pod) int {
	return cmp.Compare(a.Name, b.Name)
}

// ranks say how crowded a pod's place is, larger is more. Without spread constraints: of the pods of one node, sorted by who
// goes first, the last has 0, the one before it 1, and so on. With them: for each constraint, the pods of one domain sorted
// likewise, the last has 1, the one before it 2, and so on, times ln(domains+2); these are added up. A pod without a node
// or whose node lacks the key has nothing of it.
func (s *scaling) ranks() map[string]float64 {
	byNode := map[string]float64{}
	rankWithin(s.domains(corev1.LabelHostname), nil, func(p *inplace.Pod, later, _ int) { byNode[p.Name] = float64(later) })
	if len(s.Strategy.Spread) == 0 {
		return byNode
	}
	sum := map[string]float64{}
	for _, key := range s.Strategy.Spread {
		within := byNode
		if key == corev1.LabelHostname {
			within = nil
		}
		rankWithin(s.domains(key), within, func(p *inplace.Pod, later, domains int) {
			sum[p.Name] += float64(later+1) * math.Log(float64(domains+2))
		})
	}
	return sum
}

// domains are the pods of each value of a node label. A node's own name stands for the host name.
func (s *scaling) domains(key string) map[string][]*inplace.Pod {
	out := map[string][]*inplace.Pod{}
	for _, m := range s.marks {
		domain := s.Nodes[m.pod.Node][key]
		if key == corev1.LabelHostname {
			domain = m.pod.Node
		}
		if domain != "" {
			out[domain] = append(out[domain], m.pod)
		}
	}
	return out
}

// rankWithin tells for every pod how many of its domain go after it, and how many domains there are.
func rankWithin(domains map[string][]*inplace.Pod, ranks map[string]float64, tell func(p *inplace.Pod, later, domains int)) {
	for _, pods := range domains {
		slices.SortFunc(pods, func(a, b *inplace.Pod) int { return firstToGo(a, b, ranks[a.Name], ranks[b.Name]) })
		for i, p := range pods {
			tell(p, len(pods)-1-i, len(domains))
		}
	}
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

func restarts(p *inplace.Pod) int32 {
	var n int32
	for i := range p.Containers {
		n += p.Containers[i].RestartCount
	}
	return n
}

package plan

import (
	"cmp"
	"fmt"
	"slices"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/crowd"
	"github.com/underway-dev/underway/inplace/order"
)

// size is how far the claims of one ordinal have come to their templates.
type size int

const (
	// grown: they are as large, or there are none.
	grown size = iota
	// growing: they ask for as much and do not have it yet.
	growing
	// failing: the same, and the cluster says what keeps them.
	failing
	// small: they ask for less, and can be resized.
	small
	// stuck: they ask for less, and cannot be resized.
	stuck
)

// resize makes claims as large as their templates, where the strategy says so: those of pods that are to move now before
// their pods do, in the order in which they move, and those of pods that have moved; as many pods at once as may be
// unavailable. Nothing is resized while nothing may move.
func (s *scaling) resize() {
	if s.volumes.Empty() {
		return
	}
	s.tellVolumes()
	if !s.Strategy.ResizeClaims || s.standstill() {
		return
	}
	movers := s.movers()
	room := s.resizable(movers)
	before := ""
	for _, m := range movers {
		state, why := s.size(m)
		if state == small && room > 0 && len(s.out.ClaimPatches) < crowd.PerPass {
			room--
			s.enlarge(m)
		}
		if state == grown && before != "" && !m.updated {
			why = fmt.Sprintf("pods move in order, and the claims of %s are resized first", before)
		}
		if why == "" {
			continue
		}
		s.fix(m, why, state)
		if !m.updated {
			before = cmp.Or(before, m.pod.Name)
		}
	}
}

// resizable is how many more pods may have their claims resized now.
func (s *scaling) resizable(movers []*member) int {
	room := int(max(s.Intent.MaxUnavailable, 1))
	for _, m := range movers {
		if state, _ := s.size(m); state == growing || state == failing {
			room--
		}
	}
	return room
}

// fix keeps a pod that serves from moving, and says why. One that is down is moved all the same: a broken pod can always be
// fixed, and its claims follow.
func (s *scaling) fix(m *member, why string, state size) {
	moves := !m.updated && m.pod.InService()
	if moves {
		s.fixed(m, why)
	}
	if moves || state == stuck || state == failing {
		s.waits.Add(inplace.HoldClaim, 1, why)
	}
}

// movers are the pods that have moved, and after them those that may move now, in their order: as many as the grant has room
// for.
func (s *scaling) movers() []*member {
	var moved, old []*member
	// As in the engine: those that never left use up no place while nothing is being released.
	releasing, taken := s.Intent.Current.Name != s.Intent.Update.Name, 0
	for _, m := range s.members {
		switch {
		case !m.stays():
		case m.updated:
			moved = append(moved, m)
			taken += one(releasing || !s.outside(m))
		case s.outside(m):
		default:
			old = append(old, m)
		}
	}
	compare := s.Intent.Compare
	if compare == nil {
		compare = order.Default
	}
	sorted := func(a, b *member) int {
		return cmp.Or(
			order.DrainedFirst(*a.pod, *b.pod), cmp.Compare(one(begun(b.pod)), one(begun(a.pod))), compare(*a.pod, *b.pod), order.Name(*a.pod, *b.pod),
		)
	}
	slices.SortFunc(moved, sorted)
	slices.SortFunc(old, sorted)
	quota := int(s.Intent.Grant()-s.out.AbsentNew) - taken
	for i := range s.out.Creates {
		if s.out.Creates[i].Revision == s.Intent.Update.Name {
			quota--
		}
	}
	return append(moved, old[:min(max(quota, 0), len(old))]...)
}

// size compares the claims of a pod with their templates; why is empty where they are as large.
func (s *scaling) size(m *member) (state size, why string) {
	for i, c := range s.volumes.of(m.ordinal) {
		if c == nil || c.Terminating || !s.volumes.ours(c) {
			continue
		}
		one, because := s.sizeOf(c, i)
		if one > state {
			state, why = one, because
		}
	}
	return state, why
}

func (s *scaling) sizeOf(c *Claim, template int) (state size, why string) {
	want := s.volumes.wants[template]
	if c.Request.Cmp(want) >= 0 {
		switch {
		case c.Capacity.Cmp(want) >= 0 || c.NodePending:
			return grown, ""
		case c.Trouble != "":
			return failing, fmt.Sprintf("claim %s is not resized: %s", c.Name, c.Trouble)
		default:
			return growing, fmt.Sprintf("claim %s is being resized", c.Name)
		}
	}
	allowed, known := s.Expandable[c.Class]
	switch {
	case c.Capacity.IsZero():
		return stuck, fmt.Sprintf("claim %s asks for less than its template and is not bound, so it cannot be resized yet", c.Name)
	case c.Class == "" || !known:
		return stuck, fmt.Sprintf("claim %s asks for less than its template, and whether its storage class %q can be expanded is not known", c.Name, c.Class)
	case !allowed:
		return stuck, fmt.Sprintf("claim %s asks for less than its template, and its storage class %s does not allow expansion: set "+
			"allowVolumeExpansion there, or volumeClaimUpdateStrategy.type OnDelete", c.Name, c.Class)
	default:
		return small, "the claims of pods that are to move are resized first, one after the other"
	}
}

// enlarge asks for as much as the templates do, for every claim of a pod that asks for less.
func (s *scaling) enlarge(m *member) {
	for i, c := range s.volumes.of(m.ordinal) {
		if c == nil || c.Terminating || !s.volumes.ours(c) {
			continue
		}
		if state, _ := s.sizeOf(c, i); state == small {
			want := s.volumes.wants[i].DeepCopy()
			s.patchClaim(c, fmt.Sprintf("its template asks for %s", want.String())).Request = &want
		}
	}
}

// tellVolumes fills in the status of each template, and names claims that no strategy brings to their templates.
func (s *scaling) tellVolumes() {
	var larger, smaller []string
	slots := s.sortedSlots()
	for i := range s.volumes.Templates {
		want := s.volumes.wants[i]
		status := appsv1alpha1.VolumeClaimStatus{VolumeClaimName: s.volumes.Templates[i].Name}
		for _, m := range slots {
			c := s.volumes.of(m.ordinal)[i]
			switch {
			case c == nil:
				continue
			case c.Request.Cmp(want) < 0:
				smaller = append(smaller, c.Name)
				continue
			case c.Request.Cmp(want) > 0:
				larger = append(larger, c.Name)
			}
			status.CompatibleReplicas++
			status.CompatibleReadyReplicas += int32(one(c.Capacity.Cmp(want) >= 0)) //nolint:gosec // 0 or 1
		}
		s.out.Volumes = append(s.out.Volumes, status)
	}
	switch resizes := s.Strategy.ResizeClaims; {
	case resizes && len(larger) > 0:
		s.warn("claims ask for more than their template, and a volume cannot shrink, so they stay: " + crowd.Few(larger))
	case !resizes && len(smaller) > 0:
		s.warn("claims ask for less than their template, and stay so with volumeClaimUpdateStrategy.type OnDelete: " + crowd.Few(smaller))
	}
}

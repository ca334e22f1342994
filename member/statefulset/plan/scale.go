package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
	"github.com/underway-dev/underway/inplace/crowd"
	"github.com/underway-dev/underway/inplace/hooks"
)

// Input is what Scale decides on.
type Input struct {
	// Intent is Read's, with Update, Current and Revisions.
	Intent   inplace.Intent
	Strategy Strategy
	// Pods are all that the StatefulSet controls, terminating and finished ones too.
	Pods []inplace.Pod
	// Owner is the StatefulSet as controller reference.
	Owner     metav1.OwnerReference
	Namespace string
	// Taken are names of pods and claims that something else is known to use.
	Taken map[string]bool
	// Lost is pod name to the revision of a pod that went away and is not replaced yet.
	Lost map[string]string
	Now  time.Time

	// Templates are spec.volumeClaimTemplates, read by claims.Read; ClaimLabels is spec.selector.matchLabels.
	Templates   []claims.Template
	ClaimLabels map[string]string
	// ClaimsProblem says why the templates cannot be read; then no pod is created, it would lack its volumes.
	ClaimsProblem string
	// Claims are the claims of the namespace, at least those whose names begin as this StatefulSet's do.
	Claims []Claim
	// Expandable is storage class to allowVolumeExpansion. A class that is not in it is not known, and nothing of it is
	// resized.
	Expandable map[string]bool
	// Refused is the API server's answer to the last create, nil when it was accepted.
	Refused *crowd.Refusal
}

// Result is who should exist, and what becomes of their claims.
type Result struct {
	inplace.Population

	// Condemned names, sorted, the pods that have no slot: they are not moved, have no place in the grant, and do not stand in
	// for a pod that has one. They are in Leaving, too.
	Condemned []string
	// AbsentNew is how many of the pods that are wanted, and neither there nor created now, will come at the update revision.
	AbsentNew int32
	// Fixed is pod name to why a pod is not moved yet: its claims, or those of one before it, are resized first, one of them would
	// go with it, or one before it waits for the budget. It keeps its place in the grant.
	Fixed map[string]string
	// Outside names, sorted, the pods that the partition keeps by their position (inplace.Intent.Outside); in order only.
	Outside []string
	// ClaimPatches change claims that exist.
	ClaimPatches []ClaimPatch
	// Volumes are the status of each claim template, in their order.
	Volumes []appsv1alpha1.VolumeClaimStatus
}

// Scale says which pods to create and delete now, what is written to those that cannot be deleted yet, and what becomes of
// claims.
func Scale(in Input) Result {
	s := newScaling(in)
	if in.Strategy.Unknown != "" {
		s.waits.Add(inplace.HoldScale, 1, "nobody is created or deleted: "+in.Strategy.Unknown)
		return s.finish()
	}
	if in.Intent.Invalid != "" {
		// What cannot be read deletes nothing; a lost pod still comes back.
		s.grow()
		return s.finish()
	}
	s.restore()
	s.own()
	s.clearTerminal()
	s.shrink()
	s.deleteAsked()
	s.grow()
	s.keepOrder()
	s.resize()
	s.tell()
	return s.finish()
}

// member is one pod of the set with what this pass thinks of it.
type member struct {
	pod     *inplace.Pod
	ordinal int64
	// position is that of its slot; wanted is false without one.
	position int64
	wanted   bool
	// updated is on the update revision; fresh is that, or about to be moved there.
	updated, fresh bool
	// preparing is in PreparingDelete; restored is on its way back from it in this pass.
	preparing, restored bool
	// serves and available are false for pods in PreparingDelete, and once we took the pod out of service.
	serves, available bool
	// deleted in this pass.
	deleted bool
	// tied: a claim names it as owner that is to outlive it. It is not deleted before that is mended.
	tied bool
}

// stays reports whether the pod keeps its slot as far as this pass knows.
func (m *member) stays() bool {
	return m.pod.Active() && m.wanted && !m.pod.SpecifiedDelete && !m.deleted && (!m.preparing || m.restored)
}

// scaling is one run of Scale.
type scaling struct {
	Input

	volumes volumes
	// slots are the pods on wanted ordinals, whatever their phase; condemned are the others, the highest ordinal first; strays
	// have names without an ordinal.
	slots     map[int64]*member
	condemned []*member
	strays    []string
	// members are those of both that are active, the lowest ordinal first.
	members []*member
	// spareAvailable is how many wanted pods that are available may be taken, spareServing how many that serve, condemned ones
	// counted.
	spareAvailable, spareServing int
	waits                        crowd.Waits
	out                          Result
}

func newScaling(in Input) *scaling {
	s := &scaling{Input: in, volumes: in.volumes(), slots: map[int64]*member{}, waits: crowd.Waits{}}
	if in.Strategy.Unknown == "" {
		s.sort()
		s.transit()
		s.budget()
	}
	return s
}

// sort gives each pod its place. Of pods seen twice the first counts; the order of the observation decides nothing else.
func (s *scaling) sort() {
	seen := make(map[string]bool, len(s.Pods))
	for i := range s.Pods {
		p := &s.Pods[i]
		if seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		ordinal, ok := OrdinalOf(s.Owner.Name, p.Name)
		if !ok {
			s.strays = append(s.strays, p.Name)
			continue
		}
		m := s.member(p, ordinal)
		if m.wanted {
			s.slots[ordinal] = m
		} else {
			s.condemned = append(s.condemned, m)
		}
		if p.Active() {
			s.members = append(s.members, m)
		}
	}
	slices.Sort(s.strays)
	slices.SortFunc(s.condemned, func(a, b *member) int { return cmp.Compare(b.ordinal, a.ordinal) })
	slices.SortFunc(s.members, func(a, b *member) int { return cmp.Compare(a.ordinal, b.ordinal) })
}

func (s *scaling) member(p *inplace.Pod, ordinal int64) *member {
	state, _ := hooks.Of(p.Labels)
	m := &member{pod: p, ordinal: ordinal, preparing: state == hooks.PreparingDelete}
	position, free := s.Strategy.Ordinals.Position(ordinal)
	m.position, m.wanted = position, free && position < int64(s.Intent.Replicas)
	m.updated = p.Revision != "" && p.Revision == s.Intent.Update.Name
	m.fresh = m.updated
	m.serves = p.Ready && p.Gate != inplace.GateFalse && p.Active() && !m.preparing
	m.available = p.Available && hooks.Settled(p.Labels)
	return m
}

// transit lets pods that are about to be moved count as new, as many as the grant has room for: what is created meanwhile
// leaves them their place (B063).
func (s *scaling) transit() {
	if s.standstill() {
		return
	}
	room := int(s.Intent.Grant())
	for _, m := range s.members {
		if m.stays() && m.updated {
			room--
		}
	}
	for _, m := range slices.Backward(s.members) {
		if room > 0 && m.stays() && !m.updated && begun(m.pod) {
			m.fresh = true
			room--
		}
	}
}

// begun reports whether a pod is on its way to another revision: out of service because of us, or in the hands of its hook.
func begun(p *inplace.Pod) bool {
	state, _ := hooks.Of(p.Labels)
	return p.Gate == inplace.GateFalse || state == hooks.PreparingUpdate || state == hooks.Updating
}

// standstill reports whether no pod may move at all.
func (s *scaling) standstill() bool {
	in := &s.Intent
	return in.Invalid != "" || in.Paused || in.OnDelete || in.Update.Name == ""
}

func (s *scaling) budget() {
	floor := int(s.Intent.Replicas - s.Intent.MaxUnavailable)
	s.spareAvailable, s.spareServing = -floor, -floor
	for _, m := range s.members {
		s.spareAvailable += one(m.wanted && m.available)
		s.spareServing += one(m.serves)
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// counts are the pods that keep their slots, by revision.
type counts struct {
	// old and fresh are all of them, high those of the positions beyond the partition.
	old, fresh, high int64
	// departing are pods of the update revision that are to go and are still there: they run it until they are gone.
	departing int64
	// going are those that this pass deletes: they are there until they are, and a request may be lost.
	going int64
}

func (c *counts) add(position, partition int64, fresh bool) {
	if position >= partition {
		c.high++
	}
	if fresh {
		c.fresh++
	} else {
		c.old++
	}
}

// staying counts the pods that keep their slots.
func (s *scaling) staying() counts {
	var c counts
	for _, m := range s.members {
		switch {
		case m.stays():
			c.add(m.position, int64(s.Intent.Partition), m.fresh)
		case m.updated && m.deleted:
			c.going++
		case m.updated:
			c.departing++
		}
	}
	return c
}

// updates reports whether a new pod at that position comes at the update revision. In order the position says it, and the
// number of pods that are there already as well: a slot may have another position (reserveOrdinals), and a grant is never exceeded.
// Unordered the number of old pods alone does. It comes in the next pass where it takes the place of a pod that goes in this one.
func (s *scaling) updates(position int64, c counts) (fresh, next bool) {
	room := int64(s.Intent.Grant()) - c.fresh - c.departing
	fresh = room > 0 && position >= int64(s.Intent.Partition)
	if s.Strategy.Unordered {
		fresh = room > 0 && c.old >= int64(s.Intent.Partition)
	}
	return fresh, fresh && room <= c.going && s.Intent.Update.Name != s.Intent.Current.Name
}

// absentNew is how many of the pods that are missing after this pass will come at the update revision; c counts those that
// are there and those created now.
func (s *scaling) absentNew(c counts) int32 {
	in := &s.Intent
	will := int64(in.Grant()) - c.high
	if s.Strategy.Unordered {
		will = int64(in.Replicas) - c.old - c.fresh - max(int64(in.Partition)-c.old, 0)
	}
	return int32(max(min(will, int64(in.Grant())-c.fresh), 0)) //nolint:gosec // at most Replicas
}

// keepOrder keeps pods from overtaking. The engine lets a broken pod take a place in the grant that the budget keeps from
// others; in order the places are those of the highest positions, and the partition keeps the others. And it lets a pod that serves and is not available yet go where the budget is
// spent, because it makes no more of them unavailable; one above it that waits for the budget goes first.
func (s *scaling) keepOrder() {
	if s.Strategy.Unordered || s.standstill() {
		return
	}
	before := ""
	for _, m := range slices.Backward(s.members) {
		switch {
		case s.outside(m):
			s.out.Outside = append(s.out.Outside, m.pod.Name)
		case !m.stays() || m.updated:
		case begun(m.pod) || !m.pod.InService():
		case m.available:
			before = cmp.Or(before, m.pod.Name)
		case before != "":
			s.fixed(m, fmt.Sprintf("pods move in order, and %s comes first", before))
		}
	}
}

// outside reports whether the partition keeps a pod because of its position.
func (s *scaling) outside(m *member) bool {
	return !s.Strategy.Unordered && m.stays() && m.position < int64(s.Intent.Partition)
}

// tell says what somebody should look at: pods that should be gone, pods without an ordinal.
func (s *scaling) tell() {
	var late []*inplace.Pod
	for _, m := range append(slices.Clone(s.condemned), s.sortedSlots()...) {
		if m.pod.Phase != inplace.PhaseTerminating {
			continue
		}
		left := crowd.Late(m.pod, s.Now)
		if left <= 0 {
			late = append(late, m.pod)
		} else if !m.pod.GoneBy.IsZero() {
			s.later(left)
		}
	}
	if len(late) > 0 {
		s.waits.Add(inplace.HoldScale, len(late), crowd.Stuck(late)+". Its name is needed, so nothing can take its place before")
	}
	if len(s.strays) > 0 {
		s.warn(fmt.Sprintf("pods whose names are not %s-<ordinal> are left alone: %s", s.Owner.Name, crowd.Few(s.strays)))
	}
}

func (s *scaling) sortedSlots() []*member {
	out := make([]*member, 0, len(s.slots))
	for _, m := range s.slots {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *member) int { return cmp.Compare(a.ordinal, b.ordinal) })
	return out
}

func (s *scaling) warn(text string) {
	s.out.Warnings = append(s.out.Warnings, text)
}

func (s *scaling) later(d time.Duration) {
	s.out.LookAgainIn = crowd.Soonest(s.out.LookAgainIn, d)
}

func (s *scaling) finish() Result {
	s.out.Holds = s.waits.Holds()
	s.out.Condemned = append(s.out.Condemned, s.strays...)
	s.out.Leaving = append(s.out.Leaving, s.strays...)
	for _, m := range s.members {
		switch {
		case !m.wanted:
			s.out.Condemned = append(s.out.Condemned, m.pod.Name)
			s.out.Leaving = append(s.out.Leaving, m.pod.Name)
		case !m.stays():
			s.out.Leaving = append(s.out.Leaving, m.pod.Name)
		}
	}
	slices.Sort(s.out.Condemned)
	slices.Sort(s.out.Leaving)
	slices.Sort(s.out.Outside)
	slices.SortFunc(s.out.ClaimPatches, func(a, b ClaimPatch) int { return cmp.Compare(a.Name, b.Name) })
	return s.out
}

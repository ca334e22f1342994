package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/subset"
	"github.com/underway-dev/underway/inplace/partition"
	"github.com/underway-dev/underway/propagation/render"
)

// Type Adaptive: replicas leave a place that cannot place pods, or that is out of reach for too long, and come back. What a
// place can do is judged at the end of a pass and stored (adaptive_marks.go); the next pass divides by what is stored. So a
// move is in the object's status before it happens, and a hub that restarts goes on where it was.

// Defaults of type Adaptive, as upstream has them.
const (
	defaultCritical = 30 * time.Second
	defaultMark     = 300 * time.Second
)

// returnParts is the part of the total, one in so many, that may be there twice while replicas go back.
const returnParts = 4

// adaptive is true where replicas leave a place that cannot place them.
func (p *pass) adaptive() bool {
	return p.United.Spec.Topology.ScheduleStrategy.Type == appsv1alpha1.ScheduleAdaptive
}

// times are the times that the spec gives.
func (p *pass) times() subset.Patience { return PatienceOf(&p.United.Spec) }

// PatienceOf are the times that a spec gives, or their defaults.
func PatienceOf(spec *appsv1alpha1.UnitedDeploymentSpec) subset.Patience {
	out := subset.Patience{Pending: defaultCritical, Mark: defaultMark}
	settings := spec.Topology.ScheduleStrategy.Adaptive
	if settings == nil {
		return out
	}
	if n := settings.RescheduleCriticalSeconds; n != nil {
		out.Pending = time.Duration(*n) * time.Second
	}
	if n := settings.UnschedulableDuration; n != nil {
		out.Mark = time.Duration(*n) * time.Second
	}
	return out
}

// reserves is true where pods that cannot be scheduled are kept, and substituted.
func (p *pass) reserves() bool {
	settings := p.United.Spec.Topology.ScheduleStrategy.Adaptive
	return p.adaptive() && settings != nil && settings.ReserveUnschedulablePods && p.reservable()
}

// reservable is true for the kinds that upstream reserves pods of.
func (p *pass) reservable() bool {
	return slices.Contains([]string{KindName(render.CloneSet()), KindName(render.Deployment())}, p.kind())
}

// adapt divides the replicas where the schedule strategy is Adaptive; shares are those of the places, in their order.
func (p *pass) adapt(shares []subset.Share) (subset.Allocation, error) {
	reserve := p.reserves()
	total := p.toPlace()
	for i, pl := range p.places {
		p.share(&shares[i], pl)
	}
	got, err := subset.AllocateAdaptive(total, shares, reserve)
	if err != nil {
		return got, err
	}
	switch {
	case !slices.ContainsFunc(shares, func(s subset.Share) bool { return s.Last > 0 }):
		// nothing was ever placed, so nothing moves
	case reserve:
		p.bear(shares, got.Replicas)
		if p.shifts() {
			p.shift(shares, &got)
		}
	default:
		err = p.move(shares, &got)
	}
	got.Corrections = append(got.Corrections, p.standIns()...)
	return got, err
}

// share says what a place can hold. Pods of a place that is not marked stay where they are, ready or not: a pod that restarts
// moves nothing. A place that does not answer, or takes no workload, is given no more than it has.
func (p *pass) share(s *subset.Share, pl *place) {
	s.Ready, s.Lost = s.Last, p.lost(pl)
	switch mark := conditionOf(pl, appsv1alpha1.ConditionSchedulable); {
	case mark != nil && mark.Status == metav1.ConditionFalse:
		s.Unschedulable, s.Ready = true, min(p.readyPods(pl), s.Last)
		s.Reserved = pl.old.ReservedPods
		s.Marked = s.Reserved == 0
	case !p.answers(pl):
		s.Unschedulable = true
	}
}

// answers is true for a place that can be given something now.
func (p *pass) answers(pl *place) bool {
	m, known := p.Members[pl.cluster]
	return known && m.NotAllowed == "" && (m.Ready || m.Settling)
}

// readyPods is how many pods of a place are ready, as last heard.
func (p *pass) readyPods(pl *place) int32 {
	if c := pl.serving(); c != nil && c.Unreadable == "" {
		return c.Report.Ready
	}
	if p.Members[pl.cluster].Ready {
		return 0
	}
	return pl.old.ReadyReplicas
}

// steady is true for a place that replicas may go back to or be taken from.
func (p *pass) steady(pl *place, s *subset.Share) bool {
	c := pl.serving()
	return !s.Unschedulable && !s.Lost && !p.draining(pl) && p.Members[pl.cluster].Ready && p.Members[pl.cluster].NoGrants == "" && c != nil && c.Report.Fresh
}

// move makes before it breaks, and takes a step back where nothing else is under way.
func (p *pass) move(shares []subset.Share, got *subset.Allocation) error {
	if p.mayReturn() {
		empty := slices.Clone(shares)
		for i := range empty {
			if !empty[i].Unschedulable {
				empty[i].Ready = 0
			}
		}
		preferred, err := subset.AllocateAdaptive(p.toPlace(), empty, false)
		if err != nil {
			return err
		}
		subset.Return(got.Replicas, preferred.Replicas, p.standings(shares), (got.Total+returnParts-1)/returnParts)
	}
	homeless := got.Total
	for i, n := range got.Replicas {
		if !shares[i].Lost {
			homeless -= n
		}
	}
	p.hold(shares, got, homeless)
	return nil
}

// mayReturn is true outside of a release, and when the last edit is not just now: a release that moves replicas about as
// well would be hard to follow.
func (p *pass) mayReturn() bool {
	return p.was.UpdatedRevision == p.was.CurrentRevision && p.was.ObservedGeneration == p.United.Generation &&
		p.now.Sub(p.GenerationSeenAt) >= settleTime
}

// bear has the pods that a marked place gets besides born reserved: they count when they are proven.
func (p *pass) bear(shares []subset.Share, replicas []int32) {
	for i, pl := range p.places {
		if s := &shares[i]; s.Marked || s.Reserved > 0 {
			pl.born = max(replicas[i]-s.Last, 0)
		}
	}
}

// countOnce leaves pods that are there twice, while replicas move, out of the count that autoscalers read: one that finds the
// load within its tolerance would make the surplus the new total.
func (p *pass) countOnce() {
	all, total := p.United.Spec.Replicas, p.toPlace()
	if (!p.adaptive() && !p.shifts()) || all == nil || total == nil {
		return
	}
	var allotted int32
	for _, pl := range p.places {
		allotted += pl.replicas
	}
	if allotted > *total {
		p.status.Replicas = min(p.status.Replicas, *all)
	}
}

// standIns says which places others stand in for.
func (p *pass) standIns() []string {
	var out []string
	if s := p.United.Spec.Topology.ScheduleStrategy.Adaptive; s != nil && s.ReserveUnschedulablePods && !p.reservable() {
		out = append(out, "adaptive.reserveUnschedulablePods is for Deployments and CloneSets, and is not acted on here")
	}
	for _, pl := range p.places {
		mark := conditionOf(pl, appsv1alpha1.ConditionSchedulable)
		switch {
		case p.lost(pl):
			out = append(out, fmt.Sprintf("others stand in for subset %s: %s", pl.name, conditionOf(pl, appsv1alpha1.ConditionReachable).Message))
		case mark != nil && mark.Status == metav1.ConditionFalse:
			out = append(out, fmt.Sprintf("others stand in for subset %s: %s", pl.name, mark.Message))
		}
	}
	return out
}

// conditionOf is a condition of a place as stored; nil: there is none.
func conditionOf(pl *place, kind string) *metav1.Condition {
	return meta.FindStatusCondition(pl.old.Conditions, kind)
}

// capMoved keeps replicas that were moved to a place in the middle of a release from raising its grant: nobody granted them.
// A place that is granted whole stays so.
func (p *pass) capMoved() {
	manual := p.United.Spec.UpdateStrategy.ManualUpdate
	if (!p.adaptive() && !p.shifts()) || !p.underWay() || manual == nil {
		return
	}
	for _, pl := range p.places {
		value, named := manual.Partitions[pl.name]
		frozen := p.release.Replicas[pl.name]
		if !named || pl.held || pl.full() || pl.replicas <= frozen {
			continue
		}
		old, err := partition.Old(&value, frozen)
		if err != nil || frozen <= old {
			pl.hold(fmt.Sprintf("partitions has %s for it, and it had %d pods when the release began", value.String(), frozen))
			continue
		}
		pl.grant = min(pl.grant, frozen-old)
	}
}

// unreachableAfter is how long a member may be out of reach; nil: for ever.
func (p *pass) unreachableAfter() *time.Duration {
	settings := p.United.Spec.Topology.ScheduleStrategy.Adaptive
	if !p.adaptive() || settings == nil || settings.UnreachableSeconds == nil {
		return nil
	}
	return new(time.Duration(*settings.UnreachableSeconds) * time.Second)
}

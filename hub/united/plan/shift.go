package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/underway-dev/underway/hub/subset"
	"github.com/underway-dev/underway/propagation/render"
)

// Members that join and members that are emptied move replicas about without anybody editing the object. As with Adaptive,
// nothing is taken away from where it is before as much is ready where it goes.

// shifts is true where members come and go by themselves.
func (p *pass) shifts() bool {
	return len(p.selectors) > 0 || slices.ContainsFunc(p.places, p.draining)
}

// draining is true for a place on a member that a person empties.
func (p *pass) draining(pl *place) bool { return p.Members[pl.cluster].Draining }

// emptyDraining has places on members that are emptied ask for nothing but what the list says is to be there. Where no other
// place could take what they have, they stay as they are.
func (p *pass) emptyDraining(shares []subset.Share) {
	if !slices.ContainsFunc(p.places, p.draining) {
		return
	}
	bounds := p.adaptive() || slices.ContainsFunc(shares, func(s subset.Share) bool { return s.Min != nil || s.Max != nil })
	takers := slices.ContainsFunc(p.places, func(pl *place) bool { return !p.draining(pl) && pl.written.Replicas == nil })
	for i, pl := range p.places {
		if s := &shares[i]; p.draining(pl) {
			switch {
			case s.Replicas != nil:
			case bounds && s.Min != nil:
				s.Max = s.Min
			case bounds:
				s.Max = new(intstr.FromInt32(0))
			case takers:
				s.Replicas = new(intstr.FromInt32(0))
			}
		}
	}
}

// shift makes before it breaks where Adaptive does not. What has no place stays on the members that are emptied.
func (p *pass) shift(shares []subset.Share, got *subset.Allocation) {
	homeless, there := got.Total, int32(0)
	for i, pl := range p.places {
		homeless -= got.Replicas[i]
		if p.draining(pl) {
			there += max(shares[i].Last-got.Replicas[i], 0)
		}
	}
	p.hold(shares, got, min(max(homeless, 0), there))
}

// hold keeps of what is taken away as much as was added elsewhere and is not ready there.
func (p *pass) hold(shares []subset.Share, got *subset.Allocation, homeless int32) {
	replicas, awaits := subset.Hold(got.Replicas, p.standings(shares), max(homeless, 0)+p.awaitedOutside)
	got.Replicas = replicas
	for i, pl := range p.places {
		pl.awaited = awaits[i]
	}
}

func (p *pass) standings(shares []subset.Share) []subset.Standing {
	at := make([]subset.Standing, len(shares))
	for i, pl := range p.places {
		s := &shares[i]
		at[i] = subset.Standing{Last: s.Last, Ready: p.readyPods(pl), Awaited: pl.old.AwaitedReplicas, Steady: p.steady(pl, s)}
		if pl.old.State == stateLeaving {
			at[i].Awaited = s.Last // it comes back: what it has counts as its pods are ready
		}
		if c := pl.serving(); c != nil && len(c.Report.ScaledBy) > 0 {
			at[i].Ready = math.MaxInt32 // how many it has is its autoscaler's business
		}
	}
	return at
}

// drainNotes name what the list keeps on members that are emptied.
func (p *pass) drainNotes() []string {
	var out []string
	for _, pl := range p.places {
		if p.draining(pl) {
			out = append(out, fmt.Sprintf("member %s is being drained and subset %s stays there, with %d replicas, because spec.topology.subsets names it: take it out of the list",
				pl.cluster, pl.name, pl.replicas))
		}
	}
	return out
}

// closed says why no child is made on a member; empty: one may be.
func (m *Member) closed(name string) string {
	switch {
	case m.Deleting:
		return fmt.Sprintf("MemberCluster %s is being deleted, so no child is made there; take the subset out of spec.topology", name)
	case m.Draining:
		return fmt.Sprintf("member %s is being drained, so no child is made there; take the subset out of spec.topology, or use the member again (spec.drain: false)", name)
	}
	return ""
}

// closedTo is a place without a child of the kind of the spec on a member where none is made. What it has of other kinds stays.
func (p *pass) closedTo(pl *place, why string) {
	e, s := pl.entry, pl.succession()
	p.heard(pl)
	e.Stale, e.Replicas, e.ReadyReplicas = false, s.replicas, s.ready
	e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Report = 0, 0, nil
	p.keep(pl)
	pl.say(stateWaiting, why)
	// It has no pods and gets none, so nothing of the release is left to do here, once nothing is on its way any more.
	switch {
	case len(pl.others) > 0 || !pl.full():
	case p.posted(pl):
		p.lookAgain(time.Second)
	default:
		pl.done = true
	}
}

// posted is true while something that was posted for a place without children may still be on its way.
func (p *pass) posted(pl *place) bool {
	name := render.ChildName(p.United.Name, pl.name)
	kinds := []string{p.kind()}
	if kind, ok := p.book.kindOf(p.completed); ok {
		kinds = append(kinds, kind)
	}
	return slices.ContainsFunc(kinds, func(kind string) bool {
		d, posted := p.Deliveries[Target{Member: pl.cluster, Kind: kind, Name: name}]
		return posted && !d.Gone
	})
}

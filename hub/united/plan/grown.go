package plan

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// Kubernetes' own StatefulSet holds by position, and so does OpenKruise's manager: pods at the partition and above are new, and
// none that is new already goes back when the partition rises. A set that grows in mid-release with its grant unchanged would so
// have the pods that it adds on the new revision, beside those that were new before. It is held whole from then on, so that what
// it adds is of the old revision, until all of it is granted: the lowest partition that it ever had is not known any more.

const grownWords = "held whole: it was scaled in mid-release, and a StatefulSet holds by position, so a part of it that is granted now would be more pods than that; it follows when all of it is granted"

// holdGrown holds what grew in mid-release, and what somebody else scaled or nobody looked after meanwhile.
func (p *pass) holdGrown() {
	if render.PodNames(p.workload.Kind) != render.NamesOrdinal || !p.underWay() {
		return
	}
	goesOn := len(p.spoilt) > 0 || (p.was.Release != nil && p.was.Release.Revision == p.target)
	for _, pl := range p.places {
		if !goesOn || pl.full() || pl.settled || p.leftRelease(pl) {
			continue
		}
		was := conditionOf(pl, appsv1alpha1.ConditionScaledInRelease)
		if !p.hasGrown(pl, was != nil) {
			continue
		}
		pl.grown = true
		p.grew = p.grew || was == nil
		if !pl.held {
			pl.hold(pl.why + "; " + grownWords)
		}
	}
}

// leftRelease is true for a place whose child carries another template than the one that is granted: no pod of it is new.
func (p *pass) leftRelease(pl *place) bool {
	c := pl.child
	return c != nil && len(p.spoilt) == 0 && c.Report.SubsetRevision != pl.target.revision
}

// hasGrown is true for a place that grows, or did: of one that is not heard from what was known stands.
func (p *pass) hasGrown(pl *place, did bool) bool {
	switch {
	case pl.child == nil:
		return did
	case p.byPosition(pl.child):
		return did || grows(pl)
	default:
		return false
	}
}

// byPosition is true for a child whose pods are held by their positions alone: Kubernetes' own, and one that OpenKruise's manager
// reconciles, which does not report as our agent does. The agent counts, too.
func (p *pass) byPosition(c *Child) bool {
	return p.kind() == KindName(render.StatefulSet()) || c.Report.Workload == nil
}

// grows is true for a place whose child gets pods above the partition that it has.
func grows(pl *place) bool {
	c := pl.child
	if c.Unreadable != "" {
		return false
	}
	r := &c.Report
	partition, err := strconv.ParseInt(r.Partition, 10, 32)
	if r.Partition == "" {
		partition, err = 0, nil
	}
	switch {
	case r.Fresh && r.Updated == 0 && partition == render.HoldOrdinal:
		return false // no pod of it was ever new
	case err != nil, len(r.ScaledBy) > 0, pl.old.State == stateUnselected:
		return true
	}
	return pl.replicas > ptr.Deref(r.SpecReplicas, 1) && (pl.held || int64(pl.replicas-pl.grant) > partition)
}

// markGrown writes down that a place is held for that.
func (p *pass) markGrown(pl *place) {
	if !pl.grown {
		return
	}
	c := p.subsetCondition(appsv1alpha1.ConditionScaledInRelease, metav1.ConditionTrue, "HeldWhole", grownWords)
	if was := conditionOf(pl, c.Type); was != nil {
		c.LastTransitionTime = was.LastTransitionTime
	}
	meta.SetStatusCondition(&pl.entry.Conditions, c)
}

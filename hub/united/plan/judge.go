package plan

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/underway-dev/underway/inplace/partition"
)

// judge says how far a child is, against what it was granted: a subset held at its partition is held, not stuck.
func (p *pass) judge(pl *place) {
	r := &pl.child.Report
	carries := r.SubsetRevision == pl.target.revision
	live := ptr.Deref(r.SpecReplicas, 1)
	scaled := len(r.ScaledBy) > 0
	granted := pl.grant
	if scaled {
		granted = live - p.oldOf(pl, live)
		pl.entry.Granted, pl.entry.Partition = granted, live-granted
	}
	whole := r.Fresh && carries && r.Updated == r.Replicas
	if !p.workload.Kind.NeedsAgent {
		whole = whole && r.Available == r.Replicas // Kubernetes counts a pod as updated before it has ever been ready
	}
	sized := r.Replicas == live && (scaled || live == pl.replicas)
	free := pl.settled || !p.underWay()
	pl.done = whole && sized && (pl.full() || free)
	pl.proven = r.Fresh && ((carries && r.Updated >= min(granted, r.Replicas)) || (!carries && pl.held))
	if p.delivered(pl, pl.childTarget()) {
		pl.proven = false
		return
	}
	p.describe(pl, progress{carries: carries, whole: whole, sized: sized, free: free, granted: granted})
	p.annotate(pl)
	p.stuck(pl)
	if scaled {
		pl.entry.Message = strings.TrimPrefix(pl.entry.Message+"; ", "; ") +
			fmt.Sprintf("%s scales it to %d on the member, so its partition is a percent", strings.Join(r.ScaledBy, ", "), live)
	}
}

// annotate adds what keeps a child from going on whatever is granted.
func (p *pass) annotate(pl *place) {
	member := p.Members[pl.cluster]
	settled := pl.entry.State == stateCurrent || pl.entry.State == stateHeld
	if why := member.unreconciled(pl.cluster, p.kind()); why != "" && (!settled || !pl.child.Report.Fresh) {
		pl.say(stateWaiting, why)
	}
	if p.onDelete && pl.entry.State != stateCurrent {
		pl.entry.Message = strings.TrimPrefix(pl.entry.Message+"; ", "; ") +
			"updateStrategy OnDelete: pods move when somebody deletes them, whatever is granted"
	}
}

// childTarget is where the child of the kind of the spec is.
func (pl *place) childTarget() Target {
	return Target{Member: pl.cluster, Kind: pl.target.kind(), Name: pl.child.Report.Name}
}

// wanted is how many pods there are to be: the allotment, or what somebody else scales the child to.
func (pl *place) wanted() int32 {
	if c := pl.child; c != nil && len(c.Report.ScaledBy) > 0 {
		return ptr.Deref(c.Report.SpecReplicas, 1)
	}
	return pl.replicas
}

// oldOf is how many of the live replicas the partition that was pushed keeps back.
func (p *pass) oldOf(pl *place, live int32) int32 {
	part := p.partitionOf(pl, pl.child)
	if part.Hold {
		return live
	}
	old, err := partition.Old(&part.Value, live)
	if err != nil {
		return live
	}
	return old
}

// progress is what describe puts into words.
type progress struct {
	carries, whole, sized, free bool
	granted                     int32
}

func (p *pass) describe(pl *place, g progress) {
	r := &pl.child.Report
	updated := int32(0)
	if g.carries {
		updated = pl.entry.UpdatedReplicas
	}
	switch {
	case g.carries && g.whole && g.sized && (pl.full() || g.free):
		pl.say(stateCurrent, "")
	case g.carries && g.whole && !g.sized && (pl.full() || g.free):
		pl.say(stateScaling, fmt.Sprintf("%d of %d pods exist", r.Replicas, pl.wanted()))
	case p.refused != "":
		pl.say(stateRefused, p.refused)
	case !p.underWay() && g.carries && starts(pl):
		pl.say(stateStarting, fmt.Sprintf("%d of %d pods are ready%s", r.Ready, pl.wanted(), p.problems(pl)))
	case !p.underWay() && (g.carries || !pl.held):
		pl.say(stateReturning, fmt.Sprintf("%d of %d pods are back on the completed revision%s", updated, r.Replicas, p.problems(pl)))
	case pl.proven && !pl.full():
		pl.say(stateHeld, fmt.Sprintf("%d of %d updated, the rest is held (%s): %s", updated, r.Replicas, pl.why, p.release1(pl)))
	default:
		pl.say(stateUpdating, fmt.Sprintf("%d of %d granted pods updated%s", updated, g.granted, p.problems(pl)))
	}
}

// starts is true for a child whose pods never ran anything else, as far as is known, and are on their way: of a member that
// joined, of a first install, or made anew.
func starts(pl *place) bool {
	r := &pl.child.Report
	switch pl.old.State {
	case stateReturning, stateUpdating, stateHeld:
		return false
	case "", stateCreating, stateStarting, stateJoining:
		return true
	}
	return r.Fresh && r.Updated == r.Replicas
}

// release1 is the command that lets a held subset go.
func (p *pass) release1(pl *place) string {
	if pl.kept != "" {
		return "nothing new is granted there until that is over"
	}
	return p.patchCommand(`"partitions"`, fmt.Sprintf(`{%q:0}`, pl.name))
}

// problems are the member's own words about pods that do not move; those that do not come up are added to every message.
func (p *pass) problems(pl *place) string {
	w := pl.child.Report.Workload
	if w == nil {
		return ""
	}
	var out []string
	for _, x := range w.Refused {
		out = append(out, fmt.Sprintf("%d refused (%s: %s)", x.Count, x.Reason, x.Message))
	}
	if len(out) == 0 {
		return ""
	}
	return "; " + strings.Join(out, "; ")
}

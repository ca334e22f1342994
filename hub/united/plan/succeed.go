package plan

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/underway-dev/underway/propagation/feedback"
	"github.com/underway-dev/underway/propagation/render"
)

// A change of kind is make-before-break: the child of the new kind is made beside the old one, with all its replicas, and
// the old one goes when the new one is proven whole. Until then the old one stays as it is. Going back to the old kind in
// the middle is the same the other way round.

// TookOver is true when a child of the new kind stands in for the old one: what it says of itself is current, it carries
// the subset revision, and all of its pods, at least as many as asked for, are updated and available.
func TookOver(r *feedback.Report, revision string, replicas int32) bool {
	live := ptr.Deref(r.SpecReplicas, 1)
	return r.Fresh && !r.Deleting && !r.Orphaned && r.SubsetRevision == revision && live >= replicas &&
		r.Replicas == live && r.Updated == live && r.Ready >= live && r.Available >= live
}

// succession is how a place's children of other kinds are left behind.
type succession struct {
	replicas, ready int32
	// asked is how many pods the new child must have: what somebody else scaled an old one to counts.
	asked int32
	// scaledBy names who scales an old one.
	scaledBy string
}

func (pl *place) succession() succession {
	out := succession{asked: pl.replicas}
	for _, c := range pl.others {
		out.replicas += c.Report.Replicas
		out.ready += c.Report.Ready
		if live := ptr.Deref(c.Report.SpecReplicas, 1); len(c.Report.ScaledBy) > 0 && live > out.asked {
			out.asked, out.scaledBy = live, c.Report.ScaledBy[0]
		}
	}
	if c := pl.child; c != nil && len(c.Report.ScaledBy) > 0 && out.scaledBy == "" {
		out.asked = ptr.Deref(c.Report.SpecReplicas, 1) // its autoscaler's word counts, as everywhere
	}
	return out
}

// begin decides for a place that has children of other kinds only.
func (p *pass) begin(pl *place) {
	c := pl.others[0]
	p.heard(pl)
	e, s := pl.entry, pl.succession()
	e.Stale, e.Workload, e.Kind, e.Revision = false, c.Report.Name, c.Report.Kind, c.Report.SubsetRevision
	e.Replicas, e.ReadyReplicas = s.replicas, s.ready
	e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Report = 0, 0, nil
	p.keep(pl)
	member := p.Members[pl.cluster]
	switch {
	case p.refused != "":
		pl.say(stateRefused, p.refused)
	case pl.held:
		pl.proven = c.Report.Fresh
		pl.say(stateHeld, fmt.Sprintf("its %s stays (%s): %s", c.Report.Kind, pl.why, p.release1(pl)))
	case p.underWay() && pl.noneAsked():
		// What is made without pods has no old revision to hold when it gets some; so neither while the old ones go.
		pl.proven, pl.done = c.Report.Fresh, c.Report.Fresh && p.emptyOthers(pl)
		pl.say(stateCurrent, "it is to have no pods; it changes its kind when the release is finished")
	case member.notServed(pl.cluster, p.kind()) != "":
		pl.say(stateNotServed, member.notServed(pl.cluster, p.kind()))
	case member.unreconciled(pl.cluster, p.kind()) != "":
		pl.say(stateNotServed, member.unreconciled(pl.cluster, p.kind())+"; its "+c.Report.Kind+" stays until then")
	default:
		name := render.ChildName(p.United.Name, pl.name)
		p.push(pl, nil, pl.target, render.Partition{}, "its kind changes, and the new child is ready before the old one goes")
		if !p.delivered(pl, Target{Member: pl.cluster, Kind: p.kind(), Name: name}) {
			pl.say(stateCreating, fmt.Sprintf("its %s is being created; its %s goes when that is ready", p.kind(), c.Report.Kind))
		}
	}
}

// noneAsked is true when the child of a new kind would be made without pods.
func (pl *place) noneAsked() bool { return pl.replicas == 0 && pl.succession().asked == 0 }

// emptyOthers is true when nothing is there to be taken over.
func (p *pass) emptyOthers(pl *place) bool {
	if pl.replicas > 0 {
		return false
	}
	for _, c := range pl.others {
		if c.Report.Replicas > 0 || ptr.Deref(c.Report.SpecReplicas, 1) > 0 {
			return false
		}
	}
	return true
}

// keep re-applies to each old child what it holds. One whose template is not known is left as it is.
func (p *pass) keep(pl *place) {
	for _, c := range pl.others {
		if c.Unreadable != "" || c.Report.Deleting {
			continue
		}
		if r, ok := p.heldTemplate(pl, c); ok {
			part := render.Partition{Hold: true}
			if len(p.spoilt) > 0 {
				part = p.partitionOf(pl, c)
			}
			p.push(pl, c, r, part, "it stays until a child of the new kind has taken over")
		}
	}
}

// finish decides for the old children beside a child of the new kind, which was decided for already.
func (p *pass) finish(pl *place) {
	if len(pl.others) == 0 {
		return
	}
	s := pl.succession()
	pl.entry.Replicas += s.replicas
	pl.entry.ReadyReplicas += s.ready
	pl.done, pl.proven = false, false
	old := pl.others[0].Report.Kind
	if pl.held {
		p.keep(pl)
		pl.say(stateHeld, fmt.Sprintf("its kind was changing when it was held, so both its %s and its %s stay (%s): %s", old, p.kind(), pl.why, p.release1(pl)))
		pl.proven = true
		return
	}
	if p.underWay() && pl.child.Unreadable == "" && pl.child.Report.Fresh && pl.empty() && p.emptyOthers(pl) {
		p.keep(pl)
		pl.done, pl.proven = true, true // as where nothing is to be taken over: there are no pods to prove anything with
		pl.say(stateCurrent, "it has no pods; it changes its kind when the release is finished")
		return
	}
	if pl.child.Unreadable != "" || !pl.full() || !TookOver(&pl.child.Report, pl.target.revision, s.asked) {
		p.keep(pl)
		if pl.entry.State == stateCurrent || pl.entry.State == stateUpdating || pl.entry.State == stateReturning || pl.entry.State == stateStarting || pl.entry.State == stateScaling {
			pl.say(stateUpdating, p.waitsToFinish(pl, s))
		}
		return
	}
	if why := p.unjudged(pl); why != "" {
		p.keep(pl)
		pl.say(stateUpdating, fmt.Sprintf("its %s is ready, and its %s stays: %s", p.kind(), old, why))
		return
	}
	pl.say(stateUpdating, fmt.Sprintf("its %s is ready; its %s is being deleted", p.kind(), old))
	for _, c := range pl.others {
		p.retire(pl, c, s.asked)
	}
}

// unjudged says why nobody can tell what would go with the old children: what cannot be read may have any number of pods, and
// a template that is not known may have claims, which the change of kind would have been refused for.
func (p *pass) unjudged(pl *place) string {
	for _, c := range pl.others {
		if c.Unreadable != "" {
			return fmt.Sprintf("%s cannot be read: %s", c.Report.Name, c.Unreadable)
		}
		if p.fateOfClaims(pl.name, c, pl.present) == claimsUnknown {
			return fmt.Sprintf("the template that %s carries is not known here, so its claims might go with it; look at them, and delete it on the member if they may: kubectl %s-n %s delete %s %s",
				c.Report.Name, contextFlag(pl.cluster), p.United.Namespace, strings.ToLower(c.Report.Kind), c.Report.Name)
		}
	}
	return ""
}

// waitsToFinish says what an old child waits for.
func (p *pass) waitsToFinish(pl *place, s succession) string {
	r := &pl.child.Report
	text := fmt.Sprintf("%d of %d pods of its %s are ready; its %s goes when all are%s", min(r.Ready, r.UpdatedReady), s.asked, p.kind(), pl.others[0].Report.Kind, p.problems(pl))
	if s.scaledBy != "" {
		text += fmt.Sprintf("; %s scales the old one to %d, and the new one must have as many: point it to the %s", s.scaledBy, s.asked, p.kind())
	}
	return text
}

// retire deletes an old child.
func (p *pass) retire(pl *place, c *Child, asked int32) {
	p.pushEnd(WantDeleted, ended{member: pl.cluster, subset: pl.name, name: c.Report.Name, kind: c.Report.Kind},
		"a child of another kind has taken over")
	last := &p.out.Pushes[len(p.out.Pushes)-1]
	last.After = &Successor{
		Target:   Target{Member: pl.cluster, Kind: p.kind(), Name: pl.child.Report.Name},
		Revision: pl.target.revision, Replicas: asked,
	}
	if d := p.Deliveries[Target{Member: pl.cluster, Kind: c.Report.Kind, Name: c.Report.Name}]; d.Problem != NoProblem {
		pl.entry.Message += ": " + d.Message
	}
}

// serving is the child that has the place's pods: of the kind of the spec, or of the one before.
func (pl *place) serving() *Child {
	if pl.child == nil && len(pl.others) > 0 {
		return pl.others[0]
	}
	return pl.child
}

// unserved is a place whose child's kind the member does not know: what is known of the child stands, marked.
func (pl *place) unserved(why string) {
	pl.entry.Stale = pl.known && pl.old.Workload != ""
	pl.say(stateNotServed, why)
}

package plan

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/feedback"
	"github.com/underway-dev/underway/propagation/render"
)

// States of a subset, as its status says them.
const (
	stateCurrent          = "Current"
	stateUpdating         = "Updating"
	stateReturning        = "Returning"
	stateStarting         = "Starting"
	stateScaling          = "Scaling"
	stateHeld             = "Held"
	stateCreating         = "Creating"
	stateWaiting          = "Waiting"
	stateStale            = "Stale"
	stateConflict         = "Conflict"
	stateRefused          = "Refused"
	stateNotAllowed       = "NotAllowed"
	stateNamespaceMissing = "NamespaceMissing"
	stateNotServed        = "NotServed"
	stateLeaving          = "Leaving"
	stateJoining          = "Joining"
	stateUnselected       = "Unselected"
	stateStuck            = "Stuck"
)

// place decides what one subset is sent and what its status says. Nothing here looks at another subset.
func (p *pass) place(pl *place) {
	entry := pl.old
	pl.entry = &entry
	entry.DesiredReplicas = pl.replicas
	entry.Granted = pl.grant
	entry.Partition = pl.replicas - pl.grant
	entry.Conditions = nil
	p.mark(pl)
	p.markGrown(pl)
	if entry.Revision != pl.target.revision || (entry.Kind != "" && entry.Kind != p.kind()) {
		// What is known of another revision says nothing of this one.
		entry.UpdatedReplicas, entry.UpdatedReadyReplicas, entry.Report = 0, 0, nil
	}

	member, known := p.Members[pl.cluster]
	switch {
	case !known:
		pl.say(stateWaiting, fmt.Sprintf("there is no MemberCluster %s: kubectl underway join %s --kubeconfig FILE", pl.cluster, pl.cluster))
	case member.NotAllowed != "":
		pl.say(stateNotAllowed, member.NotAllowed)
	case member.Settling:
		p.unsettled = true
		entry.State, entry.Message = pl.old.State, pl.old.Message
	case !member.Ready:
		p.stale(pl, member)
	case pl.child == nil && member.closed(pl.cluster) != "":
		p.closedTo(pl, member.closed(pl.cluster))
	case pl.child == nil && len(pl.others) > 0:
		p.begin(pl)
	case pl.child == nil:
		p.create(pl)
	default:
		p.existing(pl)
		p.finish(pl)
	}
}

func (pl *place) say(state, message string) {
	pl.entry.State, pl.entry.Message = state, message
}

// stale keeps the last known numbers, marked with their time.
func (p *pass) stale(pl *place, member Member) {
	pl.entry.Stale = true
	if at := second(member.HeardAt); at != nil {
		pl.entry.HeardAt = at
	}
	since := "since before this hub started"
	if pl.entry.HeardAt != nil {
		since = "since " + pl.entry.HeardAt.UTC().Format("2006-01-02T15:04:05Z")
	}
	pl.say(stateStale, fmt.Sprintf("member %s is not heard from %s (%s); it keeps its replicas and its grant, and nobody waits for it",
		pl.cluster, since, member.Problem))
}

// create makes a missing child from the completed template, held while a release is under way: an object that is
// created from the new template has no old revision to hold.
func (p *pass) create(pl *place) {
	if len(p.spoilt) > 0 && !pl.known {
		pl.say(stateRefused, p.refused) // what it would be made with may be what is refused
		return
	}
	r, err := p.book.completed(p.completed, pl.name, pl.old.Revision, pl.present)
	direct := err == nil && r.kind() != p.kind() && pl.full() && pl.replicas > 0
	if direct {
		r = pl.target // nothing is there, and all that is to come is granted: there is nothing to hold
	}
	member := p.Members[pl.cluster]
	if err == nil && member.notServed(pl.cluster, r.kind()) != "" {
		pl.unserved(member.notServed(pl.cluster, r.kind()))
		return
	}
	pl.entry.Stale = false
	p.heard(pl)
	pl.entry.Replicas, pl.entry.ReadyReplicas, pl.entry.UpdatedReplicas, pl.entry.UpdatedReadyReplicas = 0, 0, 0, 0
	pl.entry.Report = nil
	if err != nil {
		pl.say(stateWaiting, fmt.Sprintf("its child is missing and cannot be created: %v", err))
		return
	}
	if why := member.unreconciled(pl.cluster, r.kind()); why != "" {
		pl.say(stateNotServed, why+"; its child is made when somebody does")
		return
	}
	part := render.Partition{Hold: true}
	if pl.settled || direct {
		part = p.partitionOf(pl, nil)
	}
	pl.entry.Workload, pl.entry.Kind = render.ChildName(p.United.Name, pl.name), r.kind()
	p.push(pl, nil, r, part, "its child does not exist")
	if p.delivered(pl, Target{Member: pl.cluster, Kind: r.kind(), Name: pl.entry.Workload}) {
		return
	}
	if pl.settled || direct {
		pl.say(stateCreating, "its child is being created")
		return
	}
	pl.say(stateCreating, "its child is being created from the completed template; the new one follows when the member has observed it")
}

// existing decides for a child that is there.
func (p *pass) existing(pl *place) {
	c := pl.child
	p.seen(pl)
	switch {
	case c.Unreadable != "":
		pl.say(stateWaiting, "the child cannot be read: "+c.Unreadable)
	case c.Report.Deleting:
		pl.say(stateWaiting, "the child is being deleted on the member; it is created again when it is gone")
	case p.underWay() && !pl.full() && pl.emptied():
		p.holdChild(pl) // it gets the completed template back before it gets pods
	case c.Report.SubsetRevision == pl.target.revision:
		p.push(pl, c, pl.target, p.partitionOf(pl, c), "it carries the template of the spec")
		p.judge(pl)
	case !pl.held && !p.underWay():
		p.push(pl, c, pl.target, p.partitionOf(pl, c), "it goes back to the completed template")
		p.judge(pl)
	case !pl.held && len(p.spoilt) > 0:
		p.goesOn(pl)
	case !pl.held && pl.none():
		// A child without pods finishes a template at once, and pods that it gets later have no old revision to hold. So
		// one that is just being scaled to 0 does not get the template either.
		p.rest(pl)
		pl.proven, pl.done = c.Report.Fresh, c.Report.Fresh && pl.empty()
		if !p.delivered(pl, pl.childTarget()) {
			pl.say(stateCurrent, "it is to have no pods; it gets the template when the release is finished")
		}
	case !pl.held && c.Report.Fresh:
		p.push(pl, c, pl.target, p.partitionOf(pl, c), fmt.Sprintf("%d of its pods may move", pl.grant))
		p.judge(pl)
	case !pl.held:
		pl.say(stateWaiting, fmt.Sprintf("granted %d; the member has observed generation %d of %d, and a template it has not seen has nothing to hold",
			pl.grant, c.Report.ObservedGeneration, c.Report.Generation))
	default:
		p.holdChild(pl)
	}
}

// none is true when there are to be no pods, whatever there is now.
func (pl *place) none() bool {
	r := &pl.child.Report
	return pl.replicas == 0 && (len(r.ScaledBy) == 0 || ptr.Deref(r.SpecReplicas, 1) == 0)
}

// emptied is true for a child that has the template of the spec and no pods, so that no old revision is left to hold.
func (pl *place) emptied() bool {
	r := &pl.child.Report
	return r.Fresh && r.SubsetRevision == pl.target.revision && r.Replicas == 0 && ptr.Deref(r.SpecReplicas, 1) == 0 && !pl.settled
}

// empty is true when there is nothing to update, and nothing to prove a template with.
func (pl *place) empty() bool {
	r := &pl.child.Report
	return pl.replicas == 0 && r.Replicas == 0 && ptr.Deref(r.SpecReplicas, 1) == 0
}

// holdChild re-applies what the child holds, with the hold beside it.
func (p *pass) holdChild(pl *place) {
	r, ok := p.heldTemplate(pl, pl.child)
	if !ok {
		pl.say(stateHeld, fmt.Sprintf("held; it carries revision %q, which this hub has no template of, so it is left as it is",
			pl.child.Report.SubsetRevision))
		return
	}
	p.push(pl, pl.child, r, render.Partition{Hold: true}, "nothing is granted: "+pl.why)
	p.judge(pl)
}

// rest re-applies what a child holds that is to have no pods and gets the template when the release is finished. One that
// has the completed template unheld is left so: a hold beside it would protect nothing, and be a second write of a release.
func (p *pass) rest(pl *place) {
	r, ok := p.heldTemplate(pl, pl.child)
	done, err := p.book.completed(p.completed, pl.name, pl.old.Revision, pl.present)
	if !ok || err != nil || !done.same(r) || !carries(pl.child, r) || holdsBack(pl.child) {
		p.holdChild(pl)
		return
	}
	p.push(pl, pl.child, r, render.Partition{Value: intstr.FromInt32(0)}, "it has no pods, and the template comes when the release is finished")
	p.judge(pl)
}

// carries is true for a child that was sent a template last.
func carries(c *Child, r rendered) bool {
	return c.Report.SubsetRevision == r.revision && c.Report.Kind == r.kind()
}

// holdsBack is true for a child whose partition keeps pods, or would keep those that it gets.
func holdsBack(c *Child) bool { return c.Report.Partition != "" && c.Report.Partition != "0" }

// goesOn re-applies what the child holds, with what it was granted of that: the template after it is refused.
func (p *pass) goesOn(pl *place) {
	if r, ok := p.heldTemplate(pl, pl.child); ok {
		p.push(pl, pl.child, r, p.partitionOf(pl, pl.child), "the template after what it carries is refused")
	}
	p.judge(pl)
}

// heldTemplate is what a held child is re-applied with: what it carries. One that has no pods carries nothing that could
// be held: the pods that it gets are of the completed template, if that is of its kind.
func (p *pass) heldTemplate(pl *place, c *Child) (rendered, bool) {
	if c.Report.Fresh && c.Report.Replicas == 0 && ptr.Deref(c.Report.SpecReplicas, 1) == 0 {
		done, err := p.book.completed(p.completed, pl.name, pl.old.Revision, pl.present)
		if err == nil && done.kind() == c.Report.Kind {
			return done, true
		}
	}
	return p.book.of(p.names, pl.name, held{c.Report.SubsetRevision, c.Report.Kind}, pl.present)
}

// partitionOf is the partition that lets the grant go, and no more.
func (p *pass) partitionOf(pl *place, c *Child) render.Partition {
	switch {
	case pl.held:
		return render.Partition{Hold: true}
	case pl.full():
		return render.Partition{Value: intstr.FromInt32(0)}
	case c != nil && len(c.Report.ScaledBy) > 0:
		return render.PercentPartition(pl.grant, pl.replicas)
	default:
		return render.Partition{Value: intstr.FromInt32(pl.replicas - pl.grant)}
	}
}

// inputOf is what a child of the place is made from.
func (p *pass) inputOf(pl *place, r rendered, part render.Partition) render.Input {
	return render.Input{
		Owner: p.owner(), Subset: pl.name, HubID: p.HubID, Intent: p.intent(),
		Workload: r.workload, Overlay: r.overlay, Revision: r.revision, Selector: p.United.Spec.Selector,
		Replicas: new(pl.replicas), Partition: part,
	}
}

// push wants a child as rendered: c is the one there is, nil for one to be made.
func (p *pass) push(pl *place, c *Child, r rendered, part render.Partition, because string) {
	in := p.inputOf(pl, r, part)
	in.Name = render.ChildName(p.United.Name, pl.name)
	if pl.cluster == "" {
		in.Controller = metav1.NewControllerRef(p.United, appsv1alpha1.GroupVersion.WithKind("UnitedDeployment"))
	}
	out := Push{Want: WantApplied, Member: pl.cluster, Subset: pl.name, Kind: r.workload.Kind, Because: because}
	if c != nil {
		in.Name, out.Judged, out.Carried, out.TakeReplicas = c.Report.Name, c.Report.UID, c.Report.SubsetRevision, c.ScalerGone
		if len(c.Report.ScaledBy) > 0 {
			in.Replicas = nil
		}
		if part.Hold && in.Replicas != nil && unobserved(&c.Report, r) {
			in.Replicas = new(int32(0)) // the pods that a hold makes are of what was current before
		}
		in.Paused = p.pausedInMidRelease(pl, r, part)
	}
	out.Name, out.Input = in.Name, in
	p.out.Pushes = append(p.out.Pushes, out)
}

// unobserved is true for a child without pods that has not seen a template yet.
func unobserved(c *feedback.Report, r rendered) bool {
	return ptr.Deref(c.SpecReplicas, 1) == 0 && (!c.Fresh || c.SubsetRevision != r.revision)
}

// pausedInMidRelease is true for a hold on a child that cannot be held in part and that has a template which is not the
// completed one, of this release or of one before: all that is left is to stop it where it is.
func (p *pass) pausedInMidRelease(pl *place, r rendered, part render.Partition) bool {
	if !part.Hold || !p.underWay() || r.workload.Kind.Hold != render.HoldWhole {
		return false
	}
	done, err := p.book.completed(p.completed, pl.name, pl.old.Revision, pl.present)
	return err != nil || !done.same(r)
}

func (p *pass) intent() render.Intent {
	out := render.Intent{Term: p.Term, OwnerUID: p.United.UID, Generation: p.United.Generation}
	if r := p.status.Release; r != nil {
		out.Epoch = r.Epoch
	}
	return out
}

// delivered says what keeps a push from being done; false when nothing does.
func (p *pass) delivered(pl *place, to Target) bool {
	d := p.Deliveries[to]
	switch d.Problem {
	case NoProblem:
		return false
	case ProblemConflict:
		pl.say(stateConflict, d.Message+"; rename or remove that object, or set spec.adopt to take it over")
	case ProblemNamespaceMissing:
		pl.say(stateNamespaceMissing, fmt.Sprintf("%s; create namespace %s there, or let the hub do so: kubectl underway join %s --upgrade --all-namespaces",
			d.Message, p.United.Namespace, pl.cluster))
	case ProblemRefused:
		pl.say(stateRefused, "the member refuses it: "+d.Message)
	case ProblemOther:
		pl.say(stateWaiting, d.Message)
	}
	return true
}

// seen writes the child's numbers down. A number counts as updated only when the child carries the target revision and
// its report answers the spec as it is; otherwise the last one stands, or none.
func (p *pass) seen(pl *place) {
	e, r := pl.entry, &pl.child.Report
	e.Workload, e.Kind, e.Stale = r.Name, r.Kind, false
	p.heard(pl)
	if pl.child.Unreadable != "" {
		return
	}
	e.Revision = r.SubsetRevision
	e.Replicas, e.ReadyReplicas = r.Replicas, r.Ready
	switch {
	case r.SubsetRevision != pl.target.revision:
		e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Report = 0, 0, nil
	case r.Fresh:
		e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Report = r.Updated, r.UpdatedReady, r.Workload
	case pl.old.Revision != r.SubsetRevision:
		e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Report = 0, 0, nil
	}
}

// heard keeps the stored time; conclude moves it on when something else has changed.
func (p *pass) heard(pl *place) {
	if pl.entry.HeardAt == nil {
		pl.entry.HeardAt = second(p.Members[pl.cluster].HeardAt)
	}
}

// ours is true for a child whose intent names this object by UID, and that was not let go.
func (p *pass) ours(c *Child) bool {
	got, err := render.ParseIntent(c.Report.Intent)
	return err == nil && got.OwnerUID == p.United.UID && !c.Report.Orphaned
}

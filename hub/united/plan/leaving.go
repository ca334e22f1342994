package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// ConfirmRemoval is the left side of the annotation by which a person confirms a removal; the right side is the names
// of the subsets, sorted and joined by commas.
const ConfirmRemoval = appsv1alpha1.ConditionRemovalHeld

// leaver is a subset that the spec no longer has, and whose child may still be there.
type leaver struct {
	entry appsv1alpha1.SubsetStatus
	child *Child
}

// leaving handles subsets that were taken out of the list: each is drained when the others have taken over. More than
// one at once, when they are a quarter of all or more, or the last one, wait for a person.
func (p *pass) leaving() {
	p.findLeavers()
	names := p.leaverNames()
	if n := len(names); n > 0 && (len(p.places) == 0 || (n > 1 && 4*n >= n+len(p.places))) {
		if !p.confirmed(names) {
			p.removal = strings.Join(names, ",")
		}
	}
	p.out.DropConfirm = p.usedUp()
	var entries []appsv1alpha1.SubsetStatus
	for i := range p.leavers {
		if entry, keep := p.leaver(&p.leavers[i]); keep {
			entries = append(entries, entry)
		}
	}
	p.status.SubsetStatuses = nil
	for _, pl := range p.places {
		p.status.SubsetStatuses = append(p.status.SubsetStatuses, *pl.entry)
	}
	p.status.SubsetStatuses = append(p.status.SubsetStatuses, entries...)
}

// confirmed is true when a person confirmed the removal of each of these: the first to be gone does not revoke it for the
// rest.
func (p *pass) confirmed(names []string) bool {
	value, ok := strings.CutPrefix(p.United.Annotations[appsv1alpha1.AnnotationConfirm], ConfirmRemoval+"/")
	if !ok {
		return false
	}
	allowed := strings.Split(value, ",")
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(allowed, name) })
}

// usedUp is true when a confirmed removal is finished, as stored: the confirmation is not one of the next removal.
func (p *pass) usedUp() bool {
	return len(p.leavers) == 0 && strings.HasPrefix(p.United.Annotations[appsv1alpha1.AnnotationConfirm], ConfirmRemoval+"/")
}

// findLeavers collects what the status and the members know and the spec does not.
func (p *pass) findLeavers() {
	inSpec := map[site]bool{}
	for _, pl := range p.places {
		inSpec[site{pl.name, pl.cluster}] = true
	}
	for i := range p.was.SubsetStatuses {
		s := &p.was.SubsetStatuses[i]
		if !inSpec[site{s.Name, s.Cluster}] {
			p.leavers = append(p.leavers, leaver{entry: *s.DeepCopy()})
		}
	}
	for i := range p.Children {
		if c := &p.Children[i]; !inSpec[site{c.Report.Subset, c.Member}] && p.ours(c) {
			p.findLeaver(c)
		}
	}
	slices.SortStableFunc(p.leavers, func(a, b leaver) int {
		return cmp.Or(cmp.Compare(a.entry.Name, b.entry.Name), cmp.Compare(a.entry.Cluster, b.entry.Cluster))
	})
}

// findLeaver adds a child that no place of the spec has to what the status says of it.
func (p *pass) findLeaver(c *Child) {
	at := slices.IndexFunc(p.leavers, func(l leaver) bool {
		return l.entry.Name == c.Report.Subset && l.entry.Cluster == c.Member && (l.child == nil || l.entry.Workload == c.Report.Name)
	})
	if at < 0 {
		at = len(p.leavers)
		p.leavers = append(p.leavers, leaver{entry: appsv1alpha1.SubsetStatus{
			Name: c.Report.Subset, Cluster: c.Member, Workload: c.Report.Name,
		}})
	}
	p.leavers[at].child = c
}

// leaverNames are the distinct names, with the cluster where a subset only moved.
func (p *pass) leaverNames() []string {
	out := make([]string, 0, len(p.leavers))
	for _, l := range p.leavers {
		name := l.entry.Name
		if slices.ContainsFunc(p.places, func(pl *place) bool { return pl.name == name }) {
			name += "@" + l.entry.Cluster
		}
		out = append(out, name)
	}
	return slices.Compact(out)
}

// leaver decides for one; the second result is false when nothing of it is left.
func (p *pass) leaver(l *leaver) (appsv1alpha1.SubsetStatus, bool) {
	e := l.entry
	e.DesiredReplicas, e.Granted, e.Partition = 0, 0, 0
	member, known := p.Members[e.Cluster]
	switch {
	case !known:
		return e, false // its MemberCluster was deleted: the workload stays, out of our hands
	case member.Settling:
		p.unsettled = true
		return l.entry, true
	case !member.Ready:
		e.Stale = true
		if at := second(member.HeardAt); at != nil {
			e.HeardAt = at
		}
		e.State = stateLeaving
		e.Message = fmt.Sprintf("taken out of the list; member %s is not heard from (%s), so its child stays until it is", e.Cluster, member.Problem)
		return e, true
	case l.child == nil:
		return e, e.Workload != "" && p.stillCreating(e)
	}
	e.State, e.Stale = stateLeaving, false
	r := &l.child.Report
	e.Workload, e.Replicas, e.ReadyReplicas, e.Revision = r.Name, r.Replicas, r.Ready, r.SubsetRevision
	e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Report = 0, 0, nil
	waits := p.waitsFor()
	switch {
	case p.removal != "":
		e.Message = fmt.Sprintf("several subsets leave at once: kubectl underway confirm ud %s -n %s", p.United.Name, p.United.Namespace)
	case len(waits) > 0:
		e.Message = "taken out of the list; its child goes when these have taken over: " + quoted(waits)
	default:
		e.Message = "taken out of the list; its child is being deleted"
		p.pushEnd(WantDeleted, e.Cluster, e.Name, r.Name, "the subset was taken out of the list and the others have taken over")
		if d := p.Deliveries[Target{Member: e.Cluster, Name: r.Name}]; d.Problem != NoProblem {
			e.Message += ": " + d.Message
		}
	}
	return e, true
}

// stillCreating is true while what was posted for a subset that has just left may still be on its way.
func (p *pass) stillCreating(e appsv1alpha1.SubsetStatus) bool {
	d, posted := p.Deliveries[Target{Member: e.Cluster, Name: e.Workload}]
	if !posted || d.Gone {
		return false
	}
	p.pushEnd(WantDeleted, e.Cluster, e.Name, e.Workload, "the subset was taken out of the list")
	return true
}

// waitsFor are the places that have not taken over yet: not all replicas ready, or not heard from.
func (p *pass) waitsFor() []string {
	var out []string
	for _, pl := range p.places {
		if pl.entry.Stale || pl.child == nil || !pl.child.Report.Fresh || pl.entry.ReadyReplicas < pl.wanted() {
			out = append(out, pl.name)
		}
	}
	return out
}

func (p *pass) pushEnd(want Want, member, subset, name, because string) {
	kind := p.workload.Kind
	if kind.Resource == "" {
		kind = render.CloneSet()
	}
	var c *Child
	for i := range p.Children {
		if p.Children[i].Member == member && p.Children[i].Report.Name == name {
			c = &p.Children[i]
		}
	}
	out := Push{
		Want: want, Member: member, Subset: subset, Name: name, Kind: kind, Because: because,
		Input: render.Input{Owner: p.owner(), Subset: subset, Name: name, HubID: p.HubID, Intent: p.intent()},
	}
	if c != nil {
		out.Judged = c.Report.UID
	}
	p.out.Pushes = append(p.out.Pushes, out)
}

package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// aside is a subset that the plan leaves as it is, and shows: a member that joins when it can, or one that no template
// matches any more. The child of the latter is neither written nor deleted, its replicas count as placed, and its grant
// stays written down for the day it comes back.
type aside struct {
	entry appsv1alpha1.SubsetStatus
	// key is the template that it has or had.
	key string
	// joining says why a member that is selected takes no child yet; empty: it was selected once and is not now.
	joining string
	child   *Child
	// unheard is true for a child that the status has no entry of: what it is to have is its member's word alone.
	unheard bool
}

// selectedOnce stands for the template of a child that is there and that the status has lost.
const selectedOnce = "unknown"

// setAside finds the subsets that a template made and that none makes now: nobody asked for their removal.
func (p *pass) setAside() {
	if len(p.selectors) == 0 {
		return // there is no template that could have made one
	}
	there := p.planned()
	for i := range p.was.SubsetStatuses {
		e := &p.was.SubsetStatuses[i]
		at := site{e.Name, e.Cluster}
		if there[at] || e.SelectedBy == "" || !p.stays(at, e.SelectedBy) {
			continue
		}
		there[at] = true
		a := &aside{entry: *e.DeepCopy(), key: e.SelectedBy, child: p.firstChild(at)}
		fewer(&a.entry, a.child)
		if !p.nothingThere(&a.entry, a.child) {
			p.asides = append(p.asides, a)
		}
	}
	for i := range p.Children {
		c := &p.Children[i]
		at := site{c.Report.Subset, c.Member}
		if _, known := p.entries[at]; there[at] || known || !p.ours(c) || !p.stays(at, "") {
			continue
		}
		there[at] = true
		p.asides = append(p.asides, &aside{unheard: true, child: p.firstChild(at), entry: appsv1alpha1.SubsetStatus{
			Name: at.name, Cluster: at.cluster, SelectedBy: selectedOnce, DesiredReplicas: ptr.Deref(c.Report.SpecReplicas, 1),
		}})
	}
}

// planned are the sites of the places and of those that are put aside.
func (p *pass) planned() map[site]bool {
	out := make(map[site]bool, len(p.places)+len(p.asides))
	for _, pl := range p.places {
		out[site{pl.name, pl.cluster}] = true
	}
	for _, a := range p.asides {
		out[site{a.entry.Name, a.entry.Cluster}] = true
	}
	return out
}

// stays is true for a subset of a member that a template made, or may have made, and that no one asked to go. One whose
// name the list of subsets has now was moved by a person. One whose MemberCluster is gone is out of our hands.
func (p *pass) stays(at site, key string) bool {
	member, known := p.Members[at.cluster]
	if !known || at.name != at.cluster || len(p.selectors) == 0 || named(p.United, at.name) {
		return false
	}
	if member.Draining {
		return false
	}
	return !drains(p.selectors, key) || firstMatch(p.selectors, member.Labels, false) != nil
}

// firstChild is the child at a site, the first by name of its kinds.
func (p *pass) firstChild(at site) *Child {
	there := p.children[at]
	if len(there) == 0 {
		return nil
	}
	return slices.MinFunc(there, func(a, b *Child) int {
		return cmp.Or(cmp.Compare(a.Report.Name, b.Report.Name), cmp.Compare(a.Report.Kind, b.Report.Kind))
	})
}

// fewer counts no replicas that the child was never told to have: what was allotted last may not have arrived. One that
// has more than its share is left with them, and nobody has fewer for that. What is awaited of it is awaited until it is ready.
func fewer(e *appsv1alpha1.SubsetStatus, c *Child) {
	ready := e.ReadyReplicas
	if c != nil && c.Unreadable == "" {
		ready = c.Report.Ready
		switch {
		case e.State == stateLeaving && e.DesiredReplicas == 0:
			// It was left as it is until others had taken over; of what it has only ready pods are counted on.
			e.DesiredReplicas = ptr.Deref(c.Report.SpecReplicas, 1)
			e.AwaitedReplicas = e.DesiredReplicas
		case len(c.Report.ScaledBy) == 0:
			e.DesiredReplicas = min(e.DesiredReplicas, ptr.Deref(c.Report.SpecReplicas, 1))
		}
	}
	e.AwaitedReplicas = max(min(e.AwaitedReplicas, e.DesiredReplicas-ready), 0)
}

// nothingThere is true for a subset that has no child, as the member itself says, or that never was to have one.
func (p *pass) nothingThere(e *appsv1alpha1.SubsetStatus, c *Child) bool {
	if c != nil {
		return false
	}
	if e.State == stateJoining {
		return true
	}
	d, posted := p.Deliveries[Target{Member: e.Cluster, Kind: cmp.Or(e.Kind, p.kind()), Name: e.Workload}]
	return p.Members[e.Cluster].Ready && (!posted || d.Gone)
}

// countPlaced sums what stays with subsets outside of the plan: nobody else grows because a member was relabelled, nor
// because a removal is not confirmed.
func (p *pass) countPlaced() {
	p.boundUnheard()
	for _, e := range p.outside() {
		if i, known := p.entries[site{e.Name, e.Cluster}]; known && p.was.SubsetStatuses[i].DesiredReplicas == 0 {
			e.DesiredReplicas = min(e.DesiredReplicas, p.most()) // what it has again is its member's word
		}
		e.DesiredReplicas = max(e.DesiredReplicas, 0)
		e.AwaitedReplicas = min(e.AwaitedReplicas, e.DesiredReplicas)
		add(&p.placed, e.DesiredReplicas)
		add(&p.awaitedOutside, e.AwaitedReplicas)
	}
	if total := p.United.Spec.Replicas; total != nil && p.placed > *total {
		p.shadowed = append(p.shadowed, fmt.Sprintf("%d replicas stay with members that are not selected any more, and spec.replicas is %d", p.placed, *total))
	}
}

// most is the largest number of replicas that a subset outside of the plan counts with.
func (p *pass) most() int32 {
	if all := p.United.Spec.Replicas; all != nil {
		return max(*all, 0)
	}
	return math.MaxInt32
}

// boundUnheard counts of children that the status has no entry of what nobody else has: a member's word takes no replicas from
// the members that have them.
func (p *pass) boundUnheard() {
	room := int64(0)
	if all := p.United.Spec.Replicas; all != nil {
		room = int64(*all)
	}
	for _, pl := range p.places {
		room -= int64(p.last(pl))
	}
	for _, e := range p.outside() {
		if _, known := p.entries[site{e.Name, e.Cluster}]; known {
			room -= int64(max(e.DesiredReplicas, 0))
		}
	}
	for _, a := range p.asides {
		if a.unheard {
			a.entry.DesiredReplicas = int32(min(int64(max(a.entry.DesiredReplicas, 0)), max(room, 0)))
			room -= int64(a.entry.DesiredReplicas)
		}
	}
}

// outside are the names of subsets that have replicas and are not in the plan, with their entries.
func (p *pass) outside() []*appsv1alpha1.SubsetStatus {
	var out []*appsv1alpha1.SubsetStatus
	for _, a := range p.asides {
		if a.joining == "" {
			out = append(out, &a.entry)
		}
	}
	for i := range p.leavers {
		if l := &p.leavers[i]; l.back {
			out = append(out, &l.entry)
		}
	}
	return out
}

// showAsides writes the entries of what is put aside.
func (p *pass) showAsides() {
	for _, a := range p.asides {
		switch {
		case a.joining != "":
			p.showJoining(a)
		case p.Members[a.entry.Cluster].Settling:
		default:
			p.showUnselected(a)
		}
	}
}

func (p *pass) showJoining(a *aside) {
	a.entry = appsv1alpha1.SubsetStatus{
		Name: a.entry.Name, Cluster: a.entry.Cluster, SelectedBy: a.key, State: stateJoining,
		Message: "it gets a child when it can take one: " + a.joining,
	}
}

func (p *pass) showUnselected(a *aside) {
	e, member := &a.entry, p.Members[a.entry.Cluster]
	e.State = stateUnselected
	why := "no template of topology.subsetTemplates matches its labels any more"
	if member.Deleting {
		why = "its MemberCluster is being deleted"
	}
	e.Message = fmt.Sprintf("%s; its child stays as it is and its %d replicas count as placed; label the MemberCluster so that a template matches it, or write whenUnselected: Drain",
		why, e.DesiredReplicas)
	e.Stale = !member.Ready
	if at := second(member.HeardAt); e.Stale && at != nil {
		e.HeardAt = at
	}
	p.markUnselected(e, why)
	if c := a.child; c != nil && c.Unreadable == "" {
		p.count(e, c)
	}
}

// markUnselected sets the entry's condition; its time is that of its beginning.
func (p *pass) markUnselected(e *appsv1alpha1.SubsetStatus, why string) {
	next := metav1.Condition{
		Type: appsv1alpha1.ConditionUnselected, Status: metav1.ConditionTrue, Reason: "NoTemplateMatches",
		Message: why, LastTransitionTime: *second(p.now),
	}
	for i := range e.Conditions {
		if c := &e.Conditions[i]; c.Type == next.Type {
			next.LastTransitionTime = c.LastTransitionTime
		}
	}
	e.Conditions = []metav1.Condition{next}
}

// count takes the child's numbers; those of pods that are updated where it carries the revision of the spec.
func (p *pass) count(e *appsv1alpha1.SubsetStatus, c *Child) {
	r := &c.Report
	same := e.Revision == r.SubsetRevision && sameKind(e.Kind, r.Kind)
	e.Workload, e.Kind, e.Revision = r.Name, r.Kind, r.SubsetRevision
	e.Replicas, e.ReadyReplicas, e.Report = r.Replicas, r.Ready, r.Workload
	_, target := p.book.of([]string{p.target}, e.Name, held{r.SubsetRevision, r.Kind}, override{template: e.SelectedBy})
	switch {
	case !target:
		e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Report = 0, 0, nil
	case r.Fresh:
		e.UpdatedReplicas, e.UpdatedReadyReplicas = r.Updated, r.UpdatedReady
	case !same:
		e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Report = 0, 0, nil
	}
}

// asideMessage names what is put aside: those that join, or those that are not selected any more.
func (p *pass) asideMessage(joining bool) string {
	var parts []string
	for _, a := range p.asides {
		switch {
		case (a.joining != "") != joining:
		case joining:
			parts = append(parts, a.entry.Name+": "+a.joining)
		default:
			parts = append(parts, fmt.Sprintf("%s: %d replicas", a.entry.Name, a.entry.DesiredReplicas))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	if joining {
		return "members that are selected and take no child yet: " + strings.Join(parts, "; ")
	}
	return "no template matches these members any more; their children stay as they are and their replicas count as placed, until one matches again or whenUnselected is Drain: " + strings.Join(parts, "; ")
}

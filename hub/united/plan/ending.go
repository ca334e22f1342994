package plan

import (
	"fmt"
	"slices"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// end decides for an object that is being deleted.
//
// Deleting: every place that ever had a child is told to delete it, whether the cache has it or not, because a create
// may be on its way; the finalizer goes when each delete is proven. An unreachable member is waited for, by name.
//
// Letting go: children are marked, local ones lose their owner reference first, and the finalizer goes. An unreachable
// member is not waited for, nor is this cluster when it does not serve the kind any more: its children went with the CRD.
func (p *pass) end() {
	s := p.status
	s.ObservedGeneration = p.United.Generation
	if !slices.Contains(p.United.Finalizers, appsv1alpha1.FinalizerChildren) {
		return
	}
	want, because := WantDeleted, "the UnitedDeployment is deleted"
	if p.Ending == EndingOrphan {
		want, because = WantOrphaned, "the UnitedDeployment goes and its children stay"
	}
	var waits []string
	for _, t := range p.everyChild() {
		if why := p.endOne(t, want, because); why != "" {
			waits = append(waits, why)
		}
	}
	slices.Sort(waits)
	waits = slices.Compact(waits)
	switch {
	case p.unsettled:
	case len(waits) > 0 && want == WantDeleted:
		p.set(appsv1alpha1.ConditionDeleting, "WaitsForMembers", "children are being deleted; waiting for "+quoted(waits))
		p.setFalse(appsv1alpha1.ConditionReady, "Deleting", "it is being deleted")
	case len(waits) > 0:
		p.set(appsv1alpha1.ConditionDeleting, "LettingGo", "children stay and are marked as let go; waiting for "+quoted(waits))
		p.setFalse(appsv1alpha1.ConditionReady, "Deleting", "it is being deleted")
	}
	p.out.DropFinalizer = len(waits) == 0 && !p.unsettled
}

// ended is one child to delete or let go.
type ended struct {
	member, subset, name string
}

// everyChild lists what the status, the spec and the members know, sorted by member and name.
func (p *pass) everyChild() []ended {
	seen := map[Target]string{}
	add := func(member, subset, name string) {
		if name == "" {
			name = render.ChildName(p.United.Name, subset)
		}
		seen[Target{Member: member, Name: name}] = subset
	}
	for i := range p.was.SubsetStatuses {
		e := &p.was.SubsetStatuses[i]
		add(e.Cluster, e.Name, e.Workload)
	}
	for i := range p.United.Spec.Topology.Subsets {
		e := &p.United.Spec.Topology.Subsets[i]
		old, _ := p.entryOf(e.Name, e.Cluster)
		add(e.Cluster, e.Name, old.Workload)
	}
	for i := range p.Children {
		if c := &p.Children[i]; p.ours(c) {
			add(c.Member, c.Report.Subset, c.Report.Name)
		}
	}
	out := make([]ended, 0, len(seen))
	for t, subset := range seen {
		out = append(out, ended{member: t.Member, subset: subset, name: t.Name})
	}
	slices.SortFunc(out, func(a, b ended) int {
		if a.member != b.member {
			if a.member < b.member {
				return -1
			}
			return 1
		}
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return out
}

// endOne pushes the end of one child and says what it waits for; "" when it is done with.
func (p *pass) endOne(t ended, want Want, because string) string {
	where := "member " + t.member
	if t.member == "" {
		where = "this cluster"
	}
	member, known := p.Members[t.member]
	switch {
	case !known:
		return "" // its MemberCluster was deleted: the workload stays, out of our hands
	case member.Settling:
		p.unsettled = true
		return where
	case !member.Ready && want == WantOrphaned && (t.member != "" || member.NotServed):
		return ""
	case !member.Ready:
		return fmt.Sprintf("%s, which is not heard from (%s)", where, member.Problem)
	}
	d := p.Deliveries[Target{Member: t.member, Name: t.name}]
	p.pushEnd(want, t.member, t.subset, t.name, because)
	switch {
	case d.Gone:
		return ""
	case d.Problem == ProblemConflict:
		return "" // an object of that name is not ours; it is not touched
	case d.Problem != NoProblem:
		return fmt.Sprintf("%s: %s", where, d.Message)
	}
	return where
}

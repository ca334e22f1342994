package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/revision"
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
	busy := map[string]bool{}
	for _, t := range p.everyChild() {
		if why := p.endOne(t, want, because); why != "" {
			waits = append(waits, why)
			busy[t.member] = true
		}
	}
	waits = append(waits, p.travelEnd(want, busy)...)
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
	member, subset, name, kind string
	// known is true when it was seen, or the status names it; the others may be on their way.
	known bool
}

// everyChild lists what the status, the spec and the members know, sorted by member, name and kind. A create may be on
// its way of any kind that the object has had.
func (p *pass) everyChild() []ended {
	seen, kinds := map[Target]ended{}, p.everyKind()
	add := func(e ended) {
		e.name = cmp.Or(e.name, render.ChildName(p.United.Name, e.subset))
		e.kind = cmp.Or(e.kind, KindName(render.CloneSet()))
		at := Target{Member: e.member, Kind: e.kind, Name: e.name}
		e.known = e.known || seen[at].known
		seen[at] = e
	}
	for i := range p.was.SubsetStatuses {
		e := &p.was.SubsetStatuses[i]
		if e.State == stateJoining {
			continue // its grant is stored before anything of it is pushed, and there is none
		}
		if e.SelectedBy != "" && e.Workload == "" {
			for _, kind := range kinds {
				add(ended{member: e.Cluster, subset: e.Name, kind: kind})
			}
			continue
		}
		add(ended{member: e.Cluster, subset: e.Name, name: e.Workload, kind: e.Kind, known: e.Workload != ""})
	}
	for i := range p.United.Spec.Topology.Subsets {
		e := &p.United.Spec.Topology.Subsets[i]
		old, _ := p.entryOf(e.Name, e.Cluster)
		for _, kind := range kinds {
			name := old.Workload
			if !sameKind(old.Kind, kind) {
				name = ""
			}
			add(ended{member: e.Cluster, subset: e.Name, name: name, kind: kind})
		}
	}
	for i := range p.Children {
		if c := &p.Children[i]; p.ours(c) {
			add(ended{member: c.Member, subset: c.Report.Subset, name: c.Report.Name, kind: c.Report.Kind, known: true})
		}
	}
	return slices.SortedFunc(maps.Values(seen), func(a, b ended) int {
		return cmp.Or(cmp.Compare(a.member, b.member), cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
	})
}

// everyKind are the kinds of the spec and of the stored revisions. A child's revision is stored as long as the child is.
func (p *pass) everyKind() []string {
	return KindsOf(append(Templates(p.Revisions), p.United.Spec.Template))
}

// Templates are those of stored revisions; what cannot be read has none.
func Templates(stored []revision.Stored) []appsv1alpha1.SubsetTemplate {
	var out []appsv1alpha1.SubsetTemplate
	for _, s := range stored {
		var c content
		if raw, err := revision.Decode(s.Data); err == nil && json.Unmarshal(raw, &c) == nil {
			out = append(out, c.Template)
		}
	}
	return out
}

// KindsOf are the names of the kinds of templates, sorted; those that cannot be read have none.
func KindsOf(templates []appsv1alpha1.SubsetTemplate) []string {
	var out []string
	for _, t := range templates {
		if w, err := render.WorkloadOf(t); err == nil {
			out = append(out, KindName(w.Kind))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// endOne pushes the end of one child and says what it waits for; "" when it is done with.
func (p *pass) endOne(t ended, want Want, because string) string {
	where := "member " + t.member
	if t.member == "" {
		where = "this cluster"
	}
	member, known := p.Members[t.member]
	unserved := slices.Contains(member.NotServed, t.kind)
	switch {
	case !known:
		return "" // its MemberCluster was deleted: the workload stays, out of our hands
	case member.Settling:
		p.unsettled = true
		return where
	case !member.Ready && want == WantOrphaned && t.member != "":
		return ""
	case unserved && (want == WantOrphaned || !t.known):
		return "" // the member knows no such kind: there is none of it
	case !member.Ready:
		return fmt.Sprintf("%s, which is not heard from (%s)", where, member.Problem)
	case unserved:
		return fmt.Sprintf("%s, which does not serve %s", where, plural(t.kind))
	}
	d := p.Deliveries[Target{Member: t.member, Kind: t.kind, Name: t.name}]
	p.pushEnd(want, t, because)
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

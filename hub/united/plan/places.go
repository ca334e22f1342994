package plan

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/subset"
	"github.com/underway-dev/underway/propagation/render"
)

// place is one subset of the spec.
type place struct {
	name, cluster string
	present       override
	// written is what the spec says of it.
	written *appsv1alpha1.SubsetPlace

	replicas int32
	// grant is how many pods may run the target revision; held says that nothing may leave what it holds; why names the
	// field that decides it.
	grant int32
	held  bool
	why   string
	// kept says why its grant stays what it was, whatever the spec says.
	kept string
	// unnamed is true when neither partitions nor partition names it.
	unnamed bool
	// grown is true for what is held whole because it was scaled in mid-release (holdGrown).
	grown bool

	target rendered
	// settled is true when the target revision changes nothing for this subset.
	settled bool
	// child is of the kind of the spec; others are the place's children of other kinds, sorted.
	child  *Child
	others []*Child
	entry  *appsv1alpha1.SubsetStatus
	old    appsv1alpha1.SubsetStatus
	known  bool

	// awaited are the replicas added here that are not ready, born those added while pods of it are reserved (Adaptive).
	awaited, born int32

	// proven is true when the child runs what it was granted; done when the release is finished here.
	proven, done bool
}

// makePlaces lists the places of the plan: the list of subsets, in its order, then the members that templates select, by
// name. What is neither in the plan nor taken out of it by a person is put aside.
func (p *pass) makePlaces() {
	for i := range p.United.Spec.Topology.Subsets {
		s := &p.United.Spec.Topology.Subsets[i]
		p.places = append(p.places, p.newPlace(s.Name, s.Cluster, &s.SubsetPlace, overrideOf(&s.SubsetPlace)))
	}
	p.selectMembers()
	p.setAside()
	p.findLeavers()
	p.holdRemoval()
	p.countPlaced()
}

func (p *pass) newPlace(name, cluster string, written *appsv1alpha1.SubsetPlace, present override) *place {
	pl := &place{name: name, cluster: cluster, written: written, present: present}
	pl.old, pl.known = p.entryOf(name, cluster)
	pl.old.SelectedBy = present.template
	p.childrenOf(pl)
	return pl
}

// shares are what the places ask for, in their order. A percent is one of all replicas, also of those that are placed
// elsewhere already.
func (p *pass) shares() []subset.Share {
	out := make([]subset.Share, len(p.places))
	for i, pl := range p.places {
		w := pl.written
		out[i] = subset.Share{
			Name: pl.name, Last: p.last(pl),
			Replicas: p.ofAll(w.Replicas), Min: p.ofAll(w.MinReplicas), Max: p.ofAll(w.MaxReplicas),
		}
	}
	return out
}

// ofAll turns a percent of all replicas into a number where not all are there to be divided.
func (p *pass) ofAll(v *intstr.IntOrString) *intstr.IntOrString {
	if p.placed == 0 || p.United.Spec.Replicas == nil || v == nil || v.Type == intstr.Int {
		return v
	}
	got, err := subset.Allocate(p.United.Spec.Replicas, []subset.Share{{Replicas: v}, {}})
	if err != nil {
		return v // the allocator says what is wrong with it
	}
	return new(intstr.FromInt32(got.Replicas[0]))
}

// toPlace is the total that is divided over the places: what is left of the replicas when those that stay with subsets
// outside of the plan are taken off. Nil: the sum of what the places name, or 1.
func (p *pass) toPlace() *int32 {
	all := p.United.Spec.Replicas
	switch {
	case p.placed == 0:
		return all
	case all != nil:
		return new(max(0, *all-p.placed))
	case slices.ContainsFunc(p.places, func(pl *place) bool { return pl.written.Replicas != nil && pl.written.Replicas.Type == intstr.Int }):
		return nil
	}
	return new(int32(0)) // the one replica of an object that says nothing
}

// last is what the place was allotted last: as stored, or else what its child says. One that was leaving was left as it is.
func (p *pass) last(pl *place) int32 {
	if c := pl.serving(); pl.old.State == stateLeaving && c != nil && c.Unreadable == "" {
		return ptr.Deref(c.Report.SpecReplicas, 0)
	}
	if n, ok := p.was.SubsetReplicas[pl.name]; ok {
		return n
	}
	if c := pl.serving(); c != nil {
		return ptr.Deref(c.Report.SpecReplicas, 0)
	}
	return 0
}

func (p *pass) entryOf(name, cluster string) (appsv1alpha1.SubsetStatus, bool) {
	if i, ok := p.entries[site{name, cluster}]; ok {
		return *p.was.SubsetStatuses[i].DeepCopy(), true
	}
	return appsv1alpha1.SubsetStatus{Name: name, Cluster: cluster}, false
}

// childrenOf picks the children of a place, one of each kind.
func (p *pass) childrenOf(pl *place) {
	there := p.children[site{pl.name, pl.cluster}]
	if len(there) == 1 && there[0].Report.Kind == p.kind() { // as nearly always
		pl.child = there[0]
		return
	}
	kinds := map[string]bool{}
	for _, c := range there {
		kinds[c.Report.Kind] = true
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if kind == p.kind() {
			pl.child = p.childOf(pl, kind)
			continue
		}
		pl.others = append(pl.others, p.childOf(pl, kind))
	}
}

// childOf picks the child of a kind: the one the status names, the one of the derived name, or the first by name.
func (p *pass) childOf(pl *place, kind string) *Child {
	derived := render.ChildName(p.United.Name, pl.name)
	rank := func(c *Child) int {
		switch c.Report.Name {
		case pl.old.Workload:
			return 0
		case derived:
			return 1
		default:
			return 2
		}
	}
	var best *Child
	for _, c := range p.children[site{pl.name, pl.cluster}] {
		if c.Report.Kind != kind {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(rank(c), rank(best)), cmp.Compare(c.Report.Name, best.Report.Name)) < 0 {
			best = c
		}
	}
	return best
}

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/subset"
	"github.com/underway-dev/underway/propagation/render"
)

// settleTime is how long after an edit a subset is not given fewer replicas, and numbers that contradict each other are
// not acted on: an edit in two writes a moment apart never shows a member its first half (B047).
const settleTime = 2 * time.Second

// defaultHistory is the number of old revisions kept where the object does not say.
const defaultHistory = 10

// Next decides what is to be done now.
func Next(o Observation, now time.Time) Decision {
	p := &pass{Observation: o, now: now, was: &o.United.Status}
	p.out.Status = *o.United.Status.DeepCopy()
	p.status = &p.out.Status
	p.index()
	switch {
	case o.United.DeletionTimestamp != nil:
		p.end()
	case !p.read():
		p.refuse()
	default:
		p.plan()
	}
	p.happened()
	return p.out
}

// pass is one run of Next.
type pass struct {
	Observation

	now    time.Time
	was    *appsv1alpha1.UnitedDeploymentStatus
	status *appsv1alpha1.UnitedDeploymentStatus
	out    Decision

	// What reading found.
	workload render.Workload
	kindName string
	// inPlaceOnly and onDelete are the template's strategy.
	inPlaceOnly, onDelete bool
	invalid               []string
	unacted               []string
	unknown               []string

	// entries and children by place, so that a thousand places are one walk and not a million.
	entries  map[site]int
	children map[site][]*Child

	// What was decided on the way.
	total     int32
	places    []*place
	book      *book
	names     []string
	target    string
	completed string
	release   *appsv1alpha1.ReleaseStatus
	refused   string
	// refusedFor is the reason of that in one word.
	refusedFor string
	// spoilt are the members' API servers' words about a template that they refuse: no release of it opens.
	spoilt    []string
	notes     []string
	unsettled bool
	leavers   []leaver
	removal   string
	removalOf string
}

// site is a subset's name and its cluster.
type site struct {
	name, cluster string
}

func (p *pass) index() {
	p.entries, p.children = map[site]int{}, map[site][]*Child{}
	for i := range p.was.SubsetStatuses {
		s := &p.was.SubsetStatuses[i]
		if _, ok := p.entries[site{s.Name, s.Cluster}]; !ok {
			p.entries[site{s.Name, s.Cluster}] = i
		}
	}
	for i := range p.Children {
		if c := &p.Children[i]; p.ours(c) {
			at := site{c.Report.Subset, c.Member}
			p.children[at] = append(p.children[at], c)
		}
	}
}

// place is one subset of the spec.
type place struct {
	name, cluster string
	present       override

	replicas int32
	// grant is how many pods may run the target revision; held says that nothing may leave what it holds; why names the
	// field that decides it.
	grant int32
	held  bool
	why   string
	// unnamed is true when neither partitions nor partition names it.
	unnamed bool

	target rendered
	// settled is true when the target revision changes nothing for this subset.
	settled bool
	// child is of the kind of the spec; others are the place's children of other kinds, sorted.
	child  *Child
	others []*Child
	entry  *appsv1alpha1.SubsetStatus
	old    appsv1alpha1.SubsetStatus
	known  bool

	// proven is true when the child runs what it was granted; done when the release is finished here.
	proven, done bool
}

func (p *pass) plan() {
	if !p.allocate() || !p.revisions() {
		p.refuse()
		return
	}
	if !p.checked() {
		return
	}
	p.grants()
	p.settleRelease()
	for _, pl := range p.places {
		p.place(pl)
	}
	p.leaving()
	p.complete()
	p.summarise()
	p.conclude()
}

// conclude holds back what must not happen before something else is stored.
func (p *pass) conclude() {
	s, was := p.status, p.was
	stored := equal(s.Release, was.Release) && s.CurrentRevision == was.CurrentRevision &&
		s.UpdatedRevision == was.UpdatedRevision && p.out.Create == nil
	p.out.StoreFirst = !stored
	p.out.AddFinalizer = !slices.Contains(p.United.Finalizers, appsv1alpha1.FinalizerChildren)
	if p.out.StoreFirst || p.out.AddFinalizer {
		p.out.Pushes = nil
	}
}

func (p *pass) owner() types.NamespacedName {
	return types.NamespacedName{Namespace: p.United.Namespace, Name: p.United.Name}
}

func (p *pass) lookAgain(in time.Duration) {
	if p.out.LookAgainIn == 0 || in < p.out.LookAgainIn {
		p.out.LookAgainIn = max(in, time.Millisecond)
	}
}

// fleet is true for a manifest that uses clusters: what upstream does not know.
func (p *pass) fleet() bool {
	t := &p.United.Spec.Topology
	return len(t.SubsetTemplates) > 0 ||
		slices.ContainsFunc(t.Subsets, func(s appsv1alpha1.Subset) bool { return s.Cluster != "" })
}

// allocate divides the replicas.
func (p *pass) allocate() bool {
	spec := &p.United.Spec
	shares := make([]subset.Share, len(spec.Topology.Subsets))
	p.places = make([]*place, len(shares))
	for i := range shares {
		s := &spec.Topology.Subsets[i]
		pl := &place{name: s.Name, cluster: s.Cluster, present: overrideOf(&s.SubsetPlace)}
		pl.old, pl.known = p.entryOf(s.Name, s.Cluster)
		p.childrenOf(pl)
		p.places[i] = pl
		shares[i] = subset.Share{Name: s.Name, Replicas: s.Replicas, Min: s.MinReplicas, Max: s.MaxReplicas, Last: p.last(pl)}
	}
	got, err := subset.Allocate(spec.Replicas, shares)
	if err != nil {
		p.invalid = append(p.invalid, err.Error())
		return false
	}
	p.total, p.notes = got.Total, got.Corrections
	left := p.GenerationSeenAt.Add(settleTime).Sub(p.now)
	wait := left > 0 && !p.GenerationSeenAt.IsZero() && p.was.ObservedGeneration > 0
	hasLast := slices.ContainsFunc(shares, func(s subset.Share) bool { return s.Last > 0 })
	for i, pl := range p.places {
		pl.replicas = got.Replicas[i]
		last := shares[i].Last
		if !wait || !hasLast || pl.replicas == last {
			continue
		}
		if got.Contradiction || pl.replicas < last {
			pl.replicas = last
			p.lookAgain(left)
		}
	}
	return true
}

// last is what the place was allotted last: as stored, or else what its child says.
func (p *pass) last(pl *place) int32 {
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

// second is a time as the API server keeps it.
func second(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &out
}

func (p *pass) patchCommand(field, value string) string {
	return fmt.Sprintf(`kubectl patch ud %s -n %s --type merge -p '{"spec":{"updateStrategy":{"manualUpdate":{%s:%s}}}}'`,
		p.United.Name, p.United.Namespace, field, value)
}

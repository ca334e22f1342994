package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	p.status = &p.out.Status
	p.begun()
	p.index()
	switch {
	case o.United.DeletionTimestamp != nil:
		p.asStored()
		p.end()
	case !p.read():
		p.asStored()
		p.refuse()
	default:
		p.plan()
	}
	p.happened()
	return p.out
}

// begun begins the status with what is stored, but for what a pass that decides writes anew.
func (p *pass) begun() {
	stored := *p.was
	stored.SubsetStatuses, stored.SubsetReplicas, stored.UpdateStatus, stored.Release = nil, nil, nil, nil
	stored.DeepCopyInto(p.status)
}

// asStored leaves that, too, as it is stored, in a pass that decides nothing.
func (p *pass) asStored() {
	stored := p.was.DeepCopy()
	p.status.SubsetStatuses, p.status.SubsetReplicas = stored.SubsetStatuses, stored.SubsetReplicas
	p.status.UpdateStatus, p.status.Release = stored.UpdateStatus, stored.Release
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

	// selectors are the templates of subsets, shadowed what is said of members that the list of subsets keeps from one.
	selectors []selector
	shadowed  []string

	// What was decided on the way.
	places []*place
	// asides are subsets that the plan leaves as they are; placed are the replicas that stay outside of it, awaitedOutside those
	// of them that are not ready and were moved there.
	asides         []*aside
	placed         int32
	awaitedOutside int32
	book           *book
	// heldRoom is heldBy's list.
	heldRoom  []rendered
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
	// grew is true when a place is held from now on because it was scaled in mid-release.
	grew bool
	// unsettledEdit is true while an edit is too young to give every place the replicas it asks for.
	unsettledEdit bool
	leavers       []leaver
	// overlooked is said of children that the plan does not look at yet; they count where a person is asked because many leave.
	overlooked         []string
	overlookedChildren int
	removal            string
	removalOf          string
}

// site is a subset's name and its cluster.
type site struct {
	name, cluster string
}

func (p *pass) index() {
	p.entries = make(map[site]int, len(p.was.SubsetStatuses))
	p.children = make(map[site][]*Child, len(p.Children))
	for i := range p.was.SubsetStatuses {
		s := &p.was.SubsetStatuses[i]
		if _, ok := p.entries[site{s.Name, s.Cluster}]; !ok {
			p.entries[site{s.Name, s.Cluster}] = i
		}
	}
	p.named()
	for i := range p.Children {
		if c := &p.Children[i]; p.ours(c) {
			at := site{c.Report.Subset, c.Member}
			p.children[at] = append(p.children[at], c)
		}
	}
}

func (p *pass) plan() {
	if !p.allocate() || !p.revisions() {
		p.asStored()
		p.refuse()
		return
	}
	if !p.checked() {
		p.asStored()
		return
	}
	p.grants()
	p.settleRelease()
	p.out.Pushes = make([]Push, 0, len(p.places)+len(p.leavers))
	for _, pl := range p.places {
		p.place(pl)
	}
	p.travel()
	p.leaving()
	p.complete()
	p.summarise()
	p.conclude()
}

// conclude holds back what must not happen before something else is stored.
func (p *pass) conclude() {
	s, was := p.status, p.was
	stored := sameRelease(s.Release, was.Release) && s.CurrentRevision == was.CurrentRevision &&
		s.UpdatedRevision == was.UpdatedRevision && p.out.Create == nil && !p.grew
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

// allocate divides the replicas over the places.
func (p *pass) allocate() bool {
	p.makePlaces()
	shares := p.shares()
	p.emptyDraining(shares)
	got, err := p.divide(shares)
	if err != nil {
		p.invalid = append(p.invalid, err.Error())
		return false
	}
	p.notes = slices.Concat(got.Corrections, p.shadowed, p.overlooked)
	p.settle(shares, got)
	p.notes = append(p.notes, p.drainNotes()...)
	return true
}

// divide is the allocator that the spec asks for.
func (p *pass) divide(shares []subset.Share) (subset.Allocation, error) {
	if p.adaptive() {
		return p.adapt(shares)
	}
	got, err := subset.Allocate(p.toPlace(), shares)
	if err == nil && p.shifts() {
		p.shift(shares, &got)
	}
	return got, err
}

// settle gives every place its replicas. For a moment after an edit no place is given fewer than it had, and numbers that
// contradict each other are not acted on.
func (p *pass) settle(shares []subset.Share, got subset.Allocation) {
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
			pl.replicas, p.unsettledEdit = last, true
			p.lookAgain(left)
		}
	}
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

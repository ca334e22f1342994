package travel

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/underway-dev/underway/hub/bell"
	"github.com/underway-dev/underway/hub/travel/plan"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// What the hub does in its own cluster for objects that travel by label: the finalizer is the only thing it writes. Other
// kinds than Services need a role that the administrator binds, see docs/content.md.
//
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Members is what this package reads of members; *clusters.Fleet is one.
type Members interface {
	View(name string) (clusters.View, bool)
	// Child is the hub's cached object; false while the kind is not read there.
	Child(member string, gvk schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, bool)
	// Get is a fresh read; a NotFound error is an answer of the member.
	Get(ctx context.Context, member string, gvk schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, error)
}

// Outbox is where wishes go; *outbox.Outbox is one.
type Outbox interface {
	Post(item outbox.Item)
	WithdrawShare(key outbox.Key, owner types.UID)
	Outcome(key outbox.Key) (outbox.Outcome, bool)
}

// Options of a Reconciler.
type Options struct {
	// Client reads from the manager's cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Meta has the metadata of the hub's objects of Kinds.
	Meta client.Reader
	// Kinds that travel by label; Retired are those that did at an earlier start: their objects are let go.
	Kinds, Retired []render.Kind
	// Ledger remembers what no object tells any more.
	Ledger  *Ledger
	Members Members
	Outbox  Outbox
	// HubID is 16 hex digits; Term is the hub's present one.
	HubID string
	Term  func() int64
	// Events may be nil.
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// SettleTime is how long after its start a hub says nothing of members that are on their way. Default 30 s.
	SettleTime time.Duration
	// Every is the shortest time between two passes over one object, and everyMember longer for each member that has a copy: a
	// pass costs that much more, and while a thousand members answer one after the other each answer asks for one. Default 200 ms.
	Every time.Duration
}

// Reconciler reconciles objects that travel by label. A request names "<Kind>.<group>/<name>" in a namespace, as no
// UnitedDeployment is named.
type Reconciler struct {
	Options

	ring *bell.Bell

	mu      sync.Mutex
	started time.Time
	// memory is of the objects that travel, or did; losing it costs a repeated look.
	memory map[types.NamespacedName]*memory
	// debts are by the UIDs of ended objects; collected is when they were looked at last.
	debts     map[types.UID]*debt
	collected time.Time
	// retired are the given up kinds of which nothing is held any more.
	retired map[schema.GroupKind]bool
}

// memory is what is remembered of one object.
type memory struct {
	uid types.UID
	// seenVersion of the object is what prepared and excluded were made of; version is the one at which prepared changed last.
	seenVersion, version int64
	prepared             *unstructured.Unstructured
	hash, excluded       string
	// posted is what was asked for, by member; marks are fingerprints of it.
	posted map[string]plan.Want
	marks  map[string]string
	// left is, by member, since when it is not selected any more.
	left map[string]time.Time
	// orphan: somebody deletes it with --cascade=orphan. The garbage collector takes that finalizer off at once.
	orphan bool
	passed time.Time
	told   telling
	counts map[plan.State]int
}

// New returns a Reconciler; ring wakes it.
func New(o Options, ring *bell.Bell) *Reconciler {
	if o.SettleTime == 0 {
		o.SettleTime = 30 * time.Second
	}
	if o.Every == 0 {
		o.Every = 200 * time.Millisecond
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Kinds = slices.Concat(o.Kinds, o.Retired)
	return &Reconciler{
		Options: o, ring: ring, memory: map[types.NamespacedName]*memory{}, debts: map[types.UID]*debt{}, retired: map[schema.GroupKind]bool{},
	}
}

// Key is how a request, and the outbox, call an object of a kind.
func Key(kind schema.GroupKind, namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: kind.String() + "/" + name}
}

// IsKey is true for what Key returns, and for the name of no UnitedDeployment.
func IsKey(owner types.NamespacedName) bool { return strings.Contains(owner.Name, "/") }

// parse is the reverse of Key; false for a kind that does not travel.
func (r *Reconciler) parse(key types.NamespacedName) (render.Kind, string, bool) {
	text, name, _ := strings.Cut(key.Name, "/")
	kind, ok := r.kindNamed(text)
	return kind, name, ok
}

// Reconcile is of reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.NamespacedName == endedKey() {
		return r.collect(ctx)
	}
	kind, name, ok := r.parse(req.NamespacedName)
	if !ok {
		return ctrl.Result{}, nil
	}
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(kind.GVK)
	err := r.Meta.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: name}, meta)
	if apierrors.IsNotFound(err) {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, wrap("reading the object", err)
	}
	meta.SetGroupVersionKind(kind.GVK)
	if !concerns(meta) && !r.remembers(req.NamespacedName) {
		return ctrl.Result{}, nil
	}
	m, wait := r.remember(req.NamespacedName, meta)
	if wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	seen, err := r.observe(ctx, kind, meta, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision := plan.Next(seen.Observation)
	again, err := r.act(ctx, seen, &decision)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: conflictPause}, nil // the cache is behind; look again
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// everyMember is how much longer the time between two passes is for each member that something was asked of.
const everyMember = 2 * time.Millisecond

// conflictPause is how long to wait for the cache after a write on an outdated object.
const conflictPause = 100 * time.Millisecond

// remember returns the memory of an object, a new one for a new object of that name, and how long to wait for the next pass.
func (r *Reconciler) remember(key types.NamespacedName, meta *metav1.PartialObjectMetadata) (*memory, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	if r.started.IsZero() {
		r.started = now
	}
	m := r.memory[key]
	if m == nil || m.uid != meta.UID {
		if m != nil {
			r.withdraw(key, m, nil)
		}
		m = &memory{uid: meta.UID, posted: map[string]plan.Want{}, marks: map[string]string{}, left: map[string]time.Time{}}
		r.memory[key] = m
	}
	if wait := m.passed.Add(r.Every + time.Duration(len(m.posted))*everyMember).Sub(now); !m.passed.IsZero() && wait > 0 {
		return m, wait
	}
	m.passed = now
	return m, 0
}

func (r *Reconciler) remembers(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory[key] != nil
}

func (r *Reconciler) remembersUID(key types.NamespacedName, uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memory[key]
	return m != nil && m.uid == uid
}

// forget withdraws everything of an object.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.memory[key]; m != nil {
		r.withdraw(key, m, nil)
	}
	delete(r.memory, key)
}

// withdraw takes back what was posted and is not in keep; marks on members stay. It needs mu.
func (r *Reconciler) withdraw(key types.NamespacedName, m *memory, keep map[string]bool) {
	kind, name, ok := r.parse(key)
	if !ok {
		return
	}
	for member := range m.posted {
		if !keep[member] {
			r.Outbox.WithdrawShare(outbox.Key{Member: member, GVK: kind.GVK, Namespace: key.Namespace, Name: name}, m.uid)
			delete(m.posted, member)
			delete(m.marks, member)
			delete(m.told.took, member)
		}
	}
}

// Everyone wakes all objects that travel: something of a member, or of all, has changed.
func (r *Reconciler) Everyone() {
	for _, key := range r.known() {
		r.ring.Ring(reconcile.Request{NamespacedName: key})
	}
	r.ringEnded()
}

func (r *Reconciler) known() []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]types.NamespacedName, 0, len(r.memory))
	for key := range r.memory {
		out = append(out, key)
	}
	return out
}

// Source is what wakes this package: the outbox and the fleet.
type Source interface {
	Subscribe(fn func(owner types.NamespacedName))
	SubscribeStop(fn func())
}

// Connect wakes objects by what happens on members and in the outbox. Call it before either starts.
func (r *Reconciler) Connect(fleet interface{ Subscribe(fn func(clusters.Event)) }, out Source) {
	fleet.Subscribe(r.Heard)
	out.SubscribeStop(r.Everyone)
	out.Subscribe(func(owner types.NamespacedName) {
		if IsKey(owner) {
			r.ring.Ring(reconcile.Request{NamespacedName: owner})
		}
	})
}

// Heard wakes who is concerned by an event of a member.
func (r *Reconciler) Heard(e clusters.Event) {
	switch {
	case e.Owner.Name != "":
	case e.Object.Name == "":
		r.mu.Lock()
		for _, d := range r.debts {
			delete(d.barred, e.Member)
		}
		r.mu.Unlock()
		r.Everyone()
	default:
		if key := Key(e.GVK.GroupKind(), e.Object.Namespace, e.Object.Name); r.remembers(key) {
			r.ring.Ring(reconcile.Request{NamespacedName: key})
		}
	}
}

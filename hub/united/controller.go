package united

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/hub/check"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
)

// What the hub does in its own cluster for UnitedDeployments. Children in the hub's own cluster are written by the
// outbox, through the manager's account.
//
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments/status,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=uniteddeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Members is what this package reads of members; *clusters.Fleet is one.
type Members interface {
	View(name string) (clusters.View, bool)
	// Use has the children of kinds, named "<kind>.<group>", watched from now on.
	Use(kinds ...string)
	Children(member string, gvk schema.GroupVersionKind, owner types.NamespacedName) ([]*unstructured.Unstructured, bool)
	// Client is for reads of what the hub does not cache.
	Client(member string) (dynamic.Interface, error)
	// Get reads an object from the member's API server.
	Get(ctx context.Context, member string, gvk schema.GroupVersionKind, object types.NamespacedName) (*unstructured.Unstructured, error)
}

// Checker has members' API servers look at pod templates before a release opens; *dryrun.Runner is one.
type Checker interface {
	Ask(ask check.Ask)
	Results(owner types.NamespacedName) []check.Result
	Forget(owner types.NamespacedName)
}

// Outbox is where pushes go; *outbox.Outbox is one.
type Outbox interface {
	Post(item outbox.Item)
	Withdraw(key outbox.Key)
	Outcome(key outbox.Key) (outbox.Outcome, bool)
}

// Options of a Reconciler.
type Options struct {
	// Client reads from the manager's cache; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Members and Outbox of the fleet.
	Members Members
	Outbox  Outbox
	// Checker may be nil: templates are then sent as they are.
	Checker Checker
	// Travel may be nil: nothing travels along with workloads.
	Travel *Travel
	// HubID is 16 hex digits; Term is the hub's present one.
	HubID string
	Term  func() int64
	// Events may be nil.
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// StatusEvery is the shortest time between two status writes of one object. Default 1 s.
	StatusEvery time.Duration
	// SettleTime is how long after its first look a member may be on its way before it counts as not heard from. Default
	// 30 s.
	SettleTime time.Duration
}

// Reconciler reconciles UnitedDeployments.
type Reconciler struct {
	Options

	gate gate

	mu sync.Mutex
	// memory is dropped with the object; losing it costs a repeated look, never a wrong write.
	memory   map[types.NamespacedName]*memory
	settling map[string]time.Time
}

// memory is what is remembered of one object.
type memory struct {
	uid types.UID
	// generation was first seen at seenAt.
	generation int64
	seenAt     time.Time
	// wroteAt is the last status write.
	wroteAt time.Time
	// posted is what was posted last, by object.
	posted map[outbox.Key]string
	// toldAt is, by object, the last write whose taken-back fields were told.
	toldAt map[outbox.Key]time.Time
	// shorts are the children that are short of ready pods.
	shorts map[plan.Target]*short
	// scalers are the children that an autoscaler scales, or did.
	scalers map[plan.Target]*scaler
	// travel is what travels along; concerns are the hub's objects that its templates name.
	travel   traveller
	concerns map[string]bool
	// taken are names of revisions that belong to others.
	taken []string
	// unkept is the revision that the API server refused to store last.
	unkept plan.Unkept
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	if o.StatusEvery == 0 {
		o.StatusEvery = time.Second
	}
	if o.SettleTime == 0 {
		o.SettleTime = 30 * time.Second
	}
	r := &Reconciler{Options: o, memory: map[types.NamespacedName]*memory{}, settling: map[string]time.Time{}}
	r.gate = gate{live: o.Live, members: o.Members, clock: o.Clock, events: o.Events}
	return r
}

// Reconcile is of reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if again, closed := r.gate.closed(ctx); closed {
		r.forget(req.NamespacedName)
		return ctrl.Result{RequeueAfter: again}, nil
	}
	seen, err := r.observe(ctx, req)
	if err != nil || seen == nil {
		return ctrl.Result{}, err
	}
	r.tell(seen.United, r.takenBack(seen.memory))
	decision := plan.Next(seen.Observation, r.Clock.Now())
	again, err := r.act(ctx, seen, &decision)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: conflictPause}, nil // the cache is behind; look again
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: soonest(again, decision.LookAgainIn, seen.lookAgain)}, nil
}

// conflictPause is how long to wait for the cache after a write on an outdated object.
const conflictPause = 50 * time.Millisecond

// soonest is the smallest of the times that are set.
func soonest(times ...time.Duration) time.Duration {
	var out time.Duration
	for _, t := range times {
		if t > 0 && (out == 0 || t < out) {
			out = t
		}
	}
	return out
}

// remember returns the memory of an object, a new one for a new object of that name.
func (r *Reconciler) remember(name types.NamespacedName, uid types.UID) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memory[name]
	if m == nil || m.uid != uid {
		if m != nil {
			r.withdraw(m, nil)
			r.withdrawContents(m, nil)
		}
		m = &memory{uid: uid, posted: map[outbox.Key]string{}, toldAt: map[outbox.Key]time.Time{}}
		r.memory[name] = m
	}
	return m
}

// forget withdraws everything of an object.
func (r *Reconciler) forget(name types.NamespacedName) {
	if r.Checker != nil {
		r.Checker.Forget(name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.memory[name]; m != nil {
		r.withdraw(m, nil)
		r.withdrawContents(m, nil)
	}
	delete(r.memory, name)
}

// withdraw takes back what was posted and is not in keep.
func (r *Reconciler) withdraw(m *memory, keep map[outbox.Key]bool) {
	for key := range m.posted {
		if !keep[key] {
			r.Outbox.Withdraw(key)
			delete(m.posted, key)
			delete(m.toldAt, key)
		}
	}
}

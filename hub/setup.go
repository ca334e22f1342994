package hub

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/bell"
	"github.com/underway-dev/underway/hub/check/dryrun"
	"github.com/underway-dev/underway/hub/cluster"
	"github.com/underway-dev/underway/hub/clusterapi"
	hubmetrics "github.com/underway-dev/underway/hub/metrics"
	"github.com/underway-dev/underway/hub/travel"
	"github.com/underway-dev/underway/hub/united"
	"github.com/underway-dev/underway/inplace/recorder"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/push"
	"github.com/underway-dev/underway/propagation/render"
)

// Name is the hub's name: of its binary, its user agent, its leader Lease and its events.
const Name = "underway-hub"

// Options of the hub.
type Options struct {
	// Holder is this process, unique; it must be the identity in the leader Lease.
	Holder string
	// Lease is the name of the leader Lease; empty: there is no leader election and this process is alone.
	Lease string
	// Workers is how many UnitedDeployments are reconciled at once. Default 4.
	Workers int
	// Content is what travels to members beside workloads. Default ContentAll.
	Content Content
	// PropagateKinds are kinds that travel by their label beside Services, of plan.ParseKinds in hub/travel.
	PropagateKinds []schema.GroupVersionKind
	// Intervals of the members' connections; zero values are the defaults.
	Intervals clusters.Intervals
	// TokenLifetime is how long a token the hub asks members for. Default cluster.TokenLifetime.
	TokenLifetime time.Duration
	// ClusterAPI chooses Cluster API's Clusters that become members; without a selector none does. What the hub knows
	// itself (clients, clock, identity) is filled in.
	ClusterAPI clusterapi.Options
	// Clock is the hub's. Default the real one.
	Clock clock.WithTicker
}

// AddToScheme registers what the hub reads and writes.
func AddToScheme(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme,
		clusterv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return fmt.Errorf("registering types: %w", err)
		}
	}
	return nil
}

// Caches makes the manager's caches selective: Secrets of the install namespace only, our own ControllerRevisions only,
// and nothing of anything without the fields that nobody reads.
func Caches(o *ctrl.Options) error {
	ours, err := labels.NewRequirement(appsv1alpha1.LabelOwnerUID, selection.Exists, nil)
	if err != nil {
		return fmt.Errorf("building the selector of revisions: %w", err)
	}
	o.Cache.DefaultTransform = cache.TransformStripManagedFields()
	o.Cache.ByObject = map[client.Object]cache.ByObject{
		&corev1.Secret{}:             {Namespaces: map[string]cache.Config{appsv1alpha1.SystemNamespace: {}}},
		&appsv1.ControllerRevision{}: {Label: labels.NewSelector().Add(*ours)},
	}
	return nil
}

// Setup adds the hub to a manager whose scheme has AddToScheme's types and whose options went through Caches.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	live, err := client.New(mgr.GetConfig(), client.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
	})
	if err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	who, err := loadIdentity(ctx, live)
	if err != nil {
		return err
	}
	contents, err := o.Content.kinds()
	if err != nil {
		return err
	}
	travels, err := travelKinds(ctx, mgr.GetRESTMapper(), o)
	if err != nil {
		return err
	}
	ledger := travel.NewLedger(live)
	retired, err := retiredKinds(ctx, mgr.GetRESTMapper(), ledger, o.PropagateKinds, travels)
	if err != nil {
		return err
	}
	f := &fence{live: live, lease: o.Lease, holder: o.Holder, term: who.Term}
	fleet, err := clusters.NewFleet(clusters.Options{
		HubID: who.id, LocalIdentity: who.cluster, Holder: o.Holder, Local: mgr.GetConfig(), Clock: o.Clock, Leading: f.Leading,
		Registerer: metrics.Registry, Intervals: o.Intervals, Kinds: union(render.Kinds(), contents, travels, retired),
	})
	if err != nil {
		return fmt.Errorf("building the fleet: %w", err)
	}
	out := outbox.New(outbox.Options{
		HubID: who.id, Members: fleet, Pusher: push.New(fleet, who.id), Fence: f, Clock: o.Clock,
	})
	unitedBell, clusterBell := &bell.Bell{}, &bell.Bell{}
	checks := dryrun.New(dryrun.Options{
		Members: fleet, Clock: o.Clock, Wake: func(owner types.NamespacedName) { unitedBell.Ring(reconcile.Request{NamespacedName: owner}) },
	})
	if err := mgr.Add(checks); err != nil {
		return fmt.Errorf("adding the check of templates: %w", err)
	}
	deployments := united.New(united.Options{
		Client: mgr.GetClient(), Live: live, Members: fleet, Outbox: out, Checker: checks, HubID: who.id, Term: who.Term,
		Events: recorder.Worded(mgr.GetEventRecorder(Name)), Clock: o.Clock, StatusEvery: time.Second,
	})
	if len(contents) > 0 {
		library, err := contentLibrary(mgr, live, ringNaming(unitedBell, deployments.Naming))
		if err != nil {
			return err
		}
		deployments.Travel = &united.Travel{Kinds: contents, Library: library, Members: fleet, Outbox: out}
	}
	metaCache, err := metadataCache(mgr, noRight(recorder.Worded(mgr.GetEventRecorder(Name))))
	if err != nil {
		return err
	}
	byLabel := travel.New(travel.Options{
		Client: mgr.GetClient(), Live: live, Meta: metaCache, Kinds: travels, Retired: retired, Ledger: ledger, Members: fleet, Outbox: out, HubID: who.id,
		Term: who.Term, Events: recorder.Worded(mgr.GetEventRecorder(Name)), Clock: o.Clock,
	}, &bell.Bell{})
	if err := addTravel(ctx, mgr, byLabel, metaCache); err != nil {
		return err
	}
	members := cluster.New(cluster.Options{
		Client: mgr.GetClient(), Fleet: fleet, Outbox: out, Terms: who, HubID: who.id,
		Events: recorder.Worded(mgr.GetEventRecorder(Name)), Clock: o.Clock, Concerned: deployments.Concerned, Wake: unitedBell.Ring,
		TokenLifetime: o.TokenLifetime,
	})
	o.ClusterAPI.Client, o.ClusterAPI.Live, o.ClusterAPI.Clock, o.ClusterAPI.LocalIdentity = mgr.GetClient(), live, o.Clock, who.cluster
	if err := clusterapi.New(o.ClusterAPI).SetupWithManager(mgr); err != nil {
		return fmt.Errorf("adding Cluster API: %w", err)
	}
	connect(fleet, out, unitedBell, clusterBell)
	byLabel.Connect(fleet, out)
	if err := metrics.Registry.Register(collector(ctx, mgr.GetClient(), fleet, out, o.Clock)); err != nil {
		return fmt.Errorf("registering the metrics: %w", err)
	}
	if err := metrics.Registry.Register(byLabel); err != nil {
		return fmt.Errorf("registering the metrics of what travels by label: %w", err)
	}
	mgr.GetLogger().Info("Hub", "hubID", who.id, "term", who.Term())
	return add(mgr, o, parts{fleet, out, deployments, members, unitedBell, clusterBell, live, who})
}

// collector reads what the hub knows, from the manager's cache and from memory.
func collector(ctx context.Context, reader client.Reader, fleet *clusters.Fleet, out *outbox.Outbox, c clock.PassiveClock) *hubmetrics.Collector {
	return hubmetrics.New(hubmetrics.Options{
		Fleet: fleet, Outbox: out, Clock: c,
		Members: func() ([]fleetv1alpha1.MemberCluster, error) {
			list := &fleetv1alpha1.MemberClusterList{}
			err := reader.List(ctx, list, client.UnsafeDisableDeepCopy)
			return list.Items, wrap("listing members", err)
		},
		Deployments: func() ([]appsv1alpha1.UnitedDeployment, error) {
			list := &appsv1alpha1.UnitedDeploymentList{}
			err := reader.List(ctx, list, client.UnsafeDisableDeepCopy)
			return list.Items, wrap("listing UnitedDeployments", err)
		},
	})
}

// parts is what add puts together.
type parts struct {
	fleet                   *clusters.Fleet
	out                     *outbox.Outbox
	deployments             *united.Reconciler
	members                 *cluster.Reconciler
	unitedBell, clusterBell *bell.Bell
	live                    client.Reader
	who                     *identity
}

func add(mgr ctrl.Manager, o Options, p parts) error {
	if err := p.deployments.SetupWithManager(mgr, p.unitedBell, o.Workers); err != nil {
		return fmt.Errorf("adding the controller of UnitedDeployments: %w", err)
	}
	if err := p.members.SetupWithManager(mgr, p.clusterBell); err != nil {
		return fmt.Errorf("adding the controller of MemberClusters: %w", err)
	}
	if err := mgr.Add(&sender{out: p.out, fleet: p.fleet, live: p.live, who: p.who}); err != nil {
		return fmt.Errorf("adding the outbox and the fleet: %w", err)
	}
	return nil
}

// connect wakes the reconcilers by what happens on members and in the outbox.
func connect(fleet *clusters.Fleet, out *outbox.Outbox, unitedBell, clusterBell *bell.Bell) {
	fleet.Subscribe(func(e clusters.Event) {
		if e.Owner.Name != "" {
			unitedBell.Ring(reconcile.Request{NamespacedName: e.Owner})
			return
		}
		if e.Object.Name == "" {
			clusterBell.Ring(reconcile.Request{NamespacedName: types.NamespacedName{Name: e.Member}})
		}
	})
	out.Subscribe(func(owner types.NamespacedName) {
		if !travel.IsKey(owner) {
			unitedBell.Ring(reconcile.Request{NamespacedName: owner})
		}
	})
	out.SubscribeStop(func() {
		// Every member says so in its conditions, and wakes what is on it.
		names := append(fleet.Names(), clusters.Local)
		for _, name := range names {
			clusterBell.Ring(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	})
}

// sender runs the outbox and the fleet while this process leads.
type sender struct {
	out   *outbox.Outbox
	fleet *clusters.Fleet
	live  client.Reader
	who   *identity
}

// NeedLeaderElection is true: only the leader connects to members.
func (s *sender) NeedLeaderElection() bool { return true }

// Start is of manager.Runnable. The term that others stored meanwhile, and a stop that members' conditions remember, are in force
// before anything can be sent.
func (s *sender) Start(ctx context.Context) error {
	if err := s.who.lead(ctx); err != nil {
		return err
	}
	if err := cluster.Recall(ctx, s.live, s.out); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- s.out.Start(ctx) }()
	err := s.fleet.Start(ctx)
	if outErr := <-done; err == nil {
		err = outErr
	}
	return wrap("running the outbox and the fleet", err)
}

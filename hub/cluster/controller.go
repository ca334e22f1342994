package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/bell"
	"github.com/underway-dev/underway/hub/install"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
)

// What the hub does in its own cluster for MemberClusters. Secrets only in the install namespace.
//
// +kubebuilder:rbac:groups=fleet.underway.dev,resources=memberclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=fleet.underway.dev,resources=memberclusters/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=underway-system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// kubeconfigKey is the key of a member's Secret.
const kubeconfigKey = "kubeconfig"

// Fleet is what this package tells and asks the fleet; *clusters.Fleet is one.
type Fleet interface {
	Ensure(name string, cfg clusters.Config)
	Remove(name string)
	View(name string) (clusters.View, bool)
	// RequestToken asks the member for a token of the hub's own account.
	RequestToken(ctx context.Context, name string, lifetime time.Duration) (string, error)
	MaxTerm() int64
	ClearTwoHubs()
}

// Outbox is what this package asks of the outbox; *outbox.Outbox is one.
type Outbox interface {
	Stop(reason outbox.StopReason)
	Stopped() []outbox.StopReason
	Resume(condition string)
	WithdrawMember(member string)
}

// Terms is the hub's counter of confirmations.
type Terms interface {
	// RaiseAbove stores a term above seen.
	RaiseAbove(ctx context.Context, seen int64) error
}

// Options of a Reconciler.
type Options struct {
	Client client.Client
	Fleet  Fleet
	Outbox Outbox
	Terms  Terms
	HubID  string
	// Events may be nil.
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Concerned are the objects that have something on a member, and Wake asks for their reconcile.
	Concerned func(ctx context.Context, member string) []reconcile.Request
	Wake      func(requests ...reconcile.Request)
	// SettleTime is how long a member may be on its way before that is written down. Default 30 s.
	SettleTime time.Duration
	// TokenLifetime is how long a token the hub asks for. Default TokenLifetime.
	TokenLifetime time.Duration
}

// Reconciler reconciles MemberClusters.
type Reconciler struct {
	Options

	mu       sync.Mutex
	settling map[string]time.Time
	tokens   *tokens
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	if o.SettleTime == 0 {
		o.SettleTime = 30 * time.Second
	}
	if o.TokenLifetime == 0 {
		o.TokenLifetime = TokenLifetime
	}
	return &Reconciler{Options: o, settling: map[string]time.Time{}, tokens: newTokens()}
}

// SetupWithManager adds the controller; ring wakes it with the names of members whose state changed, "" for the hub's own
// cluster.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, ring *bell.Bell) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("membercluster").
		For(&fleetv1alpha1.MemberCluster{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.ofSecret)).
		WatchesRawSource(ring).
		Complete(r)
}

// Reconcile is of reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	defer func() { r.Wake(r.Concerned(ctx, req.Name)...) }()
	if req.Name == clusters.Local {
		return ctrl.Result{}, nil
	}
	mc := &fleetv1alpha1.MemberCluster{}
	err := r.Client.Get(ctx, req.NamespacedName, mc)
	if apierrors.IsNotFound(err) || (err == nil && mc.DeletionTimestamp != nil) {
		r.Fleet.Remove(req.Name)
		r.Outbox.WithdrawMember(req.Name)
		r.tokens.forget(req.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the MemberCluster: %w", err)
	}
	seen, err := r.observe(ctx, mc)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision := next(seen, r.Clock.Now())
	err = r.act(ctx, seen, &decision)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: decision.lookAgain}, nil
}

// observe reads the credential and what the fleet sees.
func (r *Reconciler) observe(ctx context.Context, mc *fleetv1alpha1.MemberCluster) (observation, error) {
	seen := observation{member: mc, hubID: r.HubID, stops: r.Outbox.Stopped()}
	config, err := r.credential(ctx, mc, &seen)
	if err != nil {
		return observation{}, err
	}
	seen.config, seen.credential = config, credentialOf(config)
	if config == nil {
		r.Fleet.Remove(mc.Name)
		return seen, nil
	}
	r.ensure(mc.Name, config, mc.Status.Identity)
	seen.attempts = r.tokens.attempts(mc.Name)
	seen.view, seen.connected = r.Fleet.View(mc.Name)
	seen.settleLeft = r.settleLeft(mc.Name, seen.settling())
	return seen, nil
}

func (r *Reconciler) ensure(name string, config *rest.Config, identity string) {
	r.Fleet.Ensure(name, clusters.Config{REST: r.tokens.dress(name, config, r.Clock.Now()), Identity: identity})
}

// credential builds the configuration; nil with the reason in seen when it cannot be used.
func (r *Reconciler) credential(ctx context.Context, mc *fleetv1alpha1.MemberCluster, seen *observation) (*rest.Config, error) {
	name := secretFor(mc)
	if name == "" {
		seen.missing = "neither spec.kubeconfigSecretRef nor spec.clusterRef is set: " + seen.remedy()
		return nil, nil
	}
	secret, err := r.secretOf(ctx, name)
	if apierrors.IsNotFound(err) {
		seen.missing = fmt.Sprintf("Secret %s/%s does not exist: %s", appsv1alpha1.SystemNamespace, name, seen.remedy())
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the credential: %w", err)
	}
	raw, ok := secret.Data[kubeconfigKey]
	if !ok {
		seen.missing = fmt.Sprintf("Secret %s/%s has no key %q: %s", appsv1alpha1.SystemNamespace, name, kubeconfigKey, seen.remedy())
		return nil, nil
	}
	config, err := clusters.ParseKubeconfig(raw, mc.Spec.InsecureSkipTLSVerify)
	if err != nil {
		seen.refused = err.Error()
		return nil, nil //nolint:nilerr // what cannot be used is said in a condition and not tried again
	}
	seen.secret, seen.renewedByHub = secret, secret.Annotations[annotationRenewed] != ""
	return config, nil
}

// secretFor names the Secret with a member's credential: the one that is named, or, of a Cluster API member, the one that
// package clusterapi writes.
func secretFor(mc *fleetv1alpha1.MemberCluster) string {
	switch {
	case mc.Spec.KubeconfigSecretRef != nil:
		return mc.Spec.KubeconfigSecretRef.Name
	case mc.Spec.ClusterRef != nil:
		return install.SecretName(mc.Name)
	}
	return ""
}

// settleLeft is how much longer a member may be on its way before that is written down; 0 when it is not.
func (r *Reconciler) settleLeft(name string, settling bool) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !settling {
		delete(r.settling, name)
		return 0
	}
	now := r.Clock.Now()
	if _, ok := r.settling[name]; !ok {
		r.settling[name] = now
	}
	return max(r.settling[name].Add(r.SettleTime).Sub(now), 0)
}

func (r *Reconciler) ofSecret(ctx context.Context, obj client.Object) []reconcile.Request {
	list := &fleetv1alpha1.MemberClusterList{}
	if obj.GetNamespace() != appsv1alpha1.SystemNamespace {
		return nil
	}
	// Uncopied: at the start each of a thousand Secrets looks through a thousand members.
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if secretFor(&list.Items[i]) == obj.GetName() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: list.Items[i].Name}})
		}
	}
	return out
}

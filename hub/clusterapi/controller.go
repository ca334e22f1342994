package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/bell"
	"github.com/underway-dev/underway/hub/clusterapi/plan"
)

// What the hub does for Cluster API; a role of its own, bound only where a selector is chosen at install.
//
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get
// +kubebuilder:rbac:groups=fleet.underway.dev,resources=memberclusters,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=fleet.underway.dev,resources=memberclusters/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=underway-system,resources=secrets,verbs=get;create;patch;delete

const (
	crdName = "clusters.cluster.x-k8s.io"
	// workers is how many Clusters are reconciled at once.
	workers = 4
)

// Options of a Reconciler. Without a Selector nothing runs.
type Options struct {
	// Client reads from the manager's cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Client
	// Selector chooses the Clusters; nil or empty: none.
	Selector labels.Selector
	// AllowedNamespaces of the MemberClusters that are made. Nil: none.
	AllowedNamespaces *metav1.LabelSelector
	// LabelPrefixes of the labels that are copied to MemberClusters; empty: all but Kubernetes' own.
	LabelPrefixes []string
	// AgentImage of underway-member; empty: no agent is deployed on members.
	AgentImage string
	// Version of this hub. Upgrade makes account, CRDs and agent anew on members where another version made them.
	Version string
	Upgrade bool
	// LocalIdentity is the UID of the hub's own kube-system namespace.
	LocalIdentity string
	// Connect makes a client of a member. Default client.New.
	Connect func(*rest.Config) (client.Client, error)
	// Every is how often is looked whether Cluster API's CRD is served, before it is. Default 30 s.
	Every time.Duration
	Clock clock.WithTicker
}

// Reconciler reconciles Clusters.
type Reconciler struct {
	Options

	bell bell.Bell

	mu       sync.Mutex
	installs map[types.NamespacedName]*progress
	sources  map[types.NamespacedName]source
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	if o.Every == 0 {
		o.Every = 30 * time.Second
	}
	if o.Connect == nil {
		o.Connect = direct
	}
	return &Reconciler{Options: o, installs: map[types.NamespacedName]*progress{}, sources: map[types.NamespacedName]source{}}
}

// direct makes a client that goes to the member and nowhere else: neither our environment nor an answer of the member may send
// what an administrator's kubeconfig is for to another place.
func direct(cfg *rest.Config) (client.Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading certificates: %w", err)
	}
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client.New(cfg, client.Options{HTTPClient: httpClient})
}

// SetupWithManager adds a runnable that starts the controller once Cluster API's CRD is served. The manager's scheme must
// have Cluster API's types.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Selector == nil || r.Selector.Empty() {
		return nil
	}
	if err := mgr.Add(&starter{r: r, mgr: mgr}); err != nil {
		return fmt.Errorf("adding Cluster API: %w", err)
	}
	return nil
}

// starter waits for the CRD.
type starter struct {
	r   *Reconciler
	mgr ctrl.Manager
}

var _ manager.LeaderElectionRunnable = (*starter)(nil)

// NeedLeaderElection is true: only the leader makes members.
func (s *starter) NeedLeaderElection() bool { return true }

// Start is of manager.Runnable.
func (s *starter) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("crd", crdName)
	told := kindServed
	for {
		state, err := s.r.kind(ctx)
		switch {
		case err != nil:
			logger.Info("Could not look for Cluster API", "reason", err.Error())
		case state == kindServed:
			logger.Info("Cluster API is there", "selector", s.r.Selector.String())
			return s.r.start(s.mgr)
		case state != told:
			told = state
			logger.Info("Waiting for Cluster API", "because", state.why(), "version", clusterv1.GroupVersion.String(), "selector", s.r.Selector.String())
		}
		timer := s.r.Clock.NewTimer(s.r.Every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

func (r *Reconciler) start(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("clusterapi").
		For(&clusterv1.Cluster{}).
		Watches(&fleetv1alpha1.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(ofMember)).
		WatchesRawSource(&r.bell).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of Clusters: %w", err)
	}
	return nil
}

func ofMember(_ context.Context, obj client.Object) []reconcile.Request {
	mc, ok := obj.(*fleetv1alpha1.MemberCluster)
	if !ok || mc.Spec.ClusterRef == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: mc.Spec.ClusterRef.Namespace, Name: mc.Spec.ClusterRef.Name}}}
}

// kindState is whether Cluster API is there.
type kindState string

const (
	kindServed kindState = "served"
	kindAbsent kindState = "absent"
	kindGoing  kindState = "going"
	// kindOlder: it is there, and not in the version that the hub reads.
	kindOlder kindState = "older"
)

// why says what a person who waits for it should know.
func (k kindState) why() string {
	switch k {
	case kindOlder:
		return "its CRD does not serve this version: upgrade Cluster API to one that does (v1.11 or newer); no Cluster becomes a member before"
	case kindGoing:
		return "its CRD is being deleted"
	case kindAbsent, kindServed:
	}
	return "its CRD is not there"
}

// kind reads Cluster API's CRD from the API server.
func (r *Reconciler) kind(ctx context.Context) (kindState, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := r.Live.Get(ctx, client.ObjectKey{Name: crdName}, crd)
	switch {
	case apierrors.IsNotFound(err):
		return kindAbsent, nil
	case err != nil:
		return "", fmt.Errorf("reading CustomResourceDefinition %s: %w", crdName, err)
	case crd.GetDeletionTimestamp() != nil:
		return kindGoing, nil
	}
	if !serves(crd, clusterv1.GroupVersion.Version) {
		return kindOlder, nil
	}
	return kindServed, nil
}

// serves is true for an established CRD that serves the version.
func serves(crd *unstructured.Unstructured, version string) bool {
	return holds(crd, []string{"status", "conditions"}, map[string]any{"type": "Established", "status": "True"}) &&
		holds(crd, []string{"spec", "versions"}, map[string]any{"name": version, "served": true})
}

// holds is true when an entry of the list has all of these values.
func holds(obj *unstructured.Unstructured, path []string, want map[string]any) bool {
	list, _, err := unstructured.NestedSlice(obj.Object, path...)
	if err != nil {
		return false
	}
	for _, e := range list {
		entry, ok := e.(map[string]any)
		for key, value := range want {
			ok = ok && entry[key] == value
		}
		if ok {
			return true
		}
	}
	return false
}

// ownedByOthers names the fields that an unforced apply met another owner of; "" where that is not what happened.
func ownedByOthers(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	var fields []string
	for _, c := range status.Status().Details.Causes {
		if c.Type == metav1.CauseTypeFieldManagerConflict {
			fields = append(fields, c.Field)
		}
	}
	return strings.Join(fields, ", ")
}

// Reconcile is of reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	seen, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	decision := plan.Next(seen.Observation, r.Clock.Now())
	err = r.act(ctx, req.NamespacedName, seen, &decision)
	if owned := ownedByOthers(err); owned != "" {
		klog.FromContext(ctx).Info("Could not copy labels of a Cluster: another manager owns them", "fields", owned)
		return ctrl.Result{RequeueAfter: plan.PollReady}, nil
	}
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: 50 * time.Millisecond}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: decision.LookAgain}, nil
}

package member

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/member/peer"
	"github.com/underway-dev/underway/member/workload"
)

const (
	// probeEvery is how long between two looks at CRDs and peers.
	probeEvery = 10 * time.Second
	// probeSoon is the same while a kind is missing its CRD: somebody may be installing it.
	probeSoon = 2 * time.Second
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=kruise-manager,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=underway-system,verbs=get;create;update;patch

// supervisor starts and stops sessions.
type supervisor struct {
	Options

	mgr      ctrl.Manager
	live     client.Client
	served   discovery.DiscoveryInterface
	counters *workload.Metrics
	active   *prometheus.GaugeVec
	events   events.EventRecorder
	kinds    []kind

	openKruise peer.Watch
	// unresizable is whether the API server lacks pods/resize, as of the last probe; sessions read it while they run.
	unresizable atomic.Bool
}

// newActive registers underway_member_kind_active: 1 while a kind is reconciled here, 0 while it is off.
func newActive(registry prometheus.Registerer) (*prometheus.GaugeVec, error) {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "underway_member_kind_active",
		Help: "Whether a kind is reconciled by this agent (1) or off because of its CRD or a peer (0).",
	}, []string{"kind"})
	if err := registry.Register(g); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return g, nil
}

// verdict is what a probe found.
type verdict struct {
	// run are the kinds to reconcile, with their CRD's allegiance.
	run []runnable
	// peer is who else is alive, empty for nobody.
	peer string
	// absent is true when a kind's CRD is not served.
	absent bool
}

// runnable is a kind and whether its CRD is ours.
type runnable struct {
	kind

	ours bool
}

func (v verdict) key() string {
	names := make([]string, 0, len(v.run))
	for _, k := range v.run {
		names = append(names, fmt.Sprintf("%s/%t", k.resource.Kind, k.ours))
	}
	return strings.Join(names, ",")
}

// Start runs until ctx ends.
func (s *supervisor) Start(ctx context.Context) error {
	logger := ctrl.LoggerFrom(ctx).WithName("supervisor")
	ctx = ctrl.LoggerInto(ctx, logger)
	ticker := s.Clock.NewTicker(probeSoon)
	defer ticker.Stop()
	var running *session
	defer func() { running.stop() }()
	var told string
	var probed time.Time
	var last verdict
	for {
		if now := s.Clock.Now(); last.absent || running.ended() || now.Sub(probed) >= probeEvery {
			probed = now
			v, err := s.probe(ctx, now)
			if err != nil {
				logger.Error(err, "Cannot tell what to reconcile, keeping to what is known")
			} else {
				running = s.turn(ctx, running, v)
				last = v
				told = s.tellPeer(ctx, told, v.peer)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// turn makes the session fit the verdict.
func (s *supervisor) turn(ctx context.Context, running *session, v verdict) *session {
	if running.ended() || running.key() != v.key() {
		running.stop()
		running = nil
		if len(v.run) > 0 {
			running = s.begin(ctx, v)
		}
	}
	on := map[string]bool{}
	for _, k := range v.run {
		on[k.resource.Kind] = true
	}
	for _, k := range s.kinds {
		value := 0.0
		if on[k.resource.Kind] {
			value = 1
		}
		s.active.WithLabelValues(k.resource.Kind).Set(value)
	}
	return running
}

// probe finds out which kinds are served and whether a peer is alive. An error says nothing about either.
func (s *supervisor) probe(ctx context.Context, now time.Time) (verdict, error) {
	var v verdict
	holder, err := s.lookForPeer(ctx, now)
	if err != nil {
		return v, err
	}
	core, err := s.plurals(corev1.SchemeGroupVersion)
	if err != nil {
		return v, err
	}
	s.unresizable.Store(!core["pods/resize"])
	v.peer = holder
	plurals := map[schema.GroupVersion]map[string]bool{}
	for _, k := range s.kinds {
		gv := k.resource.GroupVersion()
		if plurals[gv] == nil {
			if plurals[gv], err = s.plurals(gv); err != nil {
				return v, err
			}
		}
		if !plurals[gv][k.resource.Plural] {
			v.absent = true
			continue
		}
		ours, err := s.ours(ctx, k.resource.CRD())
		if err != nil {
			return v, err
		}
		if holder == "" {
			v.run = append(v.run, runnable{k, ours})
		}
	}
	return v, nil
}

// noResize says why cpu and memory cannot be changed in place here; empty when they can.
func (s *supervisor) noResize() string {
	if s.unresizable.Load() {
		return "the API server of this cluster does not serve pods/resize"
	}
	return ""
}

func (s *supervisor) lookForPeer(ctx context.Context, now time.Time) (string, error) {
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: peer.OpenKruiseNamespace, Name: peer.OpenKruiseLease}
	switch err := s.live.Get(ctx, key, &lease); {
	case apierrors.IsNotFound(err):
		return s.openKruise.Look(nil, now), nil
	case err != nil:
		return "", fmt.Errorf("looking for OpenKruise's leader Lease: %w", err)
	}
	return s.openKruise.Look(&lease, now), nil
}

// plurals are the resources that the API server serves of a version.
func (s *supervisor) plurals(gv schema.GroupVersion) (map[string]bool, error) {
	list, err := s.served.ServerResourcesForGroupVersion(gv.String())
	if apierrors.IsNotFound(err) {
		return map[string]bool{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the resources of %s: %w", gv, err)
	}
	plurals := make(map[string]bool, len(list.APIResources))
	for i := range list.APIResources {
		plurals[list.APIResources[i].Name] = true
	}
	return plurals, nil
}

// ours reports whether we installed a CRD: another one drops the fields that we added to a status.
func (s *supervisor) ours(ctx context.Context, crd string) (bool, error) {
	var m metav1.PartialObjectMetadata
	m.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
	})
	if err := s.live.Get(ctx, client.ObjectKey{Name: crd}, &m); err != nil {
		return false, fmt.Errorf("reading CRD %s: %w", crd, err)
	}
	return m.Labels[appsv1alpha1.LabelPartOf] == appsv1alpha1.PartOf, nil
}

// tellPeer says once, in the log, as an event and on our own Lease, that kinds went off or came back on. It returns what
// was told; what could not be told is tried again at the next probe.
func (s *supervisor) tellPeer(ctx context.Context, told, holder string) string {
	if told == holder {
		return told
	}
	logger := ctrl.LoggerFrom(ctx)
	names := make([]string, 0, len(s.kinds))
	for _, k := range s.kinds {
		names = append(names, k.resource.Kind)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if holder != "" {
		logger.Info("Another reconciler is alive, its kinds are off", "peer", holder, "kinds", names)
	} else {
		logger.Info("The other reconciler is gone, its kinds are on", "peer", told, "kinds", names)
	}
	if s.LeaseName == "" {
		return holder
	}
	lease := &coordinationv1.Lease{}
	if err := s.live.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: s.LeaseName}, lease); err != nil {
		logger.Error(err, "Cannot read our own Lease to say so")
		return told
	}
	before := lease.DeepCopy()
	lease.Annotations = maps.Clone(lease.Annotations)
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	delete(lease.Annotations, appsv1alpha1.AnnotationPeerActive)
	note, kind := "The other reconciler is gone: "+strings.Join(names, ", ")+" on", corev1.EventTypeNormal
	if holder != "" {
		lease.Annotations[appsv1alpha1.AnnotationPeerActive] = holder
		note, kind = "Found OpenKruise ("+holder+") alive: "+strings.Join(names, ", ")+" off, nothing is written", corev1.EventTypeWarning
	}
	if err := s.live.Patch(ctx, lease, client.MergeFrom(before), client.FieldOwner(appsv1alpha1.FieldManagerMember)); err != nil {
		logger.Error(err, "Cannot say so on our own Lease")
		return told
	}
	s.events.Eventf(lease, nil, kind, appsv1alpha1.ConditionPeerActive, appsv1alpha1.ConditionPeerActive, "%s", note)
	return holder
}

package united

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/render"
)

// gateEvery is how long an answer about the CRD is believed.
const gateEvery = 30 * time.Second

// gate keeps the kind off while another reconciler owns it, or while its CRD lacks our fields.
type gate struct {
	live    client.Reader
	members Members
	clock   clock.PassiveClock
	events  events.EventRecorder

	mu      sync.Mutex
	asked   time.Time
	crd     string
	said    string
	crdSeen bool
}

func crdObject() *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return crd
}

// closed is true while nothing may be reconciled, with the time to look again.
func (g *gate) closed(ctx context.Context) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	view, ok := g.members.View(clusters.Local)
	// OpenKruise is one manager: who reconciles one of its kinds reconciles them all.
	kind, known := kindOf(view, render.CloneSet())
	if !ok || !known || kind.Reconciler == clusters.ReconcilerUnknown {
		return time.Second, true // who reconciles here is not known yet
	}
	reason := g.crdReason(ctx)
	if kind.Reconciler == clusters.ReconcilerOpenKruise {
		reason = "OpenKruise's manager is alive on this cluster, so UnitedDeployments are its business; scale it down, or use another cluster as the hub"
	}
	g.say(ctx, reason)
	if reason == "" {
		return 0, false
	}
	return gateEvery, true
}

// crdReason says what is wrong with the CRD; a read that fails is repeated soon and closes the gate meanwhile.
func (g *gate) crdReason(ctx context.Context) string {
	now := g.clock.Now()
	if g.crdSeen && now.Sub(g.asked) < gateEvery {
		return g.crd
	}
	crd := crdObject()
	err := g.live.Get(ctx, types.NamespacedName{Name: crdName}, crd)
	if client.IgnoreNotFound(err) != nil {
		klog.FromContext(ctx).V(2).Info("CRD cannot be read", "reason", err.Error())
		if g.crdSeen {
			return g.crd
		}
		return "the CRD of UnitedDeployments cannot be read"
	}
	g.asked, g.crdSeen, g.crd = now, true, ""
	// A CRD that is gone or going is not closed to: its objects, which wait for their finalizer, are to be let go.
	if err == nil && crd.GetDeletionTimestamp() == nil && !hasCluster(crd) {
		g.crd = "the installed CRD " + crdName + " lacks spec.topology.subsets[].cluster (it is OpenKruise's, or an old one); kubectl underway init installs ours where OpenKruise is not"
	}
	return g.crd
}

// hasCluster looks for our field in the stored version's schema.
func hasCluster(crd *unstructured.Unstructured) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if storage, _ := version["storage"].(bool); !ok || !storage {
			continue
		}
		_, found, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "spec", "properties",
			"topology", "properties", "subsets", "items", "properties", "cluster")
		return found
	}
	return false
}

// say logs and notes a change of mind.
func (g *gate) say(ctx context.Context, reason string) {
	if reason == g.said {
		return
	}
	g.said = reason
	logger := klog.FromContext(ctx)
	if reason == "" {
		logger.Info("UnitedDeployments are reconciled")
		return
	}
	logger.Info("UnitedDeployments are not reconciled", "reason", reason)
	if g.events != nil {
		about := &corev1.Namespace{}
		about.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		about.Name = appsv1alpha1.SystemNamespace
		g.events.Eventf(about, nil, corev1.EventTypeWarning, appsv1alpha1.ConditionPeerActive, "KindOff", "%s", reason)
	}
}

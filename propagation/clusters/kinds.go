package clusters

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

const (
	kruiseNamespace = "kruise-system"
	kruiseLease     = "kruise-manager"
	// alive is how long after its last renewal a reconciler counts as alive.
	alive = time.Minute
)

// heartbeat is a Lease of a reconciler as seen by our own clock.
type heartbeat struct {
	renewed string
	at      time.Time
}

// discover looks at which kinds are served and who reconciles them, starts caches of new kinds and ends those of kinds
// that are gone. What cannot be read leaves things as they were.
func (m *member) discover(ctx context.Context) {
	run := ctx
	ctx, cancel := context.WithTimeout(ctx, m.fleet.intervals.ProbeTimeout)
	defer cancel()
	served := map[schema.GroupVersion][]string{}
	for _, k := range m.fleet.kinds {
		gv := k.GVK.GroupVersion()
		if _, done := served[gv]; done {
			continue
		}
		resources, err := readResources(ctx, m.conn.plain, gv)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Could not read the served kinds", "groupVersion", gv.String(), "reason", err.Error())
			return
		}
		served[gv] = resources
	}
	underway := m.beats(ctx, appsv1alpha1.SystemNamespace, appsv1alpha1.FieldManagerMember)
	kruise := m.beats(ctx, kruiseNamespace, kruiseLease)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rediscover = false
	if m.caches == nil {
		m.caches = map[schema.GroupKind]*kindCache{}
	}
	for _, k := range m.fleet.kinds {
		m.serve(run, k, slices.Contains(served[k.GVK.GroupVersion()], k.Resource))
		m.caches[k.GVK.GroupKind()].reconciler = reconcilerOf(k, underway, kruise)
	}
}

// serve needs mu. A kind that is gone is not "no children": its cache is dropped and not synced.
func (m *member) serve(ctx context.Context, k render.Kind, served bool) {
	c := m.caches[k.GVK.GroupKind()]
	if c == nil {
		c = &kindCache{}
		m.caches[k.GVK.GroupKind()] = c
	}
	switch {
	case served && !c.served:
		var run context.Context
		run, c.cancel = context.WithCancel(ctx)
		c.children = newChildren(k, m.childChanged, func() { m.filled(c) })
		c.children.failed = func(err error) { m.listFailed(c, err) }
		go c.children.run(run, m.conn, m.fleet.hubID, m.proven)
	case !served && c.served:
		c.cancel()
		c.children, c.synced, c.refused = nil, false, ""
	}
	c.served = served
}

// proven is the check after each list and at each begin of a watch.
func (m *member) proven(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.fleet.intervals.ProbeTimeout)
	defer cancel()
	err := m.prove(ctx)
	if err != nil {
		m.nudge()
	}
	return err
}

func (m *member) filled(c *kindCache) {
	m.mu.Lock()
	c.synced, c.refused = true, ""
	m.mu.Unlock()
	m.settle()
}

func (m *member) childChanged(obj *unstructured.Unstructured) {
	owner, _ := ownerOf(obj)
	m.fleet.emit(Event{
		Member: m.name,
		Owner:  owner,
		GVK:    obj.GroupVersionKind(),
		Object: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()},
	})
}

// mustDiscover is true while a kind is missing, or after one was found missing.
func (m *member) mustDiscover() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, k := range m.fleet.kinds {
		if c := m.caches[k.GVK.GroupKind()]; c == nil || !c.served {
			return true
		}
	}
	return m.rediscover
}

// listFailed notes why a kind does not sync. A kind that is not served any more, or may not be read, is no longer synced at
// once; neither holds up the other kinds.
func (m *member) listFailed(c *kindCache, err error) {
	switch {
	case notServed(err):
		m.mu.Lock()
		c.synced, m.rediscover = false, true
		m.mu.Unlock()
		m.nudge()
	case apierrors.IsForbidden(err):
		m.mu.Lock()
		c.synced, c.refused = false, "the hub may not read it there: "+err.Error()
		m.mu.Unlock()
		m.settle()
		return
	}
	m.change(func(v *View) {
		if v.State == StateSyncing {
			v.Message = err.Error()
		}
	})
}

// beats says whether the holder of a Lease renewed it in the last minute; unknown when it cannot be read. Times of two
// clocks are compared only at the first look.
func (m *member) beats(ctx context.Context, namespace, name string) Reconciler {
	lease, err := m.conn.leases.Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ReconcilerNobody
	}
	if err != nil {
		return ReconcilerUnknown
	}
	now := m.fleet.clock.Now()
	renewed := ""
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.String()
	}
	seen := m.seers[namespace+"/"+name]
	switch {
	case seen == nil:
		seen = &heartbeat{renewed: renewed}
		m.seers[namespace+"/"+name] = seen
		if lease.Spec.RenewTime != nil && now.Sub(lease.Spec.RenewTime.Time).Abs() < alive {
			seen.at = now
		}
	case seen.renewed != renewed:
		seen.renewed, seen.at = renewed, now
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || now.Sub(seen.at) >= alive {
		return ReconcilerNobody
	}
	return ReconcilerUnderway
}

// reconcilerOf combines the two heartbeats. OpenKruise goes first: our agent keeps off a kind where it is alive.
func reconcilerOf(k render.Kind, underway, kruise Reconciler) Reconciler {
	switch {
	case k.GVK.Group == "apps":
		return ReconcilerKubernetes
	case kruise == ReconcilerUnderway:
		return ReconcilerOpenKruise
	case underway == ReconcilerUnderway:
		return ReconcilerUnderway
	case underway == ReconcilerUnknown || kruise == ReconcilerUnknown:
		return ReconcilerUnknown
	default:
		return ReconcilerNobody
	}
}

func readResources(ctx context.Context, client rest.Interface, gv schema.GroupVersion) ([]string, error) {
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	var list metav1.APIResourceList
	err := readJSON(ctx, client, path, &list)
	if notServed(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(list.APIResources))
	for _, r := range list.APIResources {
		out = append(out, r.Name)
	}
	return out, nil
}

func readJSON(ctx context.Context, client rest.Interface, path string, into any) error {
	raw, err := client.Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

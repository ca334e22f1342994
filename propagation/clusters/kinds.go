package clusters

import (
	"context"
	"encoding/json"
	"errors"
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
	// agentBeat is where the heartbeat of our agent is kept.
	agentBeat = appsv1alpha1.SystemNamespace + "/" + appsv1alpha1.FieldManagerMember
	// alive is how long after its last renewal a reconciler counts as alive.
	alive = time.Minute
)

// heartbeat is a Lease of a reconciler as seen by our own clock.
type heartbeat struct {
	renewed string
	at      time.Time
	// version is what its label says.
	version string
}

// kindCache is what is known of one kind on a member.
type kindCache struct {
	// children is nil while the kind is not watched: nobody uses it, or the member does not serve it.
	children *children
	// cancel ends the watch, restart begins it anew on the same cache.
	cancel, restart context.CancelFunc
	// again ends the wait of a watch for a member that is down.
	again          chan struct{}
	synced, served bool
	reconciler     Reconciler
	// version of the reconciler, where it is ours.
	version string
	// refused says why the member does not let the hub read the kind; empty when it does.
	refused string
	// since is when the list that is waited for was begun, problem what came of the last try.
	since   time.Time
	problem string
}

// viewOf needs mu.
func (m *member) viewOf(k render.Kind) KindView {
	out := KindView{GVK: k.GVK, Reconciler: ReconcilerUnknown}
	c := m.caches[k.GVK.GroupKind()]
	if c == nil {
		c = &kindCache{reconciler: ReconcilerUnknown}
	}
	out.Served, out.Synced, out.Reconciler = c.served, c.served && c.synced, c.reconciler
	out.Version, out.Refused, out.Message = c.version, c.refused, c.problem
	if m.late[k.GVK.GroupKind()] {
		out.Message = fmt.Sprintf("its %s were not read within %s, trying again", k.GVR().GroupResource(), m.fleet.intervals.Sync)
		if c.problem != "" {
			out.Message += ": " + c.problem
		}
	}
	return out
}

// discover looks at which kinds are served and who reconciles them, starts caches of kinds that are in use and ends those
// of kinds that are gone. What cannot be read leaves things as they were.
func (m *member) discover(ctx context.Context) {
	conn, err := m.connected()
	if err != nil {
		return
	}
	run := ctx
	served, err := m.served(ctx, conn)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Could not read the served kinds", "reason", err.Error())
		m.mu.Lock()
		m.unread = "the kinds that it serves could not be read: " + words(err)
		m.mu.Unlock()
		return
	}
	underway := m.beats(ctx, conn, appsv1alpha1.SystemNamespace, appsv1alpha1.FieldManagerMember)
	kruise := m.beats(ctx, conn, kruiseNamespace, kruiseLease)
	used := m.fleet.inUse()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rediscover, m.unread = false, ""
	if m.caches == nil {
		m.caches = map[schema.GroupKind]*kindCache{}
	}
	for _, k := range m.fleet.kinds {
		gk := k.GVK.GroupKind()
		c := m.caches[gk]
		if c == nil {
			c = &kindCache{}
			m.caches[gk] = c
		}
		c.served, c.reconciler = slices.Contains(served[k.GVK.GroupVersion()], k.Resource), reconcilerOf(k, underway, kruise)
		c.version = ""
		if beat := m.seers[agentBeat]; beat != nil && c.reconciler == ReconcilerUnderway {
			c.version = beat.version
		}
		switch {
		case c.served && used[gk] && c.children == nil:
			m.begin(run, conn, c, k)
		case !c.served && c.children != nil:
			c.end()
		}
	}
}

// served are the resources that the member has, by the group and version of our kinds. Each is asked for in its own time: a
// member that is far is slow with each, and not broken.
func (m *member) served(ctx context.Context, conn *connection) (map[schema.GroupVersion][]string, error) {
	out := map[schema.GroupVersion][]string{}
	for _, k := range m.fleet.kinds {
		gv := k.GVK.GroupVersion()
		if _, done := out[gv]; done {
			continue
		}
		err := m.timely(ctx, func(ctx context.Context) (err error) {
			out[gv], err = readResources(ctx, conn.plain, gv)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// begin watches a kind; it needs mu.
func (m *member) begin(ctx context.Context, conn *connection, c *kindCache, k render.Kind) {
	var run context.Context
	run, c.cancel = context.WithCancel(ctx)
	c.since, c.problem = m.fleet.clock.Now(), ""
	c.children = newChildren(k, m.childChanged, func() { m.filled(c) })
	c.children.failed = func(err error) { m.listFailed(c, err) }
	c.again = make(chan struct{}, 1)
	children, again := c.children, c.again
	m.watches.Go(func() {
		for run.Err() == nil {
			once, cancel := context.WithCancel(run)
			m.mu.Lock()
			c.restart = cancel
			m.mu.Unlock()
			children.run(once, conn, m.fleet.hubID, m.proven)
			cancel()
			for conn.gate.down.Load() && run.Err() == nil {
				select {
				case <-run.Done():
				case <-again:
				}
			}
		}
	})
}

// end stops watching a kind; it needs mu. A kind that is gone is not "no children": its cache is dropped and not synced.
func (c *kindCache) end() {
	if c.cancel != nil {
		c.cancel()
	}
	c.children, c.cancel, c.restart, c.again = nil, nil, nil, nil
	c.synced, c.refused, c.problem = false, "", ""
}

// dropCaches needs mu.
func (m *member) dropCaches() {
	for _, c := range m.caches {
		c.end()
	}
	m.caches = nil
}

// rewatch ends every watch and begins it anew, on the caches as they are: at once where the member answers, so that what
// was missed while it was away is read; else when it does.
func (m *member) rewatch() {
	now := m.fleet.clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.caches {
		if c.restart == nil {
			continue
		}
		c.since = now
		c.restart()
		select {
		case c.again <- struct{}{}:
		default:
		}
	}
}

// overdue begins lists anew that did not arrive in time. While no kind at all is read the fault may be the connection's:
// errUnsynced.
func (m *member) overdue() error {
	limit := m.fleet.intervals.Sync
	now := m.fleet.clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	late, arrived := false, false
	for _, k := range m.fleet.kinds {
		c := m.caches[k.GVK.GroupKind()]
		if c == nil || c.children == nil {
			continue
		}
		arrived = arrived || c.synced
		if c.synced || c.refused != "" || now.Sub(c.since) < limit {
			continue
		}
		if m.late == nil {
			m.late = map[schema.GroupKind]bool{}
		}
		m.late[k.GVK.GroupKind()], late = true, true
		c.since = now
		if c.restart != nil {
			c.restart()
		}
	}
	if late && !arrived {
		return errUnsynced
	}
	return nil
}

// proven is the check after each list and at each begin of a watch.
func (m *member) proven(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.fleet.intervals.ProbeTimeout)
	defer cancel()
	err := m.prove(ctx)
	if err != nil && !errors.Is(err, ErrNotReady) {
		m.nudge()
	}
	return err
}

func (m *member) filled(c *kindCache) {
	m.mu.Lock()
	c.synced, c.refused, c.problem = true, "", ""
	if c.children != nil {
		delete(m.late, c.children.kind.GVK.GroupKind())
	}
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

// mustDiscover is true while a kind in use is missing, or after one was found missing.
func (m *member) mustDiscover() bool {
	used := m.fleet.inUse()
	m.mu.RLock()
	defer m.mu.RUnlock()
	for gk := range used {
		if c := m.caches[gk]; c == nil || c.children == nil {
			return true
		}
	}
	return m.rediscover
}

// listFailed notes why a kind does not sync. A kind that is not served any more, or may not be read, is no longer synced at
// once; neither holds up the other kinds.
func (m *member) listFailed(c *kindCache, err error) {
	m.mu.Lock()
	missing := notServed(err)
	switch {
	case missing:
		c.synced, m.rediscover = false, true
	case apierrors.IsForbidden(err):
		c.synced, c.refused = false, "the hub may not read it there: "+err.Error()
	case !c.synced && !errors.Is(err, ErrNotReady) && !errors.Is(err, context.Canceled):
		c.problem = words(err)
	}
	m.mu.Unlock()
	m.settle()
	if missing {
		m.nudge()
	}
}

// beats says whether the holder of a Lease renewed it in the last minute; unknown when it cannot be read. Times of two
// clocks are compared only at the first look.
func (m *member) beats(ctx context.Context, conn *connection, namespace, name string) Reconciler {
	ctx, cancel := context.WithTimeout(ctx, m.fleet.intervals.ProbeTimeout)
	defer cancel()
	lease, err := conn.leases.Leases(namespace).Get(ctx, name, metav1.GetOptions{})
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
	seen.version = told(lease.Labels[appsv1alpha1.LabelVersion])
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

//go:build lab

package propagation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
	"github.com/underway-dev/underway/test/lab"
)

func config2(member, identity string) clusters.Config {
	return clusters.Config{REST: access[member], Identity: identity}
}

// TestViewOfAMember is what is known of a member and of who reconciles on it.
func TestViewOfAMember(t *testing.T) {
	t.Parallel()
	h := startHub(t, "5600000000000001", "one")
	h.join(t, "alpha")
	v := h.await(t, "alpha", "looked at", func(v clusters.View) bool {
		return !slices.ContainsFunc(v.Kinds, func(k clusters.KindView) bool { return k.Reconciler == clusters.ReconcilerUnknown })
	})
	if v.Version == "" || v.Identity == "" || v.SeenIdentity != v.Identity || !v.Reachable || len(v.Kinds) != len(render.Kinds())+len(content.Kinds()) {
		t.Errorf("view %+v", v)
	}
	for _, k := range v.Kinds {
		want := clusters.ReconcilerNobody
		if k.GVK.Group == "apps" {
			want = clusters.ReconcilerKubernetes
		}
		if _, travels := content.KindNamed(k.GVK.Kind); travels {
			want = k.Reconciler // content is reconciled by nobody, and nothing is made of it
		}
		if !k.Served || k.Reconciler != want {
			t.Errorf("%s: served %t, reconciler %s, want %s", k.GVK, k.Served, k.Reconciler, want)
		}
	}
	h.await(t, "", "the hub's own cluster", func(v clusters.View) bool { return v.Reachable && v.Version != "" })

	lease := kube(t, "alpha").CoordinationV1().Leases(appsv1alpha1.SystemNamespace)
	eventually(t, "the hub's Lease", func() (bool, string) {
		l, err := lease.Get(t.Context(), appsv1alpha1.LeaseHubPrefix+h.id, metav1.GetOptions{})
		return err == nil && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == "one", ""
	})

	// The same cluster under another name is refused.
	access["alias"] = access["alpha"]
	h.members.Ensure("alias", config2("alias", ""))
	got := h.await(t, "alias", "refused", func(v clusters.View) bool { return v.State == clusters.StateBlocked })
	if got.Block != clusters.BlockIdentityTaken {
		t.Errorf("alias: %+v", got)
	}
	// A credential that is refused is noticed at once.
	bad := config2("alias", "")
	bad.REST = rest.CopyConfig(access["beta"])
	bad.REST.BearerToken = "nonsense"
	h.members.Ensure("alias", bad)
	got = h.await(t, "alias", "refused", func(v clusters.View) bool { return v.Block == clusters.BlockUnauthorized })
	if got.State != clusters.StateBlocked {
		t.Errorf("a refused credential: %+v", got)
	}
	h.members.Remove("alias")
	if _, ok := h.members.View("alias"); ok {
		t.Error("alias is still there")
	}
}

// TestAClonedHubStopsBoth is two hubs with one id.
func TestAClonedHubStopsBoth(t *testing.T) {
	t.Parallel()
	const ns = "twins"
	a := startHub(t, "5600000000000002", "original")
	a.join(t, "beta")
	first := a.apply(t, a.item(t, "beta", ns, some("web:1", 1)))
	b := startHub(t, a.id, "clone")
	b.join(t, "beta")
	b.await(t, "beta", "seen by the clone", func(v clusters.View) bool { return v.TwoHubs && v.OtherHolder == "original" })
	a.await(t, "beta", "seen by the original", func(v clusters.View) bool { return v.TwoHubs && v.OtherHolder == "clone" })
	for _, h := range []*hub{a, b} {
		i := h.item(t, "beta", ns, some("web:2", 2).by(first.UID))
		h.box.Post(i)
		h.settle(t, i, outbox.StateStopped)
	}
	if got := image(t, read(t, "beta", a.item(t, "beta", ns, some("web:1", 1)))); got != "web:1" {
		t.Errorf("one of two hubs wrote %s", got)
	}
	b.stop()
	a.members.ClearTwoHubs()
	a.box.Resume(outbox.StopTwoHubs)
	a.done(t, a.item(t, "beta", ns, some("web:2", 2)))
	time.Sleep(3 * time.Second)
	if v, _ := a.members.View("beta"); v.TwoHubs || len(a.box.Stopped()) != 0 {
		t.Errorf("after the clone was ended: %+v", v)
	}
}

// TestARestartedHubIsNoSecondOne is a new process of the same hub: the Lease is taken over after it expired.
func TestARestartedHubIsNoSecondOne(t *testing.T) {
	t.Parallel()
	a := startHub(t, "5600000000000003", "first")
	a.join(t, "beta")
	leases := kube(t, "beta").CoordinationV1().Leases(appsv1alpha1.SystemNamespace)
	held := func(by string) {
		eventually(t, "the Lease is held by "+by, func() (bool, string) {
			l, err := leases.Get(t.Context(), appsv1alpha1.LeaseHubPrefix+a.id, metav1.GetOptions{})
			return err == nil && *l.Spec.HolderIdentity == by, ""
		})
	}
	held("first")
	a.stop()
	b := startHub(t, a.id, "second")
	b.join(t, "beta")
	held("second")
	if v, _ := b.members.View("beta"); v.TwoHubs {
		t.Errorf("a restart looks like a second hub: %+v", v)
	}
}

// TestAPausedMemberDelaysOnlyItself stops one member's API server in the middle and lets it go on.
func TestAPausedMemberDelaysOnlyItself(t *testing.T) {
	// Not parallel: gamma is shared with the tests below.
	const ns = "paused"
	h := startHub(t, "5600000000000004", "one")
	h.join(t, "gamma", "beta")
	first := map[string]types.UID{}
	for _, m := range []string{"gamma", "beta"} {
		first[m] = h.apply(t, h.item(t, m, ns, some("web:1", 1))).UID
	}
	if err := fleet.Cluster("gamma").Pause(lab.APIServer); err != nil {
		t.Fatal(err)
	}
	gamma := h.item(t, "gamma", ns, some("web:2", 2).by(first["gamma"]))
	h.box.Post(gamma)
	start := time.Now()
	h.apply(t, h.item(t, "beta", ns, some("web:2", 2).by(first["beta"])))
	t.Logf("beta had its change after %s", time.Since(start).Round(time.Millisecond))
	h.await(t, "gamma", "degraded", func(v clusters.View) bool { return v.State == clusters.StateDegraded })
	if obj, synced := h.members.Child("gamma", gamma.Object.GroupVersionKind(), types.NamespacedName{Namespace: ns, Name: gamma.Object.GetName()}); !synced || image(t, obj) != "web:1" {
		t.Errorf("what was last known is gone: %v %v", obj, synced)
	}
	if err := fleet.Cluster("gamma").Resume(lab.APIServer); err != nil {
		t.Fatal(err)
	}
	h.await(t, "gamma", "ready again", func(v clusters.View) bool { return v.State == clusters.StateReady })
	h.done(t, gamma)
	if got := image(t, read(t, "gamma", gamma)); got != "web:2" {
		t.Errorf("gamma runs %s", got)
	}
}

// TestAMemberWithoutTheKind is the CRD that goes and comes: no child counts as gone.
func TestAMemberWithoutTheKind(t *testing.T) {
	const ns = "kindless"
	h := startHub(t, "5600000000000005", "one")
	h.join(t, "gamma")
	i := h.item(t, "gamma", ns, some("web:1", 1))
	h.apply(t, i)
	api, err := dynamic.NewForConfig(fleet.Cluster("gamma").RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	crds := api.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if err := crds.Delete(t.Context(), "clonesets.apps.kruise.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.await(t, "gamma", "without the kind", func(v clusters.View) bool { return !v.Kinds[0].Served })
	if obj, synced := h.members.Child("gamma", i.Object.GroupVersionKind(), types.NamespacedName{Namespace: ns, Name: i.Object.GetName()}); synced {
		t.Errorf("a kind that is not served counts as read: %v", obj)
	}
	h.box.Post(h.item(t, "gamma", ns, some("web:1", 2)))
	h.settle(t, i, outbox.StateKindMissing)
	objects, err := config.MemberCRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		if obj.GetName() != "clonesets.apps.kruise.io" {
			continue
		}
		eventually(t, "the CRD is back", func() (bool, string) {
			_, err := crds.Create(t.Context(), obj, metav1.CreateOptions{})
			if err != nil {
				return false, err.Error()
			}
			return true, ""
		})
	}
	h.settle(t, i, outbox.StateDone)
	if read(t, "gamma", i) == nil {
		t.Error("not created again")
	}
}

// TestARestoredStoreIsReadAnew is an etcd restored from a backup: memory is dropped, and what is due is sent again.
func TestARestoredStoreIsReadAnew(t *testing.T) {
	const ns = "restored"
	h := startHub(t, "5600000000000006", "one")
	h.join(t, "delta")
	first := h.apply(t, h.item(t, "delta", ns, some("web:1", 1)))
	backup, err := fleet.Cluster("delta").Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.await(t, "delta", "ready again", func(v clusters.View) bool { return v.State == clusters.StateReady })
	i := h.item(t, "delta", ns, some("web:2", 2).by(first.UID))
	h.apply(t, i)
	for range 30 { // The store must be seen to run backwards.
		makeNamespace(t, "delta", "filler")
		_ = kube(t, "delta").CoreV1().Namespaces().Delete(t.Context(), "filler", metav1.DeleteOptions{})
	}
	h.looked(t, "delta")
	before, _ := h.members.View("delta")
	if err := fleet.Cluster("delta").Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	h.await(t, "delta", "read anew", func(v clusters.View) bool { return v.Memory > before.Memory && v.State == clusters.StateReady })
	eventually(t, "the change is sent again", func() (bool, string) {
		got := image(t, read(t, "delta", i))
		return got == "web:2", got
	})
}

// looked waits until the hub has looked at a member as it is now: of two looks that it ends from here on, the second began here.
func (h *hub) looked(t *testing.T, name string) {
	t.Helper()
	for since := range 2 {
		before, _ := h.members.View(name)
		h.await(t, name, fmt.Sprintf("looked at, %d", since+1), func(v clusters.View) bool {
			return v.Reachable && v.LastHeard.After(before.LastHeard)
		})
	}
}

// TestAReplacedMemberGetsNothing is another cluster under the same name, address and credential.
func TestAReplacedMemberGetsNothing(t *testing.T) {
	const ns = "replaced"
	h := startHub(t, "5600000000000007", "one")
	h.join(t, "delta")
	held := h.item(t, "delta", ns, some("web:1", 1))
	first := h.apply(t, held)
	owner := types.NamespacedName{Namespace: ns, Name: "web"}

	gone := make(chan string, 100)
	stop := watchForEmptiness(t, h, "delta", owner, gone)
	if err := fleet.Cluster("delta").Wipe(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The new cluster has all that a hub could want.
	if _, err := prepare(t.Context(), fleet.Cluster("delta")); err != nil {
		t.Fatal(err)
	}
	makeNamespace(t, "delta", ns)
	h.box.Post(h.item(t, "delta", ns, some("web:2", 2).by(first.UID)))
	fresh := h.item(t, "delta", ns, some("web:2", 2))
	fresh.Object.SetName("fresh")
	h.box.Post(fresh)
	v := h.await(t, "delta", "another cluster", func(v clusters.View) bool { return v.Block == clusters.BlockIdentityChanged })
	if v.State != clusters.StateBlocked || v.SeenIdentity == v.Identity || v.SeenIdentity == "" {
		t.Errorf("view %+v", v)
	}
	time.Sleep(5 * time.Second)
	stop()
	if got := requests(t, "delta", "", 0, lab.Writes, func(e lab.AuditEvent) bool { return e.Received.After(wiped(t)) }); len(got) != 0 {
		t.Errorf("written to another cluster: %v", got)
	}
	select {
	case what := <-gone:
		t.Errorf("the replaced member was believed: %s", what)
	default:
	}
	// A person confirms the new cluster.
	h.members.Ensure("delta", config2("delta", v.SeenIdentity))
	h.await(t, "delta", "ready", func(v clusters.View) bool { return v.State == clusters.StateReady })
	h.settle(t, fresh, outbox.StateDone)
}

// wiped is when the present kube-system namespace was made.
func wiped(t *testing.T) time.Time {
	t.Helper()
	ns, err := kube(t, "delta").CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.CreationTimestamp.Time
}

// watchForEmptiness says when a synced cache shows no child: what a hub would take for "deleted".
func watchForEmptiness(t *testing.T, h *hub, member string, owner types.NamespacedName, said chan<- string) func() {
	t.Helper()
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
			var children []*unstructured.Unstructured
			children, synced := h.members.Children(member, render.CloneSet().GVK, owner)
			if v, _ := h.members.View(member); synced && len(children) == 0 {
				select {
				case said <- string(v.State):
				default:
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

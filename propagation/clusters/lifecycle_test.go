package clusters

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/underway-dev/underway/propagation/render"
)

func ready(v View) bool { return v.State == StateReady }

// TestOnlyKindsInUseAreWatched: a member is ready without a single watch; each kind's begins when it is asked for, once,
// and nothing is believed before its list is whole.
func TestOnlyKindsInUseAreWatched(t *testing.T) {
	t.Parallel()
	a := newAPI(t, "east-uid")
	set, deployment := render.CloneSet(), render.Deployment()
	a.items["deployments"] = []any{map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{
			"name": "web-east", "namespace": "shop", "resourceVersion": "3", "annotations": map[string]any{"fleet.underway.dev/owner": "shop/web"},
		},
	}}
	f := startFleet(t, quick())
	f.Ensure("east", Config{REST: a.rest(), Identity: "east-uid"})
	v := await(t, f, "east", "ready with nothing in use", ready)
	if k := kindIn(v, set); !k.Served || k.Synced {
		t.Errorf("a kind that nobody asked for: %+v", k)
	}
	if n := a.count("GET /apis/apps/v1/deployments") + a.count("WATCH "); n != 0 {
		t.Errorf("%d lists and watches of kinds that nobody asked for: %v", n, a.asked)
	}

	a.freeze("/deployments")
	f.Use(deployment.GVK.GroupKind().String(), "Nonsense.example.com")
	eventually(t, "the list is asked for", func() bool { return a.count("WATCH /apis/apps/v1/deployments") > 0 }, func() string { return fmt.Sprint(a.asked) })
	owner := types.NamespacedName{Namespace: "shop", Name: "web"}
	if list, synced := f.Children("east", deployment.GVK, owner); synced || len(list) > 0 {
		t.Errorf("before its list arrived it is believed: %v", list)
	}
	v, _ = f.View("east")
	if v.State != StateReady || kindIn(v, deployment).Synced {
		t.Errorf("a kind that comes into use: the member is %s, the kind %+v", v.State, kindIn(v, deployment))
	}
	a.thaw()
	await(t, f, "east", "the kind is read", func(v View) bool { return kindIn(v, deployment).Synced })
	if list, synced := f.Children("east", deployment.GVK, owner); !synced || len(list) != 1 {
		t.Errorf("children %v, read %t", list, synced)
	}
	if n := a.count("WATCH /apis/apps.kruise.io") + a.count("GET /apis/apps.kruise.io/v1alpha1/clonesets"); n != 0 {
		t.Errorf("%d requests for a kind that nobody asked for", n)
	}
	// Whoever reads puts it into use.
	if _, synced := f.Child("east", set.GVK, owner); synced {
		t.Error("a kind that was never read is believed")
	}
	await(t, f, "east", "the other kind is read", func(v View) bool { return kindIn(v, set).Synced })
}

// TestAMemberThatDoesNotSyncInTimeIsConnectedAnew: its list hangs for ever although it is reachable.
func TestAMemberThatDoesNotSyncInTimeIsConnectedAnew(t *testing.T) {
	t.Parallel()
	every := quick()
	every.Sync = 300 * time.Millisecond
	a, set := newAPI(t, "east-uid"), render.CloneSet()
	a.freeze("/clonesets")
	f := startFleet(t, every)
	f.Use(set.GVK.GroupKind().String())
	f.Ensure("east", Config{REST: a.rest(), Identity: "east-uid"})
	v := await(t, f, "east", "it says what is missing", func(v View) bool { return strings.Contains(v.Message, "were not read within 300ms") })
	if v.State != StateSyncing || !v.Reachable || !strings.Contains(kindIn(v, set).Message, "clonesets.apps.kruise.io") {
		t.Errorf("view %+v", v)
	}
	first := f.member("east")
	eventually(t, "a second try", func() bool { return a.count("WATCH /apis/apps.kruise.io/v1alpha1/clonesets") > 2 }, func() string { return fmt.Sprint(a.asked) })
	if f.member("east") != first {
		t.Error("the member itself was replaced")
	}
	a.thaw()
	v = await(t, f, "east", "ready", ready)
	if v.Message != "" || kindIn(v, set).Message != "" {
		t.Errorf("it is ready and says %q %q", v.Message, kindIn(v, set).Message)
	}
}

// TestAKindThatDoesNotSyncHoldsUpNoOther: only its own watch is begun anew.
func TestAKindThatDoesNotSyncHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	every := quick()
	every.Sync = 200 * time.Millisecond
	a, set, deployment := newAPI(t, "east-uid"), render.CloneSet(), render.Deployment()
	f := startFleet(t, every)
	f.Use(deployment.GVK.GroupKind().String())
	f.Ensure("east", Config{REST: a.rest(), Identity: "east-uid"})
	await(t, f, "east", "ready", func(v View) bool { return ready(v) && kindIn(v, deployment).Synced })
	eventually(t, "its watch", func() bool { return a.count("WATCH /apis/apps/v1/deployments") > 1 }, func() string { return fmt.Sprint(a.asked) })
	before := a.count("WATCH /apis/apps/v1/deployments") + a.count("GET /apis/apps/v1/deployments")
	a.freeze("/clonesets")
	f.Use(set.GVK.GroupKind().String())
	v := await(t, f, "east", "it says what is missing", func(v View) bool { return kindIn(v, set).Message != "" })
	eventually(t, "a second try", func() bool { return a.count("WATCH /apis/apps.kruise.io/v1alpha1/clonesets") > 2 }, func() string { return fmt.Sprint(a.asked) })
	if !ready(v) || !kindIn(v, deployment).Synced {
		t.Errorf("view %+v", v)
	}
	if after := a.count("WATCH /apis/apps/v1/deployments") + a.count("GET /apis/apps/v1/deployments"); after != before {
		t.Errorf("the other kind was read again: %d requests, %d before", after, before)
	}
}

// TestAFrozenMemberHoldsNobody: what waits for it fails when it is found out, what is asked then fails at once and is not
// sent; its cache stays; and when it answers again, everything goes on by itself.
func TestAFrozenMemberHoldsNobody(t *testing.T) {
	t.Parallel()
	every := quick()
	// Only being found out can end the call: its own limit is far.
	every.ProbeTimeout, every.Request = 300*time.Millisecond, 10*time.Minute
	a, set := newAPI(t, "east-uid"), render.CloneSet()
	f := startFleet(t, every)
	f.Use(set.GVK.GroupKind().String())
	f.Ensure("east", Config{REST: a.rest(), Identity: "east-uid"})
	await(t, f, "east", "ready", ready)
	client, err := f.Client("east")
	if err != nil {
		t.Fatal(err)
	}
	name := types.NamespacedName{Namespace: "shop", Name: "web"}

	a.freeze("")
	failed := make(chan error, 1)
	go func() {
		_, err := f.Get(t.Context(), "east", set.GVK, name)
		failed <- err
	}()
	v := await(t, f, "east", "degraded", func(v View) bool { return v.State == StateDegraded })
	if v.Message != "no answer in time" {
		t.Errorf("it says %q", v.Message)
	}
	if err := <-failed; err == nil {
		t.Error("a call to a frozen member was answered")
	}
	asked := a.count("GET /apis/apps.kruise.io/v1alpha1/namespaces/shop")
	if _, err := client.Resource(set.GVR()).Namespace("shop").List(t.Context(), listAll()); !errors.Is(err, ErrNotReady) {
		t.Errorf("a client that was handed out before: %v", err)
	}
	if _, err := f.Get(t.Context(), "east", set.GVK, name); !errors.Is(err, ErrNotReady) {
		t.Errorf("a read: %v", err)
	}
	if got := a.count("GET /apis/apps.kruise.io/v1alpha1/namespaces/shop"); got != asked {
		t.Errorf("%d requests were sent to a member that is down", got-asked)
	}
	if _, synced := f.Child("east", set.GVK, name); !synced {
		t.Error("what was last known is gone")
	}
	a.thaw()
	await(t, f, "east", "ready again", ready)
	eventually(t, "watched again", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.watches["clonesets"] == 1
	}, func() string { return fmt.Sprint(a.asked) })
}

// TestARequestIsBounded: a member whose probes are answered and whose objects are not.
func TestARequestIsBounded(t *testing.T) {
	t.Parallel()
	every := quick()
	every.Request = 200 * time.Millisecond
	a := newAPI(t, "east-uid")
	f := startFleet(t, every)
	f.Ensure("east", Config{REST: a.rest(), Identity: "east-uid"})
	await(t, f, "east", "ready", ready)
	a.freeze("/shop")
	_, err := f.Get(t.Context(), "east", render.CloneSet().GVK, types.NamespacedName{Namespace: "shop", Name: "web"})
	if !errors.Is(err, errSlow) {
		t.Errorf("got %v, want %v", err, errSlow)
	}
	if v, _ := f.View("east"); v.State != StateReady {
		t.Errorf("one slow answer makes it %s", v.State)
	}
}

// TestADeadMemberSaysOneThing: the tries that fail wake nobody, so that a thousand dead members cost nothing.
func TestADeadMemberSaysOneThing(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "https://" + closed.Addr().String()
	_ = closed.Close()
	f, err := NewFleet(Options{HubID: "0123456789abcdef", Holder: "test", Local: newAPI(t, "hub").rest(), Intervals: quick()})
	if err != nil {
		t.Fatal(err)
	}
	var events atomic.Int64
	f.Subscribe(func(e Event) {
		if e.Member == "east" {
			events.Add(1)
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Start(t.Context())
	}()
	t.Cleanup(func() { <-done })
	f.Ensure("east", Config{REST: &rest.Config{Host: address, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, Identity: "east-uid"})
	await(t, f, "east", "unreachable", func(v View) bool { return v.Block == BlockUnreachable && v.Message == "connection refused" })
	tries := func() int64 { return f.Requests("east")["get"] }
	settled, from := events.Load(), tries()
	eventually(t, "ten more tries", func() bool { return tries() >= from+10 }, func() string { return fmt.Sprint(f.Requests("east")) })
	if got := events.Load(); got != settled {
		t.Errorf("ten tries that failed as before woke everybody %d times", got-settled)
	}
}

// TestRemovedMembersLeaveNothing: 100 members that come and go leave no goroutine, no connection's memory, no claim.
func TestRemovedMembersLeaveNothing(t *testing.T) {
	a, set := newAPI(t, "east-uid"), render.CloneSet()
	f := startFleet(t, quick())
	f.Use(set.GVK.GroupKind().String(), render.Deployment().GVK.GroupKind().String())
	await(t, f, Local, "the hub itself", ready)
	once := func(i int) weak.Pointer[member] {
		name := fmt.Sprintf("m-%d", i)
		f.Ensure(name, Config{REST: a.rest(), Identity: "east-uid"})
		if i%4 == 0 { // some are removed in the middle of their first look
			await(t, f, name, "ready", func(v View) bool { return ready(v) && kindIn(v, set).Synced })
		}
		held := weak.Make(f.member(name))
		f.Remove(name)
		return held
	}
	once(0)
	settle := func(limit int) bool {
		a.CloseClientConnections() // the server's half is not what is counted
		runtime.GC()
		return runtime.NumGoroutine() <= limit
	}
	time.Sleep(200 * time.Millisecond)
	settle(0)
	before := runtime.NumGoroutine()
	var held []weak.Pointer[member]
	for i := range 100 {
		held = append(held, once(i))
	}
	eventually(t, "the goroutines are gone", func() bool { return settle(before + 5) }, func() string {
		buf := make([]byte, 1<<20)
		return fmt.Sprintf("%d, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
	})
	eventually(t, "the memory is free", func() bool {
		runtime.GC()
		left := 0
		for _, p := range held {
			if p.Value() != nil {
				left++
			}
		}
		return left == 0
	}, func() string { return "members are still held" })
	f.mu.RLock()
	claims := len(f.claims)
	f.mu.RUnlock()
	if claims > 1 { // the hub's own
		t.Errorf("%d claims are left", claims)
	}
	if got, err := seriesOf(f); err != nil || got > 1 {
		t.Errorf("%d members are still counted (%v)", got, err)
	}
}

// TestARemovedMemberClaimsNothing: the answer to a look may come after the removal.
func TestARemovedMemberClaimsNothing(t *testing.T) {
	t.Parallel()
	f := &Fleet{claims: map[string]string{}, members: map[string]*member{}}
	gone, here := &member{name: "east", fleet: f}, &member{name: "west", fleet: f}
	f.members["west"] = here
	if by := f.claim("uid", gone); by != "" || len(f.claims) != 0 {
		t.Errorf("a removed member claimed: %q %v", by, f.claims)
	}
	if by := f.claim("uid", here); by != "" || f.claims["uid"] != "west" {
		t.Errorf("claimed by %q: %v", by, f.claims)
	}
}

// TestASlowMemberDelaysOnlyItself: one member of twenty answers nothing for as long as the test looks; the others are
// connected, read and asked as if it were not there.
func TestASlowMemberDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	set := render.CloneSet()
	f := startFleet(t, quick())
	f.Use(set.GVK.GroupKind().String())
	slow := newAPI(t, "slow-uid")
	slow.freeze("")
	f.Ensure("slow", Config{REST: slow.rest(), Identity: "slow-uid"})
	for i := range 19 {
		uid := fmt.Sprintf("uid-%d", i)
		f.Ensure(fmt.Sprintf("m-%d", i), Config{REST: newAPI(t, uid).rest(), Identity: uid})
	}
	for i := range 19 {
		name := fmt.Sprintf("m-%d", i)
		await(t, f, name, "ready", func(v View) bool { return ready(v) && kindIn(v, set).Synced })
		if _, err := f.List(t.Context(), name, set.GVK, "", everything()); err != nil {
			t.Error(err)
		}
	}
	if v, _ := f.View("slow"); v.State != StateConnecting {
		t.Errorf("the slow one is %s", v.State)
	}
}

func listAll() metav1.ListOptions { return metav1.ListOptions{} }

func everything() labels.Selector { return labels.Everything() }

// seriesOf counts the members that the counters know.
func seriesOf(f *Fleet) (int, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(f.connections); err != nil {
		return 0, fmt.Errorf("registering: %w", err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		return 0, err //nolint:wrapcheck // a test
	}
	return len(families[0].GetMetric()), nil
}

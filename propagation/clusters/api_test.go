package clusters

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/underway-dev/underway/propagation/render"
)

// api plays a member's API server: what a connection asks, and faults of it.
type api struct {
	*httptest.Server
	uid string

	mu sync.Mutex
	// asked counts requests by method and path.
	asked map[string]int
	// hang is true for paths that are accepted and never answered.
	hang func(path string) bool
	// items are the listed objects by resource.
	items map[string][]any
	// watches counts those that are open, by resource.
	watches map[string]int
	closing chan struct{}
}

func newAPI(t *testing.T, uid string) *api {
	t.Helper()
	a := &api{uid: uid, asked: map[string]int{}, items: map[string][]any{}, watches: map[string]int{}, closing: make(chan struct{})}
	a.Server = httptest.NewUnstartedServer(a)
	a.EnableHTTP2 = true
	a.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.StartTLS()
	t.Cleanup(func() {
		close(a.closing)
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

func (a *api) rest() *rest.Config {
	return &rest.Config{Host: a.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

func (a *api) set(edit func(*api)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	edit(a)
}

// freeze makes paths that hold a word hang; "" is all of them.
func (a *api) freeze(word string) {
	a.set(func(a *api) { a.hang = func(path string) bool { return strings.Contains(path, word) } })
}

func (a *api) thaw() { a.set(func(a *api) { a.hang = nil }) }

// count is how often a path was asked for.
func (a *api) count(prefix string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for path, times := range a.asked {
		if strings.HasPrefix(path, prefix) {
			n += times
		}
	}
	return n
}

func (a *api) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	watching := req.URL.Query().Get("watch") != ""
	a.mu.Lock()
	key := req.Method + " " + req.URL.Path
	if watching {
		key = "WATCH " + req.URL.Path
	}
	a.asked[key]++
	hang := a.hang != nil && a.hang(req.URL.Path)
	a.mu.Unlock()
	if hang {
		a.wait(req)
		return
	}
	a.answer(w, req, watching)
}

func (a *api) wait(req *http.Request) {
	select {
	case <-req.Context().Done():
	case <-a.closing:
	}
}

func (a *api) answer(w http.ResponseWriter, req *http.Request, watching bool) {
	path := req.URL.Path
	switch {
	case path == "/readyz":
		_, _ = io.WriteString(w, "ok")
	case path == "/version":
		say(w, map[string]any{"gitVersion": "v1.37.2"})
	case path == "/api/v1/namespaces":
		say(w, list("v1", "NamespaceList", []any{map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system", "uid": a.uid},
		}}))
	case strings.Contains(path, "/leases"):
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	default:
		a.workloads(w, req, watching)
	}
}

func (a *api) workloads(w http.ResponseWriter, req *http.Request, watching bool) {
	for _, k := range render.Kinds() {
		root := "/apis/" + k.GVK.GroupVersion().String()
		switch {
		case req.URL.Path == root:
			resources := []any{}
			for _, other := range render.Kinds() {
				if other.GVK.GroupVersion() == k.GVK.GroupVersion() {
					resources = append(resources, map[string]any{"name": other.Resource, "kind": other.GVK.Kind})
				}
			}
			say(w, map[string]any{"kind": "APIResourceList", "resources": resources})
			return
		case req.URL.Path == root+"/"+k.Resource && watching:
			a.watch(w, req, k)
			return
		case req.URL.Path == root+"/"+k.Resource:
			a.mu.Lock()
			items := a.items[k.Resource]
			a.mu.Unlock()
			say(w, list(k.GVK.GroupVersion().String(), k.GVK.Kind+"List", items))
			return
		}
	}
	fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
}

func (a *api) watch(w http.ResponseWriter, req *http.Request, k render.Kind) {
	if req.URL.Query().Get("sendInitialEvents") != "" {
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		return
	}
	a.set(func(a *api) { a.watches[k.Resource]++ })
	defer a.set(func(a *api) { a.watches[k.Resource]-- })
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	a.wait(req)
}

func list(apiVersion, kind string, items []any) map[string]any {
	if items == nil {
		items = []any{}
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"resourceVersion": "7"}, "items": items}
}

func say(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
		Message: fmt.Sprintf("code %d", code),
	})
}

// quick are intervals for tests: nothing is measured by them.
func quick() Intervals {
	return Intervals{
		Probe: 30 * time.Millisecond, ProbeTimeout: 5 * time.Second, Request: 5 * time.Second, Sync: time.Minute,
		Discovery: 50 * time.Millisecond, Lease: time.Hour, BackoffMin: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
	}
}

// startFleet runs a fleet whose own cluster is an api as well.
func startFleet(t *testing.T, every Intervals) *Fleet {
	t.Helper()
	f, err := NewFleet(Options{HubID: "0123456789abcdef", Holder: "test", Local: newAPI(t, "hub").rest(), Intervals: every})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Start(t.Context())
	}()
	t.Cleanup(func() { <-done })
	return f
}

// await waits for a view of a member.
func await(t *testing.T, f *Fleet, name, what string, ok func(View) bool) View {
	t.Helper()
	var v View
	eventually(t, what, func() bool {
		v, _ = f.View(name)
		return ok(v)
	}, func() string { return fmt.Sprintf("%+v", v) })
	return v
}

func eventually(t *testing.T, what string, ok func() bool, said func() string) {
	t.Helper()
	for range 3000 {
		if ok() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("never: %s; last: %s", what, said())
}

func kindIn(v View, k render.Kind) KindView {
	for _, got := range v.Kinds {
		if got.GVK.GroupKind() == k.GVK.GroupKind() {
			return got
		}
	}
	return KindView{}
}

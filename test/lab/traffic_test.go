package lab

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestReadyAddresses(t *testing.T) {
	t.Parallel()
	no, yes := false, true
	first, second := int32(8080), int32(9090)
	slice := func(ports []*int32, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{Endpoints: endpoints}
		for _, p := range ports {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Port: p})
		}
		return s
	}
	at := func(address, pod string, ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready},
			TargetRef: &corev1.ObjectReference{Name: pod},
		}
	}
	for name, tc := range map[string]struct {
		slices []*discoveryv1.EndpointSlice
		port   int
		want   map[string]string
	}{
		"only what is ready, or does not say": {
			slices: []*discoveryv1.EndpointSlice{slice([]*int32{&first}, at("10.0.0.1", "a", &yes), at("10.0.0.2", "b", &no), at("10.0.0.3", "c", nil))},
			want:   map[string]string{"10.0.0.1:8080": "a", "10.0.0.3:8080": "c"},
		},
		"slices are joined": {
			slices: []*discoveryv1.EndpointSlice{slice([]*int32{&first}, at("10.0.0.1", "a", nil)), slice([]*int32{&first}, at("10.0.0.2", "b", nil))},
			want:   map[string]string{"10.0.0.1:8080": "a", "10.0.0.2:8080": "b"},
		},
		"a port is chosen by its number": {
			slices: []*discoveryv1.EndpointSlice{slice([]*int32{&first, &second}, at("10.0.0.1", "a", nil))},
			port:   9090,
			want:   map[string]string{"10.0.0.1:9090": "a"},
		},
		"no such port is no address": {
			slices: []*discoveryv1.EndpointSlice{slice([]*int32{&first}, at("10.0.0.1", "a", nil)), slice([]*int32{nil}, at("10.0.0.2", "b", nil))},
			port:   9090,
			want:   map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := readyAddresses(tc.slices, tc.port); !maps.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// startSending is StartTraffic without a cluster.
func startSending(t *testing.T, opts TrafficOptions, addresses map[string]string) *Traffic {
	t.Helper()
	opts = opts.withDefaults()
	ctx, cancel := context.WithCancel(t.Context())
	traffic := &Traffic{opts: opts, cancel: cancel, ended: make(chan struct{}), ready: newEndpoints(opts.KeepAlive), tally: newTally(time.Now())}
	traffic.ready.replace(addresses)
	go traffic.run(ctx)
	t.Cleanup(func() { traffic.Stop() })
	return traffic
}

func serving(t *testing.T, handle http.HandlerFunc) (server *httptest.Server, address string) {
	t.Helper()
	server = httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server, strings.TrimPrefix(server.URL, "http://")
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
}

func TestTrafficCounts(t *testing.T) {
	t.Parallel()
	_, one := serving(t, says("v1 pod-1"))
	_, two := serving(t, says("v2 pod-2"))
	_, ill := serving(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	traffic := startSending(t, TrafficOptions{PerSecond: 200}, map[string]string{one: "pod-1", two: "pod-2", ill: "pod-3"})
	eventually(t, func() bool { return traffic.Report().Sent >= 60 })
	r := traffic.Stop()

	if r.ByVersion["v1"] != r.ByPod["pod-1"] || r.ByVersion["v2"] != r.ByPod["pod-2"] || r.ByPod["pod-3"] != 0 {
		t.Errorf("answers by version %v, by pod %v", r.ByVersion, r.ByPod)
	}
	if r.Succeeded != r.ByPod["pod-1"]+r.ByPod["pod-2"] || r.Sent != r.Succeeded+len(r.Failures) {
		t.Errorf("the counts do not add up: %v", r)
	}
	// In turn: no address has two requests more than another.
	counts := []int{r.ByPod["pod-1"], r.ByPod["pod-2"], len(r.Failures)}
	if slices.Max(counts)-slices.Min(counts) > 1 {
		t.Errorf("requests are not sent in turn: %v", counts)
	}
	for _, f := range r.Failures {
		if f.Pod != "pod-3" || f.Address != ill || !strings.Contains(f.Err, "503") || f.Time.IsZero() {
			t.Errorf("failure %+v", f)
		}
	}
}

func TestTrafficFailures(t *testing.T) {
	t.Parallel()
	closed, refused := serving(t, says("v1"))
	closed.Close()
	_, silent := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		// A server sees that its client is gone only when it has read the body.
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	for name, tc := range map[string]struct {
		addresses map[string]string
		want      string
	}{
		"refused":     {addresses: map[string]string{refused: "pod"}, want: "connection refused"},
		"no answer":   {addresses: map[string]string{silent: "pod"}, want: context.DeadlineExceeded.Error()},
		"no endpoint": {want: NoReadyEndpoint},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			traffic := startSending(t, TrafficOptions{PerSecond: 100, Timeout: 100 * time.Millisecond}, tc.addresses)
			eventually(t, func() bool { return traffic.Report().Sent >= 5 })
			r := traffic.Stop()
			if r.Succeeded != 0 || len(r.Failures) != r.Sent {
				t.Fatalf("%v", r)
			}
			for _, f := range r.Failures {
				if !strings.Contains(f.Err, tc.want) {
					t.Errorf("failure %q, want %q", f.Err, tc.want)
				}
			}
		})
	}
}

// Requests begin at their rate also while none is answered, and Stop waits for
// them.
func TestTrafficIsAnOpenLoop(t *testing.T) {
	t.Parallel()
	var running atomic.Int32
	release := make(chan struct{})
	_, address := serving(t, func(http.ResponseWriter, *http.Request) {
		running.Add(1)
		<-release
	})
	traffic := startSending(t, TrafficOptions{PerSecond: 100, Timeout: time.Minute}, map[string]string{address: "pod"})
	eventually(t, func() bool { return running.Load() >= 20 })
	if r := traffic.Report(); r.Sent != 0 {
		t.Errorf("%d requests have ended, and none was answered", r.Sent)
	}
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	if r := traffic.Stop(); r.Succeeded < 20 || len(r.Failures) != 0 {
		t.Errorf("Stop did not wait: %v", r)
	}
}

// connections counts the connections of a server that are open, and all there
// ever were.
type connections struct {
	mu        sync.Mutex
	open, all int
}

func (c *connections) count(_ net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s {
	case http.StateNew:
		c.open++
		c.all++
	case http.StateClosed, http.StateHijacked:
		c.open--
	case http.StateActive, http.StateIdle:
	}
}

func (c *connections) now() (open, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open, c.all
}

func TestTrafficConnections(t *testing.T) {
	t.Parallel()
	for name, keepAlive := range map[string]bool{"a connection per request": false, "connections are used again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen connections
			server := httptest.NewUnstartedServer(says("v1"))
			server.Config.ConnState = seen.count
			server.Start()
			t.Cleanup(server.Close)
			address := strings.TrimPrefix(server.URL, "http://")
			traffic := startSending(t, TrafficOptions{PerSecond: 100, KeepAlive: keepAlive}, map[string]string{address: "pod"})
			eventually(t, func() bool { return traffic.Report().Succeeded >= 30 })
			// The pod leaves the endpoints: its connections are closed, without a failure.
			traffic.ready.replace(nil)
			eventually(t, func() bool { open, _ := seen.now(); return open == 0 })
			r := traffic.Stop()
			for _, f := range r.Failures {
				if f.Err != NoReadyEndpoint {
					t.Errorf("failure %+v", f)
				}
			}
			if _, all := seen.now(); (all < r.Succeeded) != keepAlive {
				t.Errorf("%d connections for %d requests", all, r.Succeeded)
			}
		})
	}
}

// A used connection that the server closes is a failure: the request is not sent a
// second time behind our back.
func TestTrafficSendsOnce(t *testing.T) {
	t.Parallel()
	var got atomic.Int32
	_, address := serving(t, func(http.ResponseWriter, *http.Request) {
		if got.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
	})
	e := newEndpoint(address, "pod", true)
	defer e.leave()
	if _, err := e.ask(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.ask(t.Context(), "/"); err == nil || got.Load() != 2 {
		t.Errorf("the server got %d requests, the error is %v", got.Load(), err)
	}
}

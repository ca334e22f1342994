package lab

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func joinPort(address string, port int) string {
	return net.JoinHostPort(address, strconv.Itoa(port))
}

// endpoints are the addresses that requests go to, in turn.
type endpoints struct {
	keepAlive bool

	mu   sync.Mutex
	list []*endpoint
	next int
}

func newEndpoints(keepAlive bool) *endpoints { return &endpoints{keepAlive: keepAlive} }

// replace takes a new set of addresses, with their pods. Those that stay keep
// their connections; those that go lose them, the ones in use when their request
// is answered.
func (s *endpoints) replace(addresses map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []*endpoint
	old := map[string]*endpoint{}
	for _, e := range s.list {
		if pod, ok := addresses[e.address]; ok && pod == e.pod {
			old[e.address] = e
		} else {
			e.leave()
		}
	}
	for _, address := range slices.Sorted(maps.Keys(addresses)) {
		e := old[address]
		if e == nil {
			e = newEndpoint(address, addresses[address], s.keepAlive)
		}
		kept = append(kept, e)
	}
	s.list = kept
}

// pick returns the next endpoint, nil when there is none. Who picked it releases it.
func (s *endpoints) pick() *endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return nil
	}
	e := s.list[s.next%len(s.list)]
	s.next++
	return e
}

// endpoint is one address with its connections.
type endpoint struct {
	address, pod string
	transport    *http.Transport

	mu   sync.Mutex
	gone bool
}

func newEndpoint(address, pod string, keepAlive bool) *endpoint {
	return &endpoint{address: address, pod: pod, transport: &http.Transport{
		DisableKeepAlives:   !keepAlive,
		MaxIdleConnsPerHost: 1000,
		DialContext:         (&net.Dialer{}).DialContext,
	}}
}

// leave closes what is idle; release closes what is in use.
func (e *endpoint) leave() {
	e.mu.Lock()
	e.gone = true
	e.mu.Unlock()
	e.transport.CloseIdleConnections()
}

func (e *endpoint) release() {
	e.mu.Lock()
	gone := e.gone
	e.mu.Unlock()
	if gone {
		e.transport.CloseIdleConnections()
	}
}

// ask sends one request and returns what was answered. Go's client sends a request
// again, unasked, when a used connection turns out to be closed, unless it has a
// body that cannot be had again: this one has.
func (e *endpoint) ask(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.address+path, io.NopCloser(strings.NewReader("?")))
	if err != nil {
		return "", err
	}
	req.ContentLength = 1
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("reading the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answered %s", resp.Status)
	}
	return string(body), nil
}

// tally counts what became of the requests.
type tally struct {
	mu    sync.Mutex
	began time.Time
	sum   TrafficReport
}

func newTally(began time.Time) *tally {
	return &tally{began: began, sum: TrafficReport{ByPod: map[string]int{}, ByVersion: map[string]int{}}}
}

func (t *tally) fail(f TrafficFailure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Sent++
	t.sum.Failures = append(t.sum.Failures, f)
}

func (t *tally) succeed(pod, body string, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.Sent++
	t.sum.Succeeded++
	t.sum.ByPod[pod]++
	if words := strings.Fields(body); len(words) > 0 {
		t.sum.ByVersion[words[0]]++
	}
	t.sum.Slowest = max(t.sum.Slowest, took)
}

// report is a copy that does not change any more.
func (t *tally) report(now time.Time) TrafficReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.sum
	r.Failures = slices.Clone(r.Failures)
	r.ByPod, r.ByVersion = maps.Clone(r.ByPod), maps.Clone(r.ByVersion)
	r.Duration = now.Sub(t.began)
	return r
}

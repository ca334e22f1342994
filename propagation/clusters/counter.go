package clusters

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// requestsMetric counts requests to members.
func requestsMetric() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "underway_hub_member_requests_total",
		Help: "Requests sent to members, by member, verb and HTTP code (0: no answer).",
	}, []string{"member", "verb", "code"})
}

// connectionsMetric counts connections to members.
func connectionsMetric() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "underway_hub_member_connections_total",
		Help: "Connections that were tried to members, also in vain.",
	}, []string{"member"})
}

// counter counts the requests and connections of one member.
type counter struct {
	member string
	vec    *prometheus.CounterVec
	dials  *prometheus.CounterVec

	mu     sync.Mutex
	byVerb map[string]int64
	// gone: what is still under way to a member that was removed leaves no series behind.
	gone bool
}

// dialed counts a connection that is tried.
func (c *counter) dialed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone && c.dials != nil {
		c.dials.WithLabelValues(c.member).Inc()
	}
}

func (c *counter) snapshot() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byVerb)
}

func (c *counter) add(verb string, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byVerb[verb]++
	if !c.gone {
		c.vec.WithLabelValues(c.member, verb, strconv.Itoa(code)).Inc()
	}
}

// forget drops the series of a member that was removed.
func (c *counter) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.vec.DeletePartialMatch(prometheus.Labels{"member": c.member})
	c.dials.DeletePartialMatch(prometheus.Labels{"member": c.member})
}

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		code := 0
		if resp != nil {
			code = resp.StatusCode
		}
		c.add(verb(req), code)
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip is of http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func verb(req *http.Request) string {
	switch req.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodDelete:
		return "delete"
	case http.MethodPatch:
		if strings.HasPrefix(req.Header.Get("Content-Type"), "application/apply-patch") {
			return "apply"
		}
		return "patch"
	}
	if q := req.URL.Query(); q.Get("watch") == "true" || q.Get("watch") == "1" {
		return "watch"
	}
	return "get"
}

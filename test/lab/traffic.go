package lab

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/rest"
)

// TrafficOptions say which requests a [Traffic] sends.
type TrafficOptions struct {
	Namespace string
	// Service whose EndpointSlices are followed.
	Service string
	// Port is the number of the port; 0: the first port of each slice.
	Port int
	// Path is requested; empty: "/".
	Path string
	// PerSecond is how many requests are begun each second, whether earlier ones
	// are answered or not; 0: 50.
	PerSecond int
	// KeepAlive uses connections again. Those to a pod that left the endpoints are
	// closed when their request is answered. Without it each request connects.
	KeepAlive bool
	// Timeout of one request; 0: 2 s.
	Timeout time.Duration
}

// TrafficFailure is one request that failed, or that had no address to go to.
type TrafficFailure struct {
	Time time.Time
	// Pod and Address are empty when no endpoint was ready.
	Pod     string
	Address string
	Err     string
}

// TrafficReport is what became of the requests.
type TrafficReport struct {
	// Sent counts all, also those without an address; Succeeded those that were
	// answered 200.
	Sent, Succeeded int
	Failures        []TrafficFailure
	// ByPod and ByVersion count the answers.
	ByPod     map[string]int
	ByVersion map[string]int
	Duration  time.Duration
}

// Traffic is a client that follows the EndpointSlices of a service and keeps
// sending requests to the ready addresses, as a proxy in front of it would.
type Traffic struct{}

// StartTraffic waits until an address is ready and begins to send. ctx ends it,
// as Stop does.
func StartTraffic(_ context.Context, _ *rest.Config, _ TrafficOptions) (*Traffic, error) {
	return nil, errors.New("traffic is being built")
}

// Report is what became of the requests that have ended so far.
func (t *Traffic) Report() TrafficReport { return TrafficReport{} }

// Stop begins no more requests, waits for those that run, and returns the report.
func (t *Traffic) Stop() TrafficReport { return TrafficReport{} }

package lab

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
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

func (o TrafficOptions) withDefaults() TrafficOptions {
	if o.Path == "" {
		o.Path = "/"
	}
	if o.PerSecond == 0 {
		o.PerSecond = 50
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	return o
}

// NoReadyEndpoint is the Err of a request that had no address to go to.
const NoReadyEndpoint = "no ready endpoint"

// TrafficFailure is one request that failed, or that had no address to go to.
type TrafficFailure struct {
	// Time is when the request began, and Took how long it lasted.
	Time time.Time
	Took time.Duration
	// Pod and Address are empty when no endpoint was ready.
	Pod     string
	Address string
	Err     string
}

// TrafficReport is what became of the requests that have ended.
type TrafficReport struct {
	// Sent counts all, also those without an address; Succeeded those that were
	// answered 200. The others are in Failures.
	Sent, Succeeded int
	Failures        []TrafficFailure
	// ByPod counts the answers by the pod that was asked, ByVersion by the first
	// word of the answer.
	ByPod     map[string]int
	ByVersion map[string]int
	// Slowest is the longest that an answered request took.
	Slowest time.Duration
	// Duration is how long requests have been sent.
	Duration time.Duration
}

// String is the report in a few lines, with the first ten failures.
func (r TrafficReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests in %.1f s, %d answered (slowest %d ms), %d failed;",
		r.Sent, r.Duration.Seconds(), r.Succeeded, r.Slowest.Milliseconds(), len(r.Failures))
	for _, counts := range []map[string]int{r.ByVersion, r.ByPod} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, " %s %d", name, counts[name])
		}
	}
	for _, f := range r.Failures[:min(10, len(r.Failures))] {
		fmt.Fprintf(&b, "\n%s %s %s after %d ms: %s", f.Time.Format("15:04:05.000"), f.Pod, f.Address, f.Took.Milliseconds(), f.Err)
	}
	return b.String()
}

// Traffic is a client that follows the EndpointSlices of a service and keeps
// sending requests to the ready addresses in turn, as a proxy in front of it
// would, but for one thing: no request is ever sent a second time. So a
// connection that is refused or reset is a failure, and so is a moment without a
// ready address.
type Traffic struct {
	opts   TrafficOptions
	cancel context.CancelFunc
	ended  chan struct{}
	ready  *endpoints
	tally  *tally
}

// StartTraffic waits until an address is ready (two minutes at most) and begins
// to send. The end of ctx ends it, as Stop does.
func StartTraffic(ctx context.Context, cfg *rest.Config, opts TrafficOptions) (*Traffic, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	ctx, cancel := context.WithCancel(ctx)
	t := &Traffic{opts: opts, cancel: cancel, ended: make(chan struct{}), ready: newEndpoints(opts.KeepAlive)}
	first := t.follow(ctx, client)
	select {
	case <-first:
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	case <-time.After(2 * time.Minute):
		cancel()
		return nil, fmt.Errorf("no endpoint of service %s/%s got ready", opts.Namespace, opts.Service)
	}
	t.tally = newTally(time.Now())
	go t.run(ctx)
	return t, nil
}

// Report is what became of the requests that have ended so far.
func (t *Traffic) Report() TrafficReport { return t.tally.report(time.Now()) }

// Stop begins no more requests, waits for those that run, and returns the report.
func (t *Traffic) Stop() TrafficReport {
	t.cancel()
	<-t.ended
	return t.Report()
}

// follow keeps the addresses as the EndpointSlices say. The channel is closed when
// there is the first.
func (t *Traffic) follow(ctx context.Context, client kubernetes.Interface) <-chan struct{} {
	selector := discoveryv1.LabelServiceName + "=" + t.opts.Service
	lw := cache.NewFilteredListWatchFromClient(client.DiscoveryV1().RESTClient(), "endpointslices", t.opts.Namespace,
		func(o *metav1.ListOptions) { o.LabelSelector = selector })
	first := make(chan struct{})
	var once sync.Once
	var store cache.Store
	update := func() {
		var all []*discoveryv1.EndpointSlice
		for _, o := range store.List() {
			if s, ok := o.(*discoveryv1.EndpointSlice); ok {
				all = append(all, s)
			}
		}
		addresses := readyAddresses(all, t.opts.Port)
		t.ready.replace(addresses)
		if len(addresses) > 0 {
			once.Do(func() { close(first) })
		}
	}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw,
		ObjectType:    &discoveryv1.EndpointSlice{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { update() },
			UpdateFunc: func(any, any) { update() },
			DeleteFunc: func(any) { update() },
		},
	})
	go controller.RunWithContext(ctx)
	return first
}

// readyAddresses are the addresses, with the port, that a proxy would use, and the
// pods behind them. A condition that is not told counts as true.
func readyAddresses(all []*discoveryv1.EndpointSlice, port int) map[string]string {
	found := map[string]string{}
	for _, s := range all {
		number, ok := portOf(s, port)
		if !ok {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			pod := ""
			if e.TargetRef != nil {
				pod = e.TargetRef.Name
			}
			for _, a := range e.Addresses {
				found[joinPort(a, number)] = pod
			}
		}
	}
	return found
}

func portOf(s *discoveryv1.EndpointSlice, want int) (int, bool) {
	for _, p := range s.Ports {
		if p.Port != nil && (want == 0 || int(*p.Port) == want) {
			return int(*p.Port), true
		}
	}
	return 0, false
}

// run begins requests at the times that the rate says, however long they take. A
// machine that slept for over a second is not made to catch up.
func (t *Traffic) run(ctx context.Context) {
	defer close(t.ended)
	var running sync.WaitGroup
	defer running.Wait()
	interval := time.Second / time.Duration(t.opts.PerSecond)
	next := time.Now()
	for {
		running.Go(func() { t.send(context.WithoutCancel(ctx)) })
		next = next.Add(interval)
		if late := time.Since(next); late > time.Second {
			next = next.Add(late)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
		}
	}
}

// send sends one request to the next address.
func (t *Traffic) send(ctx context.Context) {
	began := time.Now()
	e := t.ready.pick()
	if e == nil {
		t.tally.fail(TrafficFailure{Time: began, Err: NoReadyEndpoint})
		return
	}
	defer e.release()
	ctx, cancel := context.WithTimeout(ctx, t.opts.Timeout)
	defer cancel()
	body, err := e.ask(ctx, t.opts.Path)
	took := time.Since(began)
	if err != nil {
		t.tally.fail(TrafficFailure{Time: began, Took: took, Pod: e.pod, Address: e.address, Err: err.Error()})
		return
	}
	t.tally.succeed(e.pod, body, took)
}

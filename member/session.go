package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/underway-dev/underway/member/workload"
)

// passDeadline bounds one reconcile: a request that hangs holds up one worker, not for ever.
const passDeadline = 2 * time.Minute

// A pass that fails is tried again after firstRetry, doubling to lastRetry. controller-runtime would go to 1,000 s: with an API
// server that was away for ten minutes, or a member's webhook that refuses one pod of many, what waits by time alone (a grace
// period, minReadySeconds, the proof by quiet) would wait as long.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// session is one run of the kinds: a cache of its own and a controller per kind. A nil session has ended.
type session struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

func (s *session) key() string {
	if s == nil {
		return ""
	}
	return s.name
}

// ended reports whether a session stopped by itself. A nil session has not: there was nothing to run.
func (s *session) ended() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// stop ends a session and waits for it: after it nothing is written any more.
func (s *session) stop() {
	if s == nil {
		return
	}
	s.cancel()
	<-s.done
}

// begin starts a session.
func (s *supervisor) begin(ctx context.Context, v verdict) *session {
	ctx, cancel := context.WithCancel(ctx)
	one := &session{name: v.key(), cancel: cancel, done: make(chan struct{})}
	logger := ctrl.LoggerFrom(ctx)
	go func() {
		defer close(one.done)
		defer cancel()
		logger.Info("Reconciling", "kinds", one.name)
		if err := s.run(ctx, v.run); err != nil && ctx.Err() == nil {
			logger.Error(err, "The kinds stopped, they are started again")
		}
	}()
	return one
}

// run reconciles the kinds until ctx ends or one of them fails.
func (s *supervisor) run(ctx context.Context, kinds []runnable) error {
	resources := make([]workload.Resource, 0, len(kinds))
	for _, k := range kinds {
		resources = append(resources, k.resource)
	}
	options := workload.Caches(s.mgr.GetScheme(), resources...)
	options.Mapper, options.HTTPClient = s.mgr.GetRESTMapper(), s.mgr.GetHTTPClient()
	c, err := cache.New(s.mgr.GetConfig(), options)
	if err != nil {
		return fmt.Errorf("building the cache: %w", err)
	}
	if err := workload.Index(ctx, c); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan error, len(kinds)+1)
	go func() { ends <- c.Start(ctx) }()
	started := 1
	fail := func(err error) error {
		cancel()
		for range started {
			err = errors.Join(err, <-ends)
		}
		return err
	}
	w, err := watch(ctx, c)
	if err != nil {
		return fail(err)
	}
	for _, k := range kinds {
		one, err := s.controller(k, c, w)
		if err != nil {
			return fail(err)
		}
		started++
		go func() { ends <- one.Start(ctx) }()
	}
	err = <-ends
	started--
	return fail(err)
}

// watches are what the kinds of a session share.
type watches struct {
	pods, claims workload.Feed
	ofClaims     cache.Informer
	nodes        *workload.Nodes
}

// watch waits for the informers that every kind needs. That of claims is not waited for: where the agent may not read them
// yet (its rights are older than it is), workloads without claims go on.
func watch(ctx context.Context, c cache.Cache) (watches, error) {
	w := watches{nodes: workload.NewNodes(c)}
	pods, err := c.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return w, fmt.Errorf("watching pods: %w", err)
	}
	if _, err := c.GetInformer(ctx, &discoveryv1.EndpointSlice{}); err != nil {
		return w, fmt.Errorf("watching EndpointSlices: %w", err)
	}
	if _, err := c.GetInformer(ctx, &appsv1.ControllerRevision{}); err != nil {
		return w, fmt.Errorf("watching ControllerRevisions: %w", err)
	}
	if w.ofClaims, err = c.GetInformer(ctx, workload.Claim(), cache.BlockUntilSynced(false)); err != nil {
		return w, fmt.Errorf("watching claims: %w", err)
	}
	if w.pods, err = feed(pods); err != nil {
		return w, err
	}
	w.claims, err = feed(w.ofClaims)
	return w, err
}

// feed is how far an informer has come.
func feed(informer cache.Informer) (workload.Feed, error) {
	shared, ok := informer.(interface{ GetStore() toolscache.Store })
	if !ok {
		return workload.Feed{}, fmt.Errorf("informer %T does not show its store", informer)
	}
	return workload.Feed{Synced: informer.HasSynced, Version: shared.GetStore().LastStoreSyncResourceVersion}, nil
}

// controller builds the controller of one kind.
func (s *supervisor) controller(k runnable, c cache.Cache, w watches) (controller.Controller, error) {
	r := workload.New(workload.Options{
		Kind: k.Kind, Resource: k.resource, Cache: c, PodsVersion: w.pods.Version, Claims: w.claims, Nodes: w.nodes, Live: s.live,
		Events: s.events, Clock: s.Clock, Metrics: s.counters, Extended: k.ours, NoResize: s.noResize,
	})
	one, err := controller.NewUnmanaged(k.resource.Plural, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: s.Concurrency,
		ReconciliationTimeout:   passDeadline,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry),
		UsePriorityQueue:        new(true),
		// A session may start the same kind again in this process.
		SkipNameValidation: new(true),
		Logger:             s.mgr.GetLogger(),
	})
	if err != nil {
		return nil, fmt.Errorf("building the controller of %s: %w", k.resource.Plural, err)
	}
	if err := r.Watch(one, c, w.ofClaims); err != nil {
		return nil, err
	}
	return one, nil
}

// Package bell wakes a controller from outside of the manager's caches: a member's event, an outcome, a stop.
//
// Invariant: Ring never blocks and never loses a request, whether the controller has started or not.
package bell

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Bell is a source of requests. The zero value is ready; do not copy it.
type Bell struct {
	mu      sync.Mutex
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	pending map[reconcile.Request]bool
}

// Ring asks for a reconcile.
func (b *Bell) Ring(requests ...reconcile.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range requests {
		if b.queue != nil {
			b.queue.Add(r)
			continue
		}
		if b.pending == nil {
			b.pending = map[reconcile.Request]bool{}
		}
		b.pending[r] = true
	}
}

// Start is of source.Source: from here on requests go to the controller's queue.
func (b *Bell) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = queue
	for r := range b.pending {
		queue.Add(r)
	}
	b.pending = nil
	return nil
}

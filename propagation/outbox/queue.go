package outbox

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// queue is the work of one member.
type queue struct {
	workqueue.TypedRateLimitingInterface[Key]
}

func newQueue(o Options) *queue {
	limiter := jitter{workqueue.NewTypedItemExponentialFailureRateLimiter[Key](o.RetryMin, o.RetryMax)}
	return &queue{workqueue.NewTypedRateLimitingQueueWithConfig[Key](limiter, workqueue.TypedRateLimitingQueueConfig[Key]{Clock: o.Clock})}
}

// run works until ctx is done or the queue is shut down.
func (q *queue) run(ctx context.Context, workers int, work func(context.Context, Key)) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				key, down := q.Get()
				if down {
					return
				}
				work(ctx, key)
				q.Done(key)
			}
		})
	}
	running.Wait()
}

// jitter spreads the retries of objects that failed together.
type jitter struct {
	workqueue.TypedRateLimiter[Key]
}

// When is of workqueue.TypedRateLimiter.
func (j jitter) When(key Key) time.Duration {
	d := j.TypedRateLimiter.When(key)
	return d + time.Duration(rand.Int64N(int64(d)/3+1)) //nolint:gosec // spreading, not secrecy
}

package outbox

import "context"

// Failures is how many failures the queue of a member remembers of a key.
func (o *Outbox) Failures(key Key) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q := o.queues[key.Member]; q != nil {
		return q.NumRequeues(key)
	}
	return 0
}

// Once looks at one object, without a worker.
func (o *Outbox) Once(ctx context.Context, key Key) { o.work(ctx, key) }

package outbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/push"
	"github.com/underway-dev/underway/propagation/render"
)

// Members is what the outbox reads of members; *clusters.Fleet is one.
type Members interface {
	View(name string) (clusters.View, bool)
	// Child is the cached object; the second result is false while the cache of the kind is not synced.
	Child(member string, gvk schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, bool)
	// Get is a fresh read with all managedFields; a NotFound error is an answer of the member.
	Get(ctx context.Context, member string, gvk schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, error)
	Subscribe(fn func(clusters.Event))
}

// Pusher carries a decision out; *push.Pusher is one.
type Pusher interface {
	Do(ctx context.Context, member string, op push.Operation) (*unstructured.Unstructured, error)
	EnsureNamespace(ctx context.Context, member, namespace string) error
}

// Fence answers whether a plan is still our business. All its reads are quorum reads on the hub.
type Fence interface {
	// Leading is a read of our own leader Lease.
	Leading(ctx context.Context) (bool, error)
	// CurrentIntent of an owner; the second result is false when the owner (of that UID) does not exist.
	CurrentIntent(ctx context.Context, owner types.NamespacedName, uid types.UID) (render.Intent, bool, error)
	// Frozen reads the freeze: its message when it is in force, empty when not. An error counts as frozen.
	Frozen(ctx context.Context) (string, error)
}

// Options of an outbox.
type Options struct {
	HubID   string
	Members Members
	Pusher  Pusher
	Fence   Fence
	Clock   clock.WithTicker
	// Workers per member. Default 2.
	Workers int
	// Timeout of one attempt. Default 20 s.
	Timeout time.Duration
	// RetryMin and RetryMax bound the wait before the next attempt (500 ms, 1 min), with jitter.
	RetryMin, RetryMax time.Duration
	// Relook is how often a shared object that no cache holds is looked at again. Default 2 min.
	Relook time.Duration
	// Recheck is how often a frozen, missing or terminating thing is looked at again. Default 5 s.
	Recheck time.Duration
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Workers == 0 {
		o.Workers = 2
	}
	for _, d := range []struct {
		to  *time.Duration
		def time.Duration
	}{
		{&o.Timeout, 20 * time.Second},
		{&o.RetryMin, 500 * time.Millisecond},
		{&o.RetryMax, time.Minute},
		{&o.Recheck, 5 * time.Second},
		{&o.Relook, 2 * time.Minute},
	} {
		if *d.to == 0 {
			*d.to = d.def
		}
	}
	return o
}

// Outbox is the queues to all members.
type Outbox struct {
	Options

	mu      sync.Mutex
	entries map[Key]*entry
	queues  map[string]*queue
	tallies map[string]*Tally
	stops   []StopReason
	owners  []func(types.NamespacedName)
	onStop  []func()
	// begin starts the workers of a queue; nil before Start. Called with mu held.
	begin func(*queue)
}

// entry is one object.
type entry struct {
	item Item
	// shares are the items of a shared object by owner; item is then only one of them.
	shares map[types.UID]Item
	// posted counts the posts.
	posted  int64
	outcome Outcome
	known   known
	// rest is true when nothing is to be done until the next post.
	rest bool
}

// known is what is remembered of an object between two looks.
type known struct {
	memory *changeset.Memory
	// version is the resourceVersion of the last answer: a cache below it is stale.
	version string
	// wrote is the decision that was carried out last.
	wrote *changeset.Decision
	// epoch is clusters.View.Memory at that time.
	epoch int64
}

// New returns an outbox that sends nothing before Start. It subscribes to the members, so call it before their Start.
func New(opts Options) *Outbox {
	o := &Outbox{Options: opts.withDefaults(), entries: map[Key]*entry{}, queues: map[string]*queue{}, tallies: map[string]*Tally{}}
	o.Members.Subscribe(o.heard)
	return o
}

// Start runs until ctx is done; it is a manager.Runnable that needs leadership.
func (o *Outbox) Start(ctx context.Context) error {
	var running sync.WaitGroup
	o.mu.Lock()
	o.begin = func(q *queue) { running.Go(func() { q.run(ctx, o.Workers, o.work) }) }
	for _, q := range o.queues {
		o.begin(q)
	}
	o.mu.Unlock()
	running.Go(func() { o.watchFreeze(ctx) })
	<-ctx.Done()
	o.mu.Lock()
	o.begin = func(*queue) {}
	for _, q := range o.queues {
		q.ShutDown()
	}
	o.mu.Unlock()
	running.Wait()
	return nil
}

// NeedLeaderElection is true: only the leader writes to members.
func (o *Outbox) NeedLeaderElection() bool { return true }

// Post replaces what is wanted of the item's object and looks at it soon. It never blocks. Posting again what is wanted
// already sends nothing.
func (o *Outbox) Post(item Item) {
	key := item.Key()
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.entries[key]
	if e == nil {
		e = &entry{outcome: Outcome{State: StatePending, At: o.Clock.Now()}}
		o.entries[key] = e
	}
	before := e.item
	if item.Shared {
		before = e.share(item)
	}
	if !item.equal(before) {
		// What was reached for another plan must not look like an answer to this one.
		e.outcome.State = StatePending
	}
	e.item, e.rest = item, false
	e.posted++
	o.queue(key.Member).Add(key)
}

// queue of a member; needs mu.
func (o *Outbox) queue(member string) *queue {
	q := o.queues[member]
	if q == nil {
		q = newQueue(o.Options)
		o.queues[member], o.tallies[member] = q, newTally()
		if o.begin != nil {
			o.begin(q)
		}
	}
	return q
}

// Withdraw forgets what is wanted of an object; nothing is changed on the member. Of a shared object all owners' wishes are
// forgotten: see WithdrawShare.
func (o *Outbox) Withdraw(key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(key)
}

// drop needs mu. The queue's memory of failures goes with the entry: a key that is never posted again would stay in it.
func (o *Outbox) drop(key Key) {
	delete(o.entries, key)
	if q := o.queues[key.Member]; q != nil {
		q.Forget(key)
	}
}

// WithdrawOwner forgets everything of an owner.
func (o *Outbox) WithdrawOwner(owner types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, e := range o.entries {
		if len(e.shares) > 0 {
			for uid, i := range e.shares {
				if i.Owner == owner {
					o.dropShare(key, uid)
				}
			}
			continue
		}
		if e.item.Owner == owner {
			o.drop(key)
		}
	}
}

// WithdrawMember forgets everything of a member and ends its workers.
func (o *Outbox) WithdrawMember(member string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.entries {
		if key.Member == member {
			delete(o.entries, key)
		}
	}
	if q := o.queues[member]; q != nil {
		q.ShutDown()
		delete(o.queues, member)
		delete(o.tallies, member)
	}
}

// Outcome is the last result for an object; false when nothing is wanted of it.
func (o *Outbox) Outcome(key Key) (Outcome, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.entries[key]; e != nil {
		return e.outcome, true
	}
	return Outcome{}, false
}

// Subscribe calls fn, which must not block, with the owner whenever an outcome changes. Call it before Start.
func (o *Outbox) Subscribe(fn func(owner types.NamespacedName)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owners = append(o.owners, fn)
}

// SubscribeStop calls fn, which must not block, when all writes are stopped or go on. Call it before Start.
func (o *Outbox) SubscribeStop(fn func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onStop = append(o.onStop, fn)
}

// Stop stops every write to every member until Resume; a second reason is kept beside the first. The caller stores it
// (a condition) and calls Stop again after a restart.
func (o *Outbox) Stop(reason StopReason) {
	o.mu.Lock()
	if slices.ContainsFunc(o.stops, func(r StopReason) bool {
		return r.Condition == reason.Condition && r.Member == reason.Member && r.Owner == reason.Owner
	}) {
		o.mu.Unlock()
		return
	}
	o.stops = append(o.stops, reason)
	told := o.onStop
	o.mu.Unlock()
	for _, fn := range told {
		fn()
	}
}

// Stopped are the reasons in force, the first one first; empty when writes go on.
func (o *Outbox) Stopped() []StopReason {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.stops)
}

// Resume drops the reasons of one condition, after a person confirmed it. Writes go on when no other is left; there is no moment
// in which another one does not hold.
func (o *Outbox) Resume(condition string) {
	o.mu.Lock()
	o.stops = slices.DeleteFunc(slices.Clone(o.stops), func(r StopReason) bool { return r.Condition == condition })
	o.enqueue(func(_ Key, e *entry) bool { return e.outcome.State == StateStopped })
	told := o.onStop
	o.mu.Unlock()
	for _, fn := range told {
		fn()
	}
}

// Kick looks at everything that waits for a freeze to end.
func (o *Outbox) Kick() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.enqueue(func(_ Key, e *entry) bool { return e.outcome.State == StateFrozen })
}

// enqueue needs mu.
func (o *Outbox) enqueue(pick func(Key, *entry) bool) {
	for key, e := range o.entries {
		if !e.rest && pick(key, e) {
			o.queue(key.Member).Add(key)
		}
	}
}

// heard is called for every event of a member.
func (o *Outbox) heard(event clusters.Event) {
	if event.Object.Name != "" {
		key := Key{Member: event.Member, GVK: event.GVK, Namespace: event.Object.Namespace, Name: event.Object.Name}
		o.mu.Lock()
		defer o.mu.Unlock()
		if e := o.entries[key]; e != nil && !e.rest {
			o.queue(key.Member).Add(key)
		}
		return
	}
	view, ok := o.Members.View(event.Member)
	if ok && view.TwoHubs {
		o.Stop(StopReason{Condition: StopTwoHubs, Member: event.Member, Seen: view.OtherHolder})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.enqueue(func(key Key, _ *entry) bool { return key.Member == event.Member })
}

// watchFreeze asks, while something waits for it, whether the freeze is over.
func (o *Outbox) watchFreeze(ctx context.Context) {
	for ctx.Err() == nil {
		timer := o.Clock.NewTimer(o.Recheck)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		if !o.waits(StateFrozen) {
			continue
		}
		if message, err := o.Fence.Frozen(ctx); err == nil && message == "" {
			o.Kick()
		}
	}
}

func (o *Outbox) waits(state State) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.entries {
		if e.outcome.State == state {
			return true
		}
	}
	return false
}

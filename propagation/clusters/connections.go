package clusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/underway-dev/underway/propagation/render"
)

// Fleet is the connections to all members.
type Fleet struct {
	hubID         string
	localIdentity string
	holder        string
	kinds         []render.Kind
	// used are the kinds whose children are watched; the map is never changed, only replaced.
	used        map[schema.GroupKind]bool
	clock       clock.WithTicker
	leading     func(ctx context.Context) (bool, error)
	intervals   Intervals
	requests    *prometheus.CounterVec
	connections *prometheus.CounterVec

	mu      sync.RWMutex
	members map[string]*member
	cancels map[string]context.CancelFunc
	// claims says which member a cluster's identity belongs to.
	claims      map[string]string
	subscribers []func(Event)
	// start begins a member's goroutine; nil before Start.
	start func(*member)
}

// NewFleet returns a fleet that connects to nobody before Start. The hub's own cluster is a member from the beginning.
func NewFleet(o Options) (*Fleet, error) {
	if o.HubID == "" || o.Holder == "" || o.Local == nil {
		return nil, errors.New("a fleet needs HubID, Holder and Local")
	}
	f := &Fleet{
		hubID:         o.HubID,
		localIdentity: o.LocalIdentity,
		holder:        o.Holder,
		kinds:         o.Kinds,
		clock:         o.Clock,
		leading:       o.Leading,
		intervals:     o.Intervals.withDefaults(),
		requests:      requestsMetric(),
		connections:   connectionsMetric(),
		members:       map[string]*member{},
		cancels:       map[string]context.CancelFunc{},
		claims:        map[string]string{},
	}
	if f.kinds == nil {
		f.kinds = render.Kinds()
	}
	if f.clock == nil {
		f.clock = clock.RealClock{}
	}
	if f.leading == nil {
		f.leading = func(context.Context) (bool, error) { return true, nil }
	}
	if o.Registerer != nil {
		for _, counted := range []prometheus.Collector{f.requests, f.connections} {
			if err := o.Registerer.Register(counted); err != nil {
				return nil, fmt.Errorf("registering the counters of requests: %w", err)
			}
		}
	}
	f.members[Local] = newMember(f, Local, Config{REST: o.Local}, 0)
	return f, nil
}

func (i Intervals) withDefaults() Intervals {
	for _, d := range []struct {
		to  *time.Duration
		def time.Duration
	}{
		{&i.Probe, 10 * time.Second},
		{&i.ProbeTimeout, 5 * time.Second},
		{&i.Request, 15 * time.Second},
		{&i.Sync, 2 * time.Minute},
		{&i.Discovery, 30 * time.Second},
		{&i.Lease, 20 * time.Second},
		{&i.LeaseExpiry, time.Minute},
		{&i.BackoffMin, time.Second},
		{&i.BackoffMax, 5 * time.Minute},
	} {
		if *d.to == 0 {
			*d.to = d.def
		}
	}
	return i
}

// Start runs until ctx is done; it is a manager.Runnable that needs leadership.
func (f *Fleet) Start(ctx context.Context) error {
	var running sync.WaitGroup
	f.mu.Lock()
	f.start = func(m *member) { // called with mu held
		memberCtx, cancel := context.WithCancel(ctx)
		f.cancels[m.name] = cancel
		running.Go(func() { m.run(memberCtx) })
	}
	for _, m := range f.members {
		f.start(m)
	}
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.start = func(*member) {}
	f.mu.Unlock()
	running.Wait()
	return nil
}

// NeedLeaderElection is true: a standby keeps no connections.
func (f *Fleet) NeedLeaderElection() bool { return true }

// Ensure makes name a member reached by cfg. It returns at once; equal configurations change nothing. It must be called
// again with the identity once View shows BlockIdentityUnstored and the identity is stored.
func (f *Fleet) Ensure(name string, cfg Config) {
	if name == Local || cfg.REST == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	memory := int64(0)
	if old := f.members[name]; old != nil {
		if old.keeps(cfg) {
			if cfg.Identity != "" {
				f.claimLocked(cfg.Identity, name)
			}
			return
		}
		memory = old.View().Memory + 1
		f.removeLocked(name)
	}
	if cfg.Identity != "" {
		f.claimLocked(cfg.Identity, name)
	}
	m := newMember(f, name, cfg, memory)
	f.members[name] = m
	if f.start != nil {
		f.start(m)
	}
}

// keeps is true when cfg needs no new connection; an identity that is stored now is taken over.
func (m *member) keeps(cfg Config) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !sameAddress(m.cfg.REST, cfg.REST) {
		return false
	}
	if m.cfg.Identity == cfg.Identity {
		return true
	}
	if m.cfg.Identity == "" && cfg.Identity == m.view.SeenIdentity {
		m.cfg.Identity = cfg.Identity
		m.nudge()
		return true
	}
	return false
}

// Remove forgets a member. Nothing is deleted on it.
func (f *Fleet) Remove(name string) {
	if name == Local {
		return
	}
	f.mu.Lock()
	m := f.members[name]
	f.removeLocked(name)
	f.mu.Unlock()
	if m != nil {
		m.count.forget()
		f.emit(Event{Member: name})
	}
}

func (f *Fleet) removeLocked(name string) {
	if cancel := f.cancels[name]; cancel != nil {
		cancel()
	}
	delete(f.cancels, name)
	delete(f.members, name)
	maps.DeleteFunc(f.claims, func(_, by string) bool { return by == name })
}

// claim gives an identity to a member, or returns the name of the member that has it. A member that was removed while it
// looked claims nothing: nobody would ever give that back.
func (f *Fleet) claim(uid string, m *member) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members[m.name] != m {
		return ""
	}
	return f.claimLocked(uid, m.name)
}

func (f *Fleet) claimLocked(uid, name string) string {
	if by, ok := f.claims[uid]; ok && by != name {
		return by
	}
	f.claims[uid] = name
	return ""
}

func (f *Fleet) member(name string) *member {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.members[name]
}

// View is a member as last seen; false when there is none of that name.
func (f *Fleet) View(name string) (View, bool) {
	m := f.member(name)
	if m == nil {
		return View{}, false
	}
	return m.View(), true
}

// Names are the members, sorted, without Local.
func (f *Fleet) Names() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	out := slices.Sorted(maps.Keys(f.members))
	return slices.DeleteFunc(out, func(n string) bool { return n == Local })
}

// Subscribe calls fn, which must not block, for every Event. It must be called before Start.
func (f *Fleet) Subscribe(fn func(Event)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers = append(f.subscribers, fn)
}

func (f *Fleet) emit(e Event) {
	f.mu.RLock()
	subscribers := f.subscribers
	f.mu.RUnlock()
	for _, fn := range subscribers {
		fn(e)
	}
}

// ClearTwoHubs forgets that another hub was seen, after a person confirmed this one.
func (f *Fleet) ClearTwoHubs() {
	for _, name := range f.Names() {
		if m := f.member(name); m != nil {
			m.mu.Lock()
			m.lease = leaseMemory{}
			m.mu.Unlock()
			m.change(func(v *View) { v.TwoHubs, v.OtherHolder = false, "" })
		}
	}
}

// Requests counts the requests sent to a member since its connection began, by verb (get, which lists count as, watch,
// create, update, patch, apply, delete).
func (f *Fleet) Requests(name string) map[string]int64 {
	if m := f.member(name); m != nil {
		return m.count.snapshot()
	}
	return nil
}

package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// ErrNotReady is returned for a member that is not ready to be read or written.
var ErrNotReady = errors.New("member is not ready")

// failuresThatProve is how many looks in a row must fail before a ready member is Degraded.
const failuresThatProve = 2

// member is the connection to one cluster, run by a goroutine of its own.
type member struct {
	name  string
	fleet *Fleet
	count *counter
	// wake makes the loop look now.
	wake chan struct{}

	// watches are the goroutines of the kinds; waited for before the connection is closed.
	watches sync.WaitGroup
	backoff backoff

	mu  sync.RWMutex
	cfg Config
	// conn is nil between two connections.
	conn *connection
	view View
	// caches by kind; nil before the identity is proven.
	caches map[schema.GroupKind]*kindCache
	// late are the kinds whose list did not arrive in time, until one does.
	late map[schema.GroupKind]bool
	// newest is the largest store version seen.
	newest uint64
	// failures counts looks in a row that were not answered.
	failures int
	// rediscover makes the next look ask for the served kinds.
	rediscover bool
	// unread says why the served kinds could not be read at the last look; empty: they were.
	unread string
	lease  leaseMemory
	gone   bool
	seers  map[string]*heartbeat
}

func newMember(f *Fleet, name string, cfg Config, memory int64) *member {
	m := &member{
		name: name, fleet: f, cfg: cfg, wake: make(chan struct{}, 1),
		count:   &counter{member: name, vec: f.requests, dials: f.connections, byVerb: map[string]int64{}},
		backoff: backoff{least: f.intervals.BackoffMin, most: f.intervals.BackoffMax},
		view:    View{Name: name, State: StateConnecting, Identity: cfg.Identity, Memory: memory},
		seers:   map[string]*heartbeat{},
	}
	if cfg.REST != nil {
		m.view.Server = cfg.REST.Host
	}
	return m
}

// errUnsynced ends a connection over which nothing could be read in time.
var errUnsynced = errors.New("nothing was read in time")

// run keeps a connection until ctx is done. One over which nothing can be read in time is thrown away for a new one.
func (m *member) run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("MemberCluster", klog.KRef("", m.name))
	ctx = klog.NewContext(ctx, logger)
	defer m.end()
	for ctx.Err() == nil {
		conn, err := connect(m.cfg.REST, m.count, m.fleet.intervals.Request)
		if err != nil {
			m.change(func(v *View) { v.Block, v.Message = BlockUnauthorized, err.Error() })
			<-ctx.Done()
			return
		}
		m.engage(ctx, conn)
		if ctx.Err() == nil {
			klog.FromContext(ctx).Info("Connecting to a member anew: nothing was read in time")
			m.sleep(ctx, m.backoff.pause())
		}
	}
}

// engage lives on one connection.
func (m *member) engage(ctx context.Context, conn *connection) {
	ctx, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	m.conn = conn
	m.mu.Unlock()
	var lease sync.WaitGroup
	if m.name != Local {
		lease.Go(func() { m.keepLease(ctx) })
	}
	m.loop(ctx)
	cancel()
	m.mu.Lock()
	m.conn = nil
	m.dropCaches()
	m.mu.Unlock()
	conn.drop()
	lease.Wait()
	m.watches.Wait()
	m.settle()
}

// loop looks at the member until ctx is done, or nothing was read in time.
func (m *member) loop(ctx context.Context) {
	every := m.fleet.intervals
	var discovered time.Time
	for ctx.Err() == nil {
		err := m.look(ctx)
		var pause time.Duration
		if err == nil {
			pause = wait.Jitter(every.Probe, 0.1)
			if now := m.fleet.clock.Now(); now.Sub(discovered) >= every.Discovery || m.mustDiscover() {
				m.discover(ctx)
				discovered = now
			}
			err = m.overdue()
		} else {
			klog.FromContext(ctx).V(2).Info("Member does not answer", "reason", err.Error())
			pause = m.backoff.pause()
		}
		m.settle()
		if errors.Is(err, errUnsynced) {
			return
		}
		if m.View().State == StateReady {
			m.backoff.reset()
		}
		m.sleep(ctx, pause)
	}
}

// sleep waits, for a nudge at the longest.
func (m *member) sleep(ctx context.Context, pause time.Duration) {
	timer := m.fleet.clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-m.wake:
	case <-timer.C():
	}
}

// connected is the present connection, whatever the state; error ErrNotReady between two.
func (m *member) connected() (*connection, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.conn == nil {
		return nil, fmt.Errorf("%w: it is being connected", ErrNotReady)
	}
	return m.conn, nil
}

// nudge makes the loop look now; it never blocks.
func (m *member) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// look probes the member and proves its identity, each in its own time.
func (m *member) look(ctx context.Context) error {
	conn, err := m.connected()
	if err != nil {
		return err
	}
	ctx = marked(ctx, probing)
	err = m.timely(ctx, conn.ready)
	if apierrors.IsForbidden(err) {
		// It answers; whether the account may read /readyz says nothing about the cluster.
		err = nil
	}
	if err == nil {
		err = m.timely(ctx, m.prove)
	}
	if err == nil && m.View().Version == "" {
		err = m.timely(ctx, func(ctx context.Context) error { return m.readVersion(ctx, conn) })
	}
	if err != nil {
		m.unheard(conn, err)
		return err
	}
	now := m.fleet.clock.Now()
	m.failures = 0
	m.change(func(v *View) {
		v.Reachable, v.LastHeard = true, now
		if v.Block == BlockUnreachable || v.Block == BlockUnauthorized {
			v.Block, v.Message = "", ""
		}
	})
	if conn.gate.down.Swap(false) {
		m.rewatch()
	}
	return nil
}

// timely bounds one part of a look.
func (m *member) timely(ctx context.Context, part func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, m.fleet.intervals.ProbeTimeout)
	defer cancel()
	return part(ctx)
}

// unheard notes why the last look failed. One look that is not answered does not make a ready member unreachable: it is
// repeated soon. Once it is unreachable nobody waits for it any more: what is under way fails, what is asked is not sent.
func (m *member) unheard(conn *connection, err error) {
	m.failures++
	switch refused := apierrors.IsUnauthorized(err); {
	case errors.Is(err, ErrIdentity):
		return
	case m.failures < failuresThatProve && !refused && m.View().Reachable:
		return
	case refused:
		m.change(func(v *View) {
			v.Reachable, v.Block, v.Message = false, BlockUnauthorized, "the member refuses the credential: "+words(err)
		})
	default:
		m.change(func(v *View) {
			v.Reachable, v.Block, v.Message, v.Untrusted = false, BlockUnreachable, words(err), untrusted(err)
		})
	}
	if !conn.gate.down.Swap(true) {
		conn.drop()
		m.rewatch()
	}
}

// forget drops everything known of the member.
func (m *member) forget(block Block, seen sighting, message string) {
	m.mu.Lock()
	m.dropCaches()
	m.late = nil
	m.newest = 0
	m.lease = leaseMemory{}
	m.mu.Unlock()
	m.change(func(v *View) {
		if v.Block != block || block == "" {
			v.Memory++
		}
		v.Block, v.Message, v.SeenIdentity, v.Reachable = block, message, seen.uid, true
		v.LastHeard = m.fleet.clock.Now()
		v.Version, v.Synced = "", false
	})
}

func (m *member) readVersion(ctx context.Context, conn *connection) error {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := readJSON(ctx, conn.plain, "/version", &v); err != nil {
		return err
	}
	m.change(func(view *View) { view.Version = told(v.GitVersion) })
	return nil
}

// settle computes the state from what is known.
func (m *member) settle() {
	used := m.fleet.inUse()
	m.mu.RLock()
	kinds := make([]KindView, 0, len(m.fleet.kinds))
	known, synced, message := m.caches != nil, true, m.unread
	for _, k := range m.fleet.kinds {
		view := m.viewOf(k)
		if used[k.GVK.GroupKind()] && view.Served && !view.Synced && view.Refused == "" {
			synced = false
			message = cmp.Or(message, view.Message)
		}
		kinds = append(kinds, view)
	}
	m.mu.RUnlock()
	m.change(func(v *View) {
		v.Kinds, v.Synced = kinds, known && (synced || v.Synced)
		v.State = stateOf(*v)
		if (known || message != "") && (v.State == StateSyncing || v.State == StateReady) {
			v.Message = message
		}
	})
}

func stateOf(v View) State {
	switch v.Block {
	case BlockIdentityChanged, BlockIdentityTaken, BlockUnauthorized:
		return StateBlocked
	case BlockIdentityUnstored:
		return StateConnecting
	case BlockUnreachable:
		if v.Identity != "" && v.SeenIdentity == v.Identity {
			return StateDegraded
		}
		return StateConnecting
	}
	switch {
	case !v.Reachable:
		return StateConnecting
	case !v.Synced:
		return StateSyncing
	default:
		return StateReady
	}
}

// change edits the view and tells the subscribers when it differs in more than the time of the last answer.
func (m *member) change(edit func(*View)) {
	m.mu.Lock()
	before := m.view
	edit(&m.view)
	m.view.State = stateOf(m.view)
	if m.gone {
		m.view.State = StateGone
	}
	after := m.view
	m.mu.Unlock()
	before.LastHeard, after.LastHeard = time.Time{}, time.Time{}
	if !reflect.DeepEqual(before, after) {
		m.fleet.emit(Event{Member: m.name})
	}
}

// View is a copy of the member's view.
func (m *member) View() View {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.view
}

// usable returns the connection of a member that may be read and written.
func (m *member) usable() (*connection, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.conn == nil || (m.view.State != StateReady && m.view.State != StateSyncing) {
		return nil, fmt.Errorf("%w: %s %s", ErrNotReady, m.view.State, m.view.Message)
	}
	return m.conn, nil
}

func (m *member) end() {
	m.mu.Lock()
	m.gone = true
	m.view.State = StateGone
	m.mu.Unlock()
}

// sameAddress is true when two configurations reach the same server with the same credential.
func sameAddress(a, b *rest.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Host == b.Host && a.BearerToken == b.BearerToken && a.BearerTokenFile == b.BearerTokenFile &&
		a.Username == b.Username && a.Password == b.Password && reflect.DeepEqual(a.TLSClientConfig, b.TLSClientConfig)
}

package clusters

import (
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

	mu   sync.RWMutex
	cfg  Config
	conn *connection
	view View
	// caches by kind; nil before the identity is proven.
	caches map[schema.GroupKind]*kindCache
	// newest is the largest store version seen.
	newest uint64
	// failures counts looks in a row that were not answered.
	failures int
	// rediscover makes the next look ask for the served kinds.
	rediscover bool
	lease      leaseMemory
	gone       bool
	seers      map[string]*heartbeat
}

// kindCache is the cache of one kind.
type kindCache struct {
	children   *children
	cancel     context.CancelFunc
	synced     bool
	served     bool
	reconciler Reconciler
	// refused says why the member does not let the hub read the kind; empty when it does.
	refused string
}

func newMember(f *Fleet, name string, cfg Config, memory int64) *member {
	m := &member{
		name: name, fleet: f, cfg: cfg, wake: make(chan struct{}, 1),
		count: &counter{member: name, vec: f.requests, byVerb: map[string]int64{}},
		view:  View{Name: name, State: StateConnecting, Identity: cfg.Identity, Memory: memory},
		seers: map[string]*heartbeat{},
	}
	if cfg.REST != nil {
		m.view.Server = cfg.REST.Host
	}
	return m
}

// run looks at the member until ctx is done.
func (m *member) run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("MemberCluster", klog.KRef("", m.name))
	ctx = klog.NewContext(ctx, logger)
	defer m.end()
	conn, err := connect(m.cfg.REST, m.count)
	if err != nil {
		m.change(func(v *View) { v.State, v.Block, v.Message = StateBlocked, BlockUnauthorized, err.Error() })
		<-ctx.Done()
		return
	}
	m.mu.Lock()
	m.conn = conn
	m.mu.Unlock()
	var lease sync.WaitGroup
	if m.name != Local {
		lease.Go(func() { m.keepLease(ctx) })
	}
	m.loop(ctx)
	lease.Wait()
}

func (m *member) loop(ctx context.Context) {
	every := m.fleet.intervals
	backoff := m.backoff()
	var discovered time.Time
	for ctx.Err() == nil {
		err := m.look(ctx)
		pause := backoff.Step()
		if err == nil {
			backoff = m.backoff()
			pause = wait.Jitter(every.Probe, 0.1)
			if now := m.fleet.clock.Now(); now.Sub(discovered) >= every.Discovery || m.mustDiscover() {
				m.discover(ctx)
				discovered = now
			}
		} else {
			klog.FromContext(ctx).V(2).Info("Member does not answer", "reason", err.Error())
		}
		m.settle()
		timer := m.fleet.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-timer.C():
		}
		timer.Stop()
	}
}

func (m *member) backoff() wait.Backoff {
	every := m.fleet.intervals
	return wait.Backoff{Duration: every.BackoffMin, Factor: 2, Jitter: 0.3, Steps: 1 << 30, Cap: every.BackoffMax}
}

// nudge makes the loop look now; it never blocks.
func (m *member) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// look probes the member and proves its identity.
func (m *member) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.fleet.intervals.ProbeTimeout)
	defer cancel()
	err := m.conn.ready(ctx)
	if apierrors.IsForbidden(err) {
		// It answers; whether the account may read /readyz says nothing about the cluster.
		err = nil
	}
	if err == nil {
		err = m.prove(ctx)
	}
	if err == nil && m.View().Version == "" {
		err = m.readVersion(ctx)
	}
	if err == nil {
		now := m.fleet.clock.Now()
		m.failures = 0
		m.change(func(v *View) {
			v.Reachable, v.LastHeard = true, now
			if v.Block == BlockUnreachable || v.Block == BlockUnauthorized {
				v.Block, v.Message = "", ""
			}
		})
		return nil
	}
	m.unheard(err)
	return err
}

// unheard notes why the last look failed. One look that is not answered does not make a ready member unreachable: it is
// repeated soon.
func (m *member) unheard(err error) {
	m.failures++
	m.change(func(v *View) {
		switch {
		case errors.Is(err, ErrIdentity):
		case m.failures < failuresThatProve && !apierrors.IsUnauthorized(err) && v.Reachable:
		case apierrors.IsUnauthorized(err):
			v.Reachable, v.Block, v.Message = false, BlockUnauthorized, "the member refuses the credential: "+err.Error()
		default:
			v.Reachable, v.Block, v.Message = false, BlockUnreachable, err.Error()
		}
	})
}

// prove reads who answers and compares it with what is stored. It drops everything known of the member when another
// cluster answers, or when the store's version runs backwards.
func (m *member) prove(ctx context.Context) error {
	// What is known is read before the request is sent: of two proofs under way at once, the one that was answered first
	// would otherwise look like a store that went back.
	m.mu.RLock()
	newest := m.newest
	m.mu.RUnlock()
	seen, err := sight(ctx, m.conn.dynamic)
	if err != nil {
		return err
	}
	m.mu.RLock()
	want := m.cfg.Identity
	m.mu.RUnlock()
	if block, message := m.strangerTo(seen, want); block != "" {
		m.forget(block, seen, message)
		return fmt.Errorf("%w: %s", ErrIdentity, message)
	}
	if seen.version != 0 && seen.version < newest {
		klog.FromContext(ctx).Info("Dropped what was known of a member whose store went back",
			"from", newest, "to", seen.version)
		m.forget("", seen, "")
		m.nudge()
	}
	m.mu.Lock()
	m.newest = max(m.newest, seen.version)
	m.mu.Unlock()
	m.change(func(v *View) {
		v.Identity, v.SeenIdentity = seen.uid, seen.uid
		if v.Block != BlockUnreachable && v.Block != BlockUnauthorized {
			v.Block, v.Message = "", ""
		}
	})
	return nil
}

// strangerTo says why the cluster that answered is not the stored one.
func (m *member) strangerTo(seen sighting, want string) (Block, string) {
	if m.name == Local {
		// The hub's own cluster cannot be another one: this process would not lead there.
		return "", ""
	}
	if own := m.fleet.localIdentity; own != "" && own == seen.uid {
		return BlockIdentityTaken, fmt.Sprintf(
			"this cluster (UID %s) is the hub's own: a subset without cluster lives there; delete this MemberCluster", seen.uid)
	}
	if want != "" && want != seen.uid {
		return BlockIdentityChanged, fmt.Sprintf(
			"kube-system has UID %s, the stored one is %s: another cluster answers under this address", seen.uid, want)
	}
	if other := m.fleet.claim(seen.uid, m.name); other != "" {
		return BlockIdentityTaken, fmt.Sprintf("this cluster (UID %s) is already member %q", seen.uid, other)
	}
	if want == "" {
		return BlockIdentityUnstored, "its identity is not stored yet"
	}
	return "", ""
}

// forget drops everything known of the member.
func (m *member) forget(block Block, seen sighting, message string) {
	m.mu.Lock()
	m.dropCaches()
	m.newest = 0
	m.lease = leaseMemory{}
	m.mu.Unlock()
	m.change(func(v *View) {
		if v.Block != block || block == "" {
			v.Memory++
		}
		v.Block, v.Message, v.SeenIdentity, v.Reachable = block, message, seen.uid, true
		v.LastHeard = m.fleet.clock.Now()
		v.Version = ""
	})
}

// dropCaches needs mu.
func (m *member) dropCaches() {
	for _, c := range m.caches {
		if c.cancel != nil {
			c.cancel()
		}
	}
	m.caches = nil
}

func (m *member) readVersion(ctx context.Context) error {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := readJSON(ctx, m.conn.plain, "/version", &v); err != nil {
		return err
	}
	m.change(func(view *View) { view.Version = v.GitVersion })
	return nil
}

// settle computes the state from what is known.
func (m *member) settle() {
	m.mu.RLock()
	kinds := make([]KindView, 0, len(m.fleet.kinds))
	synced := m.caches != nil
	for _, k := range m.fleet.kinds {
		view := KindView{GVK: k.GVK, Reconciler: ReconcilerUnknown}
		if c := m.caches[k.GVK.GroupKind()]; c != nil {
			view.Served, view.Synced, view.Reconciler = c.served, c.served && c.synced, c.reconciler
			view.Refused = c.refused
			synced = synced && (!c.served || c.synced || c.refused != "")
		} else {
			synced = false
		}
		kinds = append(kinds, view)
	}
	m.mu.RUnlock()
	m.change(func(v *View) {
		v.Kinds, v.Synced = kinds, synced
		v.State = stateOf(*v)
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
	m.dropCaches()
	if m.conn != nil {
		m.conn.close()
	}
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

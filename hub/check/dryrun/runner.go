package dryrun

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/underway-dev/underway/hub/check"
	"github.com/underway-dev/underway/propagation/clusters"
)

// The hub's own cluster is asked like a member; what it may do on members is granted beside package push.
//
// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// Members is what is needed of members; *clusters.Fleet is one.
type Members interface {
	View(name string) (clusters.View, bool)
	Client(name string) (dynamic.Interface, error)
}

// Options of a Runner.
type Options struct {
	Members Members
	// Wake is called, without locks held, when the results of an owner changed.
	Wake  func(owner types.NamespacedName)
	Clock clock.WithTicker
}

// atOnce is how many members are asked at the same time.
const atOnce = 16

// Runner asks in the background.
type Runner struct {
	Options

	// kick has room for one: a round sees everything that happened before it.
	kick chan struct{}

	mu     sync.Mutex
	owners map[types.NamespacedName]*state
	// busy are the members that a question is on its way to.
	busy map[string]bool
}

// state is what is known of an owner. A new revision is a new state, so that late answers to the old one find no place.
type state struct {
	ask     check.Ask
	known   check.Known
	results []check.Result
	// dirty is true when something happened since the last round; due is when to look without that, zero: never.
	dirty bool
	due   time.Time
}

// New returns a Runner; it asks nothing before Start.
func New(o Options) *Runner {
	return &Runner{
		Options: o, kick: make(chan struct{}, 1), owners: map[types.NamespacedName]*state{}, busy: map[string]bool{},
	}
}

// NeedLeaderElection is true: only the leader connects to members.
func (r *Runner) NeedLeaderElection() bool { return true }

// Ask says what is to be known of an owner from now on, in place of what was asked before. Asking the same again costs
// nothing. It does not block.
func (r *Runner) Ask(ask check.Ask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.owners[ask.Owner]
	if st == nil || st.ask.Revision != ask.Revision {
		st = &state{known: check.Known{Since: r.Clock.Now(), Answers: map[check.Key]check.Answer{}, Busy: map[check.Key]bool{}}}
		r.owners[ask.Owner] = st
	}
	if !reflect.DeepEqual(st.ask, ask) {
		st.ask = ask
		st.results = check.Next(ask, r.members(ask), st.known, r.Clock.Now()).Results
	}
	st.dirty = true // a member may have come back since
	r.nudge()
}

// Results are what is known of the owner's latest Ask; nil before the first.
func (r *Runner) Results(owner types.NamespacedName) []check.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.owners[owner]; st != nil {
		return st.results // replaced as a whole, never changed
	}
	return nil
}

// Forget drops everything of an owner.
func (r *Runner) Forget(owner types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, owner)
}

func (r *Runner) nudge() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Start is of manager.Runnable; it returns when the context has ended and no question is on its way.
func (r *Runner) Start(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	timer := r.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		probes, changed, again := r.round()
		for _, owner := range changed {
			r.Wake(owner)
		}
		for _, p := range probes {
			asking.Go(func() { r.carryOut(ctx, p) })
		}
		timer.Reset(again)
		select {
		case <-ctx.Done():
			return nil
		case <-r.kick:
		case <-timer.C():
		}
	}
}

// errand is a probe for an owner.
type errand struct {
	check.Probe

	owner types.NamespacedName
	state *state
}

// round looks at every owner of which something is due. Whose turn comes first is left to chance, so that nobody with
// many templates keeps a member for itself.
func (r *Runner) round() (probes []errand, changed []types.NamespacedName, again time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	again = time.Hour
	for owner, st := range r.owners {
		if st.dirty || (!st.due.IsZero() && !now.Before(st.due)) {
			more, differs := r.look(owner, st, now)
			probes = append(probes, more...)
			if differs {
				changed = append(changed, owner)
			}
		}
		if !st.due.IsZero() {
			again = min(again, max(st.due.Sub(now), time.Millisecond))
		}
	}
	return probes, changed, again
}

// look plans for one owner and takes the probes that can go now; it stays dirty when some cannot.
func (r *Runner) look(owner types.NamespacedName, st *state, now time.Time) (probes []errand, differs bool) {
	plan := check.Next(st.ask, r.members(st.ask), st.known, now)
	for key := range st.known.Answers {
		if !plan.Keys[key] {
			delete(st.known.Answers, key)
		}
	}
	st.dirty, st.due = false, time.Time{}
	if plan.LookAgainIn > 0 {
		st.due = now.Add(plan.LookAgainIn)
	}
	for _, p := range plan.Probes {
		if r.busy[p.Member] || len(r.busy) >= atOnce {
			st.dirty = true // the end of a question is a kick
			continue
		}
		r.busy[p.Member], st.known.Busy[p.Key] = true, true
		probes = append(probes, errand{Probe: p, owner: owner, state: st})
	}
	differs = !reflect.DeepEqual(st.results, plan.Results)
	st.results = plan.Results
	return probes, differs
}

// members are those that an ask names, as last seen.
func (r *Runner) members(ask check.Ask) map[string]check.Member {
	out := map[string]check.Member{}
	for i := range ask.Templates {
		for _, name := range ask.Templates[i].Members {
			if _, ok := out[name]; ok {
				continue
			}
			view, _ := r.Members.View(name)
			// One whose children are still being read answers all the same.
			ready := view.State == clusters.StateReady || view.State == clusters.StateSyncing
			out[name] = check.Member{Ready: ready, Version: view.Version}
		}
	}
	return out
}

// carryOut asks and notes the answer.
func (r *Runner) carryOut(ctx context.Context, e errand) {
	answer := question{members: r.Members, namespace: e.owner.Namespace, probe: e.Probe}.ask(ctx)
	answer.Member, answer.At = e.Member, r.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, e.Member)
	delete(e.state.known.Busy, e.Key)
	before := e.state.known.Answers[e.Key]
	if e.Anew {
		before = check.Answer{}
	}
	if ctx.Err() == nil {
		e.state.known.Answers[e.Key] = answer.After(before)
	}
	e.state.dirty = true
	r.nudge()
}

package dryrun

import (
	"context"

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

// Runner asks in the background.
type Runner struct{ Options }

// New returns a Runner; it asks nothing before Start.
func New(o Options) *Runner { return &Runner{Options: o} }

// Start is of manager.Runnable; it returns when the context ends.
func (r *Runner) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// NeedLeaderElection is true: only the leader connects to members.
func (r *Runner) NeedLeaderElection() bool { return true }

// Ask says what is to be known of an owner from now on, in place of what was asked before. Asking the same again costs
// nothing. It does not block.
func (r *Runner) Ask(check.Ask) {}

// Results are what is known of the owner's latest Ask; nil before the first.
func (r *Runner) Results(types.NamespacedName) []check.Result { return nil }

// Forget drops everything of an owner.
func (r *Runner) Forget(types.NamespacedName) {}

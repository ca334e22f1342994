package outbox

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Outbox is the queues to all members.
type Outbox struct{}

// New returns an outbox that sends nothing before Start. It subscribes to the members, so call it before their Start.
func New(o Options) *Outbox { panic("todo") }

// Start runs until ctx is done; it is a manager.Runnable that needs leadership.
func (o *Outbox) Start(ctx context.Context) error { panic("todo") }

// NeedLeaderElection is true.
func (o *Outbox) NeedLeaderElection() bool { return true }

// Post replaces what is wanted of the item's object and looks at it soon. It never blocks.
func (o *Outbox) Post(item Item) { panic("todo") }

// Withdraw forgets what is wanted of an object; nothing is changed on the member.
func (o *Outbox) Withdraw(key Key) { panic("todo") }

// WithdrawOwner forgets everything of an owner.
func (o *Outbox) WithdrawOwner(owner types.NamespacedName) { panic("todo") }

// WithdrawMember forgets everything of a member.
func (o *Outbox) WithdrawMember(member string) { panic("todo") }

// Outcome is the last result for an object; false when nothing is wanted of it.
func (o *Outbox) Outcome(key Key) (Outcome, bool) { panic("todo") }

// Subscribe calls fn, which must not block, with the owner whenever an outcome changes. Call it before Start.
func (o *Outbox) Subscribe(fn func(owner types.NamespacedName)) { panic("todo") }

// SubscribeStop calls fn, which must not block, when all writes are stopped or go on. Call it before Start.
func (o *Outbox) SubscribeStop(fn func()) { panic("todo") }

// Stop stops every write to every member until Resume; a second reason is kept beside the first. The caller stores it
// (a condition) and calls Stop again after a restart.
func (o *Outbox) Stop(reason StopReason) { panic("todo") }

// Stopped are the reasons in force, the first one first; empty when writes go on.
func (o *Outbox) Stopped() []StopReason { panic("todo") }

// Resume lets writes go on, after a person confirmed.
func (o *Outbox) Resume() { panic("todo") }

// Kick looks at everything that waits for a freeze to end.
func (o *Outbox) Kick() { panic("todo") }

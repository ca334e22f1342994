package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
)

// remedyRole is for a member whose roles are of a version that did not know a kind.
const remedyRole = "give the hub its present roles there: kubectl underway join --upgrade"

// rounds is how often one attempt decides anew after a conflict, a handover or a namespace that was created.
const rounds = 4

// work carries one object as far as it goes now.
func (o *Outbox) work(ctx context.Context, key Key) {
	o.mu.Lock()
	e := o.entries[key]
	if e == nil || e.rest {
		o.mu.Unlock()
		return
	}
	a := &attempt{outbox: o, key: key, item: e.item, posted: e.posted, known: e.known, outcome: e.outcome}
	if len(e.shares) > 0 {
		a.share(e.shares)
	}
	o.mu.Unlock()

	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues(
		"MemberCluster", klog.KRef("", key.Member), "kind", key.GVK.Kind, "child", klog.KRef(key.Namespace, key.Name)))
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	a.run(limited)
	o.finish(ctx, key, a)
}

// finish stores the result and says when to look again.
func (o *Outbox) finish(ctx context.Context, key Key, a *attempt) {
	o.mu.Lock()
	e := o.entries[key]
	if e == nil {
		o.mu.Unlock()
		return // withdrawn
	}
	e.known = a.known
	o.countRefusal(key.Member, e.outcome.State, a.outcome.State)
	changed := !a.outcome.equal(e.outcome)
	if e.posted == a.posted {
		if !changed {
			a.outcome.At = e.outcome.At
		}
		e.outcome = a.outcome
		e.rest = a.outcome.State.rests()
	} else {
		// A newer plan waits; what was written counts all the same.
		e.outcome.UID, e.outcome.Generation = a.outcome.UID, a.outcome.Generation
		e.outcome.WrittenAt, e.outcome.TookBack = a.outcome.WrittenAt, a.outcome.TookBack
	}
	told, owners := o.owners, e.owners()
	q := o.queue(key.Member)
	o.schedule(q, key, a)
	o.mu.Unlock()
	if changed {
		klog.FromContext(ctx).V(2).Info("Looked at an object of a member", "state", a.outcome.State,
			"op", a.outcome.Op, "reason", a.outcome.Reason, "message", a.outcome.Message)
		for _, fn := range told {
			for _, owner := range owners {
				fn(owner)
			}
		}
	}
}

// schedule says when to look again. It needs mu, so that nothing is remembered of a key that is withdrawn meanwhile.
func (o *Outbox) schedule(q *queue, key Key, a *attempt) {
	switch a.outcome.State {
	case StateFailed, StateConflict, StateRefused, StateMissing:
		q.AddRateLimited(key)
	case StateNamespaceMissing, StateNamespaceTerminating, StateKindMissing, StateTerminating:
		q.Forget(key)
		q.AddAfter(key, o.Recheck)
	case StatePending, StateDone, StateMemberNotReady, StateFrozen, StateStopped, StateNotLeading, StateReplan, StateUnwantedDelete:
		q.Forget(key)
		if a.outcome.State == StateDone && a.uncached {
			q.AddAfter(key, o.Relook)
		}
	}
}

// rests is true for the states that only a new plan ends.
func (s State) rests() bool {
	return s == StateNotLeading || s == StateReplan || s == StateUnwantedDelete
}

// equal compares all but the time.
func (a Outcome) equal(b Outcome) bool {
	return a.State == b.State && a.Op == b.Op && a.Reason == b.Reason && a.Message == b.Message &&
		a.Intent == b.Intent && slices.Equal(a.Marked, b.Marked) && slices.Equal(a.HeldBy, b.HeldBy) && a.UID == b.UID && a.Generation == b.Generation && a.WrittenAt.Equal(b.WrittenAt) &&
		fmt.Sprint(a.Err) == fmt.Sprint(b.Err)
}

// attempt is one look at one object.
type attempt struct {
	outbox  *Outbox
	key     Key
	item    Item
	posted  int64
	known   known
	outcome Outcome
	// wrote is true once something was sent in this attempt.
	wrote bool
	// shares are those of a shared object, in a fixed order; item is then what they want together.
	shares []Item
	// gone are owners of marks that are proven gone, strangers those that exist and have not posted.
	gone, strangers []string
	// uncached is true when the object was read from the member because no cache can hold it.
	uncached bool
}

func (a *attempt) name() types.NamespacedName {
	return types.NamespacedName{Namespace: a.key.Namespace, Name: a.key.Name}
}

// end notes the result; it always returns true, "no further round".
func (a *attempt) end(state State, message string, err error) bool {
	a.outcome.State, a.outcome.Message, a.outcome.Err = state, message, err
	a.outcome.At, a.outcome.Intent = a.outbox.Clock.Now(), a.item.Intent
	return true
}

func (a *attempt) failed(err error) bool {
	switch {
	case errors.Is(err, clusters.ErrIdentity), errors.Is(err, clusters.ErrNotReady):
		return a.end(StateMemberNotReady, err.Error(), err)
	default:
		return a.end(StateFailed, err.Error(), err)
	}
}

// run looks, decides and acts, again after what only a new look can resolve.
func (a *attempt) run(ctx context.Context) {
	if !a.reachable() {
		return
	}
	round := a.round
	if a.item.Shared {
		round = a.sharedRound
	}
	live, done := a.look(ctx)
	for range rounds {
		if done {
			return
		}
		live, done = round(ctx, live)
	}
	if !done {
		a.end(StateFailed, "it keeps changing while we look", nil)
	}
}

// overtaken is true when another plan was posted, or this one withdrawn, since the attempt began: what a conflict has stopped
// is not sent any more.
func (a *attempt) overtaken() bool {
	o := a.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.entries[a.key]
	return e == nil || e.posted != a.posted
}

// reachable ends the attempt when the member is not ready, and drops memory of an earlier life of it.
func (a *attempt) reachable() bool {
	view, ok := a.outbox.Members.View(a.key.Member)
	if !ok {
		a.end(StateMemberNotReady, fmt.Sprintf("there is no member %q", a.key.Member), nil)
		return false
	}
	if a.known.epoch != view.Memory {
		a.known = known{epoch: view.Memory}
	}
	for _, k := range view.Kinds {
		if k.GVK.GroupKind() != a.key.GVK.GroupKind() || view.State != clusters.StateReady || a.item.Shared {
			continue
		}
		if !k.Served {
			a.end(StateKindMissing, "the member does not serve "+a.key.GVK.GroupKind().String(), nil)
			return false
		}
		if k.Refused != "" {
			a.end(StateMemberNotReady, k.Refused+"; "+remedyRole, nil)
			return false
		}
	}
	if view.State != clusters.StateReady {
		a.end(StateMemberNotReady, fmt.Sprintf("%s: %s", view.State, view.Message), nil)
		return false
	}
	return true
}

// look finds the live object: from the cache where that is enough. A delete, and anything about an object that the cache
// lacks or has not caught up with, needs a fresh read.
func (a *attempt) look(ctx context.Context) (*unstructured.Unstructured, bool) {
	live, synced := a.outbox.Members.Child(a.key.Member, a.key.GVK, a.name())
	if !synced && a.item.Shared {
		// Where the hub may not watch the kind, as where it was joined for a few namespaces, each is read.
		a.uncached = true
		return a.read(ctx)
	}
	if !synced {
		return nil, a.end(StateMemberNotReady, "its children are not read yet", nil)
	}
	stale := live != nil && older(live.GetResourceVersion(), a.known.version)
	switch {
	case stale && a.sent(live):
		a.outcome.Op, a.outcome.Reason = a.known.wrote.Op, a.known.wrote.Reason
		return nil, a.end(StateDone, a.known.wrote.Message, nil)
	case live != nil && !stale && a.item.Want != changeset.WantDeleted:
		return live, false
	}
	return a.read(ctx)
}

// sent is true when the last write to this object was just what is wanted: a cache that does not show it yet is waited for.
func (a *attempt) sent(live *unstructured.Unstructured) bool {
	m := a.known.memory
	return a.item.Want == changeset.WantApplied && a.known.wrote != nil && m != nil && m.UID == live.GetUID() &&
		(a.item.Judged == "" || a.item.Judged == m.UID) && m.Applied == changeset.Hash(a.item.Object)
}

// read is a fresh read; nil when the member says that there is none.
func (a *attempt) read(ctx context.Context) (*unstructured.Unstructured, bool) {
	live, err := a.outbox.Members.Get(ctx, a.key.Member, a.key.GVK, a.name())
	if apierrors.IsNotFound(err) {
		return nil, false
	}
	if apierrors.IsForbidden(err) && a.item.Shared {
		return nil, a.end(StateRefused, err.Error()+"; "+remedyRole, err)
	}
	if err != nil {
		return nil, a.failed(err)
	}
	return live, false
}

// round decides about live and acts; it returns the object for the next round.
func (a *attempt) round(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	d := a.decide(live)
	if found, ok := a.judged(live, d); !ok {
		a.outcome.UID = found
		return nil, a.end(StateReplan, "the plan was made for another object than the one that is there, or before its last template", nil)
	}
	if a.quarrel(live, d) {
		return nil, true
	}
	switch d.Op {
	case changeset.OpNothing:
		return nil, a.nothing(live, d)
	case changeset.OpConflict:
		return nil, a.end(StateConflict, d.Message, nil)
	case changeset.OpHubBehind:
		return nil, a.behind(ctx, live, d)
	case changeset.OpApply:
		return a.takeBack(ctx, live, d)
	case changeset.OpCreate, changeset.OpHandover, changeset.OpDelete, changeset.OpOrphan:
	}
	return a.act(ctx, d)
}

func (a *attempt) decide(live *unstructured.Unstructured) changeset.Decision {
	if a.item.Shared {
		return a.decideShared(live)
	}
	d := changeset.Decide(changeset.Input{
		Want: a.item.Want, Desired: a.item.Object, Live: live, Memory: a.known.memory,
		HubID: a.outbox.HubID, Intent: a.item.Intent, Adopt: a.item.Adopt, TakeReplicas: a.item.TakeReplicas,
	})
	a.outcome.Op, a.outcome.Reason = d.Op, d.Reason
	return d
}

// judged is false when the plan was made for another object than the one that is there: it must then be made anew. What
// needs no write, what is not ours, and the object that this very plan created are left to the decision.
func (a *attempt) judged(live *unstructured.Unstructured, d changeset.Decision) (types.UID, bool) {
	uid := types.UID("")
	if live != nil {
		uid = live.GetUID()
	}
	switch {
	case a.item.Want == changeset.WantOrphaned, a.item.Want == changeset.WantDeleted && (live == nil || a.item.Judged == ""):
		return uid, true
	case a.item.Judged != "":
		return uid, (uid == a.item.Judged && !a.moved(live, d)) || d.Op == changeset.OpConflict
	case live == nil || (d.Op != changeset.OpApply && d.Op != changeset.OpHandover):
		return uid, true
	default:
		return uid, d.Reason == changeset.ReasonAdopted
	}
}

// quarrel ends the attempt where another hub has taken over what this process has had: taking it back would go on for ever,
// because that hub adopts as well. What it lets go may be taken.
func (a *attempt) quarrel(live *unstructured.Unstructured, d changeset.Decision) bool {
	m := a.known.memory
	if d.Reason != changeset.ReasonAdopted || live == nil || m == nil || m.UID != live.GetUID() {
		return false
	}
	other := live.GetLabels()[appsv1alpha1.LabelHub]
	if _, letGo := live.GetAnnotations()[appsv1alpha1.AnnotationOrphaned]; letGo || other == "" || other == a.outbox.HubID {
		return false
	}
	return a.end(StateConflict, fmt.Sprintf("%s %s/%s is not taken back: hub %s has taken it over from this one, and adopts as this one does; one of the two must give the name up",
		live.GetKind(), live.GetNamespace(), live.GetName(), other), nil)
}

// moved is true for a child of ours that got another template since it was judged.
func (a *attempt) moved(live *unstructured.Unstructured, d changeset.Decision) bool {
	if live == nil || a.item.Want != changeset.WantApplied || (d.Op != changeset.OpApply && d.Op != changeset.OpHandover) {
		return false
	}
	now := live.GetLabels()[appsv1alpha1.LabelSubsetRevision]
	return now != a.item.Carried && now != a.item.Object.GetLabels()[appsv1alpha1.LabelSubsetRevision]
}

// nothing ends the attempt: nothing is due, or nothing may be done.
func (a *attempt) nothing(live *unstructured.Unstructured, d changeset.Decision) bool {
	if d.Reason == changeset.ReasonTerminating {
		return a.end(StateTerminating, d.Message, nil)
	}
	if d.Reason != changeset.ReasonUpToDate && d.Reason != changeset.ReasonRewritten {
		return a.end(StateDone, d.Message, nil)
	}
	if a.known.memory == nil || d.Reason == changeset.ReasonUpToDate {
		memory := changeset.Remember(d.Object, live)
		a.known.memory = &memory
	}
	if a.outcome.UID != live.GetUID() || a.outcome.Generation == 0 {
		a.outcome.UID, a.outcome.Generation = live.GetUID(), live.GetGeneration()
	}
	if wrote := a.known.wrote; wrote != nil && d.Reason == changeset.ReasonUpToDate {
		d = *wrote
		a.outcome.Op, a.outcome.Reason = d.Op, d.Reason
	}
	return a.end(StateDone, d.Message, nil)
}

// behind asks the fence about a live object with a newer intent.
func (a *attempt) behind(ctx context.Context, live *unstructured.Unstructured, d changeset.Decision) bool {
	leading, err := a.outbox.Fence.Leading(ctx)
	if err != nil {
		return a.failed(fmt.Errorf("reading our leader Lease: %w", err))
	}
	if !leading {
		return a.end(StateNotLeading, "another process of this hub leads", nil)
	}
	now, exists, err := a.outbox.Fence.CurrentIntent(ctx, a.item.Owner, a.item.Intent.OwnerUID)
	if err != nil {
		return a.failed(fmt.Errorf("reading the owner: %w", err))
	}
	if !exists {
		return a.end(StateReplan, "the owner is gone", nil)
	}
	if fresh := changeset.Decide(changeset.Input{
		Want: a.item.Want, Desired: a.item.Object, Live: live, HubID: a.outbox.HubID, Intent: now,
	}); fresh.Op != changeset.OpHubBehind {
		return a.end(StateReplan, "the plan was older than its owner", nil)
	}
	a.outbox.Stop(StopReason{
		Condition: StopHubBehind, Member: a.key.Member, Owner: a.item.Owner, Seen: intentOf(live),
	})
	return a.end(StateStopped, d.Message, nil)
}

// older compares two resourceVersions; what is not a number is not older.
func older(have, than string) bool {
	x, errX := strconv.ParseUint(have, 10, 64)
	y, errY := strconv.ParseUint(than, 10, 64)
	return errX == nil && errY == nil && x < y
}

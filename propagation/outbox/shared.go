package outbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

// share notes what one owner wants of a shared object and returns what it wanted before. It needs the outbox's mu.
func (e *entry) share(item Item) Item {
	if e.shares == nil {
		e.shares = map[types.UID]Item{}
	}
	before := e.shares[item.Intent.OwnerUID]
	e.shares[item.Intent.OwnerUID] = item
	return before
}

// owners are who is told of an outcome. It needs the outbox's mu.
func (e *entry) owners() []types.NamespacedName {
	if len(e.shares) == 0 {
		return []types.NamespacedName{e.item.Owner}
	}
	out := make([]types.NamespacedName, 0, len(e.shares))
	for _, i := range e.shares {
		out = append(out, i.Owner)
	}
	return out
}

// WithdrawShare forgets what one owner wants of a shared object. Its mark stays where it is: only WantDeleted and
// WantOrphaned take it off. What the others want goes on.
func (o *Outbox) WithdrawShare(key Key, owner types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropShare(key, owner)
}

// dropShare needs mu.
func (o *Outbox) dropShare(key Key, owner types.UID) {
	e := o.entries[key]
	if e == nil {
		return
	}
	if _, there := e.shares[owner]; !there {
		return
	}
	delete(e.shares, owner)
	if len(e.shares) == 0 {
		o.drop(key)
		return
	}
	if e.item.Intent.OwnerUID == owner {
		for _, e.item = range e.shares {
			break
		}
	}
	e.posted++
	e.rest = false
	o.queue(key.Member).Add(key)
}

// share makes one item of what the owners want: the newest content, held while one of them holds it; the object goes only
// when nobody wants it.
func (a *attempt) share(shares map[types.UID]Item) {
	a.shares = slices.SortedFunc(maps.Values(shares), func(x, y Item) int {
		return cmp.Or(
			-cmp.Compare(x.Source.Term, y.Source.Term), -cmp.Compare(x.Source.Generation, y.Source.Generation),
			cmp.Compare(x.Intent.OwnerUID, y.Intent.OwnerUID))
	})
	for _, want := range []changeset.Want{changeset.WantApplied, changeset.WantPresent, changeset.WantDeleted, changeset.WantOrphaned} {
		if i := slices.IndexFunc(a.shares, func(i Item) bool { return i.Want == want }); i >= 0 {
			a.item = a.shares[i]
			break
		}
	}
	for _, i := range a.shares {
		if i.Want == changeset.WantApplied && i.Adopt != a.item.Adopt {
			a.item.Adopt = appsv1alpha1.AdoptNever
		}
	}
	if a.item.Want == changeset.WantDeleted || a.item.Want == changeset.WantOrphaned {
		a.item.StillWanted = a.allStillWant
		// A delete is judged on a fresh read; so is a letting go of the last owner.
		a.item.Want = changeset.WantDeleted
	}
}

// allStillWant is true when each owner that leaves still does.
func (a *attempt) allStillWant(ctx context.Context) (bool, error) {
	for _, i := range a.shares {
		if !leaves(i.Want) {
			continue
		}
		if i.StillWanted == nil {
			return false, nil
		}
		if wanted, err := i.StillWanted(ctx); err != nil || !wanted {
			return false, err
		}
	}
	return true, nil
}

func leaves(w changeset.Want) bool { return w == changeset.WantDeleted || w == changeset.WantOrphaned }

// sharedRound decides about live and acts; it returns the object for the next round.
func (a *attempt) sharedRound(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	a.marked(live)
	if a.item.Want == changeset.WantPresent && !slices.ContainsFunc(a.shares, func(i Item) bool { return leaves(i.Want) }) {
		return nil, a.present(live)
	}
	d := a.decide(live)
	if touches(d.Op) {
		if done := a.meet(ctx); done {
			return nil, true
		}
		d = a.decide(live)
	}
	if a.quarrel(live, d) {
		return nil, true
	}
	switch d.Op {
	case changeset.OpNothing:
		if a.item.Want == changeset.WantPresent {
			return nil, a.present(live)
		}
		return nil, a.nothing(live, d)
	case changeset.OpConflict:
		return nil, a.end(StateConflict, d.Message, nil)
	case changeset.OpHubBehind:
		return nil, a.sharedBehind(ctx, live, d)
	case changeset.OpApply:
		next, done := a.takeBack(ctx, live, d)
		return next, a.remark(d, done)
	case changeset.OpCreate, changeset.OpDelete, changeset.OpOrphan, changeset.OpHandover:
	}
	next, done := a.act(ctx, d)
	return next, a.remark(d, done)
}

func touches(op changeset.Op) bool {
	return op == changeset.OpApply || op == changeset.OpDelete || op == changeset.OpOrphan
}

// present ends an attempt that only asks for the object.
func (a *attempt) present(live *unstructured.Unstructured) bool {
	if live == nil {
		a.outcome.Op, a.outcome.Reason = changeset.OpNothing, changeset.ReasonAbsent
		return a.end(StateMissing, fmt.Sprintf("%s %s is not there", a.key.GVK.Kind, a.key.Name), nil)
	}
	a.uncached = true // no cache holds what is not ours
	a.outcome.Op, a.outcome.Reason = changeset.OpNothing, changeset.ReasonUpToDate
	return a.end(StateDone, "it is there", nil)
}

// marked notes the marks of the object as it is.
func (a *attempt) marked(live *unstructured.Unstructured) {
	a.outcome.Marked = nil
	if live != nil && live.GetLabels()[appsv1alpha1.LabelHub] == a.outbox.HubID {
		a.outcome.Marked = content.Marks(live.GetAnnotations())
	}
}

// remark notes the marks after a write.
func (a *attempt) remark(d changeset.Decision, done bool) bool {
	switch {
	case !a.wrote || a.outcome.State != StateDone && a.outcome.State != StateTerminating:
	case d.Op == changeset.OpDelete, d.Op == changeset.OpOrphan:
		a.outcome.Marked = nil
	default:
		a.outcome.Marked = content.Marks(d.Object.GetAnnotations())
	}
	return done
}

// meet finds out about marks of owners that have not posted: those that are gone go, the others hold the content as it is
// until they have their say. It also asks those who leave whether they still do; true ends the attempt.
func (a *attempt) meet(ctx context.Context) bool {
	a.gone, a.strangers = nil, nil
	var unknown []string
	for _, uid := range a.outcome.Marked {
		if !slices.ContainsFunc(a.shares, func(i Item) bool { return string(i.Intent.OwnerUID) == uid }) {
			unknown = append(unknown, uid)
		}
	}
	if len(unknown) > 0 {
		gone, err := a.ask(ctx, unknown)
		if err != nil {
			return a.failed(fmt.Errorf("reading the owners of marks: %w", err))
		}
		a.gone = gone
		a.strangers = slices.DeleteFunc(unknown, func(uid string) bool { return slices.Contains(gone, uid) })
	}
	return a.leaveOrStay(ctx)
}

// leaveOrStay asks those who leave, by fresh reads. Who wants to stay after all is left out: its mark stays.
func (a *attempt) leaveOrStay(ctx context.Context) bool {
	kept := a.shares[:0:0]
	for _, i := range a.shares {
		if leaves(i.Want) && slices.Contains(a.outcome.Marked, string(i.Intent.OwnerUID)) {
			wanted, err := false, error(nil)
			if i.StillWanted != nil {
				wanted, err = i.StillWanted(ctx)
			}
			if err != nil {
				return a.failed(fmt.Errorf("reading the owner before its mark is taken off: %w", err))
			}
			if !wanted {
				continue
			}
		}
		kept = append(kept, i)
	}
	a.shares = kept
	if len(kept) == 0 {
		return a.end(StateUnwantedDelete, "its owner does not want to leave it any more", nil)
	}
	return false
}

func (a *attempt) ask(ctx context.Context, owners []string) ([]string, error) {
	for _, i := range a.shares {
		if i.Gone != nil {
			return i.Gone(ctx, owners)
		}
	}
	return nil, nil // nobody can say: they are taken to exist
}

// decideShared decides as the owners together want it.
func (a *attempt) decideShared(live *unstructured.Unstructured) changeset.Decision {
	in := changeset.SharedInput{
		Desired: a.item.Object, Live: live, Memory: a.known.memory, HubID: a.outbox.HubID, Source: a.item.Source,
		Leaving: slices.Clone(a.gone), Adopt: a.item.Adopt,
	}
	var holders []string
	for _, i := range a.shares {
		uid := string(i.Intent.OwnerUID)
		switch {
		case i.Want == changeset.WantApplied:
			in.Owners = append(in.Owners, uid)
			if i.Hold {
				holders = append(holders, i.Owner.String())
			}
		case leaves(i.Want):
			in.Leaving = append(in.Leaving, uid)
			in.LetGo = in.LetGo || i.Want == changeset.WantOrphaned
		default:
			in.LetGo = true // somebody needs it to be there
		}
	}
	for _, uid := range a.strangers {
		holders = append(holders, "an owner that has not had its say since the hub's start (UID "+uid+")")
	}
	in.Hold = len(holders) > 0 && len(in.Owners) > 0
	d := changeset.DecideShared(in)
	a.outcome.HeldBy = heldBy(in, d, holders)
	a.outcome.Op, a.outcome.Reason = d.Op, d.Reason
	return d
}

// heldBy names who holds newer content back: nobody where the content is the newest.
func heldBy(in changeset.SharedInput, d changeset.Decision, holders []string) []string {
	if !in.Hold || in.Live == nil {
		return nil
	}
	in.Hold = false
	free := changeset.DecideShared(in)
	if free.Op != changeset.OpApply || changeset.Hash(free.Object) == changeset.Hash(d.Object) {
		return nil
	}
	slices.Sort(holders)
	return slices.Compact(holders)
}

// sharedBehind asks the fence about a live copy that is newer than ours.
func (a *attempt) sharedBehind(ctx context.Context, live *unstructured.Unstructured, d changeset.Decision) bool {
	leading, err := a.outbox.Fence.Leading(ctx)
	if err != nil {
		return a.failed(fmt.Errorf("reading our leader Lease: %w", err))
	}
	if !leading {
		return a.end(StateNotLeading, "another process of this hub leads", nil)
	}
	if a.item.CurrentSource == nil {
		return a.end(StateReplan, "the plan is older than what it copies", nil)
	}
	now, exists, err := a.item.CurrentSource(ctx)
	if err != nil {
		return a.failed(fmt.Errorf("reading what is copied: %w", err))
	}
	seen, err := render.ParseIntent(intentOf(live))
	if err != nil {
		return a.failed(err)
	}
	if order, ordered := seen.Compare(now); !exists || !ordered || order <= 0 {
		return a.end(StateReplan, "the plan was older than what it copies", nil)
	}
	a.outbox.Stop(StopReason{Condition: StopHubBehind, Member: a.key.Member, Owner: a.item.Owner, Seen: intentOf(live)})
	return a.end(StateStopped, d.Message, nil)
}

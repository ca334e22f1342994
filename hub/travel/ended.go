package travel

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/travel/plan"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// collectEvery is the shortest time between two looks at what is owed.
const collectEvery = 5 * time.Second

// debt is what this process has done about the copies of one ended object.
type debt struct {
	// posted are the members that were asked to delete theirs.
	posted map[string]bool
	// barred are those of which the answer was no: the hub has no right there, or the copy is not to go after all. They are asked
	// again when something of them changes.
	barred map[string]bool
}

// endedKey is the request for everything that has ended; no object is named so.
func endedKey() types.NamespacedName { return types.NamespacedName{Name: "/"} }

func (r *Reconciler) ringEnded() { r.ring.Ring(reconcile.Request{NamespacedName: endedKey()}) }

// collect takes back the copies of objects that were released while members could not be looked at, where that is possible by
// now, and forgets the kinds that were given up.
func (r *Reconciler) collect(ctx context.Context) (ctrl.Result, error) {
	if wait := r.pause(); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := r.retire(ctx); err != nil {
		return ctrl.Result{}, err
	}
	ended, err := r.Ledger.Ended(ctx)
	if err != nil || len(ended) == 0 {
		return ctrl.Result{}, err
	}
	list := &fleetv1alpha1.MemberClusterList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, wrap("listing members", err)
	}
	var paid []types.UID
	for uid, e := range ended {
		kind, ok := r.kindNamed(e.Kind)
		if !ok {
			continue // it may come back
		}
		items, open := plan.Collect(r.debtors(list, kind, &e))
		if !r.remembersUID(Key(kind.GVK.GroupKind(), e.Namespace, e.Name), uid) {
			r.ask(ctx, kind, &e, items) // else its own pass asks, for the same owner
		}
		if !open {
			paid = append(paid, uid)
		}
	}
	if err := r.Ledger.Drop(ctx, paid...); err != nil {
		return ctrl.Result{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, uid := range paid {
		delete(r.debts, uid)
	}
	return ctrl.Result{}, nil
}

// pause is how long to wait for the next look.
func (r *Reconciler) pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	if wait := r.collected.Add(collectEvery).Sub(now); !r.collected.IsZero() && wait > 0 {
		return wait
	}
	r.collected = now
	return 0
}

func (r *Reconciler) kindNamed(name string) (render.Kind, bool) {
	for _, k := range r.Kinds {
		if k.GVK.GroupKind().String() == name {
			return k, true
		}
	}
	return render.Kind{}, false
}

func (r *Reconciler) debt(uid types.UID) *debt {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.debts[uid]
	if d == nil {
		d = &debt{posted: map[string]bool{}, barred: map[string]bool{}}
		r.debts[uid] = d
	}
	return d
}

// debtors are the members that may have a copy of an ended object; one whose cache shows none is left out.
func (r *Reconciler) debtors(list *fleetv1alpha1.MemberClusterList, kind render.Kind, e *Ended) map[string]plan.Member {
	out := map[string]plan.Member{}
	d := r.debt(e.UID)
	for i := range list.Items {
		mc := &list.Items[i]
		m := plan.Member{Deleting: mc.DeletionTimestamp != nil}
		var obj *unstructured.Unstructured
		obj, m.Known = r.Members.Child(mc.Name, kind.GVK, types.NamespacedName{Namespace: e.Namespace, Name: e.Name})
		m.Marked = obj != nil && marks(obj, e.UID)
		m.Newer = m.Marked && later(obj, e.intent())
		if m.Known && !m.Marked && !d.posted[mc.Name] {
			continue
		}
		m.Ready, _, m.Blind = r.state(mc.Name, kind)
		m.Delivery.Barred = r.barred(d, mc.Name)
		if d.posted[mc.Name] {
			m.Posted, m.Delivery.Moving = plan.WantDeleted, true
			if o, ok := r.Outbox.Outcome(e.key(mc.Name, kind)); ok {
				m.Delivery = deliveryOf(o, e.UID)
				m.Delivery.Barred = m.Delivery.Barred || o.State == outbox.StateUnwantedDelete
			}
		}
		if m.Delivery.Barred {
			r.mu.Lock()
			d.barred[mc.Name] = true
			r.mu.Unlock()
		}
		out[mc.Name] = m
	}
	return out
}

func (r *Reconciler) barred(d *debt, member string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return d.barred[member]
}

// intent is of the last version that could be sent.
func (e *Ended) intent() render.Intent {
	return render.Intent{Term: e.Term, OwnerUID: e.UID, Generation: e.Version}
}

func (e *Ended) key(member string, kind render.Kind) outbox.Key {
	return outbox.Key{Member: member, GVK: kind.GVK, Namespace: e.Namespace, Name: e.Name}
}

// ask posts the deletes, and withdraws what is answered or will not be.
func (r *Reconciler) ask(ctx context.Context, kind render.Kind, e *Ended, items []plan.Item) {
	d := r.debt(e.UID)
	keep := map[string]bool{}
	for _, i := range items {
		keep[i.Member] = true
		if d.posted[i.Member] && r.lives(e.key(i.Member, kind)) {
			continue
		}
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(kind.GVK)
		obj.SetNamespace(e.Namespace)
		obj.SetName(e.Name)
		klog.FromContext(ctx).Info("Taking back the copy of an object that ended while the member could not be looked at",
			"kind", e.Kind, "object", klog.KRef(e.Namespace, e.Name), "ended", e.At, "MemberCluster", klog.KRef("", i.Member))
		r.Outbox.Post(outbox.Item{
			Member: i.Member, Shared: true, Kind: kind, Owner: endedKey(), Intent: render.Intent{Term: r.Term(), OwnerUID: e.UID},
			Object: obj, Want: changeset.WantDeleted, StillWanted: r.stillOwed(kind, *e, i.Member), Gone: r.goneOwners(kind, e.Namespace, e.Name),
		})
		d.posted[i.Member] = true
	}
	for member := range d.posted {
		if !keep[member] {
			r.Outbox.WithdrawShare(e.key(member, kind), e.UID)
			delete(d.posted, member)
		}
	}
}

// stillOwed answers, by fresh reads, whether the copy of an ended object is still to go from a member.
func (r *Reconciler) stillOwed(kind render.Kind, e Ended, member string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		owes, err := r.Ledger.Owes(ctx, e.UID)
		if err != nil || !owes {
			return false, err
		}
		meta, err := r.fresh(ctx, kind, e.Namespace, e.Name)
		if err != nil {
			return false, err
		}
		if meta != nil && meta.UID == e.UID {
			o, ending, err := r.wanting(ctx, kind, meta)
			if err != nil {
				return false, err
			}
			if wish, _ := plan.WishOf(o, ending); wish != plan.WishRemove {
				return false, nil
			}
		}
		obj, err := r.Members.Get(ctx, member, kind.GVK, types.NamespacedName{Namespace: e.Namespace, Name: e.Name})
		if err != nil || later(obj, e.intent()) {
			return false, wrap("reading the copy", client.IgnoreNotFound(err))
		}
		mc := &fleetv1alpha1.MemberCluster{}
		if err := r.Live.Get(ctx, types.NamespacedName{Name: member}, mc); err != nil {
			return false, wrap("reading the MemberCluster", client.IgnoreNotFound(err))
		}
		return mc.DeletionTimestamp == nil, nil
	}
}

// retire forgets the kinds that were given up, when no object of theirs is held any more.
func (r *Reconciler) retire(ctx context.Context) error {
	for _, kind := range r.Retired {
		r.mu.Lock()
		done := r.retired[kind.GVK.GroupKind()]
		r.mu.Unlock()
		if done {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GVK.GroupVersion().WithKind(kind.GVK.Kind + "List"))
		err := r.Live.List(ctx, list)
		if apierrors.IsForbidden(err) {
			continue // the watch has said so
		}
		if err != nil {
			return wrap("listing "+kind.Resource, err)
		}
		held := 0
		for i := range list.Items {
			if isHeld(&list.Items[i]) {
				held++
			}
		}
		if held > 0 {
			continue
		}
		if err := r.Ledger.DropKind(ctx, kind.GVK.GroupKind()); err != nil {
			return err
		}
		klog.FromContext(ctx).Info("A kind that was taken out of --propagate-kinds is given up: none of its objects is held any more", "kind", kind.GVK.GroupKind())
		r.mu.Lock()
		r.retired[kind.GVK.GroupKind()] = true
		r.mu.Unlock()
	}
	return nil
}

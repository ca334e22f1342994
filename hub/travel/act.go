package travel

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/travel/plan"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// fieldManager of the finalizer.
const fieldManager = appsv1alpha1.FieldManagerHub

// act carries a decision out and says when to look again.
func (r *Reconciler) act(ctx context.Context, seen *observation, d *plan.Decision) (time.Duration, error) {
	if err := r.account(ctx, seen, d); err != nil {
		return 0, err
	}
	if !d.Stay {
		r.post(ctx, seen, d.Items)
	}
	r.count(seen, &d.Summary)
	again := soonest(r.tell(seen, &d.Summary), d.LookAgainIn)
	if !d.Hold && !d.Release && d.Confirm == nil {
		return again, nil
	}
	err := r.mark(ctx, seen, d)
	if apierrors.IsForbidden(err) {
		r.refused(seen, err)
		return r.SettleTime, nil
	}
	if apierrors.IsInvalid(err) && !d.Hold && !d.Release {
		return again, nil // the names of a confirmation do not fit beside the object's own annotations
	}
	if err != nil {
		return 0, err
	}
	if d.Release {
		r.released(seen, &d.Summary)
		return 0, nil
	}
	return again, nil
}

// soonest is the smaller of two times that are set.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// mark puts the finalizer on or takes it off, and a used confirmation, bound to what was judged.
func (r *Reconciler) mark(ctx context.Context, seen *observation, d *plan.Decision) error {
	meta := map[string]any{"uid": string(seen.meta.UID), "resourceVersion": seen.meta.ResourceVersion}
	switch {
	case d.Hold:
		meta["finalizers"] = append(slices.Clone(seen.meta.Finalizers), appsv1alpha1.FinalizerCopies)
	case d.Release:
		meta["finalizers"] = slices.DeleteFunc(slices.Clone(seen.meta.Finalizers), func(f string) bool { return f == appsv1alpha1.FinalizerCopies })
	}
	if d.Confirm != nil {
		var value any // nil takes it off
		if *d.Confirm != "" {
			value = *d.Confirm
		}
		meta["annotations"] = map[string]any{appsv1alpha1.AnnotationConfirm: value}
	}
	body, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return wrap("writing the patch", err)
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(seen.kind.GVK)
	obj.Namespace, obj.Name = seen.meta.Namespace, seen.meta.Name
	return wrap("marking "+seen.key.String(), r.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)))
}

// account notes what is owed before an object is released, and that nothing is once it travels, or lets its copies go.
func (r *Reconciler) account(ctx context.Context, seen *observation, d *plan.Decision) error {
	switch {
	case d.Wish == plan.WishTravel, d.Wish == plan.WishLetGo:
		return r.Ledger.Drop(ctx, seen.Object.UID)
	case d.Owed:
		version, err := strconv.ParseInt(seen.meta.ResourceVersion, 10, 64)
		if err != nil {
			return wrap("reading the version of "+seen.key.String(), err)
		}
		return r.Ledger.Add(ctx, Ended{
			UID: seen.Object.UID, Kind: seen.Object.Kind, Namespace: seen.meta.Namespace, Name: seen.meta.Name,
			At: r.Clock.Now().UTC().Truncate(time.Second), Term: r.Term(), Version: version,
		})
	}
	return nil
}

// released forgets an object that has no copies any more.
func (r *Reconciler) released(seen *observation, s *plan.Summary) {
	if !seen.Object.Deleting {
		r.event(seen, s.Warning, s.Reason, s.Note)
	}
	r.forget(seen.key)
	r.ringEnded()
}

// post hands the wishes to the outbox and takes back those that are not wanted any more.
func (r *Reconciler) post(ctx context.Context, seen *observation, items []plan.Item) {
	m := seen.memory
	keep, prints := make(map[string]bool, len(items)), map[plan.Want]string{}
	for _, i := range items {
		keep[i.Member] = true
		mark := prints[i.Want]
		if mark == "" {
			mark = fmt.Sprint(i.Want, m.version, m.hash, r.Term(), seen.Object.Annotations[appsv1alpha1.AnnotationAdopt], seen.Ending)
			prints[i.Want] = mark // one for a thousand members
		}
		if m.marks[i.Member] == mark && r.lives(seen.outboxKey(i.Member)) {
			continue
		}
		item, ok := r.item(seen, i)
		if !ok {
			continue
		}
		klog.FromContext(ctx).V(2).Info("Posted an object that travels by label", "object", seen.key, "MemberCluster", klog.KRef("", i.Member), "want", i.Want)
		r.Outbox.Post(item)
		r.mu.Lock()
		m.posted[i.Member], m.marks[i.Member] = i.Want, mark
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.withdraw(seen.key, m, keep)
	for name, was := range seen.Members {
		if want := was.Remembered(); !keep[name] && want != plan.WantNothing {
			m.posted[name] = want
		}
	}
}

// lives is false for what was posted and rests until it is posted anew.
func (r *Reconciler) lives(key outbox.Key) bool {
	o, ok := r.Outbox.Outcome(key)
	return ok && o.State != outbox.StateReplan && o.State != outbox.StateNotLeading && o.State != outbox.StateUnwantedDelete
}

func (r *Reconciler) item(seen *observation, i plan.Item) (outbox.Item, bool) {
	uid, term := seen.Object.UID, r.Term()
	out := outbox.Item{
		Member: i.Member, Shared: true, Kind: seen.kind, Owner: seen.key, Intent: render.Intent{Term: term, OwnerUID: uid},
		EnsureNamespace: true, Gone: r.goneOwners(seen.kind, seen.meta.Namespace, seen.meta.Name),
	}
	switch i.Want {
	case plan.WantApplied:
		if seen.memory.prepared == nil {
			return outbox.Item{}, false
		}
		out.Want, out.Object = changeset.WantApplied, seen.memory.prepared
		out.Adopt, _ = plan.AdoptOf(seen.Object.Annotations)
		out.Source = render.Intent{Term: term, OwnerUID: uid, Generation: seen.memory.version}
		out.CurrentSource = r.currentSource(seen.kind, seen.meta.Namespace, seen.meta.Name)
		return out, true
	case plan.WantDeleted:
		out.Want, out.StillWanted = changeset.WantDeleted, r.stillLeaves(seen, i.Member, plan.WishRemove)
	case plan.WantLetGo:
		out.Want, out.StillWanted = changeset.WantOrphaned, r.stillLeaves(seen, i.Member, plan.WishLetGo)
	case plan.WantNothing:
		return outbox.Item{}, false
	}
	out.Object = &unstructured.Unstructured{}
	out.Object.SetGroupVersionKind(seen.kind.GVK)
	out.Object.SetNamespace(seen.meta.Namespace)
	out.Object.SetName(seen.meta.Name)
	return out, true
}

// fresh is a quorum read of an object's metadata; nil when it does not exist.
func (r *Reconciler) fresh(ctx context.Context, kind render.Kind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(kind.GVK)
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, meta)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return meta, wrap("reading "+kind.GVK.Kind+" "+name, err)
}

func (r *Reconciler) currentSource(kind render.Kind, namespace, name string) func(context.Context) (render.Intent, bool, error) {
	return func(ctx context.Context) (render.Intent, bool, error) {
		meta, err := r.fresh(ctx, kind, namespace, name)
		if err != nil || meta == nil {
			return render.Intent{}, false, err
		}
		version, err := strconv.ParseInt(meta.ResourceVersion, 10, 64)
		return render.Intent{Term: r.Term(), OwnerUID: meta.UID, Generation: version}, err == nil, wrap("reading the version of "+name, err)
	}
}

// goneOwners names the owners that do not exist: neither the hub's object nor a UnitedDeployment has that UID.
func (r *Reconciler) goneOwners(kind render.Kind, namespace, name string) func(context.Context, []string) ([]string, error) {
	return func(ctx context.Context, owners []string) ([]string, error) {
		meta, err := r.fresh(ctx, kind, namespace, name)
		if err != nil {
			return nil, err
		}
		alive := map[string]bool{}
		if meta != nil {
			alive[string(meta.UID)] = true
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(appsv1alpha1.GroupVersion.WithKind("UnitedDeploymentList"))
		if err := r.Live.List(ctx, list); err != nil {
			return nil, wrap("listing UnitedDeployments", err)
		}
		for i := range list.Items {
			alive[string(list.Items[i].UID)] = true
		}
		return slices.DeleteFunc(slices.Clone(owners), func(owner string) bool { return alive[owner] }), nil
	}
}

// stillLeaves answers, by fresh reads, whether an object still wants its mark off a member: it exists, is the same one, and
// so does the MemberCluster. Who took the finalizer off took the copies out of our hands.
func (r *Reconciler) stillLeaves(seen *observation, member string, wish plan.Wish) func(context.Context) (bool, error) {
	kind, namespace, name, uid := seen.kind, seen.meta.Namespace, seen.meta.Name, seen.Object.UID
	return func(ctx context.Context) (bool, error) {
		meta, err := r.fresh(ctx, kind, namespace, name)
		if err != nil || meta == nil || meta.UID != uid {
			return false, err
		}
		o, ending, err := r.wanting(ctx, kind, meta)
		if err != nil {
			return false, err
		}
		mc := &fleetv1alpha1.MemberCluster{}
		if err := r.Live.Get(ctx, types.NamespacedName{Name: member}, mc); err != nil {
			return false, wrap("reading the MemberCluster", client.IgnoreNotFound(err))
		}
		return mc.DeletionTimestamp == nil && plan.Leaves(o, ending, mc.Labels, wish), nil
	}
}

// wanting is a freshly read object, and how it ends.
func (r *Reconciler) wanting(ctx context.Context, kind render.Kind, meta *metav1.PartialObjectMetadata) (*plan.Object, plan.Ending, error) {
	var ending plan.Ending
	if meta.DeletionTimestamp != nil {
		var err error
		if ending, err = r.ending(ctx, kind, meta); err != nil {
			return nil, "", err
		}
	}
	o := r.objectOf(kind, meta)
	o.Excluded = content.Excluded(kind.GVK.Kind, meta.Name, meta.Annotations)
	return &o, ending, nil
}

// refused notes that the hub may not hold the object, so that nothing is sent or released.
func (r *Reconciler) refused(seen *observation, err error) {
	r.event(seen, true, plan.ReasonRefused, "Nothing is changed on any member: the hub may not patch "+
		strings.ToLower(seen.kind.Resource)+" here; give it the right, see docs/content.md: "+err.Error())
}

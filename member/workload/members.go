package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
)

// Who belongs to a workload, by the rules of Kubernetes' controllers: a pod that matches the selector and has no controller
// is adopted, with its claims and the revisions it runs; one of ours that does not match any more is let go, with its claims,
// which it goes on using. Both are passes of their own: who should exist is decided when the view shows them.

// askAgain is how long a refused change of owners is not tried again.
const askAgain = 5 * time.Minute

// members are changes of who belongs to the object.
type members struct {
	// join and leave are pods; claims and revisions join with them, and dropped are the claims of who leaves.
	join, leave []corev1.Pod
	// relabel are pods that lack labels of their identity.
	relabel         []inplace.Patch
	claims, dropped []corev1.PersistentVolumeClaim
	revisions       []appsv1.ControllerRevision
}

func (m members) none() bool {
	return len(m.join)+len(m.leave)+len(m.claims)+len(m.dropped)+len(m.revisions)+len(m.relabel) == 0
}

// strangers are what in the namespace has no controller.
type strangers struct {
	pods      []corev1.Pod
	claims    []corev1.PersistentVolumeClaim
	revisions []appsv1.ControllerRevision
}

// family is what belongs to an object now.
type family struct {
	name   string
	pods   []corev1.Pod
	claims []corev1.PersistentVolumeClaim
	// gives reports whether the object gives pods that name; nil: any.
	gives func(pod string) bool
}

// memberships says who joins and who leaves. refused are those whose owner could not be changed before.
func memberships(selector labels.Selector, ours family, others strangers, refused map[types.UID]string) members {
	var m members
	matches := func(it metav1.Object) bool { return selector.Matches(labels.Set(it.GetLabels())) }
	may := func(it metav1.Object) bool { return it.GetDeletionTimestamp() == nil && refused[it.GetUID()] == "" }
	fits := func(p *corev1.Pod) bool { return matches(p) && (ours.gives == nil || ours.gives(p.Name)) }
	joining, leaving, named := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range others.pods {
		if p := &others.pods[i]; may(p) && fits(p) && !ended(p) {
			m.join = append(m.join, *p)
			joining[idOf(p)] = true
			named[p.Labels[appsv1alpha1.LabelPodRevision]] = true
		}
	}
	bound := idsRefused(ours.claims, refused)
	for i := range ours.pods {
		if p := &ours.pods[i]; may(p) && !fits(p) && !bound[idOf(p)] {
			m.leave = append(m.leave, *p)
			leaving[idOf(p)] = true
		}
	}
	for i := range ours.pods {
		// A copy that leaves takes no claims of the pod that stays.
		if p := &ours.pods[i]; fits(p) && !ended(p) {
			delete(leaving, idOf(p))
		}
	}
	of := func(ids map[string]bool) func(corev1.PersistentVolumeClaim) bool {
		return func(c corev1.PersistentVolumeClaim) bool {
			id := idOf(&c)
			return id != "" && ids[id] && strings.HasSuffix(c.Name, "-"+id) && may(&c)
		}
	}
	m.claims, m.dropped = only(others.claims, of(joining)), only(ours.claims, of(leaving))
	m.revisions = only(others.revisions, func(r appsv1.ControllerRevision) bool {
		return may(&r) && matches(&r) && (named[r.Name] || strings.HasPrefix(r.Name, ours.name+"-"))
	})
	return m
}

func only[T any](all []T, match func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(it T) bool { return !match(it) })
}

// idsRefused are the ids of claims whose owner could not be changed: their pods stay with them.
func idsRefused(all []corev1.PersistentVolumeClaim, refused map[types.UID]string) map[string]bool {
	ids := map[string]bool{}
	for i := range all {
		if refused[all[i].UID] != "" {
			ids[idOf(&all[i])] = true
		}
	}
	return ids
}

func idOf(it metav1.Object) string {
	return it.GetLabels()[appsv1alpha1.LabelCloneSetInstanceID]
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// readMembers finds out who joins and who leaves. While it is not known which claims go along it waits: others in their place
// would make them too many, of a revision whose name is taken.
func (r *Reconciler) readMembers(ctx context.Context, seen *observation, ours []corev1.Pod) error {
	selector, err := r.Kind.Selector(seen.obj)
	if err != nil || selector.Empty() || seen.wanted.Intent.Invalid != "" {
		return nil //nolint:nilerr // it is the intent's Invalid: nobody joins or leaves
	}
	others, err := r.strangers(ctx, seen.obj.GetNamespace())
	if err != nil {
		return err
	}
	seen.others = map[string]bool{}
	for i := range others.pods {
		if id := idOf(&others.pods[i]); id != "" {
			seen.others[id] = true
		}
	}
	if !seen.now.Before(seen.book.unclaimableUntil) {
		// What forbade it may have changed.
		clear(seen.book.unclaimable)
		seen.book.unclaimableUntil = seen.now.Add(askAgain)
	}
	mine := family{name: seen.obj.GetName(), pods: ours, claims: seen.claimObjects}
	if r.named != nil {
		mine.gives = func(pod string) bool { return r.named.Gives(seen.obj, pod) }
	}
	seen.book.claimable(mine, others)
	seen.members = memberships(selector, mine, others, seen.book.unclaimable)
	seen.members.relabel = r.lacksLabels(seen, ours)
	if !seen.members.none() && r.named == nil && seen.wanted.Claims && !r.Claims.synced() {
		seen.wait = lookAgain
	}
	return nil
}

// claimable forgets what is not there any more.
func (b *book) claimable(ours family, others strangers) {
	if len(b.unclaimable) == 0 {
		return
	}
	there := map[types.UID]bool{}
	for _, pods := range [][]corev1.Pod{ours.pods, others.pods} {
		for i := range pods {
			there[pods[i].UID] = true
		}
	}
	for _, claims := range [][]corev1.PersistentVolumeClaim{ours.claims, others.claims} {
		for i := range claims {
			there[claims[i].UID] = true
		}
	}
	for i := range others.revisions {
		there[others.revisions[i].UID] = true
	}
	maps.DeleteFunc(b.unclaimable, func(uid types.UID, _ string) bool { return !there[uid] })
}

func (r *Reconciler) strangers(ctx context.Context, namespace string) (strangers, error) {
	var out strangers
	var pods corev1.PodList
	var revisions appsv1.ControllerRevisionList
	claims := &corev1.PersistentVolumeClaimList{}
	for _, list := range []client.ObjectList{&pods, &revisions, claims} {
		if list == claims && !r.Claims.synced() {
			continue
		}
		if err := r.Cache.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{indexController: nobody}); err != nil {
			return out, fmt.Errorf("listing what has no controller: %w", err)
		}
	}
	out.pods, out.revisions, out.claims = pods.Items, revisions.Items, claims.Items
	return out, nil
}

// claim changes the owners of who joins and who leaves, and says whether any was changed. Who cannot be changed is remembered,
// and told; the rest goes on without.
func (r *Reconciler) claim(ctx context.Context, seen *observation) (changed bool, err error) {
	m := seen.members
	if len(m.join)+len(m.claims)+len(m.revisions) > 0 {
		// The cache may show an object that is gone, or going.
		live := r.Kind.New()
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen.obj), live); err != nil {
			return false, fmt.Errorf("reading the object that adopts: %w", err)
		}
		if live.GetUID() != seen.obj.GetUID() || live.GetDeletionTimestamp() != nil {
			return true, nil
		}
	}
	t := &claiming{reconciler: r, seen: seen, held: map[string]bool{}}
	t.joins(ctx, m)
	t.leaves(ctx, m)
	t.relabels(ctx, m)
	seen.book.wrote(t.result, r.Clock.Now())
	if t.changed > 0 {
		ctrl.LoggerFrom(ctx).Info("Changed who belongs to it", "joined", len(t.done.join), "left", len(t.done.leave), "written", t.changed)
		for _, e := range membershipEvents(t.done) {
			r.emit(seen, e)
		}
	}
	return t.changed > 0, errors.Join(t.errs...)
}

func without(owners []metav1.OwnerReference, uid types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// claiming is one run of claim.
type claiming struct {
	reconciler *Reconciler
	seen       *observation
	result     podwriter.Result
	changed    int
	errs       []error
	// behind is set when something was not written and may be the next time.
	behind bool
	// done are the pods that did join and leave.
	done members
	// held are the ids of pods whose claims could not be let go.
	held map[string]bool
}

// joins adopts; what a pod needs comes before it.
func (c *claiming) joins(ctx context.Context, m members) {
	me := c.reconciler.ownerReference(c.seen.obj)
	for i := range m.revisions {
		c.revision(ctx, &m.revisions[i], me)
	}
	for i := range m.claims {
		c.claim(ctx, &m.claims[i], append(slices.Clone(m.claims[i].OwnerReferences), me))
	}
	if c.behind {
		// What is left behind now would never join: it comes only with a pod that joins.
		return
	}
	for i := range m.join {
		if c.pod(ctx, &m.join[i], append(slices.Clone(m.join[i].OwnerReferences), me)) {
			c.done.join = append(c.done.join, m.join[i])
		}
	}
}

// leaves lets go. A pod stays until its claims could go: without a pod of ours, a claim of ours is deleted.
func (c *claiming) leaves(ctx context.Context, m members) {
	me := c.seen.obj.GetUID()
	for i := range m.dropped {
		if !c.claim(ctx, &m.dropped[i], without(m.dropped[i].OwnerReferences, me)) {
			c.held[idOf(&m.dropped[i])] = true
		}
	}
	for i := range m.leave {
		if !c.held[idOf(&m.leave[i])] && c.pod(ctx, &m.leave[i], without(m.leave[i].OwnerReferences, me)) {
			c.done.leave = append(c.done.leave, m.leave[i])
		}
	}
}

func (c *claiming) claim(ctx context.Context, it metav1.Object, owners []metav1.OwnerReference) (ok bool) {
	made, err := c.reconciler.pods.SetOwners(ctx, handle(it, "PersistentVolumeClaim"), owners)
	if err == nil {
		c.result.Claims = append(c.result.Claims, made)
	}
	c.note(it, err)
	return err == nil
}

func (c *claiming) pod(ctx context.Context, it metav1.Object, owners []metav1.OwnerReference) (ok bool) {
	made, err := c.reconciler.pods.SetOwners(ctx, handle(it, "Pod"), owners)
	if err == nil {
		c.result.Written = append(c.result.Written, made)
	}
	c.note(it, err)
	return err == nil
}

func handle(it metav1.Object, kind string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: it.GetNamespace(), Name: it.GetName(), UID: it.GetUID(), ResourceVersion: it.GetResourceVersion(),
	}}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return m
}

func (c *claiming) revision(ctx context.Context, r *appsv1.ControllerRevision, me metav1.OwnerReference) {
	after := r.DeepCopy()
	after.OwnerReferences = append(after.OwnerReferences, me)
	patch := client.MergeFromWithOptions(r, client.MergeFromWithOptimisticLock{})
	c.note(r, c.reconciler.Live.Patch(ctx, after, patch, client.FieldOwner(appsv1alpha1.FieldManagerMember)))
}

// note counts a change, and remembers what is refused.
func (c *claiming) note(it metav1.Object, err error) {
	switch {
	case err == nil:
		c.changed++
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		// Another version is there, and is looked at next.
		c.changed++
		c.behind = true
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		if c.seen.book.unclaimable == nil {
			c.seen.book.unclaimable = map[types.UID]string{}
		}
		c.seen.book.unclaimable[it.GetUID()] = fmt.Sprintf("%s can neither join nor leave: %v", it.GetName(), err)
	default:
		c.errs, c.behind = append(c.errs, err), true
	}
}

// wouldJoin are the objects of the kind that a pod without a controller may be adopted by.
func (r *Reconciler) wouldJoin(ctx context.Context, pod *corev1.Pod) []ctrl.Request {
	return r.those(ctx, pod.Namespace, func(obj client.Object) bool {
		selector, err := r.Kind.Selector(obj)
		return err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) && (r.named == nil || r.named.Gives(obj, pod.Name))
	})
}

// those are the objects of the kind that match.
func (r *Reconciler) those(ctx context.Context, namespace string, match func(client.Object) bool) []ctrl.Request {
	list, ok := r.newList()
	if !ok || r.Cache.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	var out []ctrl.Request
	_ = apimeta.EachListItem(list, func(o runtime.Object) error {
		obj, ok := o.(client.Object)
		if !ok {
			return nil
		}
		if match(obj) {
			out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
		return nil
	})
	return out
}

// newList is an empty list of the kind.
func (r *Reconciler) newList() (client.ObjectList, bool) {
	gvk := r.Resource.GroupVersionKind
	gvk.Kind += "List"
	empty, err := r.Live.Scheme().New(gvk)
	if err != nil {
		return nil, false
	}
	list, ok := empty.(client.ObjectList)
	return list, ok
}

package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	"github.com/underway-dev/underway/inplace/podwriter"
)

// Who belongs to a workload, by the rules of Kubernetes' controllers: a pod that matches the selector and has no controller
// is adopted, with its claims and the revisions it runs; one of ours that does not match any more is let go. Both are passes
// of their own: who should exist is decided when the view shows them.

// members are changes of who belongs to the object.
type members struct {
	// join and leave are pods, claims and revisions join with them.
	join, leave []corev1.Pod
	claims      []metav1.PartialObjectMetadata
	revisions   []appsv1.ControllerRevision
}

func (m members) none() bool {
	return len(m.join)+len(m.leave)+len(m.claims)+len(m.revisions) == 0
}

// strangers are what in the namespace has no controller.
type strangers struct {
	pods      []corev1.Pod
	claims    []metav1.PartialObjectMetadata
	revisions []appsv1.ControllerRevision
}

// memberships says who joins and who leaves. refused are pods whose owner could not be changed before.
func memberships(name string, selector labels.Selector, ours []corev1.Pod, others strangers, refused map[types.UID]string) members {
	var m members
	ids, named := map[string]bool{}, map[string]bool{}
	for i := range others.pods {
		p := &others.pods[i]
		if p.DeletionTimestamp != nil || ended(p) || refused[p.UID] != "" || !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		m.join = append(m.join, *p)
		ids[p.Labels[appsv1alpha1.LabelCloneSetInstanceID]] = true
		named[p.Labels[appsv1alpha1.LabelPodRevision]] = true
	}
	for i := range ours {
		p := &ours[i]
		if p.DeletionTimestamp == nil && refused[p.UID] == "" && !selector.Matches(labels.Set(p.Labels)) {
			m.leave = append(m.leave, *p)
		}
	}
	for i := range others.claims {
		c := &others.claims[i]
		id := c.Labels[appsv1alpha1.LabelCloneSetInstanceID]
		if id != "" && ids[id] && c.DeletionTimestamp == nil && strings.HasSuffix(c.Name, "-"+id) && refused[c.UID] == "" {
			m.claims = append(m.claims, *c)
		}
	}
	for i := range others.revisions {
		r := &others.revisions[i]
		if (named[r.Name] || strings.HasPrefix(r.Name, name+"-")) && selector.Matches(labels.Set(r.Labels)) &&
			r.DeletionTimestamp == nil && refused[r.UID] == "" {
			m.revisions = append(m.revisions, *r)
		}
	}
	return m
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// readMembers finds out who joins and who leaves.
func (r *Reconciler) readMembers(ctx context.Context, seen *observation, ours []corev1.Pod) error {
	selector, err := r.Kind.Selector(seen.obj)
	if err != nil || selector.Empty() || seen.wanted.Intent.Invalid != "" {
		return nil //nolint:nilerr // it is the intent's Invalid: nobody joins or leaves
	}
	others, err := r.strangers(ctx, seen.obj.GetNamespace())
	if err != nil {
		return err
	}
	seen.book.claimable(append(slices.Clone(ours), others.pods...), others)
	seen.members = memberships(seen.obj.GetName(), selector, ours, others, seen.book.unclaimable)
	return nil
}

// claimable forgets what is not there any more.
func (b *book) claimable(pods []corev1.Pod, others strangers) {
	if len(b.unclaimable) == 0 {
		return
	}
	there := map[types.UID]bool{}
	for i := range pods {
		there[pods[i].UID] = true
	}
	for i := range others.claims {
		there[others.claims[i].UID] = true
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
	claims := claimList()
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

// claim changes the owners of who joins and who leaves, and says whether any was changed. What a pod needs joins before it.
// Who cannot be changed is remembered, and told; the rest goes on without.
func (r *Reconciler) claim(ctx context.Context, seen *observation) (changed bool, err error) {
	m, logger := seen.members, ctrl.LoggerFrom(ctx)
	if len(m.join) > 0 || len(m.claims) > 0 || len(m.revisions) > 0 {
		// As the cache may show an object that is gone, or going.
		live := r.Kind.New()
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen.obj), live); err != nil {
			return false, fmt.Errorf("reading the object that adopts: %w", err)
		}
		if live.GetUID() != seen.obj.GetUID() || live.GetDeletionTimestamp() != nil {
			return true, nil
		}
	}
	me := r.ownerReference(seen.obj)
	t := &claiming{reconciler: r, seen: seen}
	for i := range m.revisions {
		t.revision(ctx, &m.revisions[i], me)
	}
	for i := range m.claims {
		if version, ok := t.owners(ctx, handle(&m.claims[i], "PersistentVolumeClaim"), append(slices.Clone(m.claims[i].OwnerReferences), me)); ok {
			t.result.Claims = append(t.result.Claims, version)
		}
	}
	for i := range m.join {
		if version, ok := t.owners(ctx, handle(&m.join[i], "Pod"), append(slices.Clone(m.join[i].OwnerReferences), me)); ok {
			t.result.Written = append(t.result.Written, version)
		}
	}
	for i := range m.leave {
		rest := slices.DeleteFunc(slices.Clone(m.leave[i].OwnerReferences), func(o metav1.OwnerReference) bool { return o.UID == me.UID })
		if version, ok := t.owners(ctx, handle(&m.leave[i], "Pod"), rest); ok {
			t.result.Written = append(t.result.Written, version)
		}
	}
	seen.book.wrote(t.result, r.Clock.Now())
	if t.changed > 0 {
		logger.Info("Changed who belongs to it", "joined", len(m.join), "left", len(m.leave), "written", t.changed)
		for _, e := range membershipEvents(m) {
			r.emit(seen, e)
		}
	}
	return t.changed > 0, errors.Join(t.errs...)
}

// claiming is one run of claim.
type claiming struct {
	reconciler *Reconciler
	seen       *observation
	result     podwriter.Result
	changed    int
	errs       []error
}

func handle(it metav1.Object, kind string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: it.GetNamespace(), Name: it.GetName(), UID: it.GetUID(), ResourceVersion: it.GetResourceVersion(),
	}}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return m
}

func (c *claiming) owners(ctx context.Context, it *metav1.PartialObjectMetadata, owners []metav1.OwnerReference) (podwriter.Written, bool) {
	made, err := c.reconciler.pods.SetOwners(ctx, it, owners)
	c.note(it, err)
	return made, err == nil
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
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		if c.seen.book.unclaimable == nil {
			c.seen.book.unclaimable = map[types.UID]string{}
		}
		c.seen.book.unclaimable[it.GetUID()] = fmt.Sprintf("%s can neither join nor leave: %v", it.GetName(), err)
	default:
		c.errs = append(c.errs, err)
	}
}

// wouldJoin are the objects of the kind that a pod without a controller may be adopted by.
func (r *Reconciler) wouldJoin(ctx context.Context, pod *corev1.Pod) []ctrl.Request {
	list, ok := r.newList()
	if !ok || r.Cache.List(ctx, list, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	var out []ctrl.Request
	_ = apimeta.EachListItem(list, func(o runtime.Object) error {
		obj, ok := o.(client.Object)
		if !ok {
			return nil
		}
		if selector, err := r.Kind.Selector(obj); err == nil && !selector.Empty() && selector.Matches(labels.Set(pod.Labels)) {
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

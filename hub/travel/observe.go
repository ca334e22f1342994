package travel

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/travel/plan"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// observation is what one pass saw, with what only acting needs.
type observation struct {
	plan.Observation

	key    types.NamespacedName
	kind   render.Kind
	meta   *metav1.PartialObjectMetadata
	memory *memory
}

// concerns is true for an object that travels, or that we hold.
func concerns(meta *metav1.PartialObjectMetadata) bool {
	_, labelled := meta.Labels[appsv1alpha1.LabelPropagate]
	return labelled || isHeld(meta)
}

func isHeld(meta *metav1.PartialObjectMetadata) bool {
	return slices.Contains(meta.Finalizers, appsv1alpha1.FinalizerCopies)
}

func (r *Reconciler) observe(ctx context.Context, kind render.Kind, meta *metav1.PartialObjectMetadata, m *memory) (*observation, error) {
	seen := &observation{
		Observation: plan.Observation{Object: r.objectOf(kind, meta), Members: make(map[string]plan.Member, len(m.posted))},
		key:         Key(kind.GVK.GroupKind(), meta.Namespace, meta.Name), kind: kind, meta: meta, memory: m,
	}
	if meta.DeletionTimestamp != nil {
		ending, err := r.ending(ctx, kind, meta)
		if err != nil {
			return nil, err
		}
		seen.Ending = ending
	} else if seen.Object.Retired {
		m.excluded = ""
	} else if err := r.read(ctx, seen); err != nil {
		return nil, err
	}
	seen.Object.Excluded = m.excluded
	return seen, r.observeMembers(ctx, seen)
}

func (r *Reconciler) objectOf(kind render.Kind, meta *metav1.PartialObjectMetadata) plan.Object {
	return plan.Object{
		Kind: kind.GVK.GroupKind().String(), Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
		Labels: meta.Labels, Annotations: meta.Annotations,
		Finalized: isHeld(meta), Deleting: meta.DeletionTimestamp != nil,
		Retired: slices.ContainsFunc(r.Retired, func(k render.Kind) bool { return k.GVK.GroupKind() == kind.GVK.GroupKind() }),
	}
}

// read reads the object itself, once per version. A version counts as new only when what is sent is another: its status may
// change every second.
func (r *Reconciler) read(ctx context.Context, seen *observation) error {
	m := seen.memory
	version, err := strconv.ParseInt(seen.meta.ResourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("reading the version of %s: %w", seen.key, err)
	}
	outdated := r.outdated(seen)
	if (m.seenVersion >= version && !outdated) || seen.Object.Labels[appsv1alpha1.LabelPropagate] != "true" {
		return nil
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(seen.kind.GVK)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen.meta), obj); err != nil {
		return wrap("reading "+seen.key.String(), err)
	}
	if obj.GetUID() != m.uid {
		return apierrors.NewConflict(seen.kind.GVR().GroupResource(), seen.meta.Name, errAnother)
	}
	prepared, excluded := content.Prepare(obj)
	if m.seenVersion, err = strconv.ParseInt(obj.GetResourceVersion(), 10, 64); err != nil {
		return fmt.Errorf("reading the version of %s: %w", seen.key, err)
	}
	m.excluded = excluded
	if prepared == nil {
		m.prepared, m.hash = nil, ""
		return nil
	}
	if hash := changeset.Hash(prepared); hash != m.hash || m.prepared == nil || outdated {
		m.prepared, m.hash, m.version = prepared, hash, m.seenVersion
	}
	return nil
}

// outdated is true when a copy is of a later version than what was asked for: another owner has sent the same object since.
func (r *Reconciler) outdated(seen *observation) bool {
	for member := range seen.memory.posted {
		if o, ok := r.Outbox.Outcome(seen.outboxKey(member)); ok && o.State == outbox.StateReplan {
			return true
		}
	}
	return false
}

// observeMembers reads every MemberCluster. A list that fails is an error, never "no members".
func (r *Reconciler) observeMembers(ctx context.Context, seen *observation) error {
	list := &fleetv1alpha1.MemberClusterList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing members: %w", err)
	}
	ns := &corev1.Namespace{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: seen.meta.Namespace}, ns); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	selector, unreadable := plan.SelectorOf(seen.Object.Annotations)
	for i := range list.Items {
		mc := &list.Items[i]
		m := plan.Member{Labels: mc.Labels, Deleting: mc.DeletionTimestamp != nil}
		r.copyOn(seen, mc.Name, &m)
		elsewhere := unreadable == nil && !selector.Matches(labels.Set(mc.Labels))
		if _, left := seen.memory.left[mc.Name]; elsewhere && !left && m.Known && !m.Marked && m.Posted == plan.WantNothing {
			continue // nothing is there, and nothing is to be
		}
		r.delivered(seen, mc.Name, &m)
		r.left(seen, mc.Name, &m, elsewhere && m.Has())
		m.NotAllowed = notAllowed(mc, ns)
		seen.Members[mc.Name] = m
	}
	return nil
}

// left notes since when a member misses: it is not selected and has a copy. That is remembered for as long again, so that many
// in a row are seen as many.
func (r *Reconciler) left(seen *observation, name string, m *plan.Member, misses bool) {
	since, ok := seen.memory.left[name]
	if !ok && !misses {
		return
	}
	now := r.Clock.Now()
	switch {
	case misses && !ok:
		since = now
		seen.memory.left[name] = now
	case misses:
	case m.Marked, now.Sub(since) >= 2*plan.LeaveAfter: // selected again, or long gone
		delete(seen.memory.left, name)
		return
	}
	m.Left, m.LeftFor = true, now.Sub(since)
}

// notAllowed says why a member takes nothing of a namespace.
func notAllowed(mc *fleetv1alpha1.MemberCluster, ns *corev1.Namespace) string {
	selector, err := metav1.LabelSelectorAsSelector(mc.Spec.AllowedNamespaces) // nil selects nothing
	switch {
	case err != nil:
		return "spec.allowedNamespaces of the MemberCluster cannot be read: " + err.Error()
	case !selector.Matches(labels.Set(ns.Labels)):
		return "spec.allowedNamespaces of the MemberCluster does not select namespace " + ns.Name
	}
	return ""
}

// copyOn reads what the hub's cache shows of a copy, and what was asked for.
func (r *Reconciler) copyOn(seen *observation, name string, m *plan.Member) {
	m.Posted = seen.memory.posted[name]
	obj, known := r.Members.Child(name, seen.kind.GVK, client.ObjectKeyFromObject(seen.meta))
	m.Known = known
	m.Marked = obj != nil && marks(obj, seen.Object.UID)
	m.Newer = m.Marked && r.newer(obj, seen)
}

// delivered reads one connection, and what became of what was asked for. Its words are stable.
func (r *Reconciler) delivered(seen *observation, name string, m *plan.Member) {
	m.Ready, m.Problem, m.Blind = r.state(name, seen.kind)
	if m.Posted == plan.WantNothing {
		return
	}
	if o, posted := r.Outbox.Outcome(seen.outboxKey(name)); posted {
		m.Delivery = deliveryOf(o, seen.Object.UID)
	} else {
		m.Delivery.Moving = true
	}
}

// state is whether a member is ready, what keeps it from being so, and whether the hub will not see the kind there by waiting.
func (r *Reconciler) state(name string, kind render.Kind) (ready bool, problem string, isBlind bool) {
	view, ok := r.Members.View(name)
	return ok && view.State == clusters.StateReady, problemOf(view, ok), ok && blind(view, kind)
}

// marks is true for a copy that carries an owner's mark.
func marks(obj *unstructured.Unstructured, owner types.UID) bool {
	_, there := annotation(obj, appsv1alpha1.AnnotationOwnerPrefix+string(owner))
	return there
}

// annotation reads one without copying all, as GetAnnotations does: it is asked for on each member in each pass.
func annotation(obj *unstructured.Unstructured, name string) (string, bool) {
	meta, _ := obj.Object["metadata"].(map[string]any)
	all, _ := meta["annotations"].(map[string]any)
	value, there := all[name].(string)
	return value, there
}

// blind is true where the kind is not served, or is kept from the hub.
func blind(view clusters.View, kind render.Kind) bool {
	return slices.ContainsFunc(view.Kinds, func(k clusters.KindView) bool {
		return view.State == clusters.StateReady && k.GVK.GroupKind() == kind.GVK.GroupKind() && (!k.Served || k.Refused != "")
	})
}

func (seen *observation) outboxKey(member string) outbox.Key {
	return outbox.Key{Member: member, GVK: seen.kind.GVK, Namespace: seen.meta.Namespace, Name: seen.meta.Name}
}

// newer is true for a copy of a later version of the object than the hub has: the hub was restored from a backup.
func (r *Reconciler) newer(obj *unstructured.Unstructured, seen *observation) bool {
	version, err := strconv.ParseInt(seen.meta.ResourceVersion, 10, 64)
	return err == nil && later(obj, render.Intent{Term: r.Term(), OwnerUID: seen.Object.UID, Generation: version})
}

// later is true for a copy of a later version than one.
func later(obj *unstructured.Unstructured, than render.Intent) bool {
	text, _ := annotation(obj, appsv1alpha1.AnnotationIntent)
	there, err := render.ParseIntent(text)
	if err != nil {
		return false
	}
	order, ordered := there.Compare(than)
	return ordered && order > 0
}

func problemOf(view clusters.View, connected bool) string {
	switch {
	case !connected:
		return "there is no connection to it"
	case view.State == clusters.StateReady:
		return ""
	case view.Block == clusters.BlockUnreachable:
		return "it does not answer"
	case view.Block == clusters.BlockUnauthorized:
		return "it refuses the credential"
	case view.Block != "":
		return string(view.Block)
	}
	return "it is not ready"
}

// ending reads, from the API server, what the deletion of an object means for its copies. What cannot be read is an error:
// nothing is taken away then.
func (r *Reconciler) ending(ctx context.Context, kind render.Kind, meta *metav1.PartialObjectMetadata) (plan.Ending, error) {
	r.mu.Lock()
	m := r.memory[Key(kind.GVK.GroupKind(), meta.Namespace, meta.Name)]
	orphan := m != nil && m.uid == meta.UID && m.orphan
	r.mu.Unlock()
	if orphan || slices.Contains(meta.Finalizers, metav1.FinalizerOrphanDependents) {
		return plan.EndingOrphan, nil
	}
	going, err := r.going(ctx, &corev1.Namespace{}, meta.Namespace)
	if err != nil || going {
		return plan.EndingOrphan, wrap("reading the namespace", err)
	}
	if strings.Contains(kind.GVK.Group, ".") {
		// Of the API server's own kinds there is no CRD.
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		err := r.Live.Get(ctx, types.NamespacedName{Name: kind.GVR().GroupResource().String()}, crd)
		if client.IgnoreNotFound(err) != nil || (err == nil && crd.DeletionTimestamp != nil) {
			return plan.EndingOrphan, wrap("reading the CRD", err)
		}
	}
	return plan.EndingDelete, nil
}

// going is true for an object that is gone or being deleted.
func (r *Reconciler) going(ctx context.Context, obj client.Object, name string) (bool, error) {
	err := r.Live.Get(ctx, types.NamespacedName{Name: name}, obj)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && obj.GetDeletionTimestamp() != nil, err
}

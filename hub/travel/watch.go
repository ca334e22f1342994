package travel

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// SetupWithManager adds the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	r.ringEnded()
	everyone := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return requests(r.known()) })
	return wrap("building the controller", ctrl.NewControllerManagedBy(mgr).
		Named("travel").
		Watches(&fleetv1alpha1.MemberCluster{}, everyone,
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(r.ring).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r))
}

func (r *Reconciler) ofNamespace(_ context.Context, obj client.Object) []reconcile.Request {
	return requests(slices.DeleteFunc(r.known(), func(key types.NamespacedName) bool { return key.Namespace != obj.GetName() }))
}

func requests(keys []types.NamespacedName) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(keys))
	for _, key := range keys {
		out = append(out, reconcile.Request{NamespacedName: key})
	}
	return out
}

// Watch has the hub's objects of every kind watched, by their metadata, in a cache that is not started yet.
func (r *Reconciler) Watch(ctx context.Context, meta cache.Cache) error {
	for _, kind := range r.Kinds {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(kind.GVK)
		informer, err := meta.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return wrap("watching "+kind.Resource, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { r.changed(kind, obj) },
			UpdateFunc: func(_, obj any) { r.changed(kind, obj) },
			DeleteFunc: func(obj any) { r.changed(kind, obj) },
		}); err != nil {
			return wrap("watching "+kind.Resource, err)
		}
	}
	return nil
}

// changed wakes an object of the hub that travels or did, and notes that somebody deletes it without its copies.
func (r *Reconciler) changed(kind render.Kind, obj any) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	meta, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	key := Key(kind.GVK.GroupKind(), meta.Namespace, meta.Name)
	r.mu.Lock()
	m := r.memory[key]
	if m != nil && m.uid == meta.UID && slices.Contains(meta.Finalizers, metav1.FinalizerOrphanDependents) {
		m.orphan = true
	}
	r.mu.Unlock()
	if m != nil || concerns(meta) {
		r.ring.Ring(reconcile.Request{NamespacedName: key})
	}
}

package united

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/bell"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/propagation/clusters"
)

// SetupWithManager adds the controller. ring wakes it from outside: with a name one object, without any all of them.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, ring *bell.Bell, workers int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("uniteddeployment").
		For(&appsv1alpha1.UnitedDeployment{}).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&fleetv1alpha1.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofMember),
			builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, grantsChanged()))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(ring).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Concerned are the objects that have, or are to have, something on a member: by spec, by status, or because a template of
// subsets selects it. An empty name is the hub's own cluster.
func (r *Reconciler) Concerned(ctx context.Context, member string) []reconcile.Request {
	mc := &fleetv1alpha1.MemberCluster{}
	mc.Name = member
	if member != clusters.Local {
		if err := r.Client.Get(ctx, types.NamespacedName{Name: member}, mc); client.IgnoreNotFound(err) != nil {
			klog.FromContext(ctx).Error(err, "Reading a MemberCluster failed", "MemberCluster", klog.KRef("", member))
		}
	}
	return r.ofMember(ctx, mc)
}

// grantsChanged lets through what opens or closes a member for grants.
func grantsChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*fleetv1alpha1.MemberCluster)
		now, okNow := e.ObjectNew.(*fleetv1alpha1.MemberCluster)
		return ok && okNow && was.NoNewGrants() != now.NoNewGrants()
	}}
}

// Everyone are all objects.
func (r *Reconciler) Everyone(ctx context.Context) []reconcile.Request {
	return r.list(ctx, func(*appsv1alpha1.UnitedDeployment) bool { return true })
}

// ofMember is asked with the labels as they were and as they are: who leaves concerns an object, too.
func (r *Reconciler) ofMember(ctx context.Context, obj client.Object) []reconcile.Request {
	member := obj.GetName()
	return r.list(ctx, func(ud *appsv1alpha1.UnitedDeployment) bool {
		return slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s appsv1alpha1.Subset) bool { return s.Cluster == member }) ||
			slices.ContainsFunc(ud.Status.SubsetStatuses, func(s appsv1alpha1.SubsetStatus) bool { return s.Cluster == member }) ||
			(member != clusters.Local && plan.Selects(ud, obj.GetLabels()))
	})
}

func (r *Reconciler) ofNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.list(ctx, func(ud *appsv1alpha1.UnitedDeployment) bool { return ud.Namespace == obj.GetName() })
}

func (r *Reconciler) list(ctx context.Context, pick func(*appsv1alpha1.UnitedDeployment) bool) []reconcile.Request {
	list := &appsv1alpha1.UnitedDeploymentList{}
	// Uncopied, and only read: each event of each of a thousand members looks through all objects.
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		klog.FromContext(ctx).Error(err, "Listing UnitedDeployments failed")
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if ud := &list.Items[i]; pick(ud) {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ud.Namespace, Name: ud.Name}})
		}
	}
	return out
}

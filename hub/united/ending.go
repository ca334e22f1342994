package united

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/feedback"
)

// crdName is the CRD of UnitedDeployments.
const crdName = "uniteddeployments.apps.kruise.io"

// ending reads, from the API server, what the deletion of ud means for its children. What cannot be read is an error:
// nothing is deleted then.
func (r *Reconciler) ending(ctx context.Context, ud *appsv1alpha1.UnitedDeployment) (plan.Ending, error) {
	if slices.Contains(ud.Finalizers, metav1.FinalizerOrphanDependents) {
		return plan.EndingOrphan, nil
	}
	crd := crdObject()
	if going, err := r.going(ctx, crd, types.NamespacedName{Name: crdName}); err != nil || going {
		return plan.EndingOrphan, wrap("reading the CRD", err)
	}
	if going, err := r.going(ctx, &corev1.Namespace{}, types.NamespacedName{Name: ud.Namespace}); err != nil || going {
		return plan.EndingOrphan, wrap("reading the namespace", err)
	}
	letGo, err := r.letGo(ctx, ud)
	if err != nil || letGo {
		return plan.EndingOrphan, err
	}
	return plan.EndingDelete, nil
}

func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// going is true for an object that is gone or being deleted.
func (r *Reconciler) going(ctx context.Context, obj client.Object, name types.NamespacedName) (bool, error) {
	err := r.Live.Get(ctx, name, obj)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && obj.GetDeletionTimestamp() != nil, err
}

// letGo is true when the garbage collector has taken the owner reference off one of the object's revisions: what it does
// for --cascade=orphan before it takes that finalizer off, and for nothing else. Without this look a hub that was down at
// that moment would find an object that is simply deleted, and delete the children of somebody who asked to keep them.
func (r *Reconciler) letGo(ctx context.Context, ud *appsv1alpha1.UnitedDeployment) (bool, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := r.Live.List(ctx, list, ownedRevisions(ud)...); err != nil {
		return false, fmt.Errorf("listing revisions: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(c appsv1.ControllerRevision) bool {
		return !slices.ContainsFunc(c.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == ud.UID })
	}), nil
}

// stillWanted answers for one delete, by fresh reads: the owner exists, is the same one, and wants the child gone, because
// it is deleted itself and takes its children with it, because it has no such subset, or because it asks for another kind
// there and the child of that kind is whole.
func (r *Reconciler) stillWanted(owner types.NamespacedName, uid types.UID, p *plan.Push) func(context.Context) (bool, error) {
	member, subset, after := p.Member, p.Subset, p.After
	return func(ctx context.Context) (bool, error) {
		ud := &appsv1alpha1.UnitedDeployment{}
		err := r.Live.Get(ctx, owner, ud)
		if apierrors.IsNotFound(err) {
			return false, nil // who took the finalizer off took the children out of our hands
		}
		if err != nil {
			return false, fmt.Errorf("reading the owner: %w", err)
		}
		if ud.UID != uid {
			return false, nil
		}
		if ud.DeletionTimestamp != nil {
			ending, err := r.ending(ctx, ud)
			return err == nil && ending == plan.EndingDelete, err
		}
		if leaves, err := r.leaves(ctx, ud, subset, member); err != nil || leaves {
			return leaves, err
		}
		if after == nil || !slices.Equal(plan.KindsOf([]appsv1alpha1.SubsetTemplate{ud.Spec.Template}), []string{after.Kind}) {
			return false, nil
		}
		return r.tookOver(ctx, owner.Namespace, after)
	}
}

// leaves is true when the spec has no place for the child of a subset, by a fresh read of what its templates select. The
// child of a MemberCluster that is gone is out of our hands.
func (r *Reconciler) leaves(ctx context.Context, ud *appsv1alpha1.UnitedDeployment, subset, member string) (bool, error) {
	if member == clusters.Local || len(ud.Spec.Topology.SubsetTemplates) == 0 {
		return plan.Leaves(ud, subset, member, plan.Standing{}), nil
	}
	mc := &fleetv1alpha1.MemberCluster{}
	if err := r.Live.Get(ctx, types.NamespacedName{Name: member}, mc); err != nil {
		return false, wrap("reading the MemberCluster", client.IgnoreNotFound(err))
	}
	return plan.Leaves(ud, subset, member, plan.Standing{Labels: mc.Labels, Draining: mc.Spec.Drain}), nil
}

// tookOver reads the child that has taken over, from its member.
func (r *Reconciler) tookOver(ctx context.Context, namespace string, after *plan.Successor) (bool, error) {
	kind, ok := plan.KindNamed(after.Kind)
	if !ok {
		return false, nil
	}
	obj, err := r.Members.Get(ctx, after.Member, kind.GVK, types.NamespacedName{Namespace: namespace, Name: after.Name})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the child that has taken over: %w", err)
	}
	report, err := feedback.Of(obj)
	if err != nil {
		return false, fmt.Errorf("reading the child that has taken over: %w", err)
	}
	return plan.TookOver(&report, after.Revision, after.Replicas), nil
}

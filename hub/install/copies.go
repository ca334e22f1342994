package install

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// releaseCopies takes the hub's finalizer off what travelled by its own label: after this hub nobody would, and such an object
// could never be deleted. The copies on members are let go with them.
func (u *uninstaller) releaseCopies(ctx context.Context) error {
	for _, gvk := range kindsOf(u.o.HubKinds) {
		if isWorkload(gvk.GroupKind()) {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := u.client.List(ctx, list)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("listing %s on the hub: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			obj := &list.Items[i]
			obj.SetGroupVersionKind(gvk)
			if !slices.Contains(obj.Finalizers, appsv1alpha1.FinalizerCopies) {
				continue
			}
			if err := u.releaseCopiesOf(ctx, obj); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *uninstaller) releaseCopiesOf(ctx context.Context, obj *metav1.PartialObjectMetadata) error {
	name := obj.Kind + "/" + obj.Namespace + "/" + obj.Name
	if !u.opts.DryRun {
		uid := obj.UID
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			err := u.client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
			if err != nil || obj.UID != uid {
				return err
			}
			base := client.MergeFromWithOptions(obj.DeepCopy(), client.MergeFromWithOptimisticLock{})
			if !controllerutil.RemoveFinalizer(obj, appsv1alpha1.FinalizerCopies) {
				return nil
			}
			return u.client.Patch(ctx, obj, base, client.FieldOwner(FieldManager))
		})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("releasing %s: %w", name, err)
		}
	}
	u.report(Updated, name, "its finalizer is off; it travels no more, and its copies stay")
	return nil
}

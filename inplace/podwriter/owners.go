package podwriter

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=patch

// SetOwners makes owners the owner references of a pod or a claim, of exactly the version that it shows: a pod that matches
// is adopted, one that does not any more is let go. A version that has passed is a conflict, as the API server says it.
func (w *Writer) SetOwners(ctx context.Context, it *metav1.PartialObjectMetadata, owners []metav1.OwnerReference) (Written, error) {
	if owners == nil {
		owners = []metav1.OwnerReference{}
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": it.UID, "resourceVersion": it.ResourceVersion, "ownerReferences": owners,
	}})
	if err != nil {
		return Written{}, fmt.Errorf("writing the owners of %s: %w", it.Name, err)
	}
	made := &metav1.PartialObjectMetadata{TypeMeta: it.TypeMeta, ObjectMeta: metav1.ObjectMeta{Namespace: it.Namespace, Name: it.Name}}
	err = w.client.Patch(ctx, made, client.RawPatch(types.MergePatchType, data), client.FieldOwner(appsv1alpha1.FieldManagerMember))
	if err != nil {
		return Written{}, fmt.Errorf("writing the owners of %s: %w", it.Name, err)
	}
	return written(made), nil
}

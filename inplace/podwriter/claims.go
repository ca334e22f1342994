package podwriter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// createClaims creates the claims of one pod, in order, and returns those that it made; ok is false when a name is in use, so
// that the pod may not be created.
func (w *Writer) createClaims(ctx context.Context, claims []*unstructured.Unstructured, t *track) (made []inplace.Ref, ok bool, err error) {
	for _, c := range claims {
		claim := c.DeepCopy()
		err := w.client.Create(ctx, claim, client.FieldOwner(appsv1alpha1.FieldManagerMember))
		switch {
		case err == nil:
			t.wroteClaim(&t.result.ClaimsCreated, written(claim))
			made = append(made, inplace.Ref{
				Namespace: claim.GetNamespace(), Name: claim.GetName(), UID: claim.GetUID(), ResourceVersion: claim.GetResourceVersion(),
			})
		case apierrors.IsAlreadyExists(err):
			t.taken(claim)
			return made, false, nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return made, false, errNamespaceEnds
		default:
			t.unsure(&t.result.UnsureClaims, err, inplace.Ref{Namespace: claim.GetNamespace(), Name: claim.GetName()})
			return made, false, &CreateError{What: "claim", Namespace: claim.GetNamespace(), Name: claim.GetName(), Err: err}
		}
	}
	return made, true, nil
}

// patchClaim changes exactly the version of a claim that was judged. What the API server refuses (a class that allows no
// expansion, a quota) is a ClaimError with its words: nothing else waits for it here.
func (w *Writer) patchClaim(ctx context.Context, p inplace.ClaimPatch, t *track) error {
	if p.UID == "" || p.ResourceVersion == "" {
		return fmt.Errorf("changing claim %s/%s: no UID or resourceVersion to hold it to", p.Namespace, p.Name)
	}
	metadata := map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion}
	if p.Owners != nil {
		metadata["ownerReferences"] = p.Owners
	}
	body := map[string]any{"metadata": metadata}
	if p.Request != nil {
		body["spec"] = map[string]any{"resources": map[string]any{"requests": corev1.ResourceList{corev1.ResourceStorage: *p.Request}}}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("changing claim %s/%s: %w", p.Namespace, p.Name, err)
	}
	claim := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	err = w.client.Patch(ctx, claim, client.RawPatch(types.MergePatchType, data), client.FieldOwner(appsv1alpha1.FieldManagerMember))
	switch {
	case err == nil:
		t.wroteClaim(&t.result.ClaimsPatched, written(claim))
		return nil
	case changed(err):
		t.count(&t.result.Conflicts)
		return nil
	default:
		t.unsure(&t.result.UnsureClaims, err, p.Ref)
		return &ClaimError{Patch: p, Err: err}
	}
}

// deleteClaims deletes the claims of a pod whose deletion was accepted; each is tried.
func (w *Writer) deleteClaims(ctx context.Context, claims []inplace.Ref, t *track) error {
	var errs []error
	for _, c := range claims {
		errs = append(errs, w.deleteClaim(ctx, c, t))
	}
	return errors.Join(errs...)
}

// deleteClaim deletes exactly the version that was judged: somebody who wants the data kept takes the owner off it.
func (w *Writer) deleteClaim(ctx context.Context, ref inplace.Ref, t *track) error {
	if ref.UID == "" || ref.ResourceVersion == "" {
		return fmt.Errorf("deleting claim %s/%s: no UID or resourceVersion to hold it to", ref.Namespace, ref.Name)
	}
	claim := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	err := w.client.Delete(ctx, claim, client.Preconditions{UID: &ref.UID, ResourceVersion: &ref.ResourceVersion})
	switch {
	case err == nil:
		t.wroteClaim(&t.result.ClaimsDeleted, gone(ref))
		return nil
	case changed(err):
		t.count(&t.result.Conflicts)
		return nil
	default:
		t.unsure(&t.result.UnsureClaims, err, ref)
		return fmt.Errorf("deleting claim %s/%s: %w", ref.Namespace, ref.Name, err)
	}
}

package cli

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// UnitedKind is the kind of a UnitedDeployment.
func UnitedKind() schema.GroupVersionKind {
	return appsv1alpha1.GroupVersion.WithKind("UnitedDeployment")
}

// United is one UnitedDeployment: as the API server answers, with fields that this build does not know, and typed.
type United struct {
	Raw   *unstructured.Unstructured
	Typed *appsv1alpha1.UnitedDeployment
}

// GetUnited reads one.
func GetUnited(ctx context.Context, c client.Client, key client.ObjectKey) (*United, error) {
	out := &United{Raw: &unstructured.Unstructured{}, Typed: &appsv1alpha1.UnitedDeployment{}}
	out.Raw.SetGroupVersionKind(UnitedKind())
	if err := c.Get(ctx, key, out.Raw); err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(out.Raw.Object, out.Typed); err != nil {
		return nil, fmt.Errorf("reading what the hub answered: %w", err)
	}
	return out, nil
}

// Revisions lists the stored revisions of a UnitedDeployment, in no order.
func Revisions(ctx context.Context, c client.Client, ud *appsv1alpha1.UnitedDeployment) (*appsv1.ControllerRevisionList, error) {
	list := &appsv1.ControllerRevisionList{}
	err := c.List(ctx, list, client.InNamespace(ud.Namespace), client.MatchingLabels{appsv1alpha1.LabelOwnerUID: string(ud.UID)})
	return list, err
}

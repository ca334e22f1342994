package clusters

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// The hub's account may make tokens of itself, and of nobody else.
//
// +kubebuilder:rbac:groups="",namespace=underway-system,resources=serviceaccounts/token,resourceNames=underway-hub,verbs=create

// Account is the hub's ServiceAccount in a member, in the install namespace.
const Account = "underway-hub"

// RequestToken asks a member for a token of the hub's own account that ends after lifetime, or sooner where the member
// allows no longer one; the token says when. Error ErrNotReady while the member is not ready.
func (f *Fleet) RequestToken(ctx context.Context, name string, lifetime time.Duration) (string, error) {
	client, err := f.Client(name)
	if err != nil {
		return "", err
	}
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": authenticationv1.SchemeGroupVersion.String(), "kind": "TokenRequest",
		"metadata": map[string]any{"name": Account, "namespace": appsv1alpha1.SystemNamespace},
		"spec":     map[string]any{"expirationSeconds": int64(lifetime.Seconds())},
	}}
	accounts := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	answer, err := client.Resource(accounts).Namespace(appsv1alpha1.SystemNamespace).Create(ctx, request, metav1.CreateOptions{}, "token")
	if err != nil {
		return "", fmt.Errorf("asking for a token of the hub's account: %w", err)
	}
	token, _, err := unstructured.NestedString(answer.Object, "status", "token")
	if err != nil || token == "" {
		return "", errors.New("asking for a token of the hub's account: the answer has none")
	}
	return token, nil
}

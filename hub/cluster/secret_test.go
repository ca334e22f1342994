package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// TestASecretConcernsItsMemberOnly: of many members the one whose credential it is, and none by a Secret of another namespace.
func TestASecretConcernsItsMemberOnly(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := fleetv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	build := fake.NewClientBuilder().WithScheme(scheme)
	for i := range 20 {
		build.WithObjects(&fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", i)},
			Spec:       fleetv1alpha1.MemberClusterSpec{KubeconfigSecretRef: &fleetv1alpha1.SecretReference{Name: fmt.Sprintf("member-m-%d", i)}},
		})
	}
	r := New(Options{Client: build.Build()})
	secret := func(namespace, name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	got := r.ofSecret(t.Context(), secret(appsv1alpha1.SystemNamespace, "member-m-7"))
	if len(got) != 1 || got[0].Name != "m-7" {
		t.Errorf("got %v, want m-7", got)
	}
	for _, other := range []*corev1.Secret{secret("shop", "member-m-7"), secret(appsv1alpha1.SystemNamespace, "underway-hub-id")} {
		if got := r.ofSecret(t.Context(), other); len(got) != 0 {
			t.Errorf("Secret %s/%s concerns %v", other.Namespace, other.Name, got)
		}
	}
}

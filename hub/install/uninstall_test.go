package install_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/install"
)

func uninstallScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func hubRevision() *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1", Labels: map[string]string{appsv1alpha1.LabelOwnerUID: "ud-uid"},
	}}
}

// TestUninstallGoesOnAfterAStop: the UnitedDeployment went, and then the connection.
func TestUninstallGoesOnAfterAStop(t *testing.T) {
	others := hubRevision()
	others.Name, others.Labels = "somebody-elses", nil
	hub := fake.NewClientBuilder().WithScheme(uninstallScheme(t)).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "hub-uid"}}, hubRevision(), others).Build()
	if err := install.Uninstall(t.Context(), hub, install.UninstallOptions{Orphan: true, Now: time.Unix(0, 0)}); err != nil {
		t.Fatal(err)
	}
	if exists(t, hub, &appsv1.ControllerRevision{}, "shop", "web-1") {
		t.Error("the revision of a UnitedDeployment that is gone stays")
	}
	if !exists(t, hub, &appsv1.ControllerRevision{}, "shop", "somebody-elses") {
		t.Error("somebody else's revision is gone")
	}
}

// TestUninstallTakesAConflictForWhatItIs: the garbage collector takes its finalizer off at the same time.
func TestUninstallTakesAConflictForWhatItIs(t *testing.T) {
	conflicts := 2
	hub := fake.NewClientBuilder().WithScheme(uninstallScheme(t)).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "hub-uid"}},
		&appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "ud-uid", Finalizers: []string{appsv1alpha1.FinalizerChildren},
		}},
	).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(schema.GroupResource{Resource: "uniteddeployments"}, obj.GetName(), nil)
			}
			return c.Patch(ctx, obj, p, opts...)
		},
	}).Build()
	if err := install.Uninstall(t.Context(), hub, install.UninstallOptions{Orphan: true, Now: time.Unix(0, 0)}); err != nil {
		t.Fatal(err)
	}
	if exists(t, hub, &appsv1alpha1.UnitedDeployment{}, "shop", "web") {
		t.Error("the UnitedDeployment stays")
	}
}

// TestProveUsesWhatTheHubMay: the hub's account lists kube-system alone, and may not get it where join named namespaces.
func TestProveUsesWhatTheHubMay(t *testing.T) {
	asHub := fake.NewClientBuilder().WithScheme(uninstallScheme(t)).
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid"}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "other"}}).
		WithIndex(&corev1.Namespace{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, key.Name, nil)
			},
		}).Build()
	if err := install.Prove(t.Context(), asHub, "uid"); err != nil {
		t.Error(err)
	}
	if err := install.Prove(t.Context(), asHub, "another"); err == nil {
		t.Error("another cluster passes")
	}
}

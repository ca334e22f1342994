package clusterapi

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestWhatClusterAPIIsThere: one that serves v1beta1 alone is not waited for without words.
func TestWhatClusterAPIIsThere(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	crd := func(established apiextensionsv1.ConditionStatus, versions ...apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.CustomResourceDefinition {
		out := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crdName}}
		out.Spec.Versions = versions
		out.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: established}}
		return out
	}
	version := func(name string, served bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: served}
	}
	for name, tc := range map[string]struct {
		crd  *apiextensionsv1.CustomResourceDefinition
		want kindState
		says string
	}{
		"none":                         {nil, kindAbsent, "is not there"},
		"v1beta2":                      {crd(apiextensionsv1.ConditionTrue, version("v1beta1", true), version("v1beta2", true)), kindServed, ""},
		"v1beta1 alone":                {crd(apiextensionsv1.ConditionTrue, version("v1beta1", true)), kindOlder, "upgrade Cluster API"},
		"v1beta2 that is not served":   {crd(apiextensionsv1.ConditionTrue, version("v1beta1", true), version("v1beta2", false)), kindOlder, "does not serve"},
		"v1beta2, not established yet": {crd(apiextensionsv1.ConditionFalse, version("v1beta2", true)), kindOlder, ""},
	} {
		b := fake.NewClientBuilder().WithScheme(scheme)
		if tc.crd != nil {
			b = b.WithObjects(tc.crd)
		}
		got, err := New(Options{Live: b.Build()}).kind(t.Context())
		if err != nil || got != tc.want || !strings.Contains(got.why(), tc.says) {
			t.Errorf("%s: %q (%s), %v, want %q", name, got, got.why(), err, tc.want)
		}
	}
}

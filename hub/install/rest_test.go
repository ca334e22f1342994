package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

func eu(ready metav1.ConditionStatus) *fleetv1alpha1.MemberCluster {
	mc := &fleetv1alpha1.MemberCluster{}
	mc.Name = "eu-1"
	mc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: ready, Reason: "Unreachable", Message: "it does not answer"}}
	return mc
}

func web(edit func(*appsv1alpha1.UnitedDeployment)) appsv1alpha1.UnitedDeployment {
	ud := appsv1alpha1.UnitedDeployment{}
	ud.Namespace, ud.Name, ud.UID = "shop", "web", "web-uid"
	edit(&ud)
	return ud
}

func onMember(apiVersion, kind string, annotations map[string]string) unstructured.Unstructured {
	u := unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace("shop")
	u.SetName("web-eu-1-abcde")
	u.SetAnnotations(annotations)
	return u
}

// TestRest has what keeps a member from being empty, and what the command says about it.
func TestRest(t *testing.T) {
	listed := func(ud *appsv1alpha1.UnitedDeployment) {
		ud.Spec.Topology.Subsets = []appsv1alpha1.Subset{{Name: "europe", SubsetPlace: appsv1alpha1.SubsetPlace{Cluster: "eu-1"}}, {Name: "america", SubsetPlace: appsv1alpha1.SubsetPlace{Cluster: "us-1"}}}
	}
	leaving := func(message string) func(*appsv1alpha1.UnitedDeployment) {
		return func(ud *appsv1alpha1.UnitedDeployment) {
			ud.Status.SubsetStatuses = []appsv1alpha1.SubsetStatus{
				{Name: "eu-1", Cluster: "eu-1", Message: message}, {Name: "us-1", Cluster: "us-1", Message: "elsewhere"},
			}
		}
	}
	owner := map[string]string{appsv1alpha1.AnnotationOwner: "shop/web"}
	mark := func(uid string) map[string]string {
		return map[string]string{appsv1alpha1.AnnotationOwnerPrefix + uid: ""}
	}
	left := map[string]string{appsv1alpha1.AnnotationOwner: "shop/web", appsv1alpha1.AnnotationOrphaned: "2026-11-30T09:00:00Z"}
	for name, tc := range map[string]struct {
		s    staying
		want []string
	}{
		"nothing there":       {staying{member: eu("True"), uds: []appsv1alpha1.UnitedDeployment{web(func(*appsv1alpha1.UnitedDeployment) {})}}, nil},
		"empty and not ready": {staying{member: eu("False"), frozen: true}, nil},
		"a list names it": {
			staying{member: eu("True"), uds: []appsv1alpha1.UnitedDeployment{web(listed)}},
			[]string{"UnitedDeployment shop/web names the member in subset europe: take that subset out of spec.topology.subsets (kubectl edit ud web -n shop)"},
		},
		"a subset leaves": {
			staying{member: eu("True"), uds: []appsv1alpha1.UnitedDeployment{web(leaving("its child goes when these have taken over: us-1"))}},
			[]string{"UnitedDeployment shop/web has subset eu-1 there: its child goes when these have taken over: us-1"},
		},
		"a listed one is said once": {
			staying{member: eu("True"), uds: []appsv1alpha1.UnitedDeployment{web(func(ud *appsv1alpha1.UnitedDeployment) {
				listed(ud)
				ud.Status.SubsetStatuses = []appsv1alpha1.SubsetStatus{{Name: "europe", Cluster: "eu-1"}}
			})}},
			[]string{"names the member in subset europe"},
		},
		"a child that no status knows": {
			staying{member: eu("True"), objects: []unstructured.Unstructured{onMember("apps.kruise.io/v1alpha1", "CloneSet", owner)}},
			[]string{"CloneSet/shop/web-eu-1-abcde is there, of UnitedDeployment shop/web"},
		},
		"a child that was let go": {
			staying{member: eu("True"), objects: []unstructured.Unstructured{onMember("apps/v1", "Deployment", left)}}, nil,
		},
		"content of an object that there is": {
			staying{
				member: eu("True"), uds: []appsv1alpha1.UnitedDeployment{web(func(*appsv1alpha1.UnitedDeployment) {})},
				objects: []unstructured.Unstructured{onMember("v1", "ConfigMap", mark("web-uid"))},
			},
			[]string{"ConfigMap/shop/web-eu-1-abcde is there, which travelled with a UnitedDeployment"},
		},
		// What travels by its own label is no UnitedDeployment's, and is let go with the member.
		"content of something else": {
			staying{member: eu("True"), objects: []unstructured.Unstructured{onMember("v1", "ConfigMap", mark("service-uid"))}}, nil,
		},
		"what stops it is said": {
			staying{member: eu("False"), frozen: true, uds: []appsv1alpha1.UnitedDeployment{web(leaving(""))}},
			[]string{"has subset eu-1 there", "kubectl underway unfreeze --all", "not ready, so nothing moves: Unreachable: it does not answer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.s.rest()
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i := range got {
				if !strings.Contains(got[i], tc.want[i]) {
					t.Errorf("got %q, want it to say %q", got[i], tc.want[i])
				}
			}
		})
	}
}

// TestKindsOf: every kind that a member serves may be one that a flag of the hub sends, but for those that controllers and
// the hub's own ways account for.
func TestKindsOf(t *testing.T) {
	gvk := func(group, version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	}
	all := kindsOf([]schema.GroupVersionKind{
		gvk("", "v1", "ConfigMap"), gvk("", "v1", "Pod"), gvk("", "v1", "Namespace"), gvk("", "v1", "Endpoints"), gvk("discovery.k8s.io", "v1", "EndpointSlice"),
		gvk("apps.kruise.io", "v1beta1", "StatefulSet"), gvk("networking.k8s.io", "v1", "Ingress"), gvk("coordination.k8s.io", "v1", "Lease"),
	})
	own := kindsOf(nil)
	if diff := cmp.Diff(append(own, gvk("networking.k8s.io", "v1", "Ingress")), all); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"CloneSet", "Deployment", "Secret", "Service"} {
		if !strings.Contains(strings.Join(names(own), " "), want) {
			t.Errorf("%v lacks %s", names(own), want)
		}
	}
}

func names(kinds []schema.GroupVersionKind) []string {
	out := make([]string, len(kinds))
	for i := range kinds {
		out[i] = kinds[i].Kind
	}
	return out
}

// TestKindsIn takes what can be listed and patched.
func TestKindsIn(t *testing.T) {
	both := metav1.Verbs{"get", "list", "patch"}
	got := kindsIn([]*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "services", Kind: "Service", Verbs: both},
			{Name: "services/status", Kind: "Service", Verbs: both},
			{Name: "bindings", Kind: "Binding", Verbs: metav1.Verbs{"create"}},
		}},
		{GroupVersion: "metrics.k8s.io/v1beta1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "PodMetrics", Verbs: metav1.Verbs{"get", "list"}}}},
		{GroupVersion: "a/b/c", APIResources: []metav1.APIResource{{Name: "x", Kind: "X", Verbs: both}}},
	})
	if diff := cmp.Diff([]schema.GroupVersionKind{{Version: "v1", Kind: "Service"}}, got); diff != "" {
		t.Error(diff)
	}
}

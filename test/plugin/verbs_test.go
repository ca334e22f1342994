//go:build lab

package plugin

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

func TestFreeze(t *testing.T) {
	underway(t, "init").ok(t)
	c := admin(t, shared.lab(t).Hub())
	key := client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.ConfigMapFreeze}

	underway(t, "freeze").fails(t, "--all")
	underway(t, "unfreeze", "--all").ok(t).says(t, "not frozen")
	underway(t, "freeze", "--all", "--reason", "incident 991").ok(t).says(t, "frozen by", "incident 991")
	cm := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), key, cm); err != nil {
		t.Fatal(err)
	}
	if cm.Data["who"] == "" || cm.Data["when"] == "" || cm.Data["why"] != "incident 991" {
		t.Errorf("who, when and why are %v", cm.Data)
	}
	underway(t, "freeze", "--all", "--reason", "another").ok(t).says(t, "already frozen by", "incident 991")
	underway(t, "unfreeze", "--all").ok(t).says(t, "unfrozen", "incident 991")
	if err := c.Get(t.Context(), key, cm); !apierrors.IsNotFound(err) {
		t.Errorf("it is still frozen: %v", err)
	}
}

func TestConfirm(t *testing.T) {
	underway(t, "init").ok(t)
	c := admin(t, shared.lab(t).Hub())
	m := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "swapped"}, Spec: fleetv1alpha1.MemberClusterSpec{
		KubeconfigSecretRef: &fleetv1alpha1.SecretReference{Name: "member-swapped"},
	}}
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	confirmed := func() string {
		t.Helper()
		got := &fleetv1alpha1.MemberCluster{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "swapped"}, got); err != nil {
			t.Fatal(err)
		}
		return got.Annotations[appsv1alpha1.AnnotationConfirm]
	}
	underway(t, "confirm", "cluster", "swapped").ok(t).says(t, "nothing waits")

	m.Status = fleetv1alpha1.MemberClusterStatus{Identity: "uid-1", SeenIdentity: "uid-2", Conditions: []metav1.Condition{{
		Type: fleetv1alpha1.ConditionIdentityChanged, Status: metav1.ConditionTrue, Reason: "AnotherCluster",
		Message: "another cluster answers: uid-2, not uid-1", LastTransitionTime: metav1.Now(),
	}}}
	if err := c.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	underwayIn(t, shared.lab(t).Hub(), "n\n", "confirm", "cluster", "swapped").fails(t, "uid-2", "not confirmed")
	underway(t, "confirm", "cluster", "swapped").fails(t, "not confirmed")
	if got := confirmed(); got != "" {
		t.Errorf("nobody said yes, and %q was written", got)
	}
	underwayIn(t, shared.lab(t).Hub(), "y\n", "confirm", "cluster", "swapped").ok(t)
	if got, want := confirmed(), "IdentityChanged/uid-2"; got != want {
		t.Errorf("confirmed %q, want %q", got, want)
	}
	underway(t, "confirm", "hub", "--yes").ok(t).says(t, "nothing waits")
}

func TestGetUD(t *testing.T) {
	underway(t, "init").ok(t)
	c := admin(t, shared.lab(t).Hub())
	underway(t, "get", "ud").ok(t).says(t, "no UnitedDeployments")
	ud := &appsv1alpha1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1alpha1.UnitedDeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: appsv1alpha1.SubsetTemplate{CloneSetTemplate: &appsv1alpha1.WorkloadTemplate{
				Spec: runtime.RawExtension{Raw: []byte(`{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"app:v1"}]}}}`)},
			}},
			Topology: appsv1alpha1.Topology{Subsets: []appsv1alpha1.Subset{{Name: "eu", SubsetPlace: appsv1alpha1.SubsetPlace{Cluster: "eu-1"}}}},
		},
	}
	if err := c.Create(t.Context(), ud); err != nil {
		t.Fatal(err)
	}
	ud.Status = appsv1alpha1.UnitedDeploymentStatus{
		ObservedGeneration: ud.Generation, Replicas: 8, ReadyReplicas: 8, CurrentRevision: "web-aaaaa", UpdatedRevision: "web-bbbbb",
		SubsetStatuses: []appsv1alpha1.SubsetStatus{{Name: "eu", Cluster: "eu-1", Replicas: 8, DesiredReplicas: 8, ReadyReplicas: 8, State: "Held", Message: "8 stay"}},
	}
	if err := c.Status().Update(t.Context(), ud); err != nil {
		t.Fatal(err)
	}
	underway(t, "get", "ud", "web").ok(t).says(t, "default/web", "rev aaaaa -> bbbbb", "└─ eu", "0/8", "8 stay", "NEXT")
	underway(t, "get", "ud", "-A").ok(t).says(t, "NAMESPACE", "default", "web", "Held")
	underway(t, "get", "ud", "web", "-o", "name").ok(t).says(t, "uniteddeployment.apps.kruise.io/web")
	got := appsv1alpha1.UnitedDeployment{}
	if err := json.Unmarshal([]byte(underway(t, "get", "ud", "web", "-o", "json").ok(t).stdout), &got); err != nil || got.Name != "web" {
		t.Errorf("json: %v, %q", err, got.Name)
	}
	underway(t, "get", "ud", "-w").fails(t, "--watch")
	underway(t, "get", "ud", "nobody").fails(t, "not found")
	underway(t, "version").ok(t).says(t, "client", "nobody leads")
	underway(t, "completion", "kubectl").ok(t).says(t, "kubectl-underway __complete")
}

package install_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/hub/install"
)

// installed is a member with CRDs of ours, and objects.
func installed(t *testing.T, crds []client.Object, objects ...client.Object) client.Client {
	t.Helper()
	objects = append(append(objects, crds...), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "eu-uid"}})
	return fake.NewClientBuilder().WithScheme(uninstallScheme(t)).WithObjects(objects...).Build()
}

// TestB153: an uninstall while two CloneSets exist on a member. It is refused while the hub has objects, before anything is
// written; made to go on, it keeps every CRD that has objects, the objects, and says so; CRDs without objects go.
func TestB153(t *testing.T) {
	t.Parallel()
	memberCRDs, err := all(config.MemberCRDs)()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range memberCRDs {
		crd.SetLabels(map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf})
	}
	own := func(name string) *appsv1alpha1.CloneSet {
		return &appsv1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-own"}}
	}
	member := installed(t, memberCRDs, own("one"), own("two"))
	hub := fakeHubWith(t, &appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "ud-uid", Finalizers: []string{appsv1alpha1.FinalizerChildren},
	}})
	var steps strings.Builder
	uninstall := func(orphan bool) error {
		o := install.UninstallOptions{Members: map[string]client.Client{"eu-1": member}, Orphan: orphan, Now: time.Unix(0, 0)}
		o.Report = func(s install.Step) { steps.WriteString(s.String() + "\n") }
		return install.Uninstall(t.Context(), hub, o)
	}
	if err := uninstall(false); err == nil || !strings.Contains(err.Error(), "shop/web") || !strings.Contains(err.Error(), "--orphan") {
		t.Fatalf("it is not refused: %v", err)
	}
	if steps.Len() > 0 || !exists(t, hub, &fleetv1alpha1.MemberCluster{}, "", "eu-1") {
		t.Errorf("it wrote before it refused:\n%s", &steps)
	}
	for range 2 { // and again, as after a stop
		if err := uninstall(true); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one", "two"} {
		cs := &appsv1alpha1.CloneSet{}
		if !exists(t, member, cs, "shop", name) || cs.DeletionTimestamp != nil {
			t.Errorf("CloneSet %s is gone", name)
		}
	}
	for _, crd := range memberCRDs {
		there := exists(t, member, &apiextensionsv1.CustomResourceDefinition{}, "", crd.GetName())
		if want := crd.GetName() == "clonesets.apps.kruise.io"; there != want {
			t.Errorf("%s is there: %v, want %v", crd.GetName(), there, want)
		}
	}
	if !strings.Contains(steps.String(), "clonesets.apps.kruise.io: there are objects of it") {
		t.Errorf("it is not said:\n%s", &steps)
	}
}

// TestB153AnotherVersionIsLeft: a CRD that cannot be counted keeps the uninstall from going on, and is not deleted on doubt.
func TestB153AnotherVersionIsLeft(t *testing.T) {
	t.Parallel()
	memberCRDs, err := all(config.MemberCRDs)()
	if err != nil {
		t.Fatal(err)
	}
	foreign := 0
	for _, crd := range memberCRDs {
		if crd.GetName() == "clonesets.apps.kruise.io" {
			crd.SetLabels(nil) // OpenKruise's
			foreign++
			continue
		}
		crd.SetLabels(map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf})
	}
	member := installed(t, memberCRDs)
	if _, err := unjoinLeaving(t, member); err != nil || foreign != 1 {
		t.Fatalf("%v, %d", err, foreign)
	}
	if !exists(t, member, &apiextensionsv1.CustomResourceDefinition{}, "", "clonesets.apps.kruise.io") {
		t.Error("somebody else's CRD is gone")
	}
}

func unjoinLeaving(t *testing.T, member client.Client) (string, error) {
	t.Helper()
	var steps strings.Builder
	o := install.LeaveOptions{Name: "eu-1", HubID: hubID(), Now: time.Unix(0, 0), RemoveCRDs: true}
	o.Report = func(s install.Step) { fmt.Fprintln(&steps, s) }
	err := install.Leave(t.Context(), member, o)
	return steps.String(), err
}

// fakeHubWith is fakeHub with a scheme that knows CRDs.
func fakeHubWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	ours := map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf}
	return fake.NewClientBuilder().WithScheme(uninstallScheme(t)).WithObjects(append(objects,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "hub-uid"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: appsv1alpha1.SecretHubID, Labels: ours}, Data: map[string][]byte{"nonce": []byte("n")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "member-eu-1", Labels: ours}},
		&fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu-1", UID: "mc-uid"}, Status: fleetv1alpha1.MemberClusterStatus{Identity: "eu-uid"}},
	)...).Build()
}

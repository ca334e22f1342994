package install_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/hub/install"
	"github.com/underway-dev/underway/propagation/clusters"
)

const system = appsv1alpha1.SystemNamespace

func fakeCluster(t *testing.T, uid types.UID, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: uid}})
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// fakeHub has one member, eu-1, and an id.
func fakeHub(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	ours := map[string]string{appsv1alpha1.LabelPartOf: appsv1alpha1.PartOf}
	return fakeCluster(t, "hub-uid", append(objects,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: appsv1alpha1.SecretHubID, Labels: ours}, Data: map[string][]byte{"nonce": []byte("n")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "member-eu-1", Labels: ours}},
		&fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu-1", UID: "mc-uid"}, Status: fleetv1alpha1.MemberClusterStatus{Identity: "eu-uid"}},
	)...)
}

func hubID() string { return clusters.HubID("hub-uid", "n") }

// fakeMember has all that join gives, a workload of the hub, and things of others.
func fakeMember(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	for _, source := range []func() ([]client.Object, error){all(config.HubAccess), all(config.MemberRBAC), all(config.MemberManager)} {
		list, err := source()
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, list...)
	}
	lease := func(hub string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: appsv1alpha1.LeaseHubPrefix + hub}}
	}
	workload := func(name, hub string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: map[string]string{appsv1alpha1.LabelHub: hub},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "UnitedDeployment", Name: "web", UID: "ud"}},
		}}
	}
	return fakeCluster(t, "eu-uid", append(objects, lease(hubID()), workload("ours", hubID()), workload("other-hub", "ffffffffffffffff"),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "theirs"}})...)
}

func all(source func() ([]*unstructured.Unstructured, error)) func() ([]client.Object, error) {
	return func() ([]client.Object, error) {
		list, err := source()
		out := make([]client.Object, 0, len(list))
		for _, u := range list {
			out = append(out, u)
		}
		return out, err
	}
}

func exists(t *testing.T, c client.Client, obj client.Object, namespace, name string) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func unjoin(t *testing.T, hub, member client.Client, edit func(*install.UnjoinOptions)) (string, error) {
	t.Helper()
	var steps strings.Builder
	o := install.UnjoinOptions{Name: "eu-1", Now: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)}
	o.Report = func(s install.Step) { steps.WriteString(s.String() + "\n") }
	edit(&o)
	err := install.Unjoin(t.Context(), hub, member, o)
	return steps.String(), err
}

func TestUnjoinTakesEverythingBackAndNoWorkload(t *testing.T) {
	hub, member := fakeHub(t), fakeMember(t)
	for range 2 { // the second time there is nothing to do
		if _, err := unjoin(t, hub, member, func(*install.UnjoinOptions) {}); err != nil {
			t.Fatal(err)
		}
	}
	if exists(t, hub, &fleetv1alpha1.MemberCluster{}, "", "eu-1") || exists(t, hub, &corev1.Secret{}, system, "member-eu-1") {
		t.Error("the hub still knows the member")
	}
	if exists(t, member, &corev1.ServiceAccount{}, system, "underway-hub") || exists(t, member, &corev1.ServiceAccount{}, system, "underway-member") ||
		exists(t, member, &appsv1.Deployment{}, system, "underway-member") || exists(t, member, &coordinationv1.Lease{}, system, appsv1alpha1.LeaseHubPrefix+hubID()) {
		t.Error("something that join gave is still there")
	}
	d := &appsv1.Deployment{}
	if !exists(t, member, d, "shop", "ours") || d.Annotations[appsv1alpha1.AnnotationOrphaned] == "" || len(d.OwnerReferences) > 0 {
		t.Errorf("the workload is gone, not marked, or still has its owner: %+v", d.ObjectMeta)
	}
	if !exists(t, member, d, "shop", "other-hub") || d.Annotations[appsv1alpha1.AnnotationOrphaned] != "" || len(d.OwnerReferences) == 0 {
		t.Errorf("a workload of another hub was touched: %+v", d.ObjectMeta)
	}
	if !exists(t, member, &corev1.Secret{}, system, "theirs") {
		t.Error("something without our label is gone")
	}
}

// TestUnjoinGoesOnThroughConflicts: an agent writes the status of its workloads all the time. What became somebody else's
// meanwhile is left.
func TestUnjoinGoesOnThroughConflicts(t *testing.T) {
	conflicts := map[string]int{"ours": 2, "taken": 1}
	taken := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "taken", UID: "taken", Labels: map[string]string{appsv1alpha1.LabelHub: hubID()}}}
	hub, plain := fakeHub(t), fakeMember(t, taken)
	member := interceptor.NewClient(plain.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if conflicts[obj.GetName()] == 0 {
				return c.Patch(ctx, obj, p, opts...)
			}
			conflicts[obj.GetName()]--
			// Somebody was faster: what was read is old now.
			live := &appsv1.Deployment{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
				return err
			}
			live.Status.Replicas++
			if obj.GetName() == "taken" {
				live.Labels[appsv1alpha1.LabelHub] = "ffffffffffffffff"
			}
			if err := c.Update(ctx, live); err != nil {
				return err
			}
			return c.Patch(ctx, obj, p, opts...)
		},
	})
	if _, err := unjoin(t, hub, member, func(*install.UnjoinOptions) {}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"ours": true, "taken": false} {
		d := &appsv1.Deployment{}
		if !exists(t, plain, d, "shop", name) {
			t.Fatalf("%s is gone", name)
		}
		if _, marked := d.Annotations[appsv1alpha1.AnnotationOrphaned]; marked != want {
			t.Errorf("%s: marked %v, want %v", name, marked, want)
		}
	}
	if conflicts["ours"]+conflicts["taken"] > 0 {
		t.Errorf("conflicts that nobody met: %v", conflicts)
	}
}

func TestUnjoinRefuses(t *testing.T) {
	placed := &appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	placed.Spec.Topology.Subsets = []appsv1alpha1.Subset{{Name: "eu", SubsetPlace: appsv1alpha1.SubsetPlace{Cluster: "eu-1"}}}
	selected := &appsv1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	selected.Status.SubsetStatuses = []appsv1alpha1.SubsetStatus{{Name: "eu-1", Cluster: "eu-1"}}
	for name, tc := range map[string]struct {
		hub, member client.Client
		says        []string
	}{
		"while pods are there":          {fakeHub(t, placed, selected), fakeMember(t), []string{"shop/web", "shop/cart", "--orphan"}},
		"a cluster of another identity": {fakeHub(t), fakeCluster(t, "us-uid"), []string{"not member eu-1", "--kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unjoin(t, tc.hub, tc.member, func(*install.UnjoinOptions) {})
			if err == nil {
				t.Fatal("it did not refuse")
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it does not say %q: %v", want, err)
				}
			}
			if !exists(t, tc.hub, &fleetv1alpha1.MemberCluster{}, "", "eu-1") || !exists(t, tc.hub, &corev1.Secret{}, system, "member-eu-1") {
				t.Error("it wrote before it refused")
			}
		})
	}
}

func TestUnjoinOfALostMemberSaysWhatStays(t *testing.T) {
	hub := fakeHub(t)
	steps, err := unjoin(t, hub, nil, func(*install.UnjoinOptions) {})
	if err != nil || !strings.Contains(steps, hubID()) || !strings.Contains(steps, "kubectl underway unjoin eu-1") {
		t.Errorf("%v\n%s", err, steps)
	}
	if exists(t, hub, &fleetv1alpha1.MemberCluster{}, "", "eu-1") {
		t.Error("the hub still knows the member")
	}
	// When it answers again, the same command takes the rest back.
	member := fakeMember(t)
	if _, err := unjoin(t, hub, member, func(*install.UnjoinOptions) {}); err != nil || exists(t, member, &corev1.ServiceAccount{}, system, "underway-hub") {
		t.Errorf("the account is still there: %v", err)
	}
}

func TestUnjoinLeavesWhatAnotherHubNeeds(t *testing.T) {
	other := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: appsv1alpha1.LeaseHubPrefix + "ffffffffffffffff"}}
	member := fakeMember(t, other)
	steps, err := unjoin(t, fakeHub(t), member, func(*install.UnjoinOptions) {})
	if err != nil || !exists(t, member, &corev1.ServiceAccount{}, system, "underway-hub") || !strings.Contains(steps, "another hub") {
		t.Errorf("%v\n%s", err, steps)
	}
	if exists(t, member, &coordinationv1.Lease{}, system, appsv1alpha1.LeaseHubPrefix+hubID()) {
		t.Error("this hub's Lease is still there")
	}
}

func TestADryRunOfUnjoinWritesNothing(t *testing.T) {
	hub, member := fakeHub(t), fakeMember(t)
	steps, err := unjoin(t, hub, member, func(o *install.UnjoinOptions) { o.DryRun = true })
	if err != nil || !strings.Contains(steps, "Deployment/shop/ours") || !strings.Contains(steps, "ServiceAccount/underway-system/underway-hub") {
		t.Errorf("%v\n%s", err, steps)
	}
	d := &appsv1.Deployment{}
	if !exists(t, hub, &fleetv1alpha1.MemberCluster{}, "", "eu-1") || !exists(t, member, &corev1.ServiceAccount{}, system, "underway-hub") ||
		!exists(t, member, d, "shop", "ours") || d.Annotations[appsv1alpha1.AnnotationOrphaned] != "" {
		t.Error("it wrote")
	}
}

package install_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/install"
)

// drain runs a drain; onStep is told each step, and plays the hub and the person.
func drain(ctx context.Context, hub, member client.Client, edit func(*install.DrainOptions), onStep func(install.Step)) (string, error) {
	var steps strings.Builder
	o := install.DrainOptions{Name: "eu-1", Every: time.Millisecond}
	o.Report = func(s install.Step) {
		steps.WriteString(s.String() + "\n")
		if onStep != nil {
			onStep(s)
		}
	}
	edit(&o)
	err := install.Drain(ctx, hub, member, o)
	return steps.String(), err
}

func asIs(*install.DrainOptions) {}

func shopWeb() *appsv1alpha1.UnitedDeployment {
	ud := &appsv1alpha1.UnitedDeployment{}
	ud.Namespace, ud.Name, ud.UID = "shop", "web", "ud"
	ud.Spec.Topology.Subsets = []appsv1alpha1.Subset{{Name: "europe", SubsetPlace: appsv1alpha1.SubsetPlace{Cluster: "eu-1"}}, {Name: "america", SubsetPlace: appsv1alpha1.SubsetPlace{Cluster: "us-1"}}}
	return ud
}

func marked(t *testing.T, hub client.Client) bool {
	t.Helper()
	mc := &fleetv1alpha1.MemberCluster{}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "eu-1"}, mc); err != nil {
		t.Fatal(err)
	}
	return mc.Spec.Drain
}

// TestDrainWaitsUntilTheMemberIsEmpty: it says what a person must edit, goes on by itself when that is done and the hub has
// taken the child away, and says everything once.
func TestDrainWaitsUntilTheMemberIsEmpty(t *testing.T) {
	hub, member := fakeHub(t, shopWeb()), fakeMember(t)
	steps, err := drain(t.Context(), hub, member, asIs, func(s install.Step) {
		switch {
		case s.Action == install.Waiting && strings.Contains(s.Object, "spec.topology.subsets"):
			ud := &appsv1alpha1.UnitedDeployment{}
			if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, ud); err != nil {
				t.Fatal(err)
			}
			ud.Spec.Topology.Subsets = ud.Spec.Topology.Subsets[1:]
			if err := hub.Update(t.Context(), ud); err != nil {
				t.Fatal(err)
			}
		case s.Action == install.Waiting && strings.HasPrefix(s.Object, "Deployment/shop/ours is there"):
			// The person has edited, and the others took over.
			if err := member.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ours"}}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !marked(t, hub) {
		t.Error("the MemberCluster is not marked")
	}
	if n := strings.Count(steps, "names the member in subset europe"); n != 1 {
		t.Errorf("it said %d times what to edit:\n%s", n, steps)
	}
	if !strings.Contains(steps, "no UnitedDeployment has anything there") {
		t.Errorf("it does not say that it is done:\n%s", steps)
	}
	// Empty now: unjoin needs no --orphan.
	if _, err := unjoin(t, hub, member, func(*install.UnjoinOptions) {}); err != nil {
		t.Error(err)
	}
	// Nothing to drain is no error: the command can be given again.
	if _, err := drain(t.Context(), hub, member, asIs, nil); err != nil {
		t.Error(err)
	}
}

// TestDrainStopsInAConsistentState: by --timeout or by Ctrl-C the mark stays, and the words say how to go on and how back.
func TestDrainStopsInAConsistentState(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*install.DrainOptions)
		stop bool
		says string
	}{
		"out of time": {func(o *install.DrainOptions) { o.Timeout = 20 * time.Millisecond }, false, "20ms (--timeout) are over"},
		"stopped":     {asIs, true, "it was stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			hub, member := fakeHub(t, shopWeb()), fakeMember(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := drain(ctx, hub, member, tc.edit, func(s install.Step) {
				if tc.stop && s.Action == install.Waiting {
					cancel()
				}
			})
			if err == nil {
				t.Fatal("it ended without an error")
			}
			for _, want := range []string{tc.says, "subset europe", "do this again", `kubectl patch membercluster eu-1 --type merge -p '{"spec":{"drain":false}}'`} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it does not say %q: %v", want, err)
				}
			}
			if !marked(t, hub) {
				t.Error("the mark is gone")
			}
		})
	}
}

func TestDrainRefusesAndShows(t *testing.T) {
	hub, member := fakeHub(t, shopWeb()), fakeMember(t)
	if _, err := drain(t.Context(), hub, fakeCluster(t, "another-uid"), asIs, nil); err == nil || !strings.Contains(err.Error(), "is not member eu-1") || marked(t, hub) {
		t.Errorf("another cluster: %v, marked %v", err, marked(t, hub))
	}
	steps, err := drain(t.Context(), hub, member, func(o *install.DrainOptions) { o.DryRun = true }, nil)
	if err != nil || !strings.Contains(steps, "subset europe") || marked(t, hub) {
		t.Errorf("a dry run: %v, marked %v:\n%s", err, marked(t, hub), steps)
	}
}

// TestLeaveTakesEveryKind: kinds that only a flag of the hub sends are found by its label; what controllers on the member made
// with the same labels is theirs.
func TestLeaveTakesEveryKind(t *testing.T) {
	ours := map[string]string{appsv1alpha1.LabelHub: hubID()}
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: ours}
	}
	child := object("of-a-controller")
	controller := true
	child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "x", UID: "x", Controller: &controller}}
	hub, member := fakeHub(t), fakeMember(t,
		&networkingv1.Ingress{ObjectMeta: object("ingress")}, &networkingv1.Ingress{ObjectMeta: child}, &corev1.Service{ObjectMeta: object("service")},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "underway-member"}},
	)
	_, err := unjoin(t, hub, member, func(o *install.UnjoinOptions) {
		o.Kinds = []schema.GroupVersionKind{{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}, {Version: "v1", Kind: "Service"}, {Group: "gone.example", Version: "v1", Kind: "Gone"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		obj    client.Object
		marked bool
	}{
		"ingress": {&networkingv1.Ingress{}, true}, "service": {&corev1.Service{}, true}, "of-a-controller": {&networkingv1.Ingress{}, false},
	} {
		if !exists(t, member, want.obj, "shop", name) {
			t.Errorf("%s is gone", name)
		}
		if _, marked := want.obj.GetAnnotations()[appsv1alpha1.AnnotationOrphaned]; marked != want.marked {
			t.Errorf("%s: marked %v, want %v", name, marked, want.marked)
		}
	}
	if exists(t, member, &coordinationv1.Lease{}, system, "underway-member") {
		t.Error("the agent's Lease is left")
	}
}

// TestUninstallRefusesAnUnknownMember names the members that there are, unless the cluster was given back before.
func TestUninstallRefusesAnUnknownMember(t *testing.T) {
	hub := fakeHub(t)
	run := func(members map[string]client.Client) error {
		return install.Uninstall(t.Context(), hub, install.UninstallOptions{Options: install.Options{DryRun: true}, Members: members, Orphan: true, Now: time.Unix(0, 0)})
	}
	err := run(map[string]client.Client{"eu-1": fakeMember(t), "eu1": fakeMember(t)})
	if err == nil || !strings.Contains(err.Error(), "no member eu1") || !strings.Contains(err.Error(), "it knows eu-1") {
		t.Errorf("got %v", err)
	}
	if err := run(map[string]client.Client{"eu-1": fakeMember(t), "given-back": fakeCluster(t, "other-uid")}); err != nil {
		t.Errorf("one that was given back before a stop: %v", err)
	}
}

// TestUninstallReleasesWhatTravelsByLabel: its finalizer would keep it for ever from being deleted.
func TestUninstallReleasesWhatTravelsByLabel(t *testing.T) {
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid", Finalizers: []string{appsv1alpha1.FinalizerCopies, "example.com/other"}}
	}
	hub := fakeHubWith(t, &corev1.Service{ObjectMeta: object("service")}, &networkingv1.Ingress{ObjectMeta: object("ingress")})
	for range 2 {
		err := install.Uninstall(t.Context(), hub, install.UninstallOptions{
			Force: true, Now: time.Unix(0, 0),
			HubKinds: []schema.GroupVersionKind{{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, obj := range map[string]client.Object{"service": &corev1.Service{}, "ingress": &networkingv1.Ingress{}} {
		if !exists(t, hub, obj, "shop", name) || len(obj.GetFinalizers()) != 1 {
			t.Errorf("%s has finalizers %v", name, obj.GetFinalizers())
		}
	}
}

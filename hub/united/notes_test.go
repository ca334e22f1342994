package united

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestARevisionKnowsWhoJoined: what joins while a revision is the spec's is not newer than it, so that an undo of what is
// done to it later is one. The next revision's subsets are not noted on this one.
func TestARevisionKnowsWhoJoined(t *testing.T) {
	t.Parallel()
	ud := web()
	ud.Annotations = map[string]string{appsv1alpha1.AnnotationChangeCause: "ticket 1"}
	b := newBench(t, crd("cluster"), ud)
	notes := func(want ...string) {
		t.Helper()
		for range 4 {
			b.reconcile()
			b.clock.Step(2 * time.Second)
		}
		c := &appsv1.ControllerRevision{}
		if err := b.Client.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: b.get().Status.UpdatedRevision}, c); err != nil {
			t.Fatal(err)
		}
		got := []string{c.Annotations[appsv1alpha1.AnnotationSubsets], c.Annotations[appsv1alpha1.AnnotationChangeCause]}
		if got[0] != want[0] || got[1] != want[1] || len(c.Annotations[appsv1alpha1.AnnotationSubsetTemplates]) != len(want[2]) {
			t.Errorf("notes %q, want %q", c.Annotations, want)
		}
	}
	edit := func(edit func(*appsv1alpha1.UnitedDeployment)) {
		t.Helper()
		ud := b.get()
		edit(ud)
		ud.Generation++
		if err := b.Client.Update(t.Context(), ud); err != nil {
			t.Fatal(err)
		}
	}
	notes("a", "ticket 1", "")
	first := b.get().Status.UpdatedRevision

	edit(func(ud *appsv1alpha1.UnitedDeployment) {
		ud.Annotations[appsv1alpha1.AnnotationChangeCause] = "ticket 2"
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, appsv1alpha1.Subset{Name: "b", SubsetPlace: appsv1alpha1.SubsetPlace{Cluster: "east"}})
		ud.Spec.Topology.SubsetTemplates = []appsv1alpha1.SubsetSelector{{ClusterSelector: &metav1.LabelSelector{}}}
	})
	notes("a,b", "ticket 1", "0123456789abcdef")
	if b.get().Status.UpdatedRevision != first {
		t.Fatal("a subset that joins is a release")
	}

	edit(func(ud *appsv1alpha1.UnitedDeployment) {
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, appsv1alpha1.Subset{Name: "c", SubsetPlace: appsv1alpha1.SubsetPlace{Cluster: "east"}})
		ud.Spec.Template.CloneSetTemplate.Spec.Raw = []byte(`{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:2"}]}}}`)
	})
	notes("a,b,c", "ticket 2", "0123456789abcdef")
	c := &appsv1.ControllerRevision{}
	if err := b.Client.Get(t.Context(), client.ObjectKey{Namespace: "demo", Name: first}, c); err != nil || c.Annotations[appsv1alpha1.AnnotationSubsets] != "a,b" {
		t.Errorf("the notes of the revision before: %q, %v", c.Annotations, err)
	}
}

// noNotes refuses to patch ControllerRevisions.
type noNotes struct{ client.Client }

func (c noNotes) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if _, ok := obj.(*appsv1.ControllerRevision); ok {
		return apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), obj.GetName(), errors.New("a policy says no"))
	}
	return c.Client.Patch(ctx, obj, patch, opts...)
}

// TestRefusedNotesHoldNothing: a subset that joins is placed, though nobody may write on the revision that it joined.
func TestRefusedNotesHoldNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, crd("cluster"), web())
	for range 4 {
		b.reconcile()
		b.clock.Step(2 * time.Second)
	}
	b.Client = noNotes{b.Client}
	ud := b.get()
	ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, appsv1alpha1.Subset{Name: "b", SubsetPlace: appsv1alpha1.SubsetPlace{Cluster: "east"}})
	ud.Generation++
	if err := b.Client.Update(t.Context(), ud); err != nil {
		t.Fatal(err)
	}
	before := len(b.box.items)
	for range 4 {
		b.reconcile()
		b.clock.Step(2 * time.Second)
	}
	if got := len(b.box.items); got != before+1 {
		t.Errorf("%d children are posted, %d before", got, before)
	}
}

package workload_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/member/cloneset/plan"
)

// TestB161PodsToDelete: names are struck out when no pod has them, and a name whose pod the cache does not show yet is not.
func TestB161PodsToDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloneSet(t, 2))
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	first := w.reconciler(clock)
	if _, err := first.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	there := plan.PodName("web", plan.ID("uid-web", 0))
	edit := func(change func(*appsv1alpha1.CloneSet)) {
		t.Helper()
		var set appsv1alpha1.CloneSet
		if err := w.Get(t.Context(), request.NamespacedName, &set); err != nil {
			t.Fatal(err)
		}
		change(&set)
		if err := w.Update(t.Context(), &set); err != nil {
			t.Fatal(err)
		}
	}
	names := func() []string {
		t.Helper()
		var set appsv1alpha1.CloneSet
		if err := w.Get(t.Context(), request.NamespacedName, &set); err != nil {
			t.Fatal(err)
		}
		if set.Spec.ScaleStrategy == nil {
			return nil
		}
		return set.Spec.ScaleStrategy.PodsToDelete
	}
	edit(func(set *appsv1alpha1.CloneSet) {
		set.Spec.Replicas = new(int32(1))
		set.Spec.ScaleStrategy = &appsv1alpha1.CloneSetScaleStrategy{PodsToDelete: []string{"web-nobody", there}}
	})
	// A new process whose cache shows no pod at all: it deletes nothing, and strikes out only what nobody has.
	w.past = &snapshot{version: "1000"}
	second := w.reconciler(clock)
	if _, err := second.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{there}, names()); diff != "" {
		t.Fatal(diff)
	}
	w.past = nil
	for range 4 {
		if _, err := second.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(6 * time.Second)
	}
	var pods corev1.PodList
	if err := w.Client.List(t.Context(), &pods); err != nil || len(pods.Items) != 1 || pods.Items[0].Name == there {
		t.Errorf("%d pods, %v: %s was named and is to go", len(pods.Items), err, there)
	}
	if got := names(); len(got) != 0 {
		t.Errorf("left in podsToDelete: %v", got)
	}
}

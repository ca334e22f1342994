package workload_test

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestOrphansAreAdopted: after `kubectl delete --cascade=orphan` a CloneSet of the same selector takes pods, claims and
// revisions over: nothing is created, nothing is recreated.
func TestOrphansAreAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClaim(t, 3))
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	pass := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(6 * time.Second)
	}
	pass()
	w.start(t)
	pass()
	// The garbage collector takes the owners off; then the object is gone.
	var pods corev1.PodList
	var revisions appsv1.ControllerRevisionList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&pods, &revisions, &claims} {
		if err := w.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	orphan := func(obj client.Object) {
		t.Helper()
		obj.SetOwnerReferences(nil)
		if err := w.Update(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pods.Items {
		orphan(&pods.Items[i])
	}
	for i := range revisions.Items {
		orphan(&revisions.Items[i])
	}
	for i := range claims.Items {
		orphan(&claims.Items[i])
	}
	if err := w.Delete(t.Context(), cloneSet(t, 3)); err != nil {
		t.Fatal(err)
	}
	again := withClaim(t, 3)
	again.UID, again.Spec.UpdateStrategy.Type = "uid-again", appsv1alpha1.ReCreateUpdate
	if err := w.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	creates := w.creates
	for range 5 {
		pass()
	}
	for _, list := range []client.ObjectList{&pods, &revisions, &claims} {
		if err := w.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	if w.creates != creates || w.deletes != 0 || len(pods.Items) != 3 || len(revisions.Items) != 1 || len(claims.Items) != 3 {
		t.Errorf("%d creates, %d deletes, %d pods, %d revisions, %d claims", w.creates-creates, w.deletes, len(pods.Items), len(revisions.Items), len(claims.Items))
	}
	owned := func(obj metav1.Object) {
		t.Helper()
		if owner := metav1.GetControllerOf(obj); owner == nil || owner.UID != "uid-again" {
			t.Errorf("%s is not adopted: %v", obj.GetName(), obj.GetOwnerReferences())
		}
	}
	for i := range pods.Items {
		owned(&pods.Items[i])
	}
	for i := range revisions.Items {
		owned(&revisions.Items[i])
	}
	for i := range claims.Items {
		owned(&claims.Items[i])
	}
}

// TestAPodThatDoesNotMatchIsReleased: somebody changes a pod's label to look at it; it runs on, and another takes its place.
func TestAPodThatDoesNotMatchIsReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClaim(t, 2))
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	pass := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(6 * time.Second)
	}
	pass()
	w.start(t)
	var pods corev1.PodList
	if err := w.Client.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	odd := &pods.Items[0]
	odd.Labels["app"] = "debug"
	if err := w.Update(t.Context(), odd); err != nil {
		t.Fatal(err)
	}
	// Long enough for a claim without a pod to be deleted.
	for range 40 {
		pass()
	}
	if got := w.claims(t); len(got) != 3 {
		t.Errorf("claims %v; the pod that was let go goes on with its own", got)
	}
	if w.pods(t) != 3 || w.deletes != 0 {
		t.Errorf("%d pods, %d deletes; want the odd one and two others", w.pods(t), w.deletes)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(odd), odd); err != nil || len(odd.OwnerReferences) != 0 {
		t.Fatalf("owners %v: %v", odd.OwnerReferences, err)
	}
	// Its label put back, it is one too many.
	odd.Labels["app"] = "web"
	if err := w.Update(t.Context(), odd); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		pass()
	}
	if err := w.Client.List(t.Context(), &pods); err != nil || len(pods.Items) != 2 {
		t.Errorf("%d pods: %v", len(pods.Items), err)
	}
	if slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return metav1.GetControllerOf(&p) == nil }) {
		t.Error("a pod that matches has no controller")
	}
}

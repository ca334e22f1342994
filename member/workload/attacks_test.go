package workload_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// patched wraps the client: answer is asked before each patch of that kind.
func (w *world) patched(answer func(kind, name string) error) {
	inner, ok := w.Client.(client.WithWatch)
	if !ok {
		panic("no watch")
	}
	w.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := answer(obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName()); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
}

// R5: reuse off; somebody takes a pod out by its label to look at it: it runs on with its data.
func TestR5ReleasedPodKeepsItsClaim(t *testing.T) {
	w := newWorld(t, withClaim(t, 2))
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	pass := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(time.Minute)
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
	for range 6 {
		pass()
	}
	name := odd.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
	var claim corev1.PersistentVolumeClaim
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &claim); err != nil {
		t.Errorf("pod %s runs and its claim is deleted: %v", odd.Name, err)
	}
}

func orphaned(t *testing.T, reuse bool) (*world, *clocktesting.FakeClock) {
	t.Helper()
	set := withClaim(t, 1)
	if reuse {
		set.Spec.ScaleStrategy = nil
	}
	w := newWorld(t, set)
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	if _, err := w.reconciler(clock).Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	w.start(t)
	var pods corev1.PodList
	var revisions appsv1.ControllerRevisionList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&pods, &revisions, &claims} {
		if err := w.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	orphan := func(obj client.Object) {
		obj.SetOwnerReferences(nil)
		if err := w.Update(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	orphan(&pods.Items[0])
	orphan(&revisions.Items[0])
	orphan(&claims.Items[0])
	if err := w.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	again := withClaim(t, 1)
	again.UID, again.Spec.ScaleStrategy = "uid-again", set.Spec.ScaleStrategy
	if err := w.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	return w, clock
}

// R8: the claim has changed meanwhile (409) when it is to be adopted: the next pass adopts it.
func TestR8ClaimOfAnAdoptedPodIsAdopted(t *testing.T) {
	w, clock := orphaned(t, true)
	conflicts := 1
	w.patched(func(kind, name string) error {
		if kind == "PersistentVolumeClaim" && conflicts > 0 {
			conflicts--
			return apierrors.NewConflict(schema.GroupResource{Resource: "persistentvolumeclaims"}, name, nil)
		}
		return nil
	})
	r := w.reconciler(clock)
	for range 6 {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(6 * time.Second)
	}
	var claims corev1.PersistentVolumeClaimList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&pods, &claims} {
		if err := w.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	if metav1.GetControllerOf(&pods.Items[0]) == nil {
		t.Fatal("the pod is not adopted")
	}
	for i := range claims.Items {
		if metav1.GetControllerOf(&claims.Items[i]) == nil {
			t.Errorf("claim %s of an adopted pod stays without a controller", claims.Items[i].Name)
		}
	}
}

// R10: the pod cannot be adopted (an admission policy), the claim was: reuse off deletes it under the running pod.
func TestR10ClaimOfAPodThatCannotJoin(t *testing.T) {
	w, clock := orphaned(t, false)
	w.patched(func(kind, name string) error {
		if kind == "Pod" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, nil)
		}
		return nil
	})
	var before corev1.PersistentVolumeClaimList
	if err := w.Client.List(t.Context(), &before); err != nil {
		t.Fatal(err)
	}
	r := w.reconciler(clock)
	for range 6 {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(time.Minute)
	}
	var claim corev1.PersistentVolumeClaim
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(&before.Items[0]), &claim); err != nil {
		t.Errorf("the claim of a running pod is deleted: %v", err)
	}
}

// R13: a refusal that passes (rights are given an hour later) is asked again; the warning goes.
func TestR13RefusedAdoptionIsTriedAgain(t *testing.T) {
	w, clock := orphaned(t, true)
	refuse := true
	w.patched(func(kind, name string) error {
		if kind == "Pod" && refuse {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, nil)
		}
		return nil
	})
	r := w.reconciler(clock)
	pass := func() {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(10 * time.Minute)
	}
	for range 3 {
		pass()
	}
	refuse = false
	for range 6 {
		pass()
	}
	var pods corev1.PodList
	if err := w.Client.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if metav1.GetControllerOf(&pods.Items[i]) == nil {
			t.Errorf("pod %s matches and is never asked again", pods.Items[i].Name)
		}
	}
}

// R14: the watch of claims has not begun (an agent that has just started): orphans that match are neither replaced nor, as their
// revision's name is taken meanwhile, recreated when they join a moment later.
func TestR14OrphansAreNotReplacedBeforeTheyCanJoin(t *testing.T) {
	w, clock := orphaned(t, true)
	w.unsynced = true
	r, creates := w.reconciler(clock), w.creates
	for i := range 12 {
		if i == 3 {
			w.unsynced = false
		}
		_, _ = r.Reconcile(t.Context(), request)
		w.start(t)
		clock.Step(6 * time.Second)
	}
	var revisions appsv1.ControllerRevisionList
	if err := w.Client.List(t.Context(), &revisions); err != nil {
		t.Fatal(err)
	}
	if w.creates != creates || w.deletes != 0 || len(revisions.Items) != 1 {
		t.Errorf("%d pods created, %d deleted, %d revisions, beside one orphan that is adopted a moment later", w.creates-creates, w.deletes, len(revisions.Items))
	}
}

// R20: one orphan cannot be adopted (its webhook is down: 500): the rest goes on, and the object says why.
func TestR20ABrokenAdoptionHoldsNothingElse(t *testing.T) {
	w, clock := orphaned(t, true)
	w.patched(func(kind, _ string) error {
		if kind == "Pod" {
			return apierrors.NewInternalError(context.DeadlineExceeded)
		}
		return nil
	})
	r := w.reconciler(clock)
	for range 5 {
		_, _ = r.Reconcile(t.Context(), request)
		clock.Step(time.Minute)
	}
	var set appsv1alpha1.CloneSet
	if err := w.Get(t.Context(), request.NamespacedName, &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Status.Conditions) == 0 {
		t.Errorf("after 5 passes the object has no status at all")
	}
}

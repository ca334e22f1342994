package workload_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/member/cloneset/plan"
)

// withClaim is a CloneSet whose pods have one claim, which is not used again.
func withClaim(t *testing.T, replicas int32) *appsv1alpha1.CloneSet {
	t.Helper()
	set := cloneSet(t, replicas)
	set.Spec.VolumeClaimTemplates = []appsv1alpha1.RawObject{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`),
	}}}
	set.Spec.ScaleStrategy = &appsv1alpha1.CloneSetScaleStrategy{DisablePVCReuse: new(true)}
	return set
}

func (w *world) claims(t *testing.T) []string {
	t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := w.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func (w *world) condition(t *testing.T, kind string) *metav1.Condition {
	t.Helper()
	var set appsv1alpha1.CloneSet
	if err := w.Get(t.Context(), request.NamespacedName, &set); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(set.Status.Conditions, kind)
}

// TestClaimsGoWithTheirPods: each pod has its claim, mounted; a scale-in deletes the pod's claim with it.
func TestClaimsGoWithTheirPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClaim(t, 3))
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	pass := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(time.Second)
	}
	pass()
	if got := w.claims(t); len(got) != 3 || w.pods(t) != 3 {
		t.Fatalf("claims %v of %d pods", got, w.pods(t))
	}
	w.start(t)
	pass()
	var set appsv1alpha1.CloneSet
	if err := w.Get(t.Context(), request.NamespacedName, &set); err != nil {
		t.Fatal(err)
	}
	set.Spec.Replicas = new(int32(1))
	if err := w.Update(t.Context(), &set); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		pass()
	}
	var pods corev1.PodList
	if err := w.Client.List(t.Context(), &pods); err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods, %v", len(pods.Items), err)
	}
	left := w.claims(t)
	if len(left) != 1 || pods.Items[0].Spec.Volumes[0].PersistentVolumeClaim.ClaimName != left[0] {
		t.Errorf("claims %v are left of pod %s", left, pods.Items[0].Name)
	}
}

// TestStaleClaims: a view that does not show a claim of ours yet decides nothing, and after five seconds, or while the watch
// has not begun, claims are read from the API server.
func TestStaleClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClaim(t, 1))
	w.unsynced = true
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	if _, err := r.Reconcile(t.Context(), request); err != nil || len(w.claims(t)) != 1 {
		t.Fatalf("claims %v: %v", w.claims(t), err)
	}
	w.unsynced, w.claimsBehind = false, true
	var set appsv1alpha1.CloneSet
	if err := w.Get(t.Context(), request.NamespacedName, &set); err != nil {
		t.Fatal(err)
	}
	set.Spec.Replicas = new(int32(2))
	if err := w.Update(t.Context(), &set); err != nil {
		t.Fatal(err)
	}
	result, err := r.Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter <= 0 || w.pods(t) != 1 {
		t.Fatalf("result %v, error %v, %d pods; want a wait", result, err, w.pods(t))
	}
	clock.Step(result.RequeueAfter)
	if _, err := r.Reconcile(t.Context(), request); err != nil || w.pods(t) != 2 || len(w.claims(t)) != 2 {
		t.Errorf("%d pods, claims %v, error %v; want 2 and 2", w.pods(t), w.claims(t), err)
	}
}

// TestClaimNameOfAnother: somebody else's claim is left alone, no pod gets it, and the next id is used.
func TestClaimNameOfAnother(t *testing.T) {
	t.Parallel()
	id := plan.ID("uid-web", 0)
	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-" + id, UID: "foreign"}}
	w := newWorld(t, withClaim(t, 1), foreign)
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	result, err := r.Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter <= 0 || w.pods(t) != 0 {
		t.Fatalf("result %v, error %v, %d pods; want another look", result, err, w.pods(t))
	}
	clock.Step(result.RequeueAfter)
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	if err := w.Client.List(t.Context(), &pods); err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods: %v", len(pods.Items), err)
	}
	if got := pods.Items[0].Labels[appsv1alpha1.LabelCloneSetInstanceID]; got != plan.ID("uid-web", 1) {
		t.Errorf("the pod has id %s", got)
	}
}

// TestB119Quota: what the API server refuses is told without the pods' names, tried again with growing waits, and forgotten
// when it is accepted.
func TestB119Quota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloneSet(t, 2))
	w.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-x", errors.New("exceeded quota: two, limited: pods=1"))
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	r := w.reconciler(clock)
	end := clock.Now().Add(5 * time.Minute)
	for clock.Now().Before(end) {
		result, err := r.Reconcile(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		clock.Step(max(result.RequeueAfter, time.Second))
	}
	// At 0, 5, 15, 35, 75, 155 s, and each time the first of the two.
	if w.creates < 4 || w.creates > 8 {
		t.Errorf("%d creates in 5 minutes", w.creates)
	}
	c := w.condition(t, appsv1alpha1.ConditionFailedScale)
	if c == nil || !strings.Contains(c.Message, "exceeded quota: two") || strings.Contains(c.Message, "web-x") {
		t.Fatalf("condition %+v", c)
	}
	w.refuse = nil
	clock.Step(5 * time.Minute)
	for range 3 {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		clock.Step(time.Second)
	}
	if c := w.condition(t, appsv1alpha1.ConditionFailedScale); c != nil || w.pods(t) != 2 {
		t.Errorf("%d pods, condition %+v", w.pods(t), c)
	}
}

package workload_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/member/statefulset"
	"github.com/underway-dev/underway/member/workload"
)

// sets is a world with a StatefulSet web of two, and its reconciler.
type sets struct {
	*world

	t     *testing.T
	clock *clocktesting.FakeClock
	r     *workload.Reconciler
}

func newSets(t *testing.T, objects ...client.Object) sets {
	t.Helper()
	set := &appsv1alpha1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "set", Generation: 1},
		Spec: appsv1alpha1.StatefulSetSpec{
			Replicas: new(int32(2)), PodManagementPolicy: appsv1alpha1.ParallelPods,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"a:1"}]}}`)},
		},
	}
	w := newWorld(t, append(objects, set)...)
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	return sets{w, t, clock, workload.New(workload.Options{
		Kind: statefulset.Kind{}, Resource: statefulset.Resource(), Cache: w, PodsVersion: w.podsVersion, Live: w.Client,
		Claims: workload.Feed{Synced: func() bool { return true }, Version: w.claimsVersion}, Clock: clock, Extended: true,
	})}
}

func (s sets) pass(after time.Duration) {
	s.t.Helper()
	s.clock.Step(after)
	if _, err := s.r.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "web"}}); err != nil {
		s.t.Fatal(err)
	}
}

func (s sets) byName() map[string]corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	if err := s.Client.List(s.t.Context(), &list); err != nil {
		s.t.Fatal(err)
	}
	out := map[string]corev1.Pod{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i]
	}
	return out
}

func loose(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "loose", Labels: map[string]string{"app": "web"}}}
}

// TestNamedPodsJoinByName: an orphan that matches joins under a name of the set only.
func TestNamedPodsJoinByName(t *testing.T) {
	t.Parallel()
	s := newSets(t, loose("web-1"), loose("other"))
	// A pass that changes owners does nothing else.
	s.pass(0)
	pods := s.byName()
	if diff := cmp.Diff([]string{"other", "web-1"}, slices.Sorted(maps.Keys(pods))); diff != "" {
		t.Fatal(diff)
	}
	for name, want := range map[string]int{"other": 0, "web-1": 1} {
		if pod := pods[name]; len(pod.OwnerReferences) != want {
			t.Errorf("%s: %v", name, pod.OwnerReferences)
		}
	}
	// Then it gets its labels, and then the others come.
	s.pass(6 * time.Second)
	s.pass(6 * time.Second)
	if pods := s.byName(); len(pods["other"].OwnerReferences) != 0 || len(pods["web-0"].OwnerReferences) != 1 {
		t.Errorf("%v", slices.Sorted(maps.Keys(pods)))
	}
}

// TestNamedLabelsAreMended: labels of a pod's identity that somebody took off come back, and are not fought over.
func TestNamedLabelsAreMended(t *testing.T) {
	t.Parallel()
	s := newSets(t)
	s.pass(0)
	s.pass(6 * time.Second)
	strip := func() {
		t.Helper()
		pod := s.byName()["web-1"]
		delete(pod.Labels, appsv1alpha1.LabelPodIndex)
		if err := s.Update(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
	}
	index := func() string {
		pod := s.byName()["web-1"]
		return pod.Labels[appsv1alpha1.LabelPodIndex]
	}
	if index() != "1" {
		t.Fatalf("%q", index())
	}
	strip()
	s.pass(6 * time.Second)
	if index() != "1" {
		t.Errorf("not mended: %q", index())
	}
	strip()
	s.pass(6 * time.Second)
	if index() != "" {
		t.Error("mended again at once")
	}
	s.pass(time.Minute)
	if index() != "1" {
		t.Errorf("not mended later: %q", index())
	}
}

// TestNamedNameInTheWay: somebody else's pod of the name is not touched, told, and looked at again.
func TestNamedNameInTheWay(t *testing.T) {
	t.Parallel()
	other := loose("web-1")
	other.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j", Controller: new(true)}}
	s := newSets(t, other)
	said := func() string {
		set := &appsv1alpha1.StatefulSet{}
		if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web"}, set); err != nil {
			t.Fatal(err)
		}
		if c := meta.FindStatusCondition(set.Status.Conditions, appsv1alpha1.ConditionFailedCreatePod); c != nil {
			return c.Message
		}
		return ""
	}
	for range 4 {
		s.pass(6 * time.Second)
	}
	if tries := s.creates; tries != 2 || !strings.Contains(said(), "pod web-1 cannot be created: somebody else's pod has the name") {
		t.Fatalf("%d creates, %q", tries, said())
	}
	s.pass(time.Minute)
	if s.creates != 2 {
		t.Errorf("tried again while the name is taken")
	}
	if err := s.Client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	s.pass(31 * time.Second)
	s.pass(6 * time.Second)
	pod := s.byName()["web-1"]
	if len(pod.OwnerReferences) != 1 || pod.OwnerReferences[0].UID != "set" || said() != "" {
		t.Errorf("%v, %q", pod.OwnerReferences, said())
	}
}

package united

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/render"
)

const podTemplate = `"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}`

func native(field string) *appsv1alpha1.UnitedDeployment {
	ud := web()
	t := &appsv1alpha1.WorkloadTemplate{Spec: runtime.RawExtension{Raw: []byte("{" + podTemplate + "}")}}
	ud.Spec.Template = appsv1alpha1.SubsetTemplate{}
	if field == "statefulSet" {
		ud.Spec.Template.StatefulSetTemplate = t
	} else {
		ud.Spec.Template.DeploymentTemplate = t
	}
	return ud
}

// nativeOnly is a member that knows Kubernetes' own kinds, and none of ours.
func nativeOnly() clusters.View {
	view := clusters.View{State: clusters.StateReady, Synced: true, Reachable: true}
	for _, k := range render.Kinds() {
		own := !k.NeedsAgent
		view.Kinds = append(view.Kinds, clusters.KindView{GVK: k.GVK, Served: own, Synced: own, Reconciler: clusters.ReconcilerKubernetes})
	}
	return view
}

// TestAMemberWithoutOurKinds runs Kubernetes' own.
func TestAMemberWithoutOurKinds(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"statefulSet", "deployment"} {
		b := newBench(t, crd("cluster"), native(field))
		b.members.views["east"] = nativeOnly()
		local := nativeOnly()
		local.Kinds[0].Reconciler = clusters.ReconcilerNobody
		b.members.views[""] = local
		for range 3 {
			b.reconcile()
			b.clock.Step(2 * time.Second)
		}
		if len(b.box.items) != 1 {
			t.Fatalf("%s: %d posted, %+v", field, len(b.box.items), b.get().Status.SubsetStatuses)
		}
		for key, item := range b.box.items {
			if key.GVK.Group != "apps" || item.Want != changeset.WantApplied {
				t.Errorf("%+v", key)
			}
		}
	}
}

// TestOtherKindsHoldNobodyUp: a kind that a member does not show keeps an object of another kind waiting for nothing.
func TestOtherKindsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind  render.Kind
		ready bool
	}{
		"another kind": {render.StatefulSet(), true},
		"its own kind": {render.CloneSet(), false},
	} {
		b := newBench(t, crd("cluster"), web())
		view := b.members.views["east"]
		view.Kinds = nil
		for _, k := range render.Kinds() {
			refused := ""
			if k.GVK == tc.kind.GVK {
				refused = "forbidden"
			}
			view.Kinds = append(view.Kinds, clusters.KindView{GVK: k.GVK, Served: true, Synced: refused == "", Refused: refused, Reconciler: clusters.ReconcilerUnderway})
		}
		view.Name = "east"
		b.members.views["east"] = view
		ud := b.get()
		seen := &observation{memory: b.remember(b.name, ud.UID), Observation: plan.Observation{United: ud}}
		seen.kinds = kindsOf(seen)
		m := b.member(seen, "east", nil)
		if m.Ready != tc.ready || (!tc.ready && !strings.Contains(m.Problem, "it does not let the hub read its clonesets: kubectl underway join east --upgrade")) {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// TestStillWantedAfterAChangeOfKind: the old child goes only while the spec asks for the new kind, and the new child is
// whole when it is read again.
func TestStillWantedAfterAChangeOfKind(t *testing.T) {
	t.Parallel()
	deployment := func(ready int64) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "web-a", "namespace": "demo", "generation": int64(2), "labels": map[string]any{"apps.kruise.io/controller-revision-hash": "new"}},
			"spec":     map[string]any{"replicas": int64(3)},
			"status": map[string]any{
				"observedGeneration": int64(2), "replicas": int64(3), "updatedReplicas": int64(3), "readyReplicas": ready, "availableReplicas": ready,
			},
		}}
		obj.SetGroupVersionKind(render.Deployment().GVK)
		return obj
	}
	after := &plan.Successor{Target: plan.Target{Member: "east", Kind: "Deployment.apps", Name: "web-a"}, Revision: "new", Replicas: 3}
	for name, tc := range map[string]struct {
		ud    *appsv1alpha1.UnitedDeployment
		child *unstructured.Unstructured
		after *plan.Successor
		want  bool
	}{
		"whole":                           {native("deployment"), deployment(3), after, true},
		"a pod is not ready":              {native("deployment"), deployment(2), after, false},
		"it is gone":                      {native("deployment"), nil, after, false},
		"the spec is back at the old one": {web(), deployment(3), after, false},
		"nobody has taken over":           {native("deployment"), deployment(3), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, crd("cluster"), tc.ud)
			if tc.child != nil {
				b.members.children["east"] = []*unstructured.Unstructured{tc.child}
			}
			got, err := b.stillWanted(b.name, "ud-uid", &plan.Push{Member: "east", Subset: "a", After: tc.after})(t.Context())
			if err != nil || got != tc.want {
				t.Errorf("got %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

// TestPodsOfAStuckChild are looked at after a minute without movement, and then each half a minute.
func TestPodsOfAStuckChild(t *testing.T) {
	t.Parallel()
	ud := native("statefulSet")
	b := newBench(t, crd("cluster"), ud)
	b.members.views["east"] = nativeOnly()
	pod := func(name, owner string) runtime.Object {
		p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		p.Name, p.Namespace = name, "demo"
		p.Labels = map[string]string{"app": "web", "apps.kruise.io/subset-name": "a", "controller-revision-hash": "in-between"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web-a", UID: types.UID(owner), Controller: new(true)}}
		return p
	}
	b.members.pods = dynamicfake.NewSimpleDynamicClient(b.Client.Scheme(), pod("web-a-2", "child-uid"), pod("foreign-0", "other"))
	obj := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"name": "web-a", "namespace": "demo", "uid": "child-uid", "generation": int64(1),
			"labels":      map[string]any{"apps.kruise.io/subset-name": "a"},
			"annotations": map[string]any{"fleet.underway.dev/intent": "1/ud-uid/1/1", "fleet.underway.dev/owner": "demo/web"},
		},
		"spec":   map[string]any{"replicas": int64(3)},
		"status": map[string]any{"observedGeneration": int64(1), "replicas": int64(3), "readyReplicas": int64(2), "updateRevision": "new", "currentRevision": "old"},
	}}
	obj.SetGroupVersionKind(render.StatefulSet().GVK)
	b.members.children["east"] = []*unstructured.Unstructured{obj}

	look := func() map[plan.Target][]plan.Pod {
		seen, err := b.observe(t.Context(), reconcileRequest(b))
		if err != nil {
			t.Fatal(err)
		}
		return seen.Pods
	}
	if got := look(); len(got) != 0 || b.members.lists != 0 {
		t.Fatalf("looked at too early: %v", got)
	}
	b.clock.Step(59 * time.Second)
	if look(); b.members.lists != 0 {
		t.Fatal("looked at before a minute has passed")
	}
	b.clock.Step(time.Second)
	got := look()[plan.Target{Member: "east", Kind: "StatefulSet.apps", Name: "web-a"}]
	if want := []plan.Pod{{Name: "web-a-2", Revision: "in-between"}}; fmt.Sprint(got) != fmt.Sprint(want) || b.members.lists != 1 {
		t.Fatalf("%+v after %d lists", got, b.members.lists)
	}
	b.clock.Step(29 * time.Second)
	if look(); b.members.lists != 1 {
		t.Error("looked at again within half a minute")
	}
	b.clock.Step(time.Second)
	if look(); b.members.lists != 2 {
		t.Error("not looked at again")
	}
	moved := obj.DeepCopy()
	_ = unstructured.SetNestedField(moved.Object, int64(1), "status", "updatedReplicas")
	b.members.children["east"] = []*unstructured.Unstructured{moved}
	if got := look(); len(got) != 0 {
		t.Errorf("something moved, and its pods are still told: %v", got)
	}
}

func reconcileRequest(b *bench) (out ctrl.Request) {
	out.NamespacedName = client.ObjectKeyFromObject(b.get())
	return out
}

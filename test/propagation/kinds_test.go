//go:build lab

package propagation

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/feedback"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
	"github.com/underway-dev/underway/test/lab"
)

// roundTrips is a pod template full of what a typed API server writes in another way, leaves out or fills in: amounts, zero
// values, lists with and without keys, two mounts of one volume, a port in two protocols.
const roundTrips = `{"metadata": {"labels": {"app": "web"}, "annotations": {"note": ""}}, "spec": {
	"hostNetwork": false, "terminationGracePeriodSeconds": 0, "securityContext": {}, "nodeSelector": {}, "affinity": {"nodeAffinity": {}},
	"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}, {"name": "c", "configMap": {"name": "none", "optional": true}}],
	"tolerations": [{"operator": "Exists", "key": ""}], "readinessGates": [{"conditionType": "a.b/c"}],
	"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}],
	"initContainers": [{"name": "init", "image": "init:1", "restartPolicy": "Always"}],
	"containers": [
		{"name": "web", "image": %q, "stdin": false, "workingDir": "", "command": [], "env": [{"name": "A", "value": ""}, {"name": "B", "value": "b"}],
		 "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}, {"containerPort": 80, "hostPort": 0}],
		 "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {}},
		 "securityContext": {"privileged": false, "capabilities": {"add": ["NET_ADMIN"]}},
		 "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "initialDelaySeconds": 0},
		 "volumeMounts": [{"name": "v", "mountPath": "/b"}, {"name": "v", "mountPath": "/a", "readOnly": false, "subPath": "x"}]},
		{"name": "side", "image": "side:1", "imagePullPolicy": "Never"}]}}`

// specs are the templates of the tests by kind, beside the pod template.
var specs = map[string]string{
	"statefulSetTemplate": `"serviceName": "web", "minReadySeconds": 0, "revisionHistoryLimit": 3, "ordinals": {"start": 2},
		"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}, "updateStrategy": {"type": "RollingUpdate"},
		"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}}]`,
	"deploymentTemplate": `"minReadySeconds": 3, "progressDeadlineSeconds": 77, "strategy": {"rollingUpdate": {"maxSurge": "30%", "maxUnavailable": 0}}`,
	"advancedStatefulSetTemplate": `"serviceName": "web", "podManagementPolicy": "Parallel", "ordinals": {"start": 2}, "reserveOrdinals": [3, "5-6"],
		"scaleStrategy": {"maxUnavailable": "50%"}, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
		"updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "50%", "minReadySeconds": 5}}`,
}

func (h *hub) of(t *testing.T, k render.Kind, namespace string, p plan) outbox.Item {
	t.Helper()
	owner := types.NamespacedName{Namespace: namespace, Name: "web"}
	in := render.Intent{Term: 1, OwnerUID: types.UID("owner-" + namespace), Generation: p.generation}
	obj, err := render.Child(render.Input{
		Owner: owner, Subset: "alpha", HubID: h.id, Intent: in, Revision: "r-" + strings.NewReplacer(":", "-").Replace(p.image),
		Workload: render.Workload{Kind: k, Spec: fmt.Appendf(nil, `{%s%s, "template": %s}`, specs[k.Template], p.extra, fmt.Sprintf(roundTrips, p.image))},
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Replicas: p.replicas, Partition: p.partition,
	})
	if err != nil {
		t.Fatal(err)
	}
	return outbox.Item{
		Member: "alpha", Want: changeset.WantApplied, Object: obj, Owner: owner, Intent: in,
		Adopt: p.adopt, Judged: p.judged, Carried: carriedBy(p.judged), EnsureNamespace: true,
		StillWanted: func(context.Context) (bool, error) { return true, nil },
	}
}

// asAdmin is an administrator's view of the kind on alpha.
func asAdmin(t *testing.T, k render.Kind, namespace string) dynamic.ResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(fleet.Cluster("alpha").RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c.Resource(k.GVR()).Namespace(namespace)
}

func mustGet(t *testing.T, api dynamic.ResourceInterface, name string) *unstructured.Unstructured {
	t.Helper()
	obj, err := api.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func field(obj *unstructured.Unstructured, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	return v
}

// otherKinds are the kinds beside CloneSet, which the other tests of this package are about.
func otherKinds() []render.Kind {
	return []render.Kind{render.StatefulSet(), render.Deployment(), render.AdvancedStatefulSet()}
}

func eachKind(t *testing.T, test func(t *testing.T, k render.Kind, ns, id string)) {
	t.Parallel()
	for _, k := range otherKinds() {
		t.Run(k.Template, func(t *testing.T) {
			t.Parallel()
			name := strings.ToLower(strings.NewReplacer("/", "-", "Template", "").Replace(strings.TrimPrefix(t.Name(), "Test")))
			sum := fnv.New64a() // a hub's id; two tests must not be one hub
			_, _ = sum.Write([]byte(t.Name()))
			test(t, k, name[max(0, len(name)-50):], fmt.Sprintf("%016x", sum.Sum64()))
		})
	}
}

// shown waits until the hub's cache has what the member has; controllers of the member may write on it meanwhile.
func (h *hub) shown(t *testing.T, k render.Kind, api dynamic.ResourceInterface, namespace, name string) {
	t.Helper()
	eventually(t, "the cache shows it", func() (bool, string) {
		live := mustGet(t, api, name)
		obj, synced := h.members.Child("alpha", k.GVK, types.NamespacedName{Namespace: namespace, Name: name})
		return synced && obj != nil && obj.GetResourceVersion() == live.GetResourceVersion(), ""
	})
}

// TestKindIsHeldReleasedAndRestarted: a hold, a release of a part, a restart of the hub that sends nothing though the API
// server filled defaults in and controllers wrote beside us, and a report that reads what the member says.
func TestKindIsHeldReleasedAndRestarted(t *testing.T) {
	eachKind(t, func(t *testing.T, k render.Kind, ns, id string) {
		h := startHub(t, id, "one")
		h.join(t, "alpha")
		p := some("web:1", 1)
		p.partition = render.Partition{Hold: true}
		got := h.apply(t, h.of(t, k, ns, p))
		api := asAdmin(t, k, ns)
		name := h.of(t, k, ns, p).Object.GetName()
		rolling := []string{"spec", "updateStrategy", "rollingUpdate", "partition"}
		if held := field(mustGet(t, api, name), rolling...); k.Hold == render.HoldPartition && held != int64(render.HoldOrdinal) {
			t.Errorf("held at %v", held)
		}
		p = p.by(got.UID)
		p.image, p.generation, p.partition = "web:2", 2, render.Partition{Value: intstr.FromInt32(1)}
		want := any(int64(1))
		switch k {
		case render.StatefulSet():
			want = int64(3)
		case render.Deployment():
			want, p.partition = nil, render.Partition{}
		}
		since := mark(t, "alpha")
		h.apply(t, h.of(t, k, ns, p))
		if is := field(mustGet(t, api, name), rolling...); is != want {
			t.Errorf("released at %v, want %v", is, want)
		}
		// A controller of the member that writes meanwhile makes it two: the first conflicts.
		written := slices.DeleteFunc(requests(t, "alpha", ns, since, lab.Writes), func(r string) bool { return strings.HasSuffix(r, " 409") })
		if diff := cmp.Diff([]string{"patch " + k.Resource + " 200"}, written); diff != "" {
			t.Errorf("requests of a change (-want +got):\n%s", diff)
		}

		h.stop()
		since = mark(t, "alpha")
		again := startHub(t, h.id, "two")
		again.join(t, "alpha")
		for range 3 {
			if out := again.apply(t, again.of(t, k, ns, p)); out.Op != changeset.OpNothing || out.Reason != changeset.ReasonUpToDate {
				t.Errorf("after a restart: %s %s %q", out.Op, out.Reason, out.Message)
			}
		}
		time.Sleep(time.Second)
		if wrote := requests(t, "alpha", ns, since, lab.Writes); len(wrote) > 0 {
			t.Errorf("a restart with nothing due wrote %v", wrote)
		}
		report, err := feedback.Of(mustGet(t, api, name))
		if err != nil {
			t.Fatal(err)
		}
		if report.Kind != k.GVK.GroupKind().String() || report.SubsetRevision != "r-web-2" || *report.SpecReplicas != 3 ||
			(k.Hold == render.HoldPartition && report.Partition != "1") || report.PodsUnknown == k.NeedsAgent {
			t.Errorf("the report is %+v", report)
		}
		if !k.NeedsAgent {
			eventually(t, "Kubernetes' controller answers", func() (bool, string) {
				r, err := feedback.Of(mustGet(t, api, name))
				return err == nil && r.Fresh, fmt.Sprintf("%+v %v", r, err)
			})
		}
		view, _ := again.members.View("alpha")
		at := slices.IndexFunc(view.Kinds, func(v clusters.KindView) bool { return v.GVK == k.GVK })
		if native := view.Kinds[at].Reconciler == clusters.ReconcilerKubernetes; !view.Kinds[at].Synced || native == k.NeedsAgent {
			t.Errorf("the view of the kind is %+v", view.Kinds[at])
		}
	})
}

// TestKindDriftIsTakenBack: what a person edits is sent again, and what others put beside our fields stays.
func TestKindDriftIsTakenBack(t *testing.T) {
	eachKind(t, func(t *testing.T, k render.Kind, ns, id string) {
		h := startHub(t, id, "one")
		h.join(t, "alpha")
		p := some("web:1", 1)
		got := h.apply(t, h.of(t, k, ns, p))
		i := h.of(t, k, ns, p.by(got.UID))
		api := asAdmin(t, k, ns)
		h.apply(t, i)
		eventually(t, "a person edits it", func() (bool, string) {
			edited := mustGet(t, api, i.Object.GetName())
			list := field(edited, "spec", "template", "spec", "containers").([]any)
			list[0].(map[string]any)["image"] = "web:by-hand"
			edited.SetAnnotations(union(edited.GetAnnotations(), "theirs", "x"))
			_, err := api.Update(t.Context(), edited, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
			return err == nil, fmt.Sprint(err)
		})
		eventually(t, "the edit is taken back", func() (bool, string) {
			live := mustGet(t, api, i.Object.GetName())
			list := field(live, "spec", "template", "spec", "containers").([]any)
			return list[0].(map[string]any)["image"] == "web:1" && live.GetAnnotations()["theirs"] == "x", fmt.Sprint(list[0])
		})
		eventually(t, "who edited it is named", func() (bool, string) {
			out, _ := h.box.Outcome(i.Key())
			return slices.ContainsFunc(out.TookBack, func(f changeset.Taken) bool { return f.Manager == "kubectl-edit" }), fmt.Sprintf("%+v", out)
		})
	})
}

func union(m map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	maps.Copy(out, m)
	return out
}

// TestKindAdoptedOrphanedDeleted: a foreign object conflicts; with spec.adopt it is taken over without a word to its pod
// template when the labels allow it, and refused when its selector differs; orphaned it stays, deleted it goes.
func TestKindAdoptedOrphanedDeleted(t *testing.T) {
	eachKind(t, func(t *testing.T, k render.Kind, ns, id string) {
		h := startHub(t, id, "one")
		h.join(t, "alpha")
		makeNamespace(t, "alpha", ns)
		api := asAdmin(t, k, ns)
		i := h.of(t, k, ns, some("web:1", 1))
		foreign := i.Object.DeepCopy()
		foreign.SetLabels(nil)
		foreign.SetAnnotations(nil)
		other := foreign.DeepCopy()
		foreign.SetName(i.Object.GetName())
		made, err := api.Create(t.Context(), foreign, metav1.CreateOptions{FieldManager: "somebody"})
		if err != nil {
			t.Fatal(err)
		}
		h.box.Post(i)
		if out := h.settle(t, i, outbox.StateConflict); !strings.Contains(out.Message, "not made by a hub") {
			t.Errorf("a foreign object: %q", out.Message)
		}
		p := some("web:1", 2)
		p.adopt = appsv1alpha1.AdoptAny
		i = h.of(t, k, ns, p)
		out := h.apply(t, i)
		live := mustGet(t, api, i.Object.GetName())
		if out.Reason != changeset.ReasonAdopted || live.GetUID() != made.GetUID() {
			t.Errorf("adopted: %s %q, UID %s, was %s", out.Reason, out.Message, live.GetUID(), made.GetUID())
		}
		if diff := cmp.Diff(field(made, "spec", "template"), field(live, "spec", "template")); diff != "" {
			t.Errorf("adoption changed the pod template, which moves pods (-before +after):\n%s", diff)
		}

		h.shown(t, k, api, ns, i.Object.GetName())
		i.Want, i.Judged = changeset.WantOrphaned, made.GetUID()
		i.Intent.Generation = 3
		h.apply(t, i)
		if live := mustGet(t, api, i.Object.GetName()); live.GetAnnotations()[appsv1alpha1.AnnotationOrphaned] == "" {
			t.Errorf("not orphaned: %v", live.GetAnnotations())
		}
		back := h.of(t, k, ns, func() plan { p := p; p.generation, p.judged = 4, made.GetUID(); return p }())
		h.apply(t, back)
		back.Want, back.Intent.Generation = changeset.WantDeleted, 5
		h.apply(t, back)
		eventually(t, "it is gone", func() (bool, string) {
			_, err := api.Get(t.Context(), i.Object.GetName(), metav1.GetOptions{})
			return apierrors.IsNotFound(err), fmt.Sprint(err)
		})

		// Another selector cannot be adopted, because it cannot be changed.
		if err := unstructured.SetNestedStringMap(other.Object, map[string]string{"app": "web"}, "spec", "selector", "matchLabels"); err != nil {
			t.Fatal(err)
		}
		if _, err := api.Create(t.Context(), other, metav1.CreateOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
		p.generation = 6
		i = h.of(t, k, ns, p)
		h.box.Post(i)
		if out := h.settle(t, i, outbox.StateConflict); !strings.Contains(out.Message, "a selector cannot be changed") {
			t.Errorf("another selector: %q", out.Message)
		}
	})
}

// TestImmutableFieldIsRefusedInWords: the answer names the field and what helps; the child stays as it was.
func TestImmutableFieldIsRefusedInWords(t *testing.T) {
	t.Parallel()
	const ns = "immutable"
	h := startHub(t, "5500000000000b01", "one")
	h.join(t, "alpha")
	k := render.StatefulSet()
	p := some("web:1", 1)
	got := h.apply(t, h.of(t, k, ns, p))
	p = p.by(got.UID)
	p.generation, p.extra = 2, `, "podManagementPolicy": "Parallel"`
	serviceName := h.of(t, k, ns, p)
	unstructured.RemoveNestedField(serviceName.Object.Object, "spec", "podManagementPolicy")
	if err := unstructured.SetNestedField(serviceName.Object.Object, "other", "spec", "serviceName"); err != nil {
		t.Fatal(err)
	}
	h.box.Post(serviceName)
	if out := h.settle(t, serviceName, outbox.StateRefused); !strings.Contains(out.Message, "spec.serviceName") || !strings.Contains(out.Message, "cannot be changed") {
		t.Errorf("refused with %q", out.Message)
	}
	p.generation = 3
	i := h.of(t, k, ns, p)
	since := mark(t, "alpha")
	h.box.Post(i)
	var out outbox.Outcome
	eventually(t, "it is refused", func() (bool, string) {
		out, _ = h.box.Outcome(i.Key())
		return out.State == outbox.StateRefused && out.Intent == i.Intent, fmt.Sprintf("%+v", out)
	})
	if !strings.Contains(out.Message, "podManagementPolicy") || !strings.Contains(out.Message, "cannot be changed") {
		t.Errorf("refused with %q", out.Message)
	}
	time.Sleep(3 * time.Second)
	if sent := requests(t, "alpha", ns, since, lab.Writes); len(sent) > 5 {
		t.Errorf("%d writes in 3 s: %v", len(sent), sent)
	}
	p.generation, p.extra, p.image = 4, "", "web:2"
	h.apply(t, h.of(t, k, ns, p))
}

// TestB149: a field that the member's API server does not know never leaves the subset without all the others.
func TestB149(t *testing.T) {
	eachKind(t, func(t *testing.T, k render.Kind, ns, id string) {
		h := startHub(t, id, "one")
		h.join(t, "alpha")
		p := some("web:1", 1)
		p.extra = `, "fieldOfTomorrow": {"a": 1}`
		i := h.of(t, k, ns, p)
		out := h.apply(t, i)
		t.Logf("%s %s %q", out.Op, out.Reason, out.Message)
		live := mustGet(t, asAdmin(t, k, ns), i.Object.GetName())
		if field(live, "spec", "fieldOfTomorrow") != nil {
			t.Fatal("the API server knows the field of tomorrow")
		}
		h.shown(t, k, asAdmin(t, k, ns), ns, i.Object.GetName())
		again := h.of(t, k, ns, p.by(out.UID))
		h.box.Post(again)
		eventually(t, "it is said", func() (bool, string) {
			out, _ := h.box.Outcome(again.Key())
			return out.State == outbox.StateDone && strings.Contains(out.Message, "fieldOfTomorrow"), fmt.Sprintf("%s %q", out.Reason, out.Message)
		})
	})
}

// TestAutoscaledDeployment: what a HorizontalPodAutoscaler writes survives releases and restarts.
func TestAutoscaledDeployment(t *testing.T) {
	t.Parallel()
	const ns = "scaled-deployment"
	h := startHub(t, "5500000000000b02", "one")
	h.join(t, "alpha")
	k := render.Deployment()
	p := some("web:1", 1)
	i := h.of(t, k, ns, p)
	got := h.apply(t, i)
	// An autoscaler without metrics scales up to its minimum.
	_, err := kube(t, "alpha").AutoscalingV2().HorizontalPodAutoscalers(ns).Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: i.Object.GetName()},
			MinReplicas:    new(int32(5)), MaxReplicas: 9,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	api := asAdmin(t, k, ns)
	eventually(t, "the autoscaler scaled it", func() (bool, string) {
		r, err := feedback.Of(mustGet(t, api, i.Object.GetName()))
		return err == nil && *r.SpecReplicas == 5 && len(r.ScaledBy) == 1, fmt.Sprintf("%+v %v", r, err)
	})
	p = p.by(got.UID)
	p.image, p.generation, p.replicas = "web:2", 2, nil
	h.apply(t, h.of(t, k, ns, p))
	h.stop()
	since := mark(t, "alpha")
	again := startHub(t, h.id, "two")
	again.join(t, "alpha")
	again.apply(t, again.of(t, k, ns, p))
	time.Sleep(time.Second)
	if wrote := requests(t, "alpha", ns, since, lab.Writes); len(wrote) > 0 {
		t.Errorf("a restart wrote %v", wrote)
	}
	if is := field(mustGet(t, api, i.Object.GetName()), "spec", "replicas"); is != int64(5) {
		t.Errorf("replicas are %v, the autoscaler's were 5", is)
	}
}

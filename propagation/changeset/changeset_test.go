package changeset_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/render"
)

const hub = "0123456789abcdef"

func intent(term, generation, epoch int64) render.Intent {
	return render.Intent{Term: term, OwnerUID: "owner", Generation: generation, Epoch: epoch}
}

// desired is a child as package render builds it.
func desired(in render.Intent) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
		"metadata": map[string]any{
			"namespace": "shop", "name": "web-eu",
			"labels":      map[string]any{appsv1alpha1.LabelHub: hub, "app": "web"},
			"annotations": map[string]any{appsv1alpha1.AnnotationIntent: in.String(), appsv1alpha1.AnnotationOwner: "shop/web"},
		},
		"spec": map[string]any{
			"replicas":       int64(3),
			"selector":       map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"updateStrategy": map[string]any{"partition": "100%", "paused": false},
			"template": map[string]any{"spec": map[string]any{
				"volumes": []any{map[string]any{"name": "v", "emptyDir": map[string]any{}}},
				"containers": []any{map[string]any{
					"name": "web", "image": "web:1",
					"resources": map[string]any{"requests": map[string]any{"cpu": "1000m"}},
				}},
			}},
		},
	}}
}

// server plays the API server: it gives identity and the managedFields that an apply by the hub leaves.
func server(obj *unstructured.Unstructured) *unstructured.Unstructured {
	live := obj.DeepCopy()
	live.SetUID("uid-1")
	live.SetResourceVersion("10")
	live.SetGeneration(1)
	set(live, []any{entry(appsv1alpha1.FieldManagerHub, "Apply", "", fieldsOf(obj.Object, nil))}, "metadata", "managedFields")
	return live
}

func entry(manager, operation, subresource string, fields map[string]any) map[string]any {
	out := map[string]any{"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields}
	if subresource != "" {
		out["subresource"] = subresource
	}
	return out
}

func fieldsOf(m map[string]any, at []string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		here := append(slices.Clone(at), k)
		path := strings.Join(here, ".")
		switch path {
		case "apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "metadata.generation", "metadata.managedFields":
			continue
		}
		child, isMap := v.(map[string]any)
		if isMap && len(child) > 0 && path != "spec.selector" {
			out["f:"+k] = fieldsOf(child, here)
			continue
		}
		out["f:"+k] = map[string]any{}
	}
	return out
}

func set(obj *unstructured.Unstructured, v any, path ...string) {
	if err := unstructured.SetNestedField(obj.Object, v, path...); err != nil {
		panic(err)
	}
}

func container(obj *unstructured.Unstructured) map[string]any {
	v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "template", "spec", "containers")
	return v.([]any)[0].(map[string]any)
}

// disown takes a path out of the hub's entry.
func disown(live *unstructured.Unstructured, path ...string) {
	m := mine(live)
	for _, p := range path[:len(path)-1] {
		m = m["f:"+p].(map[string]any)
	}
	delete(m, "f:"+path[len(path)-1])
}

func mine(live *unstructured.Unstructured) map[string]any {
	v, _, _ := unstructured.NestedFieldNoCopy(live.Object, "metadata", "managedFields")
	return v.([]any)[0].(map[string]any)["fieldsV1"].(map[string]any)
}

func manage(live *unstructured.Unstructured, e map[string]any) {
	v, _, _ := unstructured.NestedFieldNoCopy(live.Object, "metadata", "managedFields")
	set(live, append(v.([]any), e), "metadata", "managedFields")
}

func replicasOf(manager, subresource string) map[string]any {
	return entry(manager, "Update", subresource, map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}})
}

// TestDecide is the table of "is anything due" and of "is this still my business".
func TestDecide(t *testing.T) {
	t.Parallel()
	now := intent(1, 5, 2)
	type given struct {
		want     *unstructured.Unstructured
		live     *unstructured.Unstructured
		memory   *changeset.Memory
		in       changeset.Input
		noMemory bool
	}
	cases := map[string]struct {
		edit func(g *given)
		op   changeset.Op
		why  changeset.Reason
		// says must be in the message.
		says string
	}{
		"absent is created":              {func(g *given) { g.live = nil }, changeset.OpCreate, changeset.ReasonAbsent, ""},
		"equal with memory":              {func(*given) {}, changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"equal without memory (restart)": {func(g *given) { g.noMemory = true }, changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"a newer intent alone is not due": {func(g *given) {
			g.in.Intent = intent(1, 9, 9)
			set(g.want, g.in.Intent.String(), "metadata", "annotations", appsv1alpha1.AnnotationIntent)
		}, changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"a newer term is due: a person confirmed": {func(g *given) {
			g.in.Intent = intent(2, 5, 2)
			set(g.want, g.in.Intent.String(), "metadata", "annotations", appsv1alpha1.AnnotationIntent)
		}, changeset.OpApply, changeset.ReasonChanged, "nothing but the intent"},
		"defaults that the server added do not count": {func(g *given) {
			set(g.live, int64(10), "spec", "revisionHistoryLimit")
			container(g.live)["imagePullPolicy"] = "Always"
			g.noMemory = true
		}, changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"an amount written otherwise is the same": {func(g *given) {
			container(g.live)["resources"].(map[string]any)["requests"].(map[string]any)["cpu"] = "1"
			g.noMemory = true
		}, changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"an amount as a number is the same": {func(g *given) {
			container(g.live)["resources"].(map[string]any)["requests"].(map[string]any)["cpu"] = int64(1)
		}, changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"a number with a fraction of zero is the same": {func(g *given) {
			set(g.live, float64(3), "spec", "replicas")
		}, changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"a partition as text is not the number": {func(g *given) {
			set(g.want, int64(3), "spec", "updateStrategy", "partition")
			set(g.live, "3", "spec", "updateStrategy", "partition")
		}, changeset.OpApply, changeset.ReasonChanged, "spec.updateStrategy.partition"},
		"text outside of amounts is compared as text": {func(g *given) {
			container(g.live)["image"] = "web:1.0"
		}, changeset.OpApply, changeset.ReasonDrifted, "containers[web].image"},
		"an empty object and none are the same": {func(g *given) {
			v := container(g.want)
			v["securityContext"] = map[string]any{}
			g.noMemory = true
		}, changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"a changed template": {func(g *given) {
			container(g.want)["image"] = "web:2"
		}, changeset.OpApply, changeset.ReasonChanged, "spec.template.spec.containers[web].image"},
		"a changed template after a restart": {func(g *given) {
			container(g.want)["image"] = "web:2"
			g.in.Intent = intent(1, 6, 2)
			g.noMemory = true
		}, changeset.OpApply, changeset.ReasonChanged, "containers[web].image"},
		"a field that is no longer wanted, after a restart": {func(g *given) {
			delete(g.want.Object["spec"].(map[string]any)["updateStrategy"].(map[string]any), "paused")
			g.noMemory = true
		}, changeset.OpApply, changeset.ReasonChanged, "spec.updateStrategy.paused"},
		"a field that is no longer wanted": {func(g *given) {
			delete(g.want.Object["spec"].(map[string]any)["updateStrategy"].(map[string]any), "paused")
		}, changeset.OpApply, changeset.ReasonChanged, "spec.updateStrategy.paused"},
		"drift": {func(g *given) {
			set(g.live, int64(9), "spec", "replicas")
			disown(g.live, "spec", "replicas")
		}, changeset.OpApply, changeset.ReasonDrifted, "spec.replicas"},
		"drift seen after a restart, intent equal": {func(g *given) {
			set(g.live, int64(9), "spec", "replicas")
			disown(g.live, "spec", "replicas")
			g.noMemory = true
		}, changeset.OpApply, changeset.ReasonDrifted, "spec.replicas"},
		"a label taken away, which generation does not show": {func(g *given) {
			unstructured.RemoveNestedField(g.live.Object, "metadata", "labels", "app")
			disown(g.live, "metadata", "labels", "app")
		}, changeset.OpApply, changeset.ReasonDrifted, "metadata.labels.app"},
		"equal values that others own now": {func(g *given) {
			disown(g.live, "spec", "template")
		}, changeset.OpApply, changeset.ReasonOwnershipLost, "spec.template"},
		"what the member's admission rewrites is not sent for ever": {func(g *given) {
			container(g.live)["image"] = "mirror/web:1"
			m := changeset.Remember(g.want, g.live)
			g.memory = &m
		}, changeset.OpNothing, changeset.ReasonRewritten, "containers[web].image"},
		"and drift beside it is seen": {func(g *given) {
			container(g.live)["image"] = "mirror/web:1"
			m := changeset.Remember(g.want, g.live)
			g.memory = &m
			set(g.live, int64(9), "spec", "replicas")
		}, changeset.OpApply, changeset.ReasonDrifted, "spec.replicas"},
		"our object re-created with another UID is judged anew": {func(g *given) {
			g.live.SetUID("uid-2")
			container(g.live)["image"] = "web:0"
			g.in.Intent = intent(1, 6, 2)
		}, changeset.OpApply, changeset.ReasonChanged, "containers[web].image"},
		"our object re-created equal": {func(g *given) {
			g.live.SetUID("uid-2")
		}, changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"our object restored without managedFields is taken again": {func(g *given) {
			g.live.SetUID("uid-2")
			unstructured.RemoveNestedField(g.live.Object, "metadata", "managedFields")
		}, changeset.OpApply, changeset.ReasonOwnershipLost, "spec"},
		"an object in deletion waits": {func(g *given) {
			set(g.live, "2026-11-29T00:00:00Z", "metadata", "deletionTimestamp")
			container(g.want)["image"] = "web:2"
		}, changeset.OpNothing, changeset.ReasonTerminating, ""},

		// Is this still my business?
		"a newer generation on the member": {func(g *given) { g.in.Intent = intent(1, 4, 9) }, changeset.OpHubBehind, changeset.ReasonNewerIntent, "1/owner/5/2"},
		"a newer epoch on the member":      {func(g *given) { g.in.Intent = intent(1, 5, 1) }, changeset.OpHubBehind, changeset.ReasonNewerIntent, ""},
		"a newer term on the member":       {func(g *given) { g.in.Intent = intent(0, 99, 99) }, changeset.OpHubBehind, changeset.ReasonNewerIntent, ""},
		"a newer intent stops a delete":    {func(g *given) { g.in.Intent, g.in.Want = intent(1, 4, 9), changeset.WantDeleted }, changeset.OpHubBehind, changeset.ReasonNewerIntent, ""},
		"a newer intent stops letting go":  {func(g *given) { g.in.Intent, g.in.Want = intent(1, 4, 9), changeset.WantOrphaned }, changeset.OpHubBehind, changeset.ReasonNewerIntent, ""},
		"a foreign object":                 {func(g *given) { g.live.SetLabels(nil) }, changeset.OpConflict, changeset.ReasonNotOurs, "is not touched"},
		"another hub's object": {func(g *given) {
			g.live.SetLabels(map[string]string{appsv1alpha1.LabelHub: "fedcba9876543210"})
		}, changeset.OpConflict, changeset.ReasonOtherHub, "fedcba9876543210"},
		"an object of a deleted owner of the same name": {func(g *given) {
			g.in.Intent = render.Intent{Term: 1, OwnerUID: "owner-2", Generation: 1}
		}, changeset.OpConflict, changeset.ReasonOtherOwner, "UID owner"},
		"our hub's object with an intent that cannot be read": {func(g *given) {
			set(g.live, "what", "metadata", "annotations", appsv1alpha1.AnnotationIntent)
		}, changeset.OpConflict, changeset.ReasonIntentUnreadable, ""},
		"the furthest term that a hub can have reached": {func(g *given) {
			set(g.live, strconv.FormatInt(1+render.MaxLead, 10)+"/owner/1/1", "metadata", "annotations", appsv1alpha1.AnnotationIntent)
		}, changeset.OpHubBehind, changeset.ReasonNewerIntent, ""},
		"a term that no hub can have reached": {func(g *given) {
			set(g.live, strconv.FormatInt(2+render.MaxLead, 10)+"/owner/1/1", "metadata", "annotations", appsv1alpha1.AnnotationIntent)
		}, changeset.OpConflict, changeset.ReasonIntentUnreadable, "is of no hub"},
		"our object, marked as managed elsewhere": {func(g *given) {
			set(g.live, "false", "metadata", "annotations", appsv1alpha1.AnnotationPropagate)
			g.in.Adopt = appsv1alpha1.AdoptAny
		}, changeset.OpConflict, changeset.ReasonManagedElsewhere, ""},
		"a child of upstream's, by controller reference": {func(g *given) {
			g.live.SetLabels(nil)
			set(g.live, []any{map[string]any{"apiVersion": "v", "kind": "k", "name": "n", "uid": "owner", "controller": true}}, "metadata", "ownerReferences")
			g.noMemory = true
		}, changeset.OpApply, changeset.ReasonChanged, "metadata.labels"},

		// Adoption.
		"a foreign object with adopt Any": {func(g *given) {
			g.live.SetLabels(nil)
			container(g.live)["image"] = "old:1"
			g.in.Adopt = appsv1alpha1.AdoptAny
		}, changeset.OpApply, changeset.ReasonAdopted, "containers[web].image"},
		"a foreign object with adopt Orphaned": {func(g *given) {
			g.live.SetLabels(nil)
			g.in.Adopt = appsv1alpha1.AdoptOrphaned
		}, changeset.OpConflict, changeset.ReasonNotOurs, ""},
		"an orphan with adopt Orphaned": {func(g *given) {
			set(g.live, "2026-11-29T00:00:00Z", "metadata", "annotations", appsv1alpha1.AnnotationOrphaned)
			g.in.Adopt = appsv1alpha1.AdoptOrphaned
			g.in.Intent = render.Intent{Term: 1, OwnerUID: "owner-2", Generation: 1}
		}, changeset.OpApply, changeset.ReasonAdopted, ""},
		"an orphan with adopt Never": {func(g *given) {
			set(g.live, "2026-11-29T00:00:00Z", "metadata", "annotations", appsv1alpha1.AnnotationOrphaned)
			g.in.Intent = render.Intent{Term: 1, OwnerUID: "owner-2", Generation: 1}
		}, changeset.OpConflict, changeset.ReasonNotOurs, "let it go"},
		"a selector cannot be changed": {func(g *given) {
			g.live.SetLabels(nil)
			set(g.live, map[string]any{"matchLabels": map[string]any{"app": "other"}}, "spec", "selector")
			g.in.Adopt = appsv1alpha1.AdoptAny
		}, changeset.OpConflict, changeset.ReasonSelectorDiffers, "selector"},

		// Replicas handover.
		"replicas given up while we own them alone": {func(g *given) {
			unstructured.RemoveNestedField(g.want.Object, "spec", "replicas")
		}, changeset.OpHandover, changeset.ReasonReplicasGivenUp, "3"},
		"replicas given up, handed over": {func(g *given) {
			unstructured.RemoveNestedField(g.want.Object, "spec", "replicas")
			manage(g.live, replicasOf(appsv1alpha1.FieldManagerHubHandover, ""))
		}, changeset.OpApply, changeset.ReasonChanged, "spec.replicas"},
		"replicas given up, the autoscaler owns them": {func(g *given) {
			unstructured.RemoveNestedField(g.want.Object, "spec", "replicas")
			set(g.live, int64(8), "spec", "replicas")
			disown(g.live, "spec", "replicas")
			manage(g.live, replicasOf("kube-controller-manager", "scale"))
			g.noMemory = true
		}, changeset.OpNothing, changeset.ReasonUpToDate, ""},

		"a plan that does not know of the autoscaler yet leaves its replicas": {func(g *given) {
			set(g.live, int64(8), "spec", "replicas")
			disown(g.live, "spec", "replicas")
			manage(g.live, replicasOf("kube-controller-manager", "scale"))
		}, changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"a person's kubectl scale is drift": {func(g *given) {
			set(g.live, int64(8), "spec", "replicas")
			disown(g.live, "spec", "replicas")
			manage(g.live, replicasOf("kubectl", "scale"))
		}, changeset.OpApply, changeset.ReasonDrifted, "spec.replicas"},

		// Deletion.
		"a delete of ours":              {func(g *given) { g.in.Want = changeset.WantDeleted }, changeset.OpDelete, changeset.ReasonUnwanted, ""},
		"a delete of what is gone":      {func(g *given) { g.in.Want, g.live = changeset.WantDeleted, nil }, changeset.OpNothing, changeset.ReasonGone, ""},
		"a delete of another owner's":   {func(g *given) { g.in.Want, g.in.Intent = changeset.WantDeleted, render.Intent{OwnerUID: "x"} }, changeset.OpNothing, changeset.ReasonOtherOwner, "left as it is"},
		"a delete of another hub's":     {func(g *given) { g.in.Want, g.in.HubID = changeset.WantDeleted, "x" }, changeset.OpNothing, changeset.ReasonOtherHub, ""},
		"adopt does not widen a delete": {func(g *given) { g.in.Want, g.in.HubID, g.in.Adopt = changeset.WantDeleted, "x", appsv1alpha1.AdoptAny }, changeset.OpNothing, changeset.ReasonOtherHub, ""},
		"a delete of what is being deleted": {func(g *given) {
			g.in.Want = changeset.WantDeleted
			set(g.live, "2026-11-29T00:00:00Z", "metadata", "deletionTimestamp")
		}, changeset.OpNothing, changeset.ReasonTerminating, ""},
		"letting go": {func(g *given) { g.in.Want = changeset.WantOrphaned }, changeset.OpOrphan, changeset.ReasonLetGo, ""},
		"letting go of what was let go": {func(g *given) {
			g.in.Want = changeset.WantOrphaned
			set(g.live, "2026", "metadata", "annotations", appsv1alpha1.AnnotationOrphaned)
		}, changeset.OpNothing, changeset.ReasonGone, ""},
		"a delete of what was let go is not ours": {func(g *given) {
			g.in.Want = changeset.WantDeleted
			set(g.live, "2026", "metadata", "annotations", appsv1alpha1.AnnotationOrphaned)
		}, changeset.OpNothing, changeset.ReasonNotOurs, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &given{want: desired(now), in: changeset.Input{Want: changeset.WantApplied, HubID: hub, Intent: now}}
			g.live = server(g.want)
			m := changeset.Remember(g.want, g.live)
			g.memory = &m
			tc.edit(g)
			g.in.Desired, g.in.Live, g.in.Memory = g.want, g.live, g.memory
			if g.noMemory {
				g.in.Memory = nil
			}
			got := changeset.Decide(g.in)
			if got.Op != tc.op || got.Reason != tc.why || !strings.Contains(got.Message, tc.says) || got.Message == "" {
				t.Fatalf("got %s %s %q, want %s %s %q", got.Op, got.Reason, got.Message, tc.op, tc.why, tc.says)
			}
			if g.live != nil && (got.UID != g.live.GetUID() || got.ResourceVersion != "10") {
				t.Errorf("bound to UID %q, version %q", got.UID, got.ResourceVersion)
			}
		})
	}
}

// TestAnAutoscalersReplicasAreNotSent holds what is applied beside an autoscaler, and that it settles.
func TestAnAutoscalersReplicasAreNotSent(t *testing.T) {
	t.Parallel()
	in := intent(1, 6, 0)
	want := desired(in)
	container(want)["image"] = "web:2"
	before := desired(intent(1, 5, 0))
	unstructured.RemoveNestedField(before.Object, "spec", "replicas")
	live := server(before)
	set(live, int64(8), "spec", "replicas")
	manage(live, replicasOf("hpa", "scale"))
	input := changeset.Input{Want: changeset.WantApplied, Desired: want, Live: live, HubID: hub, Intent: in}
	got := changeset.Decide(input)
	if _, named, _ := unstructured.NestedFieldNoCopy(got.Object.Object, "spec", "replicas"); got.Op != changeset.OpApply || named {
		t.Fatalf("%s with replicas named: %v", got.Op, named)
	}
	if n, _, _ := unstructured.NestedInt64(want.Object, "spec", "replicas"); n != 3 {
		t.Error("the plan itself was changed")
	}
	after := server(got.Object)
	set(after, int64(8), "spec", "replicas")
	manage(after, replicasOf("hpa", "scale"))
	m := changeset.Remember(got.Object, after)
	input.Live, input.Memory = after, &m
	if got := changeset.Decide(input); got.Op != changeset.OpNothing {
		t.Errorf("it does not settle: %s %s", got.Op, got.Message)
	}
	after.SetResourceVersion("11")
	container(after)["image"] = "hacked"
	if got := changeset.Decide(input); got.Reason != changeset.ReasonDrifted {
		t.Errorf("drift beside an autoscaler is %s", got.Reason)
	}
}

func TestAdoptionTakesTheOrphanedMarkOff(t *testing.T) {
	t.Parallel()
	d := desired(intent(1, 1, 0))
	live := server(d)
	set(live, "2026", "metadata", "annotations", appsv1alpha1.AnnotationOrphaned)
	got := changeset.Decide(changeset.Input{
		Want: changeset.WantApplied, Desired: d, Live: live, HubID: hub, Intent: intent(1, 1, 0), Adopt: appsv1alpha1.AdoptOrphaned,
	})
	if !got.ClearOrphaned {
		t.Error("the mark stays")
	}
}

// TestB125 is an object with the marks of an older hub version: hub id and intent are all that is needed to know it.
func TestB125(t *testing.T) {
	t.Parallel()
	want := desired(intent(1, 5, 0))
	live := server(want)
	set(want, "new", "metadata", "labels", "mark-of-the-next-version")
	unstructured.RemoveNestedField(live.Object, "metadata", "annotations", appsv1alpha1.AnnotationOwner)
	got := changeset.Decide(changeset.Input{Want: changeset.WantApplied, Desired: want, Live: live, HubID: hub, Intent: intent(1, 5, 0)})
	if got.Op != changeset.OpApply {
		t.Errorf("got %s (%s), want it managed on", got.Op, got.Message)
	}
}

func TestCulpritsNamesTheManager(t *testing.T) {
	t.Parallel()
	want := desired(intent(1, 5, 0))
	live := server(want)
	set(live, int64(9), "spec", "replicas")
	disown(live, "spec", "replicas")
	manage(live, replicasOf("kubectl-edit", ""))
	container(live)["image"] = "hacked:1"
	disown(live, "spec", "template", "spec", "containers")
	manage(live, entry("intruder", "Update", "", map[string]any{"f:spec": map[string]any{"f:template": map[string]any{
		"f:spec": map[string]any{"f:containers": map[string]any{}},
	}}}))
	manage(live, entry("agent", "Update", "status", map[string]any{"f:spec": map[string]any{}}))
	got := changeset.Culprits(want, live)
	wanted := []changeset.Taken{
		{Field: "spec.replicas", Manager: "kubectl-edit"},
		{Field: "spec.template.spec.containers", Manager: "intruder"},
		{Field: "spec.template.spec.containers[web].image", Manager: "intruder"},
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("culprits (-want +got):\n%s", diff)
	}
}

func TestOthers(t *testing.T) {
	t.Parallel()
	live := server(desired(intent(1, 1, 0)))
	manage(live, entry("agent", "Update", "status", map[string]any{}))
	if got := changeset.Others(live); len(got) != 0 {
		t.Errorf("got %v, want none", got)
	}
	manage(live, entry("helm", "Update", "", map[string]any{}))
	if diff := cmp.Diff([]string{"helm"}, changeset.Others(live)); diff != "" {
		t.Error(diff)
	}
}

// TestSettles holds, for random objects and random edits by others, that one apply settles: the decision after it, with
// and without memory, is that nothing is due.
func TestSettles(t *testing.T) {
	t.Parallel()
	leaf := rapid.OneOf(
		rapid.Just(any("100m")), rapid.Just(any("x")), rapid.Just(any(int64(3))), rapid.Just(any(true)),
		rapid.Just(any(map[string]any{})), rapid.Just(any([]any{})),
		rapid.Just(any([]any{map[string]any{"name": "a", "v": int64(1)}})),
	)
	tree := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "limits", "c"}), rapid.OneOf(leaf, rapid.Custom(func(t *rapid.T) any {
		return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "requests"}), leaf, 1, 3).Draw(t, "inner")
	})), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		in := intent(1, 5, 0)
		want, before := desired(in), desired(in)
		set(want, runtime.DeepCopyJSON(tree.Draw(t, "want")), "spec", "extra")
		set(before, runtime.DeepCopyJSON(tree.Draw(t, "before")), "spec", "extra")
		input := changeset.Input{Want: changeset.WantApplied, Desired: want, Live: server(before), HubID: hub, Intent: in}
		first := changeset.Decide(input)
		if first.Op == changeset.OpNothing {
			// Nothing was due, so applying must change no value either.
			if d := changeset.Decide(changeset.Input{Want: changeset.WantApplied, Desired: before, Live: server(want), HubID: hub, Intent: in}); d.Op != changeset.OpNothing {
				t.Skip("a subset of values; covered by ownership")
			}
		}
		after := server(want)
		m := changeset.Remember(want, after)
		input.Live, input.Memory = after, &m
		if got := changeset.Decide(input); got.Op != changeset.OpNothing {
			t.Fatalf("with memory: %s %s %s", got.Op, got.Reason, got.Message)
		}
		input.Memory = nil
		if got := changeset.Decide(input); got.Op != changeset.OpNothing {
			t.Fatalf("without memory: %s %s %s", got.Op, got.Reason, got.Message)
		}
	})
}

// TestNeverTouchesOthers holds that no combination of marks lets an object be written or deleted that is not ours.
func TestNeverTouchesOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := intent(1, 5, 0)
		live := server(desired(in))
		label := rapid.SampledFrom([]string{"", hub, "other"}).Draw(t, "hub")
		text := rapid.SampledFrom([]string{"", "1/owner/5/0", "1/else/5/0", "1/owner/6/0", "junk"}).Draw(t, "intent")
		live.SetLabels(map[string]string{appsv1alpha1.LabelHub: label})
		live.SetAnnotations(map[string]string{appsv1alpha1.AnnotationIntent: text})
		container(live)["image"] = "other:1"
		got := changeset.Decide(changeset.Input{
			Want:    rapid.SampledFrom([]changeset.Want{changeset.WantApplied, changeset.WantDeleted, changeset.WantOrphaned}).Draw(t, "want"),
			Desired: desired(in), Live: live, HubID: hub, Intent: in,
			Memory: &changeset.Memory{UID: types.UID("uid-1")},
		})
		ours := label == hub && text == "1/owner/5/0"
		writes := got.Op != changeset.OpNothing && got.Op != changeset.OpConflict && got.Op != changeset.OpHubBehind
		if writes != ours {
			t.Fatalf("hub %q, intent %q: %s %s", label, text, got.Op, got.Reason)
		}
	})
}

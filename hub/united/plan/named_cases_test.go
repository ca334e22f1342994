package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/render"
)

// Named cases of reference/bugs.md and reference/manifests.md that show in the plan, where the tests of the ids were weaker
// than their promise.

// TestB035Hub: what the API server of an upgraded hub, or another type library, makes of the same object is no release and
// nothing to send: keys in another order, nulls, empty maps, white space, and defaults of fields around the template.
func TestB035Hub(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "app:v1", sub("a", "east", "4"), sub("b", "west", "4")))
	w.ud.Spec.Topology.Subsets[1].Patch = rawJSON(`{"metadata":{"annotations":{"x":"1","y":"2"}}}`)
	partitions(w.ud, map[string]string{"a": "0", "b": "2"})
	w.run()
	setImage(w.ud, "app:v2")
	w.run() // the middle of a release is when a revision too many hurts most
	status, revisions := w.ud.Status.DeepCopy(), len(w.revs)
	clear(w.writes)
	for name, change := range map[string]func(ud *appsv1alpha1.UnitedDeployment){
		"another order of keys, and white space": func(ud *appsv1alpha1.UnitedDeployment) {
			ud.Spec.Template.CloneSetTemplate.Spec.Raw = []byte(`{ "updateStrategy": {"maxUnavailable": 1, "type": "InPlaceIfPossible"},
				"template": {"spec": {"containers": [{"image": "app:v2", "name": "web"}]}, "metadata": {"labels": {"app": "web"}}} }`)
		},
		"nulls and empty maps": func(ud *appsv1alpha1.UnitedDeployment) {
			ud.Spec.Template.CloneSetTemplate.Spec.Raw = []byte(`{"template":{"metadata":{"creationTimestamp":null,"annotations":{},"labels":{"app":"web"}},
				"spec":{"containers":[{"name":"web","image":"app:v2","resources":{}}],"securityContext":{}}},
				"updateStrategy":{"type":"InPlaceIfPossible","maxUnavailable":1,"inPlaceUpdateStrategy":{}}}`)
		},
		"a patch in another order": func(ud *appsv1alpha1.UnitedDeployment) {
			ud.Spec.Topology.Subsets[1].Patch = rawJSON(`{"metadata": {"annotations": {"y": "2", "x": "1"}}, "spec": {}}`)
		},
		"defaults around the template": func(ud *appsv1alpha1.UnitedDeployment) {
			ud.Spec.RevisionHistoryLimit, ud.Spec.Adopt = new(int32(10)), appsv1alpha1.AdoptNever
			ud.Spec.UpdateStrategy.Type = appsv1alpha1.ManualUpdateType
			ud.Spec.Topology.ScheduleStrategy.Type = appsv1alpha1.ScheduleFixed
		},
	} {
		change(w.ud)
		w.ud.Generation++
		w.run()
		now := w.ud.Status
		if len(w.revs) != revisions || now.CurrentRevision != status.CurrentRevision || now.UpdatedRevision != status.UpdatedRevision {
			t.Errorf("%s: %d revisions, were %d; %q and %q", name, len(w.revs), revisions, now.CurrentRevision, now.UpdatedRevision)
		}
		if len(w.writes) > 0 || !cmp.Equal(now.Release, status.Release) {
			t.Errorf("%s: writes %v, release %+v", name, w.writes, now.Release)
		}
	}
}

// TestB041Plan: a member's broken autoscaler takes its child to zero. Its number is nobody else's: neither the total, nor
// what was allotted, nor another member follows it, and a report of zero is no reason to send anything.
func TestB041Plan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 6, "web:1", sub("a", "east", ""), sub("b", "west", "")))
	w.run()
	c := w.child("a")
	c.scaledBy = []string{"kube-controller-manager"}
	w.run()
	clear(w.writes)
	for _, n := range []int32{0, 3, 0} {
		c.replicas = n
		c.gen++
		w.run()
		if got := w.ud.Status.SubsetReplicas; got["a"] != 3 || got["b"] != 3 || *w.ud.Spec.Replicas != 6 {
			t.Errorf("at %d: allotted %v of %d", n, got, *w.ud.Spec.Replicas)
		}
		if b := w.child("b"); b.replicas != 3 || len(w.writes) > 0 {
			t.Errorf("at %d: b has %d, writes %v", n, b.replicas, w.writes)
		}
	}
}

// TestB051Hub: Adaptive without settings and without any bound, listed and by selector, is planned like any other.
func TestB051Hub(t *testing.T) {
	t.Parallel()
	for _, reserve := range []*appsv1alpha1.AdaptiveStrategy{nil, {}, {ReserveUnschedulablePods: true}} {
		w := newWorld(t, united("web", 3, "web:1", sub("normal", "m1", ""), sub("elastic", "m2", "")))
		w.ud.Spec.Topology.SubsetTemplates = []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}
		w.ud.Spec.Topology.ScheduleStrategy = appsv1alpha1.ScheduleStrategy{Type: appsv1alpha1.ScheduleAdaptive, Adaptive: reserve}
		w.join("m3:tier=web")
		w.run()
		if got := w.ud.Status.SubsetReplicas; got["normal"] != 3 || w.ud.Status.ReadyReplicas != 3 {
			t.Errorf("%v, %v", got, w.states())
		}
	}
}

// TestB133: three of three updated and ready, then out of reach; its pods crash and nobody knows. What is said of it is marked
// with its age, nothing that waits for it ends on what was said, and the next template does not count it.
func TestB133(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 6, "web:1", sub("east", "east", "3"), sub("west", "west", "3")))
	partitions(w.ud, map[string]string{"east": "3", "west": "0"})
	w.run()
	setImage(w.ud, "web:2")
	w.run()
	if e := w.entry("west"); e.UpdatedReadyReplicas != 3 {
		t.Fatalf("%+v", e)
	}
	w.members["west"].down = true
	w.child("west").ready = 0
	w.pass()
	e := w.entry("west")
	if !e.Stale || e.State != stateStale || e.HeardAt == nil {
		t.Errorf("in the pass that sees it: %+v", e)
	}
	if c := w.condition("Stale"); c == nil || !strings.Contains(c.Message, "west") || w.condition("Ready").Status == "True" {
		t.Errorf("%+v, ready %+v", c, w.condition("Ready"))
	}
	// All is granted now, and west was all updated when it was heard last.
	partitions(w.ud, map[string]string{"east": "0", "west": "0"})
	w.run()
	if w.entry("east").UpdatedReadyReplicas != 3 || w.ud.Status.CurrentRevision == w.ud.Status.UpdatedRevision {
		t.Errorf("the release ends on numbers of before: %+v", w.ud.Status)
	}
	if c := w.condition("UnitedDeploymentUpdated"); c != nil && c.Status == "True" {
		t.Errorf("%+v", c)
	}
	setImage(w.ud, "web:3")
	w.run()
	if e := w.entry("west"); e.UpdatedReplicas+e.UpdatedReadyReplicas != 0 {
		t.Errorf("what it had of another revision counts: %+v", e)
	}
	w.members["west"].down = false
	w.run()
	if w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision || w.ud.Status.UpdatedReadyReplicas != 6 {
		t.Errorf("%+v", w.ud.Status)
	}
}

// TestB165Plan: each patch of the report, and what else is none, by the field that a person has to look at.
func TestB165Plan(t *testing.T) {
	t.Parallel()
	for patch, refused := range map[string]bool{
		`{"spec":{"containers":[{"name":"web","image":"web:arm"}]}}`: false,
		`{"spec":{"priorityClassName":"high"}}`:                      false,
		`{"spec":{"containers":[{"image":"x"}]}}`:                    true,
		`"not an object"`:                     true,
		`[]`:                                  true,
		`{"spec":"x"}`:                        true,
		`{"spec":{"containers":{"web":"x"}}}`: true,
	} {
		w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
		partitions(w.ud, map[string]string{"a": "0", "b": "0"})
		w.run()
		clear(w.writes)
		w.ud.Spec.Topology.Subsets[1].Patch = rawJSON(patch)
		w.ud.Generation++
		w.pass()
		c := w.condition("Invalid")
		if (c != nil) != refused {
			t.Errorf("%s: condition %+v", patch, c)
			continue
		}
		if refused {
			if !strings.Contains(c.Message, "spec.topology.subsets[1].patch") || w.condition("Stalled") == nil {
				t.Errorf("%s: the field is not named: %q", patch, c.Message)
			}
			if got := w.pass(); len(got) > 0 || len(w.writes) > 0 {
				t.Errorf("%s: %+v", patch, got)
			}
			continue
		}
		w.run()
		a, b := w.child("a"), w.child("b")
		if w.writes["a"] > 0 || a.label == b.label || w.ud.Status.UpdatedReplicas != 8 {
			t.Errorf("%s: writes %v, %+v", patch, w.writes, w.ud.Status)
		}
	}
}

// TestB165OtherContainersStay: of a patch that names one container the other one keeps every field.
func TestB165OtherContainersStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 2, "web:1", sub("a", "east", "2")))
	setSpec(w.ud, `{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[
		{"name":"side","image":"side:1","args":["x"]},{"name":"web","image":"web:1","env":[{"name":"A","value":"1"}],"ports":[{"containerPort":80}]}]}}}`)
	w.ud.Spec.Topology.Subsets[0].Patch = rawJSON(`{"spec":{"containers":[{"name":"web","image":"web:arm"}]}}`)
	w.run()
	for _, p := range w.pass() {
		child, err := render.Child(p.Input)
		if err != nil {
			t.Fatal(err)
		}
		got, _, _ := unstructured.NestedSlice(child.Object, "spec", "template", "spec", "containers")
		want := []any{
			map[string]any{"name": "side", "image": "side:1", "args": []any{"x"}},
			map[string]any{
				"name": "web", "image": "web:arm", "env": []any{map[string]any{"name": "A", "value": "1"}},
				"ports": []any{map[string]any{"containerPort": int64(80)}},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("containers (-want +got):\n%s", diff)
		}
	}
}

// TestB167 joins the plan and the last look before a write: whatever a hub that was restored from before a push wants of
// the child that it does not know, the child's intent stops the write, and nothing is deleted.
func TestB167(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]bool{"the subset is not in the backup": false, "and its sibling is taken out": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 4, "app:v1", sub("a", "ma", "4")))
			w.run()
			backup, revs := w.ud.DeepCopy(), slices.Clone(w.revs)
			w.members["mb"] = &member{name: "mb", children: map[string]*cloneSet{}}
			w.ud.Spec.Topology.Subsets = append(w.ud.Spec.Topology.Subsets, sub("b", "mb", "4"))
			w.ud.Spec.Replicas = new(int32(8))
			w.ud.Generation++
			w.run()
			child := w.child("b")
			w.ud, w.revs = backup, revs
			if drop {
				w.ud.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: ConfirmRemoval + "/b"}
			}
			seen := 0
			for range 5 {
				for _, p := range w.pass() {
					if p.Member != "mb" {
						continue
					}
					seen++
					live := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
						"namespace": "demo", "name": child.name, "uid": child.uid,
						"labels":      map[string]any{appsv1alpha1.LabelHub: "0123456789abcdef"},
						"annotations": map[string]any{appsv1alpha1.AnnotationIntent: child.intent},
					}}}
					got := changeset.Decide(changeset.Input{
						Want: changeset.WantDeleted, Live: live, HubID: p.Input.HubID, Intent: p.Input.Intent,
						Desired: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "demo", "name": p.Name}}},
					})
					if p.Want != WantDeleted || p.Judged != types.UID(child.uid) || got.Op != changeset.OpHubBehind {
						t.Errorf("it wants %s of %s, and that is %s: %s", p.Want, p.Name, got.Op, got.Message)
					}
				}
			}
			if seen == 0 {
				t.Error("the child is not even seen, so this shows nothing")
			}
		})
	}
}

// TestM023 is the manifest of that id: a patch that pins an image keeps its subset where it is when the template moves on,
// which the revisions of the subsets show; the patch's own image moves its subset alone, under its own partition.
func TestM023(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strictly(t, []byte(`
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: search, namespace: demo}
spec:
  replicas: 6
  selector: {matchLabels: {app: search}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: search}}
      spec:
        selector: {matchLabels: {app: search}}
        template:
          metadata: {labels: {app: search}}
          spec:
            containers:
            - name: search
              image: hub.test/search:7
              env: [{name: REGION, value: none}]
        updateStrategy:
          type: RollingUpdate
          rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: "50%", inPlaceUpdateStrategy: {gracePeriodSeconds: 5}}
  topology:
    subsets:
    - name: east
      replicas: 3
      patch: {spec: {containers: [{name: search, image: "mirror.east.test/search:7", env: [{name: REGION, value: east}]}]}}
    - name: west
      replicas: 3
      patch: {metadata: {labels: {edge: "true"}}, spec: {priorityClassName: high}}
`)))
	w.run()
	east := w.entry("east").Revision
	clear(w.writes)
	spec := &w.ud.Spec.Template.CloneSetTemplate.Spec
	spec.Raw = []byte(strings.ReplaceAll(string(spec.Raw), "search:7", "search:8"))
	w.ud.Generation++
	w.run()
	if diff := cmp.Diff(map[string]int{"west": 1}, w.writes); diff != "" {
		t.Errorf("the template moves (-want +got):\n%s", diff)
	}
	if w.entry("east").Revision != east || w.entry("west").UpdatedReplicas != 3 || w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision {
		t.Errorf("%+v", w.ud.Status)
	}
	clear(w.writes)
	w.ud.Spec.Topology.Subsets[0].Patch = rawJSON(`{"spec":{"containers":[{"name":"search","image":"mirror.east.test/search:8","env":[{"name":"REGION","value":"east"}]}]}}`)
	partitions(w.ud, map[string]string{"east": "1"})
	w.run()
	if diff := cmp.Diff(map[string]int{"east": 1}, w.writes); diff != "" {
		t.Errorf("the patch moves (-want +got):\n%s", diff)
	}
	if e := w.entry("east"); e.UpdatedReplicas != 2 || e.Partition != 1 {
		t.Errorf("its own partition: %+v", e)
	}
	for _, p := range w.pass() {
		child, err := render.Child(p.Input)
		if err != nil {
			t.Fatal(err)
		}
		at, _, _ := unstructured.NestedMap(child.Object, "spec", "updateStrategy", "rollingUpdate")
		if at["maxUnavailable"] != "50%" || at["podUpdatePolicy"] != "InPlaceIfPossible" {
			t.Errorf("%s: %v", p.Subset, at)
		}
	}
}

// TestN2: InPlaceIfPossible as the type inside of a v1alpha1 object, and the nested shape, ask a member for the same.
func TestN2(t *testing.T) {
	t.Parallel()
	for shape, raw := range map[string]string{
		"flat":   `"updateStrategy":{"type":"InPlaceIfPossible","maxUnavailable":2,"inPlaceUpdateStrategy":{"gracePeriodSeconds":10}}`,
		"nested": `"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceIfPossible","maxUnavailable":2,"inPlaceUpdateStrategy":{"gracePeriodSeconds":10}}}`,
	} {
		w := newWorld(t, united("web", 4, "web:1", sub("a", "east", "4")))
		spec := func(image string) string {
			return fmt.Sprintf(`{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":%q}]}},%s}`, image, raw)
		}
		setSpec(w.ud, spec("web:1"))
		partitions(w.ud, map[string]string{"a": "3"})
		w.run()
		setSpec(w.ud, spec("web:2"))
		w.run()
		if w.ud.Status.UpdatedReplicas != 1 || w.condition("Invalid") != nil || w.condition("NotActedOn") != nil || w.condition("UnknownFields") != nil {
			t.Errorf("%s: %+v", shape, w.ud.Status)
		}
		child, err := render.Child(w.pass()[0].Input)
		if err != nil {
			t.Fatal(err)
		}
		sent, _, _ := unstructured.NestedMap(child.Object, "spec")
		text, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		read, _, err := appsv1alpha1.DecodeCloneSetSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		rollout, err := read.Rollout()
		if err != nil || rollout.Policy != appsv1alpha1.InPlaceIfPossibleUpdate || rollout.GracePeriodSeconds != 10 ||
			rollout.MaxUnavailable == nil || rollout.MaxUnavailable.IntVal != 2 || rollout.Partition == nil || rollout.Partition.IntVal != 3 {
			t.Errorf("%s: %+v, %v", shape, rollout, err)
		}
	}
}

// TestN8: a child that is edited or deleted by hand on its member. The plan says which child is to be as it was, with the
// template that it held, and the subset says what is going on.
func TestN8(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "web:1", sub("a", "east", "4"), sub("b", "west", "4")))
	partitions(w.ud, map[string]string{"a": "0", "b": "4"})
	w.run()
	setImage(w.ud, "web:2")
	w.run()
	old := w.child("b").label
	edited := w.child("b")
	edited.label, edited.gen = "somebodyelse", edited.gen+1
	edited.replicas = 9
	w.pass()
	if e := w.entry("b"); e.Revision != "somebodyelse" || e.UpdatedReplicas != 0 || e.State != stateHeld || !strings.Contains(e.Message, "somebodyelse") {
		t.Errorf("an edited label is not said: %+v", e)
	}
	delete(w.members["west"].children, edited.key())
	w.pass()
	if e := w.entry("b"); e.State != stateCreating || e.Replicas != 0 {
		t.Errorf("a deleted child is not said: %+v", e)
	}
	w.run()
	if c := w.child("b"); c == nil || c.label != old || c.replicas != 4 || c.count(c.label) != 4 {
		t.Errorf("it came back as %+v, want %s", c, old)
	}
}

// TestN9Counts: what is out of reach is counted with its age, nobody else is given its replicas, by any allocator.
func TestN9Counts(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(ud *appsv1alpha1.UnitedDeployment){
		"shared": func(*appsv1alpha1.UnitedDeployment) {},
		"percents": func(ud *appsv1alpha1.UnitedDeployment) {
			ud.Spec.Topology.Subsets[0].Replicas = new(intstr.FromString("50%"))
		},
		"bounds": func(ud *appsv1alpha1.UnitedDeployment) {
			ud.Spec.Topology.Subsets[0].MaxReplicas = new(intstr.FromInt32(5))
		},
	} {
		w := newWorld(t, united("web", 10, "web:1", sub("a", "east", ""), sub("b", "west", "")))
		edit(w.ud)
		w.run()
		before := w.ud.Status.DeepCopy()
		clear(w.writes)
		w.members["east"].down = true
		w.run()
		w.now = w.now.Add(48 * time.Hour)
		w.run()
		now := w.ud.Status
		if diff := cmp.Diff(before.SubsetReplicas, now.SubsetReplicas); diff != "" || len(w.writes) > 0 {
			t.Errorf("%s: writes %v, replicas (-before +after):\n%s", name, w.writes, diff)
		}
		if e := w.entry("a"); !e.Stale || e.HeardAt == nil || now.Replicas != 10 || w.condition("Stale") == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestB137StepByStep: one edit drops a subset and lowers the total. What is taken away goes only when what stays is ready, in
// every step of it, with answers of the members that come late; the subset that goes is given nothing on the way.
func TestB137StepByStep(t *testing.T) {
	t.Parallel()
	for _, total := range []int32{4, 6, 3} {
		w := newWorld(t, united("web", 6, "web:1", sub("a", "a", ""), sub("b", "b", ""), sub("c", "c", "")))
		partitions(w.ud, map[string]string{"a": "0", "b": "0", "c": "0"})
		w.run()
		w.ud.Spec.Topology.Subsets, w.ud.Spec.Replicas = w.ud.Spec.Topology.Subsets[:2], &total
		partitions(w.ud, map[string]string{"a": "0", "b": "0"})
		w.edited()
		for step := range 80 {
			pushes := w.pass()
			if step%2 == 0 {
				continue // this pass's answers are lost
			}
			for _, p := range pushes {
				if p.Subset == "c" && p.Want == WantApplied {
					t.Errorf("total %d: c is sent %+v", total, p.Because)
				}
				w.deliver(p)
			}
			ready := int32(0)
			for _, m := range w.members {
				for _, c := range m.children {
					ready += min(c.ready, c.replicas) // what is above will go at any moment
				}
			}
			if ready < min(total, 6) {
				t.Fatalf("total %d, step %d: %d pods are ready", total, step, ready)
			}
			w.agents()
		}
		w.run()
		if len(w.members["c"].children) > 0 || len(w.ud.Status.SubsetStatuses) != 2 || w.ud.Status.ReadyReplicas != total || w.condition("UnknownSubsets") != nil {
			t.Errorf("total %d: %v, %+v", total, w.states(), w.condition("UnknownSubsets"))
		}
	}
}

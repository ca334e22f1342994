package cloneset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/order"
	"github.com/underway-dev/underway/member/cloneset/plan"
	"github.com/underway-dev/underway/member/workload"
)

const template = `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"app:%s"}]}}`

func revisionOf(tag string, number int64) inplace.Revision {
	return inplace.Revision{Name: "web-" + tag, Hash: tag, Number: number, Template: fmt.Appendf(nil, template, tag)}
}

// crowd is a CloneSet in the middle of a release from v1 to v2, with pods of v1 that serve.
func crowd(tb testing.TB, spec string, pods ...string) workload.Crowd {
	tb.Helper()
	cs, w := read(tb, spec)
	cs.Name, cs.Namespace, cs.UID = "web", "default", "uid"
	if w.Intent.Invalid != "" {
		tb.Fatal(w.Intent.Invalid)
	}
	old, next := revisionOf("v1", 1), revisionOf("v2", 2)
	w.Intent.Update, w.Intent.Current, w.Intent.Revisions = next, old, []inplace.Revision{old, next}
	c := workload.Crowd{
		Object: cs, Intent: w.Intent, Namespace: "default", Now: time.Unix(1_800_000_000, 0),
		Owner: metav1.OwnerReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web", UID: "uid", Controller: new(true)},
	}
	for _, name := range pods {
		c.Pods = append(c.Pods, inplace.Pod{
			Ref:   inplace.Ref{Namespace: "default", Name: name, UID: "u", ResourceVersion: "1"},
			Phase: inplace.PhaseRunning, Node: "n", Ready: true, Available: true, Gate: inplace.GateTrue, Revision: old.Name,
			Labels: map[string]string{appsv1alpha1.LabelCloneSetInstanceID: name}, Annotations: map[string]string{},
			Containers: []inplace.Container{{Name: "main", Image: "app:v1", RunningImage: "app:v1", Known: true, Running: true, Ready: true}},
		})
	}
	return c
}

// TestBothShapes: what can be written in both shapes is read as the same.
func TestBothShapes(t *testing.T) {
	t.Parallel()
	common := `partition: 25%, maxUnavailable: 30%, maxSurge: 1, paused: true, scatterStrategy: [{key: a, value: b}],
	  priorityStrategy: {orderPriority: [{orderedKey: a}]}, inPlaceUpdateStrategy: {gracePeriodSeconds: 3}`
	rest := `replicas: 7, minReadySeconds: 3, progressDeadlineSeconds: 60, lifecycle: {preNormal: {labelsHandler: {a: b}}},
	  scaleStrategy: {podsToDelete: [p], maxUnavailable: 2, excludePreparingDelete: true%s}, volumeClaimTemplates: [{metadata: {name: data}, spec: {}}]`
	flat := fmt.Sprintf("{%s, updateStrategy: {type: InPlaceIfPossible, partitionRollback: true, %s}}", fmt.Sprintf(rest, ""), common)
	nested := fmt.Sprintf("{%s, updateStrategy: {type: RollingUpdate, partitionRollback: true, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, %s}}}",
		fmt.Sprintf(rest, ", enablePVCReuse: true"), common)
	one, other := crowd(t, flat, "a", "b"), crowd(t, nested, "a", "b")
	byName := cmp.Comparer(func(a, b func(a, b inplace.Pod) int) bool { return (a == nil) == (b == nil) })
	if one.Intent.Compare == nil {
		t.Error("the priority strategy is not read")
	}
	if diff := cmp.Diff(one.Intent, other.Intent, byName); diff != "" {
		t.Errorf("flat and nested differ (-flat +nested):\n%s", diff)
	}
	if diff := cmp.Diff(Kind{}.Scale(one), Kind{}.Scale(other), byName); diff != "" {
		t.Errorf("flat and nested scale differently (-flat +nested):\n%s", diff)
	}
	_, flatRead := read(t, flat)
	_, nestedRead := read(t, nested)
	flatRead.Intent, nestedRead.Intent = inplace.Intent{}, inplace.Intent{}
	if diff := cmp.Diff(flatRead, nestedRead); diff != "" {
		t.Errorf("flat and nested want different things (-flat +nested):\n%s", diff)
	}
}

// TestNodeLabels are asked for only where they rank pods: a node's own name stands for its host name.
func TestNodeLabels(t *testing.T) {
	t.Parallel()
	spec := `{template: {metadata: {labels: {app: web}}, spec: {containers: [], topologySpreadConstraints: [{topologyKey: %s, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}}}`
	for key, want := range map[string]bool{"kubernetes.io/hostname": false, "topology.kubernetes.io/zone": true} {
		if _, w := read(t, fmt.Sprintf(spec, key)); w.NodeLabels != want {
			t.Errorf("%s: %t", key, w.NodeLabels)
		}
	}
	if _, w := read(t, `{}`); w.NodeLabels {
		t.Error("without constraints")
	}
}

// TestRollbackGate: the gate stands for what a CloneSet does not say.
func TestRollbackGate(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string][2]bool{
		`{}`: {false, true},
		`{updateStrategy: {partitionRollback: true}}`:  {true, true},
		`{updateStrategy: {partitionRollback: false}}`: {false, false},
	} {
		cs, w := read(t, spec)
		if got := [2]bool{w.Intent.PartitionRollback, Kind{PartitionRollback: true}.Read(cs).Intent.PartitionRollback}; got != want {
			t.Errorf("%s: without and with the gate %v, want %v", spec, got, want)
		}
	}
}

// TestPriority: more weight goes first, and what the default order says decides the rest.
func TestPriority(t *testing.T) {
	t.Parallel()
	c := crowd(t, `{replicas: 3, updateStrategy: {priorityStrategy: {weightPriority: [{weight: 50, matchSelector: {matchLabels: {zone: b}}}]}}}`, "a", "b", "c")
	c.Pods[1].Labels["zone"] = "b"
	slices.SortFunc(c.Pods, c.Intent.Compare)
	if c.Pods[0].Name != "b" || order.Default(c.Pods[1], c.Pods[2]) > 0 {
		t.Errorf("order %s %s %s", c.Pods[0].Name, c.Pods[1].Name, c.Pods[2].Name)
	}
}

// TestB119: where the quota has no room for a surge pod, an image that changes in place needs none; what must be recreated
// waits for the surge pod and says why.
func TestB119(t *testing.T) {
	t.Parallel()
	spec := `{replicas: 1, updateStrategy: {type: %s, maxUnavailable: 0, maxSurge: 1}}`
	inPlace := Kind{}.Scale(crowd(t, fmt.Sprintf(spec, "InPlaceIfPossible"), "a"))
	if inPlace.MaxUnavailable != 1 || len(inPlace.Population.Creates) != 0 {
		t.Errorf("in place: %d may be down, %d creates", inPlace.MaxUnavailable, len(inPlace.Population.Creates))
	}
	c := crowd(t, fmt.Sprintf(spec, "ReCreate"), "a")
	surge := Kind{}.Scale(c)
	if surge.MaxUnavailable != 0 || len(surge.Population.Creates) != 1 || surge.Population.Creates[0].Revision != "web-v2" {
		t.Errorf("recreate: %d may be down, creates %v", surge.MaxUnavailable, surge.Population.Creates)
	}
	c.Refused = &workload.Refusal{Message: "exceeded quota: pods", Times: 1, Last: c.Now}
	held := Kind{}.Scale(c).Population
	if len(held.Creates)+len(held.Deletes) != 0 || len(held.Holds) != 1 || held.Holds[0].Kind != inplace.HoldScale ||
		!strings.Contains(held.Holds[0].Because, "exceeded quota") || held.LookAgainIn <= 0 {
		t.Errorf("refused: %+v", held)
	}
}

// TestB091: pods whose claims were made from other templates are recreated with another change, and not for the claims alone.
func TestB091(t *testing.T) {
	t.Parallel()
	spec := `{replicas: 1, updateStrategy: {type: InPlaceIfPossible}, volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: %s}}}}]}`
	c := crowd(t, fmt.Sprintf(spec, "2Gi"), "a")
	c.Pods[0].Annotations[appsv1alpha1.AnnotationClaimTemplate] = "another"
	if got := (Kind{}).Scale(c); got.RecreateOnly["a"] == "" || len(got.Population.Deletes)+len(got.Population.Creates) != 0 {
		t.Errorf("%v, %+v", got.RecreateOnly, got.Population)
	}
	c.Pods[0].Annotations[appsv1alpha1.AnnotationClaimTemplate] = ""
	if got := (Kind{}).Scale(c); len(got.RecreateOnly) != 0 {
		t.Errorf("a pod that does not say is recreated: %v", got.RecreateOnly)
	}
}

// TestClaimsComeWithThePod: named, labelled and owned as OpenKruise does it.
func TestClaimsComeWithThePod(t *testing.T) {
	t.Parallel()
	c := crowd(t, `{replicas: 1, volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]}`)
	creates := Kind{}.Scale(c).Population.Creates
	if len(creates) != 1 || len(creates[0].Claims) != 1 {
		t.Fatalf("%+v", creates)
	}
	id := plan.ID("uid", 0)
	claim := creates[0].Claims[0]
	labels := map[string]string{"app": "web", appsv1alpha1.LabelCloneSetInstanceID: id}
	if diff := cmp.Diff(labels, claim.GetLabels()); diff != "" || claim.GetName() != "data-web-"+id {
		t.Errorf("%s %s", claim.GetName(), diff)
	}
	if owner := metav1.GetControllerOf(claim); owner == nil || owner.UID != "uid" {
		t.Errorf("owner %v", owner)
	}
	// Templates that cannot be read create no pod, and delete none.
	broken := crowd(t, `{replicas: 2}`, "a")
	set, ok := broken.Object.(*appsv1alpha1.CloneSet)
	if !ok {
		t.Fatalf("%T", broken.Object)
	}
	set.Spec.VolumeClaimTemplates = []appsv1alpha1.RawObject{{RawExtension: runtime.RawExtension{Raw: []byte(`{"metadata":{}}`)}}}
	got := Kind{}.Scale(broken).Population
	if len(got.Creates)+len(got.Deletes) != 0 || len(got.Holds) != 1 || !strings.Contains(got.Holds[0].Because, "spec.volumeClaimTemplates[0]") {
		t.Errorf("%+v", got)
	}
}

// TestAPodThatAHookHoldsIsNotDeleted: OpenKruise left it in PreparingDelete. While its hook holds it, it stays; wanted again
// it goes back; let go it is deleted.
func TestAPodThatAHookHoldsIsNotDeleted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		replicas         int
		held             bool
		deletes, patches int
	}{
		"held":         {held: true},
		"let go":       {deletes: 1},
		"wanted again": {replicas: 1, held: true, patches: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := crowd(t, fmt.Sprintf(`{replicas: %d, lifecycle: {preDelete: {labelsHandler: {held: "yes"}}}}`, tc.replicas), "a")
			c.Intent.Current = c.Intent.Update
			c.Pods[0].Revision = c.Intent.Update.Name
			c.Pods[0].Labels[appsv1alpha1.LabelLifecycleState] = "PreparingDelete"
			if tc.held {
				c.Pods[0].Labels["held"] = "yes"
			}
			got := Kind{}.Scale(c).Population
			if len(got.Deletes) != tc.deletes || len(got.Patches) != tc.patches {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestAPodToBeRecreatedIsNotTakenBack: the hook is taken out of the spec while all pods wait in PreparingDelete. One that is
// taken back would be recreated right away.
func TestAPodToBeRecreatedIsNotTakenBack(t *testing.T) {
	t.Parallel()
	c := crowd(t, `{replicas: 1, updateStrategy: {type: ReCreate}}`, "a")
	c.Pods[0].Labels[appsv1alpha1.LabelLifecycleState] = "PreparingDelete"
	if got := (Kind{}).Scale(c).Population; len(got.Patches) != 0 || len(got.Deletes) != 1 {
		t.Errorf("%+v", got)
	}
}

package feedback

import (
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// reader fills in what is particular to a kind.
type reader func(obj *unstructured.Unstructured, r *Report) error

// readers is the table by kind.
func readers(obj *unstructured.Unstructured) (reader, bool) {
	table := map[schema.GroupKind]reader{
		render.CloneSet().GVK.GroupKind():            cloneSet,
		render.AdvancedStatefulSet().GVK.GroupKind(): advancedStatefulSet,
		render.StatefulSet().GVK.GroupKind():         statefulSet,
		render.Deployment().GVK.GroupKind():          deployment,
	}
	r, ok := table[obj.GroupVersionKind().GroupKind()]
	return r, ok
}

func of(obj *unstructured.Unstructured) (Report, error) {
	read, ok := readers(obj)
	gvk := obj.GroupVersionKind()
	if !ok {
		return Report{}, fmt.Errorf("reading %s: %w", gvk.GroupKind(), ErrUnknownKind)
	}
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	r := Report{
		Kind:           gvk.GroupKind().String(),
		Namespace:      obj.GetNamespace(),
		Name:           obj.GetName(),
		UID:            obj.GetUID(),
		Generation:     obj.GetGeneration(),
		Deleting:       obj.GetDeletionTimestamp() != nil,
		Subset:         labels[appsv1alpha1.LabelSubsetName],
		SubsetRevision: labels[appsv1alpha1.LabelSubsetRevision],
		Hub:            labels[appsv1alpha1.LabelHub],
		Intent:         annotations[appsv1alpha1.AnnotationIntent],
		Owner:          annotations[appsv1alpha1.AnnotationOwner],
		ScaledBy:       scalers(obj),
	}
	_, r.Orphaned = annotations[appsv1alpha1.AnnotationOrphaned]
	if err := read(obj, &r); err != nil {
		return Report{}, fmt.Errorf("reading %s %s/%s: %w", gvk.Kind, r.Namespace, r.Name, err)
	}
	r.Fresh = r.Generation > 0 && r.ObservedGeneration >= r.Generation
	return r, nil
}

// cloneSet reads both shapes of the update strategy.
func cloneSet(obj *unstructured.Unstructured, r *Report) error {
	if err := specReplicas(obj, r); err != nil {
		return err
	}
	strategy, nested, err := unstructured.NestedMap(obj.Object, "spec", "updateStrategy", "rollingUpdate")
	if err == nil && !nested {
		strategy, _, err = unstructured.NestedMap(obj.Object, "spec", "updateStrategy")
	}
	if err != nil {
		return fmt.Errorf("reading the update strategy: %w", err)
	}
	return ofOurs(obj, r, strategy)
}

// ofOurs reads what the kinds of apps.kruise.io have in common; rollout is where partition and paused are.
func ofOurs(obj *unstructured.Unstructured, r *Report, rollout map[string]any) error {
	if p := rollout["partition"]; p != nil {
		r.Partition = fmt.Sprint(p)
	}
	r.Paused, _ = rollout["paused"].(bool)
	return status(obj, r, map[string]*int32{
		"replicas":             &r.Replicas,
		"readyReplicas":        &r.Ready,
		"availableReplicas":    &r.Available,
		"updatedReplicas":      &r.Updated,
		"updatedReadyReplicas": &r.UpdatedReady,
	})
}

func specReplicas(obj *unstructured.Unstructured, r *Report) error {
	n, found, err := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	if err != nil {
		return fmt.Errorf("reading spec.replicas: %w", err)
	}
	if found {
		r.SpecReplicas = new(pods(n))
	}
	return nil
}

// status reads what the workload kinds have in common, and the numbers under the kind's own names.
func status(obj *unstructured.Unstructured, r *Report, numbers map[string]*int32) error {
	observed, _, err := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	if err != nil {
		return fmt.Errorf("reading status.observedGeneration: %w", err)
	}
	r.ObservedGeneration = observed
	for field, to := range numbers {
		n, _, err := unstructured.NestedInt64(obj.Object, "status", field)
		if err != nil {
			return fmt.Errorf("reading status.%s: %w", field, err)
		}
		*to = pods(n)
	}
	for field, to := range map[string]*string{
		"updateRevision": &r.UpdateRevision, "currentRevision": &r.CurrentRevision,
	} {
		if *to, _, err = unstructured.NestedString(obj.Object, "status", field); err != nil {
			return fmt.Errorf("reading status.%s: %w", field, err)
		}
	}
	return statusObjects(obj, r)
}

func statusObjects(obj *unstructured.Unstructured, r *Report) error {
	conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	if err != nil {
		return fmt.Errorf("reading status.conditions: %w", err)
	}
	for _, c := range conditions {
		m, ok := c.(map[string]any)
		if !ok {
			continue
		}
		var condition metav1.Condition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &condition); err != nil {
			return fmt.Errorf("reading status.conditions: %w", err)
		}
		r.Conditions = append(r.Conditions, condition)
	}
	report, found, err := unstructured.NestedMap(obj.Object, "status", "underway")
	if err != nil {
		return fmt.Errorf("reading status.underway: %w", err)
	}
	if !found {
		return nil
	}
	r.Workload = &appsv1alpha1.WorkloadReport{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(report, r.Workload); err != nil {
		return fmt.Errorf("reading status.underway: %w", err)
	}
	r.Workload.UpdatedInPlace, r.Workload.Recreated = max(r.Workload.UpdatedInPlace, 0), max(r.Workload.Recreated, 0)
	r.Workload.Refused, r.Workload.Broken = bounded(r.Workload.Refused), bounded(r.Workload.Broken)
	return nil
}

// pods is a number of pods, whatever a member calls one: sums over members must not turn negative.
func pods(n int64) int32 {
	return int32(min(max(n, 0), math.MaxInt32))
}

// What is kept of the problems that a member tells, as its agent bounds them; words are cut to their use in a status by who
// writes it.
const (
	maxProblems = 10
	maxReason   = 64
	maxMessage  = 2048
	maxName     = 253
)

// bounded keeps of problems what their meaning needs: they go into the status of the hub's object, which everybody's edits
// must fit beside. Nothing on a member keeps these texts short.
func bounded(problems []appsv1alpha1.PodProblem) []appsv1alpha1.PodProblem {
	problems = problems[:min(len(problems), maxProblems)]
	for i := range problems {
		x := &problems[i]
		x.Reason, x.Message = beginning(x.Reason, maxReason), beginning(x.Message, maxMessage)
		x.Pods, x.Count = x.Pods[:min(len(x.Pods), maxProblems)], max(x.Count, 0)
		for k := range x.Pods {
			x.Pods[k] = beginning(x.Pods[k], maxName)
		}
	}
	return problems
}

// beginning cuts text on a character's border.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// scalers are the managers beside the hub that own spec.replicas through the scale subresource, as autoscalers write it.
// kubectl is left out: a person who scales a child by hand once is drift.
func scalers(obj *unstructured.Unstructured) []string {
	raw, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "managedFields")
	entries, _ := raw.([]any)
	var out []string
	for _, item := range entries {
		e, _ := item.(map[string]any)
		manager, _ := e["manager"].(string)
		if e["subresource"] != "scale" || manager == "" || strings.HasPrefix(manager, "kubectl") {
			continue
		}
		if _, owns, err := unstructured.NestedFieldNoCopy(e, "fieldsV1", "f:spec", "f:replicas"); owns && err == nil {
			out = append(out, manager)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

package cloneset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/order"
	"github.com/underway-dev/underway/inplace/partition"
	"github.com/underway-dev/underway/member/cloneset/plan"
	"github.com/underway-dev/underway/member/workload"
)

// historyLimit is upstream's default of spec.revisionHistoryLimit.
const historyLimit = 10

// Kind is the adapter. It holds what its flags say and nothing else.
type Kind struct {
	// PartitionRollback is OpenKruise's feature gate CloneSetPartitionRollback: it stands for
	// spec.updateStrategy.partitionRollback where a CloneSet does not say.
	PartitionRollback bool
}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/status,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/finalizers,verbs=update

// Resource says how the API server names it.
func Resource() workload.Resource {
	return workload.Resource{
		GroupVersionKind: appsv1alpha1.GroupVersion.WithKind("CloneSet"),
		Plural:           "clonesets",
		PodLabel:         appsv1alpha1.LabelCloneSetInstanceID,
		FailedScale:      appsv1alpha1.ConditionFailedScale,
		FailedUpdate:     appsv1alpha1.ConditionFailedUpdate,
	}
}

// New returns an empty CloneSet.
func (Kind) New() client.Object {
	return &appsv1alpha1.CloneSet{}
}

// Selector is spec.selector.
func (Kind) Selector(obj client.Object) (labels.Selector, error) {
	cs, ok := obj.(*appsv1alpha1.CloneSet)
	if !ok {
		return nil, fmt.Errorf("%T is no CloneSet", obj)
	}
	return workload.Selector(cs.Spec.Selector)
}

// Read reads a CloneSet.
func (k Kind) Read(obj client.Object) workload.Wanted {
	cs, ok := obj.(*appsv1alpha1.CloneSet)
	if !ok {
		return workload.Wanted{Intent: inplace.Intent{Invalid: fmt.Sprintf("%T is no CloneSet", obj)}}
	}
	w := workload.Wanted{
		Template:         cs.Spec.Template.Raw,
		ProgressDeadline: time.Duration(ptr.Deref(cs.Spec.ProgressDeadlineSeconds, 0)) * time.Second,
		MinReadySeconds:  cs.Spec.MinReadySeconds,
		HistoryLimit:     ptr.Deref(cs.Spec.RevisionHistoryLimit, historyLimit),
		NotActedOn:       cs.Spec.NotActedOn(),
		Claims:           len(cs.Spec.VolumeClaimTemplates) > 0,
		Status: workload.Stored{
			CurrentRevision: cs.Status.CurrentRevision, UpdateRevision: cs.Status.UpdateRevision,
			CollisionCount: ptr.Deref(cs.Status.CollisionCount, 0), Replicas: cs.Status.Replicas, Updated: cs.Status.UpdatedReplicas,
			Conditions: cs.Status.Conditions, ObservedGeneration: cs.Status.ObservedGeneration, Underway: cs.Status.Underway,
		},
	}
	w.Intent.Replicas = max(ptr.Deref(cs.Spec.Replicas, 1), 0)
	if w.MinReadySeconds < 0 {
		// What is no time is never over.
		w.MinReadySeconds = math.MaxInt32
	}
	problem := cmp.Or(first(cs.Spec.Problems()), w.ReadTemplate(cs.Spec.Template.Raw, cs.Spec.Selector), readScaling(cs, &w), k.readRollout(cs, &w))
	if problem != "" {
		w.Intent = inplace.Intent{
			Invalid: problem, Replicas: w.Intent.Replicas, Partition: w.Intent.Replicas, Lifecycle: cs.Spec.Lifecycle,
		}
		w.Held = true
	}
	return w
}

func first(problems []string) string {
	if len(problems) == 0 {
		return ""
	}
	return problems[0]
}

// readScaling reads what Scale reads again with the pods.
func readScaling(cs *appsv1alpha1.CloneSet, w *workload.Wanted) (problem string) {
	strategy, problem := plan.ReadStrategy(&cs.Spec, cs.Labels)
	w.NodeLabels = slices.ContainsFunc(strategy.Spread, func(key string) bool { return key != corev1.LabelHostname })
	return problem
}

func (k Kind) readRollout(cs *appsv1alpha1.CloneSet, w *workload.Wanted) (problem string) {
	in := &w.Intent
	rollout, err := cs.Spec.Rollout()
	if err != nil {
		return err.Error()
	}
	at := "spec.updateStrategy"
	if rollout.Nested {
		at = "spec.updateStrategy.rollingUpdate"
	}
	if in.Partition, err = partition.Old(rollout.Partition, in.Replicas); err != nil {
		return fmt.Sprintf("%s.partition: %v", at, err)
	}
	// Without surge; with it, Scale asks plan.Strategy.Budget.
	if in.MaxUnavailable, err = partition.MaxUnavailable(rollout.MaxUnavailable, 0, in.Replicas); err != nil {
		return fmt.Sprintf("%s.maxUnavailable: %v", at, err)
	}
	if rollout.Priority != nil {
		if in.Compare, err = order.Priority(rollout.Priority); err != nil {
			return fmt.Sprintf("%s.priorityStrategy.%v", at, err)
		}
	}
	in.Scatter, in.Lifecycle = rollout.Scatter, cs.Spec.Lifecycle
	in.PartitionRollback = rollout.PartitionRollback || k.PartitionRollback && cs.Spec.UpdateStrategy.PartitionRollback == nil
	in.Policy = inplace.Policy(rollout.Policy)
	in.OnDelete, in.Paused = rollout.OnDelete, rollout.Paused
	in.GracePeriod = time.Duration(rollout.GracePeriodSeconds) * time.Second
	in.PatchUndrained = cs.Annotations[appsv1alpha1.AnnotationPatchUndrained] == "true"
	w.Held = holds(rollout.Partition)
	return ""
}

// holds reports whether a partition keeps any pod back at some number of replicas. It was read before.
func holds(p *intstr.IntOrString) bool {
	const many = 1 << 20
	kept, err := partition.Old(p, many)
	return err != nil || kept > 0
}

// Report writes the status.
func (Kind) Report(obj client.Object, r workload.Report) (changed bool) {
	cs, ok := obj.(*appsv1alpha1.CloneSet)
	if !ok {
		return false
	}
	sum := r.Summary
	next := appsv1alpha1.CloneSetStatus{
		ObservedGeneration:       r.ObservedGeneration,
		Replicas:                 sum.Replicas,
		ReadyReplicas:            sum.Ready,
		AvailableReplicas:        sum.Available,
		UpdatedReplicas:          sum.Updated,
		UpdatedReadyReplicas:     sum.UpdatedReady,
		UpdatedAvailableReplicas: sum.UpdatedAvailable,
		ExpectedUpdatedReplicas:  max(sum.ExpectedUpdated, 0),
		UpdateRevision:           cmp.Or(r.UpdateRevision, cs.Status.UpdateRevision),
		CurrentRevision:          cmp.Or(r.CurrentRevision, cs.Status.CurrentRevision),
		CollisionCount:           r.Collisions(cs.Status.CollisionCount),
		LabelSelector:            cmp.Or(r.Selector, cs.Status.LabelSelector),
		Conditions:               r.Conditions,
		Underway:                 r.Underway(),
	}
	if equality.Semantic.DeepEqual(cs.Status, next) {
		return false
	}
	cs.Status = next
	return true
}

package statefulset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/member/statefulset/plan"
	"github.com/underway-dev/underway/member/workload"
)

// historyLimit is upstream's default of spec.revisionHistoryLimit.
const historyLimit = 10

// Kind is the adapter. It holds nothing.
type Kind struct{}

// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/status,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=statefulsets/finalizers,verbs=update

// Resource says how the API server names it.
func Resource() workload.Resource {
	return workload.Resource{
		GroupVersionKind: appsv1alpha1.GroupVersion.WithKind("StatefulSet"),
		Plural:           "statefulsets",
		FailedScale:      appsv1alpha1.ConditionFailedCreatePod,
		FailedUpdate:     appsv1alpha1.ConditionFailedUpdatePod,
	}
}

// New returns an empty StatefulSet.
func (Kind) New() client.Object {
	return &appsv1alpha1.StatefulSet{}
}

// Selector is spec.selector.
func (Kind) Selector(obj client.Object) (labels.Selector, error) {
	set, ok := obj.(*appsv1alpha1.StatefulSet)
	if !ok {
		return nil, fmt.Errorf("%T is no StatefulSet", obj)
	}
	return workload.Selector(set.Spec.Selector)
}

// Gives reports whether the name is the StatefulSet's with an ordinal, wanted or not.
func (Kind) Gives(obj client.Object, pod string) bool {
	_, ok := plan.OrdinalOf(obj.GetName(), pod)
	return ok
}

// Uses reports whether a claim's name is that of a template, whichever, before that of a pod of the StatefulSet.
func (k Kind) Uses(obj client.Object, claim string) bool {
	dash := strings.LastIndexByte(claim, '-')
	if dash < 0 {
		return false
	}
	template, ok := strings.CutSuffix(claim[:dash], "-"+obj.GetName())
	return ok && template != "" && k.Gives(obj, obj.GetName()+claim[dash:])
}

// Relabel are the patches that give pods the labels of their identity.
func (Kind) Relabel(obj client.Object, pods []corev1.Pod, wrote map[types.UID]time.Time, now time.Time) []inplace.Patch {
	return plan.Relabel(obj.GetName(), pods, wrote, now)
}

// Read reads a StatefulSet.
func (Kind) Read(obj client.Object) workload.Wanted {
	set, ok := obj.(*appsv1alpha1.StatefulSet)
	if !ok {
		return workload.Wanted{Intent: inplace.Intent{Invalid: fmt.Sprintf("%T is no StatefulSet", obj)}}
	}
	spec, status := &set.Spec, &set.Status
	read := plan.Read(spec)
	w := workload.Wanted{
		Intent: read.Intent, Held: read.Held, MinReadySeconds: read.MinReadySeconds,
		HistoryLimit: ptr.Deref(spec.RevisionHistoryLimit, historyLimit),
		NotActedOn:   spec.NotActedOn(),
		Claims:       len(spec.VolumeClaimTemplates) > 0,
		Classes:      len(spec.VolumeClaimTemplates) > 0 && read.Strategy.ResizeClaims,
		Status: workload.Stored{
			CurrentRevision: status.CurrentRevision, UpdateRevision: status.UpdateRevision,
			CollisionCount: ptr.Deref(status.CollisionCount, 0), Replicas: status.Replicas, Updated: status.UpdatedReplicas,
			Conditions: status.Conditions, ObservedGeneration: status.ObservedGeneration, Underway: status.Underway,
		},
	}
	in := &w.Intent
	in.PatchUndrained = set.Annotations[appsv1alpha1.AnnotationPatchUndrained] == "true"
	if problem := w.ReadTemplate(spec.Template.Raw, spec.Selector); problem != "" && in.Invalid == "" {
		w.Intent = inplace.Intent{Invalid: problem, Replicas: in.Replicas, Partition: in.Replicas, Lifecycle: spec.Lifecycle}
		w.Held = true
	}
	return w
}

// Report writes the status.
func (Kind) Report(obj client.Object, r workload.Report) (changed bool) {
	set, ok := obj.(*appsv1alpha1.StatefulSet)
	if !ok {
		return false
	}
	sum := r.Summary
	next := appsv1alpha1.StatefulSetStatus{
		ObservedGeneration:       r.ObservedGeneration,
		Replicas:                 sum.Replicas,
		ReadyReplicas:            sum.Ready,
		AvailableReplicas:        sum.Available,
		CurrentReplicas:          sum.Current,
		UpdatedReplicas:          sum.Updated,
		UpdatedReadyReplicas:     sum.UpdatedReady,
		UpdatedAvailableReplicas: sum.UpdatedAvailable,
		UpdateRevision:           cmp.Or(r.UpdateRevision, set.Status.UpdateRevision),
		CurrentRevision:          cmp.Or(r.CurrentRevision, set.Status.CurrentRevision),
		CollisionCount:           r.Collisions(set.Status.CollisionCount),
		LabelSelector:            cmp.Or(r.Selector, set.Status.LabelSelector),
		Conditions:               r.Conditions,
		VolumeClaims:             slices.Clone(r.Volumes),
		Underway:                 r.Underway(),
	}
	if equality.Semantic.DeepEqual(set.Status, next) {
		return false
	}
	set.Status = next
	return true
}

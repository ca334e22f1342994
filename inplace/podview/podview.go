package podview

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

// Around is what the pod object alone does not tell.
type Around struct {
	// Now is the time of the pass.
	Now time.Time
	// MinReadySeconds is the workload's.
	MinReadySeconds int32
	// Endpoints is which EndpointSlices name the pod (EndpointsOf).
	Endpoints Endpoints
	// Seen are our clock's marks (Memory.Look).
	Seen inplace.Seen
}

// From reads pod. The result shares the pod's maps: treat both as read-only.
func From(pod *corev1.Pod, around Around) inplace.Pod {
	p := inplace.Pod{
		Ref: inplace.Ref{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
		Phase:              phase(pod),
		Node:               pod.Spec.NodeName,
		Created:            pod.CreationTimestamp.Time,
		Generation:         pod.Generation,
		ObservedGeneration: pod.Status.ObservedGeneration,
		Labels:             pod.Labels,
		Annotations:        pod.Annotations,
		Finalizers:         pod.Finalizers,
		Revision:           pod.Labels[appsv1alpha1.LabelPodRevision],
		Replaces:           pod.Annotations[appsv1alpha1.AnnotationReplaces],
		Containers:         containers(pod),
		ReadyIn:            around.Endpoints.Ready,
		PublishedIn:        around.Endpoints.Published,
		Seen:               around.Seen,
		DeletionCost:       deletionCost(pod),
	}
	if pod.DeletionTimestamp != nil {
		p.GoneBy = pod.DeletionTimestamp.Time
	}
	p.State, p.StateProblem = state(pod)
	p.Parked = parked(pod)
	_, p.SpecifiedDelete = pod.Labels[appsv1alpha1.LabelSpecifiedDelete]
	p.Gate, p.GateSince = gate(pod)
	p.Kruise = kruise(pod)
	p.Unschedulable = unschedulable(pod)
	p.Resize = resize(pod)
	readiness(&p, pod, around)
	down(&p, around.Now)
	return p
}

func phase(pod *corev1.Pod) inplace.Phase {
	switch {
	case pod.DeletionTimestamp != nil:
		return inplace.PhaseTerminating
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return inplace.PhaseTerminal
	case pod.Status.Phase == corev1.PodRunning:
		return inplace.PhaseRunning
	default:
		return inplace.PhasePending
	}
}

// gate reads the readiness gate and its condition.
func gate(pod *corev1.Pod) (inplace.Gate, time.Time) {
	has := false
	for _, g := range pod.Spec.ReadinessGates {
		has = has || g.ConditionType == appsv1alpha1.ConditionInPlaceUpdateReady
	}
	if !has {
		return inplace.GateNone, time.Time{}
	}
	c := condition(pod, appsv1alpha1.ConditionInPlaceUpdateReady)
	switch {
	case c == nil:
		return inplace.GateUnset, time.Time{}
	case c.Status == corev1.ConditionTrue:
		return inplace.GateTrue, c.LastTransitionTime.Time
	default:
		return inplace.GateFalse, c.LastTransitionTime.Time
	}
}

// readiness fills Ready and Available. A pod that its lifecycle hooks hold is not available, however long it is Ready.
func readiness(p *inplace.Pod, pod *corev1.Pod, around Around) {
	c := condition(pod, corev1.PodReady)
	if c == nil {
		return
	}
	p.ReadySince = c.LastTransitionTime.Time
	p.Ready = c.Status == corev1.ConditionTrue && p.Active()
	serving := p.Ready && p.Phase == inplace.PhaseRunning && p.Gate != inplace.GateFalse && hooks.Settled(p.Labels)
	if !serving {
		return
	}
	if around.MinReadySeconds <= 0 {
		p.Available = true
		return
	}
	due := readyFrom(p).Add(time.Duration(around.MinReadySeconds) * time.Second)
	p.AvailableIn = max(due.Sub(around.Now), 0)
	p.Available = p.AvailableIn == 0
}

// readyFrom is since when the pod counts as Ready: since we saw it become so, on our own clock. Where it was Ready at our
// first look there is only the node's stamp, which never counts for later than that look (B107).
func readyFrom(p *inplace.Pod) time.Time {
	switch {
	case !p.Seen.ReadySince.IsZero():
		return p.Seen.ReadySince
	case !p.Seen.FoundReady.IsZero() && p.Seen.FoundReady.Before(p.ReadySince):
		return p.Seen.FoundReady
	default:
		return p.ReadySince
	}
}

func unschedulable(pod *corev1.Pod) string {
	c := condition(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return ""
	}
	if c.Message == "" {
		return "the scheduler finds no node"
	}
	return c.Message
}

// resize reads the two conditions about a resize. The pending one counts: the other may be of an earlier resize.
func resize(pod *corev1.Pod) inplace.Resize {
	var r inplace.Resize
	if c := condition(pod, corev1.PodResizeInProgress); c != nil && c.Status == corev1.ConditionTrue {
		r.InProgress, r.Failing = true, c.Reason == corev1.PodReasonError
		r.Message, r.Since, r.Generation = c.Message, c.LastTransitionTime.Time, c.ObservedGeneration
	}
	if c := condition(pod, corev1.PodResizePending); c != nil && c.Status == corev1.ConditionTrue {
		r.Pending, r.Message, r.Since, r.Generation = c.Reason, c.Message, c.LastTransitionTime.Time, c.ObservedGeneration
	}
	return r
}

// unreadyFor is how long containers must have been called not ready before the pod counts as down. A kubelet that starts
// anew calls all its pods not ready until their probes have run.
const unreadyFor = 10 * time.Second

// down fills Down, after readiness and the marks of memory.
func down(p *inplace.Pod, now time.Time) {
	trouble := p.Seen.Trouble.Reason
	switch {
	case p.Ready || !p.Active():
	case p.Phase == inplace.PhasePending, p.Gate == inplace.GateFalse, p.Gate == inplace.GateUnset:
		p.Down = true
	case trouble != "" && trouble != inplace.TroubleStartup:
		p.Down = true
	case p.Seen.UnreadySince.IsZero():
		// The containers are ready: the node is not heard from, or somebody else's gate holds the pod.
	default:
		p.DownIn = max(p.Seen.UnreadySince.Add(unreadyFor).Sub(now), 0)
		p.Down = p.DownIn == 0
	}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func deletionCost(pod *corev1.Pod) int32 {
	cost, err := strconv.ParseInt(pod.Annotations[appsv1alpha1.AnnotationDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

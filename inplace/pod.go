package inplace

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Phase is where a pod is in its life. What it runs, and whether an update is on its way, is not part of it.
type Phase string

// Values of Phase.
const (
	// PhasePending: bound or not, not every container has started yet.
	PhasePending Phase = "Pending"
	// PhaseRunning: started at least once. A crash loop is still running.
	PhaseRunning Phase = "Running"
	// PhaseTerminating: being deleted. It is never available and never touched.
	PhaseTerminating Phase = "Terminating"
	// PhaseTerminal: Succeeded or Failed. The engine never picks it.
	PhaseTerminal Phase = "Terminal"
)

// Gate is the state of the readiness gate InPlaceUpdateReady, which takes a pod out of service during an update.
type Gate string

// Values of Gate.
const (
	// GateNone: the pod has no such gate, so it cannot be drained.
	GateNone Gate = "None"
	// GateUnset: the gate is there and its condition was never written; the pod cannot become Ready.
	GateUnset Gate = "Unset"
	// GateFalse: drained, or draining.
	GateFalse Gate = "False"
	// GateTrue: in service as far as we are concerned.
	GateTrue Gate = "True"
)

// Ref names exactly one version of one pod.
type Ref struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
}

// Pod is what was seen of one pod.
type Pod struct {
	Ref

	Phase   Phase
	Node    string
	Created time.Time
	// GoneBy is metadata.deletionTimestamp: when the grace period of a terminating pod is over, by the API server's clock.
	// Zero for others.
	GoneBy time.Time
	// Generation and ObservedGeneration are metadata.generation and status.observedGeneration; 0 where not set.
	Generation         int64
	ObservedGeneration int64

	// Labels, Annotations and Finalizers are read-only views of the pod's own.
	Labels      map[string]string
	Annotations map[string]string
	Finalizers  []string

	// Revision is the label controller-revision-hash: what the pod was asked to run. step.Prove says whether it does.
	Revision string
	// Replaces is the revision of the pod that this one was created to replace; empty for a pod of a scale-up.
	Replaces string

	// Ready is the pod's Ready condition. Available: Ready for minReadySeconds, the gate not False, Running, and no lifecycle
	// hook holds it (hooks.Settled).
	Ready     bool
	Available bool
	// AvailableIn is how long a Ready pod still has to stay so to be available.
	AvailableIn time.Duration
	// Down is set when the pod serves nobody and that is not about to change by itself: it has not started, we took it out
	// of service, the kubelet names its trouble, or its containers have not been ready for a while by our clock. DownIn is
	// how long that still takes. A pod that is neither Ready nor Down may serve again at any moment: a kubelet that starts
	// anew calls its pods not ready for a quarter of a second, and pods of a node that is not heard from are only called so.
	Down   bool
	DownIn time.Duration
	// ReadySince is the last transition of the Ready condition, by the kubelet's clock: to be shown, not judged.
	ReadySince time.Time

	Gate Gate
	// GateSince is the last transition of the gate's condition, by the clock of the agent that wrote it.
	GateSince time.Time

	// Kruise is what the condition KruisePodReady is to say once OpenKruise's lifecycle hooks, of whose work we take over,
	// do not hold the pod any more; nil where they do not, or the pod has no such gate.
	Kruise *KruiseReady

	// State is the parsed annotation of the last in-place update, nil when there is none.
	State *State
	// StateProblem says why the annotation cannot be read. Then State is nil and what the pod runs is unknown.
	StateProblem string
	// Parked is an update that OpenKruise parked for its grace period, nil when there is none. Its revision label and
	// state are written already, its images are not.
	Parked *Parked

	// Containers are the pod's containers in spec order, then its init containers and native sidecars in theirs. Names
	// are unique over both lists.
	Containers []Container
	// Resize is what the kubelet says about a resize under way.
	Resize Resize
	// Unschedulable is the scheduler's message while it finds no node; empty otherwise.
	Unschedulable string

	// ReadyIn names the EndpointSlices that list the pod as ready.
	ReadyIn []string
	// PublishedIn names those that publish it although it is not ready; they do not hold up a drain.
	PublishedIn []string

	// Seen are our own clock's marks about this pod.
	Seen Seen

	// SpecifiedDelete is set when the label apps.kruise.io/specified-delete asks for the pod's deletion.
	SpecifiedDelete bool
	// DeletionCost is the annotation controller.kubernetes.io/pod-deletion-cost, 0 where absent or unreadable.
	DeletionCost int32
}

// KruiseReady is the condition KruisePodReady.
type KruiseReady struct {
	// Ready is its status; Message the JSON list of those who hold the pod, empty when nobody does.
	Ready   bool
	Message string
}

// Seen are moments on our own clock, kept by the caller in memory (podview.Memory). They start anew when the agent
// does, which only makes us wait longer. The zero time means "now, for the first time".
type Seen struct {
	// SameSince is since when generation, observedGeneration, container ids, image ids and running are as they are.
	SameSince time.Time
	// NotReadySince is since when the pod is seen with the gate False and Ready=False.
	NotReadySince time.Time
	// ReadySince is since when the pod is Ready, where we saw it become so; zero when it was Ready at our first look.
	ReadySince time.Time
	// FoundReady is our first look at the pod, where it was Ready already then.
	FoundReady time.Time
	// UnreadySince is since when the kubelet calls the containers not ready; zero while it calls them ready.
	UnreadySince time.Time
	// ResizeRefused is the API server's answer to our last resize of the resources that the state names; nil when there
	// was none, or it was accepted.
	ResizeRefused *ResizeRefusal
	// DrainedSince is since when, moreover, no EndpointSlice that counts lists it as ready.
	DrainedSince time.Time
	// Trouble is what keeps the pod from coming up, zero when nothing does.
	Trouble Trouble
}

// ResizeRefusal is an API server that refuses a resize.
type ResizeRefusal struct {
	Message string
	// Final is set when the answer would be the same on another try: the node can never hold it, or the QoS class or a
	// field that cannot change would. Otherwise (a quota) it may be tried again.
	Final bool
	// Since is the first refusal, Last the latest, by our clock.
	Since time.Time
	Last  time.Time
}

// Resize is the pair of conditions PodResizePending and PodResizeInProgress.
type Resize struct {
	// Pending is the reason of PodResizePending, ResizeDeferred or ResizeInfeasible; empty when nothing is pending.
	Pending string
	// InProgress is set while the kubelet carries a resize out; Failing is set when it says that this fails.
	InProgress bool
	Failing    bool
	// Message is the kubelet's.
	Message string
	// Generation is the pod's generation that the condition was judged on; 0 where the kubelet does not say.
	Generation int64
	// Since is the condition's transition, by the kubelet's clock: to be shown, not judged.
	Since time.Time
}

// Values of Resize.Pending.
const (
	ResizeDeferred   = string(corev1.PodReasonDeferred)
	ResizeInfeasible = string(corev1.PodReasonInfeasible)
)

// ContainerKind says in which list a container stands, and how long it lives.
type ContainerKind string

// Values of ContainerKind.
const (
	// KindApp is one of spec.containers; the zero value.
	KindApp ContainerKind = ""
	// KindSidecar is a native sidecar: an init container with restartPolicy Always, which runs as long as the pod.
	KindSidecar ContainerKind = "Sidecar"
	// KindInit is an ordinary init container: it has run once, and runs again only when the pod starts from the beginning.
	KindInit ContainerKind = "Init"
)

// Container is one container of a pod: what is wanted and what runs.
type Container struct {
	Name string
	Kind ContainerKind
	// Priority is the launch priority of a container with a barrier (KRUISE_CONTAINER_BARRIER, key p_N); nil without one.
	Priority *int32
	// Resources are the spec's cpu and memory; RunningResources the status', nil where the kubelet reports none.
	Resources        corev1.ResourceRequirements
	RunningResources *corev1.ResourceRequirements
	// ResizeRestarts are the resources whose change restarts the container (resizePolicy RestartContainer).
	ResizeRestarts []corev1.ResourceName
	// Image is spec's.
	Image string
	// RunningImage, ImageID and ContainerID are the status'.
	RunningImage string
	ImageID      string
	ContainerID  string
	RestartCount int32
	// Known is false when the status does not mention the container.
	Known   bool
	Running bool
	Ready   bool
	// Started is false while a startup probe has not succeeded yet; true where the kubelet does not say.
	Started bool
	// Waiting is the reason of the waiting state ("ImagePullBackOff"), WaitingMessage its message.
	Waiting        string
	WaitingMessage string
	// LastExit is how the previous run ended ("exit code 1", "OOMKilled"), empty when it did not end.
	LastExit string
}

// Container returns the container of that name, nil if there is none.
func (p *Pod) Container(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// Active reports whether the pod counts as one of the workload's pods: neither being deleted nor finished.
func (p *Pod) Active() bool {
	return p.Phase == PhasePending || p.Phase == PhaseRunning
}

// InService reports whether traffic may reach the pod, now or at any moment without anybody's doing. Taking it down then
// is what a budget is for.
func (p *Pod) InService() bool {
	return p.Gate != GateFalse && (p.Ready || (p.Active() && !p.Down))
}

package inplace

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Trouble is what keeps a container, or a pod, from coming up. Reasons that a kubelet alternates between are one: a
// container that crashes is in CrashLoopBackOff also in the moments in which it runs.
type Trouble struct {
	// Reason is the kubelet's or the scheduler's word, or one of the two below.
	Reason string
	// Container is its name; empty for trouble of the whole pod.
	Container string
	// Since is our first sight of it.
	Since time.Time
}

// Reasons of Trouble that several words of the kubelet come together in, or for which it has none.
const (
	// TroublePull: the image cannot be pulled (ErrImagePull and ImagePullBackOff).
	TroublePull = "ImagePullBackOff"
	// TroubleCrash: the container ends again and again.
	TroubleCrash = "CrashLoopBackOff"
	// TroubleNotStarted: the container from before the patch has ended and the kubelet waits to start it, so that nothing
	// is known of the new image. A kubelet alternates between this and why the image cannot be used.
	TroubleNotStarted = "NotStarted"
	// TroubleStartup: the container runs and its startup probe has not succeeded yet; trouble only when that lasts.
	TroubleStartup = "StartupNotReady"
	// TroubleUnschedulable: the scheduler finds no node.
	TroubleUnschedulable = string(corev1.PodReasonUnschedulable)
)

// TroubleNow is the trouble that this one observation shows, without Since.
func (p *Pod) TroubleNow() Trouble {
	for i := range p.Containers {
		if reason := p.troubleOf(&p.Containers[i]); reason != "" && reason != TroubleStartup {
			return Trouble{Reason: reason, Container: p.Containers[i].Name}
		}
	}
	for i := range p.Containers {
		if reason := p.troubleOf(&p.Containers[i]); reason != "" {
			return Trouble{Reason: reason, Container: p.Containers[i].Name}
		}
	}
	if p.Unschedulable != "" {
		return Trouble{Reason: TroubleUnschedulable}
	}
	return Trouble{}
}

// troubleOf is a container's trouble. One that still is the container from before the patch does not speak for the new image.
func (p *Pod) troubleOf(c *Container) string {
	reason := c.trouble()
	if reason != TroubleCrash || p.State == nil || c.ContainerID == "" {
		return reason
	}
	for _, records := range []map[string]ContainerState{p.State.LastContainerStatuses, p.State.OtherContainerStatuses} {
		was, ok := records[c.Name]
		if ok && was.ContainerID != nil && *was.ContainerID == c.ContainerID && was.Image != c.Image {
			return TroubleNotStarted
		}
	}
	return reason
}

// trouble groups the words that a kubelet alternates between.
func (c *Container) trouble() string {
	switch c.Waiting {
	case "":
		if c.Running && !c.Started && c.Kind != KindInit {
			return TroubleStartup
		}
		return ""
	case "ContainerCreating", "PodInitializing":
		return ""
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed":
		return TroublePull
	case "CrashLoopBackOff", "RunContainerError", "StartError":
		return TroubleCrash
	default:
		return c.Waiting
	}
}

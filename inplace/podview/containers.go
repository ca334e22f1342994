package podview

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/underway-dev/underway/inplace"
)

const (
	// envBarrier is the variable that OpenKruise gives to containers with a launch priority; it reads the key "p_<N>" of a
	// ConfigMap, so that the kubelet cannot start the container before that key is there.
	envBarrier      = "KRUISE_CONTAINER_BARRIER"
	barrierKey      = "p_"
	reasonOOMKilled = "OOMKilled"
)

// containers reads both lists: spec.containers, then spec.initContainers.
func containers(pod *corev1.Pod) []inplace.Container {
	out := make([]inplace.Container, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	for i := range pod.Spec.Containers {
		out = append(out, container(&pod.Spec.Containers[i], inplace.KindApp, pod.Status.ContainerStatuses))
	}
	for i := range pod.Spec.InitContainers {
		kind := inplace.KindInit
		if p := pod.Spec.InitContainers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			kind = inplace.KindSidecar
		}
		out = append(out, container(&pod.Spec.InitContainers[i], kind, pod.Status.InitContainerStatuses))
	}
	return out
}

func container(spec *corev1.Container, kind inplace.ContainerKind, statuses []corev1.ContainerStatus) inplace.Container {
	c := inplace.Container{Name: spec.Name, Kind: kind, Image: spec.Image, Resources: computing(spec.Resources)}
	if kind == inplace.KindApp {
		c.Priority = priority(spec)
	}
	for _, p := range spec.ResizePolicy {
		if p.RestartPolicy == corev1.RestartContainer {
			c.ResizeRestarts = append(c.ResizeRestarts, p.ResourceName)
		}
	}
	for i := range statuses {
		if statuses[i].Name == c.Name {
			observe(&c, &statuses[i])
		}
	}
	return c
}

// priority is the N of the barrier's key; nil without a barrier, or with one that nobody can read.
func priority(spec *corev1.Container) *int32 {
	for i := range spec.Env {
		e := &spec.Env[i]
		if e.Name != envBarrier || e.ValueFrom == nil || e.ValueFrom.ConfigMapKeyRef == nil {
			continue
		}
		text, ok := strings.CutPrefix(e.ValueFrom.ConfigMapKeyRef.Key, barrierKey)
		if !ok {
			continue
		}
		if n, err := strconv.ParseInt(text, 10, 32); err == nil {
			return new(int32(n))
		}
	}
	return nil
}

// computing keeps cpu and memory: nothing else can be resized, and kubelets do not report all others (kruise #2519).
func computing(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: cpuAndMemory(r.Limits), Requests: cpuAndMemory(r.Requests)}
}

func cpuAndMemory(list corev1.ResourceList) corev1.ResourceList {
	var out corev1.ResourceList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := list[name]; ok {
			if out == nil {
				out = corev1.ResourceList{}
			}
			out[name] = q
		}
	}
	return out
}

func observe(c *inplace.Container, s *corev1.ContainerStatus) {
	c.Known = true
	c.RunningImage, c.ImageID, c.ContainerID = s.Image, s.ImageID, s.ContainerID
	c.RestartCount, c.Ready = s.RestartCount, s.Ready
	c.Running = s.State.Running != nil
	c.Started = s.Started == nil || *s.Started
	if s.Resources != nil {
		c.RunningResources = new(computing(*s.Resources))
	}
	if w := s.State.Waiting; w != nil {
		c.Waiting, c.WaitingMessage = w.Reason, w.Message
	}
	c.LastExit = lastExit(s)
}

// lastExit is how the container ended last, as far as the status still says.
func lastExit(s *corev1.ContainerStatus) string {
	ended := s.State.Terminated
	if ended == nil {
		ended = s.LastTerminationState.Terminated
	}
	switch {
	case ended == nil:
		return ""
	case ended.Reason == reasonOOMKilled:
		return ended.Reason
	case ended.Signal != 0:
		return fmt.Sprintf("signal %d", ended.Signal)
	default:
		return fmt.Sprintf("exit code %d", ended.ExitCode)
	}
}

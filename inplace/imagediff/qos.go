package imagediff

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// qos refuses a change of resources that would change the pod's QoS class, which is fixed when a pod is created (B085).
// It judges the templates; what a LimitRange or an injected container adds on the member, its API server judges.
func (d *diff) qos(older, newer object) {
	if len(d.change.Resources) == 0 || newer["resources"] != nil {
		return // resources of the whole pod, which do not change here, decide the class where they are set
	}
	was, is := qosOf(older), qosOf(newer)
	if was != is {
		d.refuse("spec.containers", fmt.Sprintf("the new resources would change the pod's QoS class from %s to %s, and a running pod's cannot change: %s", was, is, recreate))
	}
}

// qosOf is the class that Kubernetes gives to a pod of that spec: BestEffort asks for nothing, Guaranteed has equal
// requests and limits of cpu and memory in every container, init containers too, and Burstable is the rest.
func qosOf(spec object) corev1.PodQOSClass {
	asks, guaranteed := false, true
	for _, list := range []string{"containers", "initContainers"} {
		entries, _ := spec[list].([]any)
		for _, entry := range entries {
			c, _ := entry.(object)
			some, all := weigh(c)
			asks, guaranteed = asks || some, guaranteed && all
		}
	}
	switch {
	case !asks:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// weigh reports whether a container asks for cpu or memory at all, and whether it is as a Guaranteed pod's must be.
func weigh(container object) (asks, guaranteed bool) {
	resources, _ := container["resources"].(object)
	limited, requested := corev1.ResourceList{}, corev1.ResourceList{}
	for key, into := range map[string]corev1.ResourceList{limits: limited, requests: requested} {
		list, _ := resources[key].(object)
		for name := range list {
			if resizable(name) && quantity(into, list, name) != nil {
				return true, false // lists has refused what is no quantity already, where it changes
			}
		}
	}
	requested = completed(requested, limited)
	guaranteed = true
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, request := limited[name], requested[name]
		asks = asks || request.Sign() > 0 || limit.Sign() > 0
		guaranteed = guaranteed && limit.Sign() > 0 && request.Cmp(limit) == 0
	}
	return asks, guaranteed
}

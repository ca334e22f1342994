package simulation

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patchBody is the part of a strategic merge patch of a pod that podwriter uses. A field beside these is an error.
type patchBody struct {
	Metadata struct {
		UID              string             `json:"uid"`
		ResourceVersion  string             `json:"resourceVersion"`
		Labels           map[string]*string `json:"labels"`
		Annotations      map[string]*string `json:"annotations"`
		Finalizers       []string           `json:"finalizers"`
		DeleteFinalizers []string           `json:"$deleteFromPrimitiveList/finalizers"`
		OwnerReferences  json.RawMessage    `json:"ownerReferences"`
	} `json:"metadata"`
	Spec *struct {
		Containers     []patchContainer `json:"containers"`
		InitContainers []patchContainer `json:"initContainers"`
	} `json:"spec"`
	Status *struct {
		Conditions []struct {
			Type               corev1.PodConditionType `json:"type"`
			Status             corev1.ConditionStatus  `json:"status"`
			Reason             *string                 `json:"reason"`
			LastTransitionTime metav1.Time             `json:"lastTransitionTime"`
		} `json:"conditions"`
	} `json:"status"`
}

type patchContainer struct {
	Name      string                       `json:"name"`
	Image     string                       `json:"image"`
	Resources *corev1.ResourceRequirements `json:"resources"`
}

// applyPatch changes a pod as the API server would. A patch of a subresource changes only what belongs to it: status takes
// labels and annotations too.
func applyPatch(pod *corev1.Pod, b *patchBody, subresource string) error {
	if subresource != "resize" {
		pod.Labels = mergeStrings(pod.Labels, b.Metadata.Labels)
		pod.Annotations = mergeStrings(pod.Annotations, b.Metadata.Annotations)
	}
	if subresource == "status" {
		applyConditions(pod, b)
		return nil
	}
	for _, f := range b.Metadata.Finalizers {
		if !slices.Contains(pod.Finalizers, f) {
			pod.Finalizers = append(pod.Finalizers, f)
		}
	}
	pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return slices.Contains(b.Metadata.DeleteFinalizers, f) })
	if b.Spec == nil {
		return nil
	}
	for _, c := range b.Spec.Containers {
		i := slices.IndexFunc(pod.Spec.Containers, func(have corev1.Container) bool { return have.Name == c.Name })
		if i < 0 {
			return fmt.Errorf("no container %s", c.Name)
		}
		if c.Image != "" && c.Image != pod.Spec.Containers[i].Image {
			pod.Spec.Containers[i].Image = c.Image
			pod.Generation++
		}
	}
	return nil
}

func applyConditions(pod *corev1.Pod, b *patchBody) {
	if b.Status == nil {
		return
	}
	for _, c := range b.Status.Conditions {
		reason := ""
		if c.Reason != nil {
			reason = *c.Reason
		}
		setCondition(&pod.Status, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: reason, LastTransitionTime: c.LastTransitionTime})
	}
}

func mergeStrings(into map[string]string, change map[string]*string) map[string]string {
	for k, v := range change {
		if v == nil {
			delete(into, k)
			continue
		}
		if into == nil {
			into = map[string]string{}
		}
		into[k] = *v
	}
	return into
}

// mergeJSON is a JSON merge patch (RFC 7386).
func mergeJSON(into map[string]any, change map[string]any) {
	for k, v := range change {
		next, isObject := v.(map[string]any)
		have, hasObject := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isObject && hasObject:
			mergeJSON(have, next)
		case isObject:
			fresh := map[string]any{}
			mergeJSON(fresh, next)
			into[k] = fresh
		default:
			into[k] = v
		}
	}
}

func setCondition(s *corev1.PodStatus, c corev1.PodCondition) {
	i := slices.IndexFunc(s.Conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
	if i < 0 {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if s.Conditions[i].Status == c.Status {
		c.LastTransitionTime = s.Conditions[i].LastTransitionTime
	}
	s.Conditions[i] = c
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func isTrue(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return conditionOf(pod, kind).Status == corev1.ConditionTrue
}

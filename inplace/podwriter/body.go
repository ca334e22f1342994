package podwriter

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// body is a strategic merge patch of a pod: conditions merge by type, containers by name, finalizers as a set. It names
// the UID and the resourceVersion, so that the API server refuses it on any other version.
type body struct {
	Metadata bodyMetadata `json:"metadata"`
	Spec     *bodySpec    `json:"spec,omitempty"`
	Status   *bodyStatus  `json:"status,omitempty"`
}

type bodyMetadata struct {
	UID              types.UID          `json:"uid"`
	ResourceVersion  string             `json:"resourceVersion"`
	Labels           map[string]*string `json:"labels,omitempty"`
	Annotations      map[string]*string `json:"annotations,omitempty"`
	Finalizers       []string           `json:"finalizers,omitempty"`
	DeleteFinalizers []string           `json:"$deleteFromPrimitiveList/finalizers,omitempty"`
}

type bodySpec struct {
	Containers     []bodyContainer `json:"containers,omitempty"`
	InitContainers []bodyContainer `json:"initContainers,omitempty"`
}

// bodyContainer changes one container, found by its name: injected ones keep their place and their content.
type bodyContainer struct {
	Name      string                       `json:"name"`
	Image     string                       `json:"image,omitempty"`
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

type bodyStatus struct {
	Conditions []bodyCondition `json:"conditions"`
}

type bodyCondition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	Reason             *string                `json:"reason"`
	Message            *string                `json:"message,omitempty"`
	LastTransitionTime string                 `json:"lastTransitionTime"`
}

// Body is the JSON that is sent for a patch, a strategic merge patch, and the subresource it goes to ("", "status" or
// "resize"). Of an Update with resources it is the first request; the second is that of a Resize.
func Body(p inplace.Patch) (data []byte, subresource string, err error) {
	if p.UID == "" || p.ResourceVersion == "" {
		return nil, "", fmt.Errorf("patching pod %s/%s: no UID or resourceVersion to hold it to", p.Namespace, p.Name)
	}
	if name, ok := unordered(p); ok {
		return nil, "", fmt.Errorf("patching pod %s/%s: where container %s stands is not known, and two of its list change", p.Namespace, p.Name, name)
	}
	b := body{Metadata: bodyMetadata{
		UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Metadata.Labels, Annotations: p.Metadata.Annotations,
	}}
	switch p.Kind {
	case inplace.PatchDrain:
		b.Status, subresource = gate(corev1.ConditionFalse, appsv1alpha1.ReasonStartInPlaceUpdate, p.At), "status"
	case inplace.PatchReturn:
		b.Status, subresource = gate(corev1.ConditionTrue, "", p.At), "status"
		if p.Kruise != nil {
			b.Status.Conditions = append(b.Status.Conditions, kruise(p.Kruise, p.At))
		}
	case inplace.PatchUpdate, inplace.PatchRepair, inplace.PatchState:
		b.Metadata.Finalizers, b.Metadata.DeleteFinalizers = p.Metadata.AddFinalizers, p.Metadata.RemoveFinalizers
		b.Spec = spec(images(p.Images, p.Order), images(p.InitImages, p.Order))
	case inplace.PatchResize:
		// The update before it has written them.
		b.Metadata.Labels, b.Metadata.Annotations = nil, nil
		b.Spec, subresource = spec(resources(p.Resources, p.Order), resources(p.InitResources, p.Order)), "resize"
		if b.Spec == nil {
			return nil, "", fmt.Errorf("patching pod %s/%s: a resize that names no container", p.Namespace, p.Name)
		}
	default:
		return nil, "", fmt.Errorf("patching pod %s/%s: unknown kind of patch %q", p.Namespace, p.Name, p.Kind)
	}
	data, err = json.Marshal(b)
	return data, subresource, err
}

// gate is the condition; an empty reason is sent as null, so that the reason of the False goes.
func gate(status corev1.ConditionStatus, reason string, at time.Time) *bodyStatus {
	c := bodyCondition{
		Type: appsv1alpha1.ConditionInPlaceUpdateReady, Status: status, LastTransitionTime: at.UTC().Format(time.RFC3339),
	}
	if reason != "" {
		c.Reason = &reason
	}
	return &bodyStatus{Conditions: []bodyCondition{c}}
}

// kruise is OpenKruise's condition.
func kruise(to *inplace.KruiseReady, at time.Time) bodyCondition {
	status := corev1.ConditionFalse
	if to.Ready {
		status = corev1.ConditionTrue
	}
	return bodyCondition{
		Type: appsv1alpha1.ConditionKruisePodReady, Status: status, Message: &to.Message, LastTransitionTime: at.UTC().Format(time.RFC3339),
	}
}

// spec is nil when nothing of it changes.
func spec(containers, initContainers []bodyContainer) *bodySpec {
	if len(containers)+len(initContainers) == 0 {
		return nil
	}
	return &bodySpec{Containers: containers, InitContainers: initContainers}
}

func images(byName map[string]string, order []string) []bodyContainer {
	out := make([]bodyContainer, 0, len(byName))
	for _, name := range inOrder(byName, order) {
		out = append(out, bodyContainer{Name: name, Image: byName[name]})
	}
	return out
}

func resources(byName map[string]corev1.ResourceRequirements, order []string) []bodyContainer {
	out := make([]bodyContainer, 0, len(byName))
	for _, name := range inOrder(byName, order) {
		wanted := byName[name]
		out = append(out, bodyContainer{Name: name, Resources: &wanted})
	}
	return out
}

// inOrder are the names as they stand in the pod.
func inOrder[V any](byName map[string]V, order []string) []string {
	return slices.SortedFunc(maps.Keys(byName), func(a, b string) int {
		return slices.Index(order, a) - slices.Index(order, b)
	})
}

// unordered names a container whose place is needed and not known: the API server would take the patch for a change of
// order, and refuse it.
func unordered(p inplace.Patch) (name string, ok bool) {
	for _, names := range [][]string{
		slices.Sorted(maps.Keys(p.Images)), slices.Sorted(maps.Keys(p.InitImages)),
		slices.Sorted(maps.Keys(p.Resources)), slices.Sorted(maps.Keys(p.InitResources)),
	} {
		if len(names) < 2 {
			continue
		}
		for _, name := range names {
			if !slices.Contains(p.Order, name) {
				return name, true
			}
		}
	}
	return "", false
}

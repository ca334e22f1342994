package podseed

import (
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// Seed is what a new pod is made of.
type Seed struct {
	Namespace string
	// Name is derived by the workload.
	Name string
	// Owner is the controller reference.
	Owner metav1.OwnerReference
	// Revision is the revision whose template is used.
	Revision inplace.Revision
	// Replaces is the revision of the pod this one replaces, empty on a scale-up.
	Replaces string
	// Labels are added over the template's (instance id, ...). The revision labels are added by Object.
	Labels map[string]string
}

// Object is the pod to create. The error says why the template cannot be used.
func Object(s Seed) (*unstructured.Unstructured, error) {
	var template map[string]any
	if err := json.Unmarshal(s.Revision.Template, &template); err != nil {
		return nil, fmt.Errorf("reading the template of revision %s: %w", s.Revision.Name, err)
	}
	spec, ok, err := unstructured.NestedMap(template, "spec")
	if err != nil || !ok {
		return nil, fmt.Errorf("the template of revision %s has no spec", s.Revision.Name)
	}
	if spec["readinessGates"], err = withGate(spec["readinessGates"]); err != nil {
		return nil, err
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	if err := metadata(pod, template, s); err != nil {
		return nil, err
	}
	return pod, nil
}

// metadata takes labels, annotations and finalizers of the template and adds what makes the pod ours.
func metadata(pod *unstructured.Unstructured, template map[string]any, s Seed) error {
	labels, _, err := unstructured.NestedStringMap(template, "metadata", "labels")
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	annotations, _, err := unstructured.NestedStringMap(template, "metadata", "annotations")
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	finalizers, _, err := unstructured.NestedStringSlice(template, "metadata", "finalizers")
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, s.Labels)
	labels[appsv1alpha1.LabelPodRevision] = s.Revision.Name
	labels[appsv1alpha1.LabelPodTemplateHash] = s.Revision.Hash
	if s.Replaces != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[appsv1alpha1.AnnotationReplaces] = s.Replaces
	}
	// A state or a parked update in a template would make every new pod look half updated.
	delete(annotations, appsv1alpha1.AnnotationInPlaceState)
	delete(annotations, appsv1alpha1.AnnotationInPlaceGrace)
	pod.SetNamespace(s.Namespace)
	pod.SetName(s.Name)
	pod.SetLabels(labels)
	if len(annotations) > 0 {
		pod.SetAnnotations(annotations)
	}
	if len(finalizers) > 0 {
		pod.SetFinalizers(finalizers)
	}
	pod.SetOwnerReferences([]metav1.OwnerReference{s.Owner})
	return nil
}

// withGate adds the readiness gate once.
func withGate(gates any) ([]any, error) {
	list, ok := gates.([]any)
	if gates != nil && !ok {
		return nil, errors.New("template: spec.readinessGates is not a list")
	}
	for _, g := range list {
		m, _ := g.(map[string]any)
		if m["conditionType"] == appsv1alpha1.ConditionInPlaceUpdateReady {
			return list, nil
		}
	}
	return append(list, map[string]any{"conditionType": appsv1alpha1.ConditionInPlaceUpdateReady}), nil
}

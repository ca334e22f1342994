package v1alpha1

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
)

// DecodePodTemplate reads a raw pod template strictly and case-sensitively, as the API server does. unknown names the
// fields that this build does not know (or that stand twice), as paths from the template, for example
// "spec.containers[0].newField"; they are warnings, because the raw template travels all the same. The error says
// what cannot be read at all; nothing may be decided from such a template.
func DecodePodTemplate(raw []byte) (template *corev1.PodTemplateSpec, unknown []string, err error) {
	template = &corev1.PodTemplateSpec{}
	unknown, err = decode(raw, template)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the pod template: %w", err)
	}
	return template, unknown, nil
}

// DecodeCloneSetSpec reads the raw CloneSet spec that a UnitedDeployment embeds, in either shape, and the pod template
// in it. unknown and the error are as for DecodePodTemplate, with paths from the spec.
func DecodeCloneSetSpec(raw []byte) (spec CloneSetSpec, unknown []string, err error) {
	unknown, err = decode(raw, &spec)
	if err != nil {
		return CloneSetSpec{}, nil, fmt.Errorf("reading the CloneSet spec: %w", err)
	}
	_, inTemplate, err := DecodePodTemplate(spec.Template.Raw)
	if err != nil {
		return CloneSetSpec{}, nil, err
	}
	for _, field := range inTemplate {
		unknown = append(unknown, "template."+field)
	}
	return spec, unknown, nil
}

// DecodeStatefulSetSpec reads the raw Advanced StatefulSet spec that a UnitedDeployment embeds, of either version, and the
// pod template in it. unknown and the error are as for DecodePodTemplate, with paths from the spec.
func DecodeStatefulSetSpec(raw []byte) (spec StatefulSetSpec, unknown []string, err error) {
	unknown, err = decode(raw, &spec)
	if err != nil {
		return StatefulSetSpec{}, nil, fmt.Errorf("reading the StatefulSet spec: %w", err)
	}
	_, inTemplate, err := DecodePodTemplate(spec.Template.Raw)
	if err != nil {
		return StatefulSetSpec{}, nil, err
	}
	for _, field := range inTemplate {
		unknown = append(unknown, "template."+field)
	}
	return spec, unknown, nil
}

// DecodeNative reads the raw spec of a kind that Kubernetes brings itself, such as *appsv1.DeploymentSpec, into spec.
// unknown and the error are as for DecodePodTemplate, with paths from the spec.
func DecodeNative(raw []byte, spec any) (unknown []string, err error) {
	if unknown, err = decode(raw, spec); err != nil {
		return nil, fmt.Errorf("reading the spec: %w", err)
	}
	return unknown, nil
}

// decode reads raw into v and returns the paths of unknown and repeated fields.
func decode(raw []byte, v any) ([]string, error) {
	if len(raw) == 0 || strings.TrimSpace(string(raw)) == "null" {
		return nil, errors.New("it is empty")
	}
	strict, err := json.UnmarshalStrict(raw, v)
	if err != nil {
		return nil, err
	}
	unknown := make([]string, 0, len(strict))
	for _, s := range strict {
		if field, ok := errors.AsType[json.FieldError](s); ok {
			unknown = append(unknown, field.FieldPath())
			continue
		}
		unknown = append(unknown, s.Error())
	}
	return unknown, nil
}

package podview

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// maxAnnotation bounds what is parsed; the API server allows 256 KiB for all annotations of an object.
const maxAnnotation = 256 << 10

func state(pod *corev1.Pod) (*inplace.State, string) {
	text, ok := pod.Annotations[appsv1alpha1.AnnotationInPlaceState]
	if !ok {
		return nil, ""
	}
	s, err := ParseState(text)
	if err != nil {
		return nil, fmt.Sprintf("annotation %s: %v", appsv1alpha1.AnnotationInPlaceState, err)
	}
	return s, ""
}

// ParseState reads the annotation apps.kruise.io/inplace-update-state, of ours or of OpenKruise. A state without a
// revision says nothing and is an error.
func ParseState(text string) (*inplace.State, error) {
	var s inplace.State
	if err := parse(text, &s); err != nil {
		return nil, err
	}
	switch {
	case s.Revision == "":
		return nil, fmt.Errorf("has no revision")
	case s.Generation < 0:
		return nil, fmt.Errorf("generation %d is negative", s.Generation)
	}
	return &s, nil
}

func parked(pod *corev1.Pod) *inplace.Parked {
	text, ok := pod.Annotations[appsv1alpha1.AnnotationInPlaceGrace]
	if !ok {
		return nil
	}
	return ParseParked(text)
}

// ParseParked reads the annotation apps.kruise.io/inplace-update-grace. What cannot be read is a Parked with its Problem.
func ParseParked(text string) *inplace.Parked {
	var p inplace.Parked
	if err := parse(text, &p); err != nil {
		return &inplace.Parked{Problem: err.Error()}
	}
	if p.Revision == "" {
		p.Problem = "has no revision"
	}
	return &p
}

func parse(text string, into any) error {
	if len(text) > maxAnnotation {
		return fmt.Errorf("is %d bytes long", len(text))
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("is not the JSON expected: %w", err)
	}
	return nil
}

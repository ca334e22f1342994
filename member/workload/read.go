package workload

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// What all kinds read and report in the same words.

// Selector reads spec.selector.
func Selector(written *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(written)
	if err != nil {
		return nil, fmt.Errorf("spec.selector: %w", err)
	}
	return selector, nil
}

// ReadTemplate decodes the template strictly, beside the raw one that pods are made of, and fills in what follows from it and
// from the selector. The problem names the field and the remedy; empty: there is none.
func (w *Wanted) ReadTemplate(raw []byte, written *metav1.LabelSelector) (problem string) {
	w.Template = raw
	template, unknown, err := appsv1alpha1.DecodePodTemplate(raw)
	if err != nil {
		return "spec.template: " + err.Error()
	}
	w.UnknownFields = unknown
	w.Labels = template.Labels
	if problem := endsPods(&template.Spec); problem != "" {
		w.Unfit = true
		return problem
	}
	selector, err := Selector(written)
	if err != nil {
		return err.Error()
	}
	w.Selector = selector.String()
	if !selector.Matches(labels.Set(template.Labels)) {
		return fmt.Sprintf("spec.selector: %q does not match the labels of spec.template; make them agree", selector)
	}
	return ""
}

// endsPods says what of a template makes its pods end by themselves.
func endsPods(spec *corev1.PodSpec) (problem string) {
	switch {
	case spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyAlways:
		return fmt.Sprintf("spec.template.spec.restartPolicy: %s ends pods, which would be replaced for ever; write Always", spec.RestartPolicy)
	case spec.ActiveDeadlineSeconds != nil:
		return "spec.template.spec.activeDeadlineSeconds: ends pods, which would be replaced for ever; leave it out"
	default:
		return ""
	}
}

// Collisions is status.collisionCount: what it was, unless it has changed.
func (r Report) Collisions(was *int32) *int32 {
	if r.CollisionCount == ptr.Deref(was, 0) {
		return was
	}
	return new(r.CollisionCount)
}

// Underway is status.underway; nil where the CRD would drop it.
func (r Report) Underway() *appsv1alpha1.WorkloadReport {
	if !r.Extended {
		return nil
	}
	return &appsv1alpha1.WorkloadReport{
		UpdatedInPlace: r.Summary.InPlace, Recreated: r.Summary.Recreated,
		Refused: slices.Clone(r.Summary.Refused), Broken: slices.Clone(r.Summary.Broken),
	}
}

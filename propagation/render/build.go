package render

import (
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

func child(in Input) (*unstructured.Unstructured, error) {
	if in.Owner.Name == "" || in.Owner.Namespace == "" || in.Subset == "" || in.HubID == "" || in.Intent.OwnerUID == "" {
		return nil, errors.New("owner, subset, hub id and owner UID are needed to stamp a child")
	}
	place, err := places(in.Workload.Kind)
	if err != nil {
		return nil, err
	}
	tmpl, err := overlaid(in.Workload, in.Overlay)
	if err != nil {
		return nil, err
	}
	spec := tmpl["spec"].(map[string]any)
	if err := stampSpec(spec, in); err != nil {
		return nil, err
	}
	if err := matched(spec, in); err != nil {
		return nil, err
	}
	if err := peopled(spec, in); err != nil {
		return nil, err
	}
	if err := place(spec, in); err != nil {
		return nil, fmt.Errorf("placing the partition: %w", err)
	}
	meta, err := metadata(tmpl, in)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": in.Workload.Kind.GVK.GroupVersion().String(),
		"kind":       in.Workload.Kind.GVK.Kind,
		"metadata":   meta,
		"spec":       withoutNulls(spec),
	}}
	if in.Controller != nil {
		obj.SetOwnerReferences([]metav1.OwnerReference{*in.Controller})
	}
	return obj, nil
}

// stampSpec writes replicas, the selector (the UnitedDeployment's and the subset's name) and the pods' labels. The hub's
// id is not on pods: it would change them all when the hub changes.
func stampSpec(spec map[string]any, in Input) error {
	delete(spec, "replicas")
	if in.Replicas != nil {
		spec["replicas"] = int64(*in.Replicas)
	}
	selector, err := selectorOf(in)
	if err != nil {
		return err
	}
	spec["selector"] = selector

	pod := spec["template"].(map[string]any)
	podMeta, err := childMap(pod, "metadata")
	if err != nil {
		return fmt.Errorf("reading the pod template: %w", err)
	}
	labels, err := childTexts(podMeta, "labels")
	if err != nil {
		return fmt.Errorf("reading the pod template's metadata: %w", err)
	}
	labels[appsv1alpha1.LabelSubsetName] = in.Subset
	labels[appsv1alpha1.LabelSubsetRevision] = in.Revision
	podMeta["labels"] = labels
	annotations, err := childTexts(podMeta, "annotations")
	if err != nil {
		return fmt.Errorf("reading the pod template's metadata: %w", err)
	}
	if err := fits(annotations); err != nil {
		return fmt.Errorf("spec.template.metadata.annotations: %w", err)
	}
	pod["metadata"] = podMeta
	return nil
}

// maxAnnotations is the size, in bytes, that API servers take for all annotations of one object.
const maxAnnotations = 256 << 10

// sizeOf counts as API servers do.
func sizeOf(annotations map[string]any) int {
	n := 0
	for key, value := range annotations {
		text, _ := value.(string)
		n += len(key) + len(text)
	}
	return n
}

// fits refuses what no API server takes.
func fits(annotations map[string]any) error {
	if n := sizeOf(annotations); n > maxAnnotations {
		return fmt.Errorf("they take %d bytes, and API servers take %d at most: shorten them, or put the text into a ConfigMap", n, maxAnnotations)
	}
	return nil
}

func selectorOf(in Input) (map[string]any, error) {
	sel := &metav1.LabelSelector{}
	if in.Selector != nil {
		sel = in.Selector.DeepCopy()
	}
	if sel.MatchLabels == nil {
		sel.MatchLabels = map[string]string{}
	}
	sel.MatchLabels[appsv1alpha1.LabelSubsetName] = in.Subset
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sel)
	if err != nil {
		return nil, fmt.Errorf("converting the selector: %w", err)
	}
	return out, nil
}

func metadata(tmpl map[string]any, in Input) (map[string]any, error) {
	own, err := childMap(tmpl, "metadata")
	if err != nil {
		return nil, err
	}
	labels, err := childTexts(own, "labels")
	if err != nil {
		return nil, fmt.Errorf("reading the template's metadata: %w", err)
	}
	annotations, err := childTexts(own, "annotations")
	if err != nil {
		return nil, fmt.Errorf("reading the template's metadata: %w", err)
	}
	for _, name := range []string{
		appsv1alpha1.LabelHub, appsv1alpha1.AnnotationIntent, appsv1alpha1.AnnotationOwner,
		appsv1alpha1.AnnotationOrphaned, appsv1alpha1.AnnotationPropagate,
	} {
		if labels[name] != nil || annotations[name] != nil {
			return nil, fmt.Errorf("the template's metadata has %s, which the hub writes itself", name)
		}
	}
	maps.Copy(labels, map[string]any{
		appsv1alpha1.LabelSubsetName:     in.Subset,
		appsv1alpha1.LabelSubsetRevision: in.Revision,
		appsv1alpha1.LabelHub:            in.HubID,
	})
	maps.Copy(annotations, map[string]any{
		appsv1alpha1.AnnotationOwner:  in.Owner.String(),
		appsv1alpha1.AnnotationIntent: in.Intent.String(),
	})
	// Upstream shows the patch on the child. Nothing reads it, so one that is too large for an annotation is not shown.
	if n := len(in.Overlay.Patch); n > 0 && sizeOf(annotations)+len(appsv1alpha1.AnnotationSubsetPatch)+n <= maxAnnotations {
		annotations[appsv1alpha1.AnnotationSubsetPatch] = string(in.Overlay.Patch)
	}
	if err := fits(annotations); err != nil {
		return nil, fmt.Errorf("metadata.annotations: %w", err)
	}
	name := in.Name
	if name == "" {
		name = ChildName(in.Owner.Name, in.Subset)
	}
	return map[string]any{
		"name": name, "namespace": in.Owner.Namespace, "labels": labels, "annotations": annotations,
	}, nil
}

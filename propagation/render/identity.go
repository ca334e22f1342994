package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// identityLabels are labels of pods that controllers write to find them again.
func identityLabels() []string {
	return []string{
		appsv1alpha1.LabelSubsetName, appsv1alpha1.LabelSubsetRevision,
		"pod-template-hash", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
	}
}

// harmless refuses a subset's patch that makes other pods than the workload's: one that writes, or takes away, a label by which
// a controller finds its pods, a mark of the hub, or what says which object it is and whose.
func harmless(patch map[string]any) error {
	for _, field := range fieldsOf(patch) {
		if field != "metadata" && field != "spec" && !strings.HasPrefix(field, "$") {
			return fmt.Errorf("the subset's patch writes %s, which a pod template does not have: a patch has metadata and spec", field)
		}
	}
	meta, err := childMap(patch, "metadata")
	if err != nil {
		return fmt.Errorf("the subset's patch: %w", err)
	}
	for _, field := range fieldsOf(meta) {
		if field != "labels" && field != "annotations" && field != "creationTimestamp" && !strings.HasPrefix(field, "$") {
			return fmt.Errorf("the subset's patch writes metadata.%s, which is the workload's: a patch changes labels and annotations only", field)
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		written, err := childMap(meta, field)
		if err != nil {
			return fmt.Errorf("the subset's patch: metadata: %w", err)
		}
		for _, name := range fieldsOf(written) {
			if strings.Contains(name, "fleet.underway.dev/") {
				return fmt.Errorf("the subset's patch writes metadata.%s[%q], which the hub writes itself: remove it from the patch", field, name)
			}
		}
	}
	written, err := childMap(meta, "labels")
	if err != nil {
		return fmt.Errorf("the subset's patch: metadata: %w", err)
	}
	for _, name := range identityLabels() {
		if _, ok := written[name]; ok {
			return fmt.Errorf("the subset's patch writes metadata.labels[%q], by which pods are found: remove it from the patch", name)
		}
	}
	return nil
}

func fieldsOf(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// matched refuses a patch that takes the pods from the child's selector. A template whose own labels do not match is left
// to the member, which refuses it and names both.
func matched(spec map[string]any, in Input) error {
	if in.Selector == nil || len(in.Overlay.Patch) == 0 {
		return nil
	}
	sel, err := metav1.LabelSelectorAsSelector(in.Selector)
	if err != nil {
		return fmt.Errorf("reading spec.selector: %w", err)
	}
	bare, err := overlaid(in.Workload, Overlay{})
	if err != nil {
		return err
	}
	plain := podLabels(bare["spec"].(map[string]any))
	plain[appsv1alpha1.LabelSubsetName] = in.Subset
	plain[appsv1alpha1.LabelSubsetRevision] = in.Revision
	if patched := podLabels(spec); sel.Matches(plain) && !sel.Matches(patched) {
		return fmt.Errorf("the patch of subset %s changes the pods' label %s, by which spec.selector finds them: remove it from the patch",
			in.Subset, strings.Join(changed(plain, patched, in.Selector), ", "))
	}
	return nil
}

// peopled refuses a patch that leaves the pods without a container. A template that has none itself is left to the member.
func peopled(spec map[string]any, in Input) error {
	if len(in.Overlay.Patch) == 0 || containers(spec) > 0 {
		return nil
	}
	bare, err := overlaid(in.Workload, Overlay{})
	if err != nil {
		return err
	}
	if containers(bare["spec"].(map[string]any)) == 0 {
		return nil
	}
	return fmt.Errorf("the patch of subset %s leaves no containers in spec.containers: remove what takes them away from the patch", in.Subset)
}

// containers counts those of the pod template of a workload's spec.
func containers(spec map[string]any) int {
	pod, _ := spec["template"].(map[string]any)
	inner, _ := pod["spec"].(map[string]any)
	list, _ := inner["containers"].([]any)
	return len(list)
}

// changed are the labels of the selector that differ, sorted.
func changed(before, after labels.Set, sel *metav1.LabelSelector) []string {
	var out []string
	add := func(name string) {
		if before[name] != after[name] || before.Has(name) != after.Has(name) {
			out = append(out, name)
		}
	}
	for name := range sel.MatchLabels {
		add(name)
	}
	for _, e := range sel.MatchExpressions {
		add(e.Key)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// podLabels are the labels of the pod template of a workload's spec; what is no text is left out.
func podLabels(spec map[string]any) labels.Set {
	out := labels.Set{}
	pod, _ := spec["template"].(map[string]any)
	meta, _ := pod["metadata"].(map[string]any)
	own, _ := meta["labels"].(map[string]any)
	for name, v := range own {
		if s, ok := v.(string); ok {
			out[name] = s
		}
	}
	return out
}

package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestProblemsThatNoRuleSees: what the CRD's rules cannot afford to judge, or lists that are longer than the CRD lets in,
// is held all the same, naming the field.
func TestProblemsThatNoRuleSees(t *testing.T) {
	t.Parallel()
	hook := func(h appsv1alpha1.LifecycleHook) appsv1alpha1.CloneSetSpec {
		return appsv1alpha1.CloneSetSpec{Lifecycle: &appsv1alpha1.Lifecycle{PreDelete: &h}}
	}
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprintf("key-%d", i)] = "x"
	}
	for name, tc := range map[string]struct {
		spec appsv1alpha1.CloneSetSpec
		at   string
	}{
		"two slashes in the key of a hook": {
			hook(appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"a//b": "c"}}), "spec.lifecycle.preDelete.labelsHandler: ",
		},
		"a name of 64 characters": {
			hook(appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{strings.Repeat("a", 64): "c"}}), "spec.lifecycle.preDelete.labelsHandler: ",
		},
		"17 labels": {hook(appsv1alpha1.LifecycleHook{LabelsHandler: many}), "spec.lifecycle.preDelete: more than 16"},
		"a finalizer twice": {
			hook(appsv1alpha1.LifecycleHook{FinalizersHandler: []string{"a/b", "c/d", "a/b"}}), `spec.lifecycle.preDelete.finalizersHandler: names "a/b"`,
		},
		"33 terms": {
			appsv1alpha1.CloneSetSpec{UpdateStrategy: appsv1alpha1.CloneSetUpdateStrategy{CloneSetRollout: appsv1alpha1.CloneSetRollout{
				PriorityStrategy: &appsv1alpha1.UpdatePriorityStrategy{WeightPriority: make([]appsv1alpha1.UpdatePriorityWeightTerm, 33)},
			}}},
			"spec.updateStrategy: more than 32",
		},
		"a claim that is no object": {
			appsv1alpha1.CloneSetSpec{VolumeClaimTemplates: []appsv1alpha1.RawObject{{}}}, "spec.volumeClaimTemplates[0]: cannot be read",
		},
	} {
		spec := tc.spec
		spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		problems := spec.Problems()
		if len(problems) != 1 || !strings.HasPrefix(problems[0], tc.at) {
			t.Errorf("%s: %q, want one that begins with %q", name, problems, tc.at)
		}
	}
}

package plan

import (
	"maps"
	"testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// TestAFailedPodAsksItsHook: a finished pod is brought into PreparingDelete like any other that we delete, and goes when its hook
// lets it go; what replaces it waits for neither.
func TestAFailedPodAsksItsHook(t *testing.T) {
	t.Parallel()
	const state = appsv1alpha1.LabelLifecycleState
	for name, tc := range map[string]struct {
		labels map[string]string
		// refused pods never started.
		refused                 bool
		patched, waits, deleted bool
	}{
		"its hook has to act":    {labels: map[string]string{"guard": "on"}, patched: true, waits: true},
		"its hook was asked":     {labels: map[string]string{"guard": "on", state: "PreparingDelete"}, waits: true},
		"its hook has let it go": {labels: map[string]string{state: "PreparingDelete"}, deleted: true},
		"its node refused it":    {labels: map[string]string{"guard": "on"}, refused: true, deleted: true},
		"no hook holds it":       {labels: map[string]string{"guard": "off"}, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input("OOx", 3, 3, 1)
			in.Intent.Lifecycle = &appsv1alpha1.Lifecycle{PreDelete: &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"guard": "on"}}}
			failed := &in.Pods[2]
			failed.Labels = maps.Clone(failed.Labels)
			if failed.Labels == nil {
				failed.Labels = map[string]string{}
			}
			maps.Copy(failed.Labels, tc.labels)
			failed.Containers = []inplace.Container{{Name: "main", Known: !tc.refused}}
			p := Scale(in)
			if revisions(p) != "o" {
				t.Errorf("creates %q", revisions(p))
			}
			if got := len(deleted(p)) == 1; got != tc.deleted {
				t.Errorf("deletes %v", deleted(p))
			}
			if got := len(p.Patches) == 1 && *p.Patches[0].Metadata.Labels[state] == "PreparingDelete"; got != tc.patched {
				t.Errorf("patches %+v", p.Patches)
			}
			waits := false
			for _, h := range p.Holds {
				waits = waits || h.Kind == inplace.HoldHook
			}
			if waits != tc.waits {
				t.Errorf("holds %+v", p.Holds)
			}
		})
	}
}

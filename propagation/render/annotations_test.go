package render_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// TestAnnotationsThatNoAPIServerTakes: a patch that is too large to be shown on the child is not shown, and what would be too
// large in any case is refused by its field.
func TestAnnotationsThatNoAPIServerTakes(t *testing.T) {
	t.Parallel()
	patch := func(bytes int) []byte {
		return fmt.Appendf(nil, `{"spec":{"containers":[{"name":"web","env":[{"name":"BIG","value":%q}]}]}}`, strings.Repeat("x", bytes))
	}
	const spec = `{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}}`
	for bytes, shown := range map[int]bool{200_000: true, 300_000: false} {
		in := input(spec)
		in.Overlay.Patch = patch(bytes)
		obj := mustChild(t, in)
		if _, got := obj.GetAnnotations()[appsv1alpha1.AnnotationSubsetPatch]; got != shown {
			t.Errorf("a patch of %d bytes is shown: %v", bytes, got)
		}
	}
	text := strings.Repeat("x", 256<<10)
	in := input(spec)
	in.Overlay.Patch = fmt.Appendf(nil, `{"metadata":{"annotations":{"notes":%q}}}`, text)
	ofPods := in
	in = input(spec)
	in.Workload.Metadata = fmt.Appendf(nil, `{"annotations":{"notes":%q}}`, text)
	for where, in := range map[string]render.Input{"spec.template.metadata.annotations: ": ofPods, "metadata.annotations: ": in} {
		_, err := render.Child(in)
		if err == nil || !strings.HasPrefix(err.Error(), where) || !strings.Contains(err.Error(), "262144 at most") || !strings.Contains(err.Error(), "ConfigMap") {
			t.Errorf("%s%v", where, err)
		}
	}
}

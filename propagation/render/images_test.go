package render_test

import (
	"strings"
	"testing"
)

// TestB029: an image with a tag and a digest goes to a subset as its patch writes it, and as the template writes it where
// the patch changes something else. Nothing takes a reference apart and loses its digest on the way.
func TestB029(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	original, mirrored := "registry.a.test/team/app:v1"+digest, "mirror.b.test/team/app:v1"+digest
	for name, tc := range map[string]struct{ patch, want string }{
		"the patch changes the registry": {
			patch: `{"spec":{"containers":[{"name":"web","image":"` + mirrored + `"}]}}`, want: mirrored,
		},
		"the patch changes something else": {
			patch: `{"spec":{"containers":[{"name":"web","args":["-v"]}]}}`, want: original,
		},
		"no patch": {want: original},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(`{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"` + original + `"}]}}}`)
			in.Overlay.Patch = []byte(tc.patch)
			containers, _ := at(t, mustChild(t, in).Object, "spec", "template", "spec", "containers").([]any)
			if len(containers) != 1 {
				t.Fatalf("containers %v", containers)
			}
			if got := containers[0].(map[string]any)["image"]; got != tc.want {
				t.Errorf("image %v, want %s", got, tc.want)
			}
		})
	}
}

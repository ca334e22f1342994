package boot

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// TestLabelValue: whatever a build is called, the Lease takes it as a label.
func TestLabelValue(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v0.1.0": "v0.1.0", "devel": "devel", "devel-0123456789ab": "devel-0123456789ab",
		"v0.0.0-20261130101010-0123456789ab+dirty": "v0.0.0-20261130101010-0123456789ab_dirty",
		"+": "", "-v1-": "v1", "v1 (mine) \u00fc": "v1__mine",
		"v1-" + strings.Repeat("x", 100): "v1-" + strings.Repeat("x", 60),
	} {
		got := LabelValue(version)
		if got != want {
			t.Errorf("%q becomes %q, want %q", version, got, want)
		}
		if problems := validation.IsValidLabelValue(got); len(problems) > 0 {
			t.Errorf("%q: %v", got, problems)
		}
	}
}

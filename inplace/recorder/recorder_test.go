package recorder

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

type actions []string

func (a *actions) Eventf(_, _ runtime.Object, _, _, action, _ string, _ ...any) {
	*a = append(*a, action)
}

// TestWorded: the same words are the same action, others are another one, and none is too long for the API server.
func TestWorded(t *testing.T) {
	t.Parallel()
	var got actions
	r := Worded(&got)
	for _, member := range []string{"east", "west", "east"} {
		r.Eventf(nil, nil, "Warning", "Held", "Held", "waits for %s", member)
	}
	r.Eventf(nil, nil, "Warning", "Held", strings.Repeat("a", 200), "waits")
	if got[0] != got[2] || got[0] == got[1] || !strings.HasPrefix(got[0], "Held-") {
		t.Errorf("actions %q", got)
	}
	if len(got[3]) != 128 {
		t.Errorf("an action of %d bytes", len(got[3]))
	}
	got = nil
	r = Worded(&got, "Warning")
	r.Eventf(nil, nil, "Warning", "Held", "Held", "waits for east")
	r.Eventf(nil, nil, "Normal", "Made", "Made", "made web-1")
	if got[0] == "Held" || got[1] != "Made" {
		t.Errorf("of warnings only: %q", got)
	}
}

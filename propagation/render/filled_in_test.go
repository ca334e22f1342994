package render_test

import (
	"testing"

	"github.com/underway-dev/underway/propagation/render"
)

// TestClaimTemplatesAsShownAreNoChange: the API server fills apiVersion and kind of a claim template in, and compares afterwards: writing them down is no change.
func TestClaimTemplatesAsShownAreNoChange(t *testing.T) {
	a := render.Workload{Kind: render.StatefulSet(), Spec: []byte(`{"volumeClaimTemplates":[{"metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"]}}]}`)}
	b := render.Workload{Kind: render.StatefulSet(), Spec: []byte(`{"volumeClaimTemplates":[{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"]},"status":{"phase":"Pending"}}]}`)}
	got, err := render.Immutable(a, b)
	if err != nil || len(got) > 0 {
		t.Errorf("%v %v", got, err)
	}
}

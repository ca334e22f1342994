package podwriter_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
)

// R6: a pod that is refused after its claims were made leaves none: where claims are not used again each try makes others.
func TestR6ARefusedPodLeavesNoClaims(t *testing.T) {
	c := &counting{fail: func(verb, name string) error {
		if verb == "create" && name == "web-1" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, nil)
		}
		return nil
	}}
	w := c.client(t)
	create := creating("web-1", "data-web-1")
	create.DropClaims = true
	create.Claims[0].SetUID("uid-claim")
	_, err := podwriter.New(w).Do(t.Context(), inplace.Decision{Creates: []inplace.Create{create}})
	if err == nil {
		t.Fatal("not refused")
	}
	var claims corev1.PersistentVolumeClaimList
	if err := w.List(t.Context(), &claims); err != nil || len(claims.Items) > 0 {
		t.Errorf("%d claims are left, %v", len(claims.Items), err)
	}
}

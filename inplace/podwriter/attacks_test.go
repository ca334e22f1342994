package podwriter_test

import (
	"context"
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

// TestASecondClaimThatIsRefusedLeavesNotTheFirst: nor does one whose name is taken; without an answer all stay, because
// nothing is known.
func TestASecondClaimThatIsRefusedLeavesNotTheFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		left int
	}{
		"a quota":   {apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "logs", nil), 0},
		"taken":     {apierrors.NewAlreadyExists(schema.GroupResource{Resource: "persistentvolumeclaims"}, "logs"), 0},
		"no answer": {context.DeadlineExceeded, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &counting{fail: func(verb, name string) error {
				if verb == "create" && name == "logs" {
					return tc.err
				}
				return nil
			}}
			w := c.client(t)
			create := creating("web-1", "data", "logs")
			create.DropClaims = true
			create.Claims[0].SetUID("uid-claim")
			if _, err := podwriter.New(w).Do(t.Context(), inplace.Decision{Creates: []inplace.Create{create}}); (err == nil) != (name == "taken") {
				t.Fatal(err)
			}
			var claims corev1.PersistentVolumeClaimList
			if err := w.List(t.Context(), &claims); err != nil || len(claims.Items) != tc.left {
				t.Errorf("%d claims are left, want %d, %v", len(claims.Items), tc.left, err)
			}
		})
	}
}

package podwriter

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRefusedClaimIsToldFromTrouble: a quota or a class refuses, and the same request would meet that again; a server that is
// busy or fails does not refuse.
func TestRefusedClaimIsToldFromTrouble(t *testing.T) {
	t.Parallel()
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	cases := map[string]struct {
		err  error
		want bool
	}{
		"quota":       {apierrors.NewForbidden(claims, "data-web-0", errors.New("exceeded quota")), true},
		"invalid":     {apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolumeClaim"}, "data-web-0", nil), true},
		"busy":        {apierrors.NewTooManyRequests("later", 1), false},
		"trouble":     {apierrors.NewInternalError(errors.New("etcd")), false},
		"no answer":   {fmt.Errorf("dial: %w", errors.New("refused")), false},
		"wrapped 403": {fmt.Errorf("a: %w", apierrors.NewForbidden(claims, "x", errors.New("no"))), true},
	}
	for name, c := range cases {
		if got := (&ClaimError{Err: c.err}).Refused(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

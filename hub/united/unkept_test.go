package united

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// refusing refuses to create ControllerRevisions while err is set, and counts the tries.
type refusing struct {
	client.Client

	err   error
	tries int
}

func (c *refusing) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if _, ok := obj.(*appsv1.ControllerRevision); ok {
		c.tries++
		if c.err != nil {
			return c.err
		}
	}
	return c.Client.Create(ctx, obj, opts...)
}

// TestARefusedRevisionIsACondition: what the API server refuses for good is said on the object, is not tried again and again, and
// is tried once a minute.
func TestARefusedRevisionIsACondition(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"for its size, by etcd": apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
		"by a quota":            apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "web-1", errors.New("exceeded quota")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, crd("cluster"), web())
			c := &refusing{Client: b.Client, err: err}
			b.Client = c
			for range 5 {
				b.clock.Step(2 * time.Second)
				b.reconcile()
			}
			stalled := meta.FindStatusCondition(b.get().Status.Conditions, appsv1alpha1.ConditionStalled)
			if stalled == nil || !strings.Contains(stalled.Message, "bytes large") || c.tries != 1 || len(b.box.items) > 0 {
				t.Fatalf("%d tries, %d posted, condition %+v", c.tries, len(b.box.items), stalled)
			}
			version := b.get().ResourceVersion
			b.clock.Step(time.Minute)
			b.reconcile()
			b.clock.Step(2 * time.Second)
			b.reconcile()
			if c.tries != 2 || b.get().ResourceVersion != version {
				t.Errorf("%d tries after a minute, or the status is written anew", c.tries)
			}
			c.err = nil
			for range 4 {
				b.clock.Step(time.Minute)
				b.reconcile()
			}
			ud := b.get()
			if c := meta.FindStatusCondition(ud.Status.Conditions, appsv1alpha1.ConditionInvalid); (c != nil && c.Status == "True") || len(b.box.items) != 1 {
				t.Errorf("it does not go on: %+v, %d posted", ud.Status.Conditions, len(b.box.items))
			}
		})
	}
}

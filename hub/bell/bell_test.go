package bell

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestRingBeforeAndAfterStart(t *testing.T) {
	t.Parallel()
	b := &Bell{}
	one := reconcile.Request{NamespacedName: types.NamespacedName{Name: "one"}}
	two := reconcile.Request{NamespacedName: types.NamespacedName{Name: "two"}}
	b.Ring(one, one)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := b.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if queue.Len() != 1 {
		t.Errorf("%d requests from before the start, want 1", queue.Len())
	}
	b.Ring(two)
	if queue.Len() != 2 {
		t.Errorf("%d requests, want 2", queue.Len())
	}
}

package outbox

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/push"
	"github.com/underway-dev/underway/propagation/render"
)

// Members is what the outbox reads of members; *clusters.Fleet is one.
type Members interface {
	View(name string) (clusters.View, bool)
	// Child is the cached object; the second result is false while the cache of the kind is not synced.
	Child(member string, gvk schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, bool)
	// Get is a fresh read with all managedFields; a NotFound error is an answer of the member.
	Get(ctx context.Context, member string, gvk schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, error)
	Subscribe(func(clusters.Event))
}

// Pusher carries a decision out; *push.Pusher is one.
type Pusher interface {
	Do(ctx context.Context, member string, op push.Operation) (*unstructured.Unstructured, error)
	EnsureNamespace(ctx context.Context, member, namespace string) error
}

// Fence answers whether a plan is still our business. All its reads are quorum reads on the hub.
type Fence interface {
	// Leading is a read of our own leader Lease.
	Leading(ctx context.Context) (bool, error)
	// CurrentIntent of an owner; the second result is false when the owner (of that UID) does not exist.
	CurrentIntent(ctx context.Context, owner types.NamespacedName, uid types.UID) (render.Intent, bool, error)
	// Frozen reads the freeze: its message when it is in force, empty when not. An error counts as frozen.
	Frozen(ctx context.Context) (string, error)
}

// Options of an outbox.
type Options struct {
	HubID   string
	Members Members
	Pusher  Pusher
	Fence   Fence
	Clock   clock.WithTicker
	// Workers per member. Default 2.
	Workers int
	// Timeout of one attempt. Default 20 s.
	Timeout time.Duration
	// RetryMin and RetryMax bound the wait before the next attempt (500 ms, 1 min), with jitter.
	RetryMin, RetryMax time.Duration
	// Recheck is how often a frozen, missing or terminating thing is looked at again. Default 5 s.
	Recheck time.Duration
}

package push

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/underway-dev/underway/propagation/changeset"
)

// ErrForeign is returned when an object that was created turns out to have existed and to be somebody else's.
var ErrForeign = errors.New("an object of that name existed and is not ours")

// Members gives access to members; *clusters.Fleet is one.
type Members interface {
	Client(name string) (dynamic.Interface, error)
	VerifyIdentity(ctx context.Context, name string) error
}

// Operation is one decision with what only the moment of acting knows.
type Operation struct {
	changeset.Decision

	// OwnerUID is whose owner reference OpOrphan takes off.
	OwnerUID types.UID
	// At is the time of the orphaned mark.
	At time.Time
}

// Pusher carries decisions out.
type Pusher struct {
	members Members
	hubID   string
}

// New returns a pusher to these members; hubID labels the namespaces that are created.
func New(members Members, hubID string) *Pusher { return &Pusher{members: members, hubID: hubID} }

// Do carries op out and returns the object as the member then has it, nil after a delete.
func (p *Pusher) Do(ctx context.Context, member string, op Operation) (*unstructured.Unstructured, error) {
	panic("todo")
}

// EnsureNamespace creates a namespace if it is absent. Forbidden is an answer of the member.
func (p *Pusher) EnsureNamespace(ctx context.Context, member, namespace string) error { panic("todo") }

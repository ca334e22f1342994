package clusters

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Fleet is the connections to all members.
type Fleet struct{}

// NewFleet returns a fleet that connects to nobody before Start.
func NewFleet(o Options) (*Fleet, error) { panic("todo") }

// Start runs until ctx is done; it is a manager.Runnable that needs leadership.
func (f *Fleet) Start(ctx context.Context) error { panic("todo") }

// NeedLeaderElection is true: a standby keeps no connections.
func (f *Fleet) NeedLeaderElection() bool { return true }

// Ensure makes name a member reached by cfg. It returns at once; equal configurations change nothing. It must be called
// again with the identity once View shows BlockIdentityUnstored and the identity is stored.
func (f *Fleet) Ensure(name string, cfg Config) { panic("todo") }

// Remove forgets a member. Nothing is deleted on it.
func (f *Fleet) Remove(name string) { panic("todo") }

// View is a member as last seen; false when there is none of that name.
func (f *Fleet) View(name string) (View, bool) { panic("todo") }

// Names are the members, sorted, without Local.
func (f *Fleet) Names() []string { panic("todo") }

// Child is a cached child; nil with true: a synced cache has none.
func (f *Fleet) Child(member string, gvk schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, bool) {
	panic("todo")
}

// Children are the cached children of an owner in the order of their names; false while not synced. Read only.
func (f *Fleet) Children(member string, gvk schema.GroupVersionKind, owner types.NamespacedName) ([]*unstructured.Unstructured, bool) {
	panic("todo")
}

// Get is a fresh read of one object with all its managedFields; the member's identity is proven after it.
func (f *Fleet) Get(ctx context.Context, member string, gvk schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	panic("todo")
}

// List is a fresh read of the objects of a namespace that match.
func (f *Fleet) List(ctx context.Context, member string, gvk schema.GroupVersionKind, namespace string, sel labels.Selector) ([]unstructured.Unstructured, error) {
	panic("todo")
}

// Owners are the owners that have children on a member, as cached.
func (f *Fleet) Owners(member string) []types.NamespacedName { panic("todo") }

// MaxTerm is the largest term of an intent seen on any member: a confirmation raises the hub's term above it.
func (f *Fleet) MaxTerm() int64 { panic("todo") }

// Subscribe calls fn, which must not block, for every Event. It must be called before Start.
func (f *Fleet) Subscribe(fn func(Event)) { panic("todo") }

// ClearTwoHubs forgets that another hub was seen, after a person confirmed this one.
func (f *Fleet) ClearTwoHubs() { panic("todo") }

// Requests counts the requests sent to a member since its connection began, by verb (get, list, watch, create, update,
// patch, apply, delete).
func (f *Fleet) Requests(name string) map[string]int64 { panic("todo") }

// Client is the dynamic client of a member, for package push. Error ErrNotReady while it is not ready.
func (f *Fleet) Client(name string) (dynamic.Interface, error) { panic("todo") }

// VerifyIdentity reads the member's identity anew and compares it with the stored one.
func (f *Fleet) VerifyIdentity(ctx context.Context, name string) error { panic("todo") }

// ParseKubeconfig rebuilds a configuration from the named fields of a kubeconfig's current context: server, CA data,
// client certificate and key data, token, user name and password, server name. Anything that runs a program, reads a
// file, goes through a proxy or impersonates is refused, and so is skipping verification unless allowInsecure; the
// error wraps ErrRefused and names the field.
func ParseKubeconfig(raw []byte, allowInsecure bool) (*rest.Config, error) { panic("todo") }

var _ http.RoundTripper

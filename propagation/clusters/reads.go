package clusters

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// cache of a kind; nil while it is not synced.
func (f *Fleet) cache(name string, gvk schema.GroupVersionKind) *children {
	m := f.member(name)
	if m == nil {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := m.caches[gvk.GroupKind()]
	if c == nil || c.children == nil || !c.served || !c.synced {
		return nil
	}
	return c.children
}

// Child is a cached child; nil with true: a synced cache has none. It puts the kind into use. Read only.
func (f *Fleet) Child(name string, gvk schema.GroupVersionKind, child types.NamespacedName) (*unstructured.Unstructured, bool) {
	f.Use(gvk.GroupKind().String())
	c := f.cache(name, gvk)
	if c == nil {
		return nil, false
	}
	obj, found, err := c.GetByKey(child.Namespace + "/" + child.Name)
	if err != nil {
		return nil, false
	}
	if !found {
		return nil, true
	}
	return obj.(*unstructured.Unstructured), true
}

// Children are the cached children of an owner in the order of their names; false while not synced. It puts the kind into
// use. Read only.
func (f *Fleet) Children(name string, gvk schema.GroupVersionKind, owner types.NamespacedName) ([]*unstructured.Unstructured, bool) {
	f.Use(gvk.GroupKind().String())
	c := f.cache(name, gvk)
	if c == nil {
		return nil, false
	}
	out := c.of(owner)
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, true
}

// Get is a fresh read of one object with all its managedFields; the member's identity is proven after it, so that
// NotFound is an answer of the right cluster.
func (f *Fleet) Get(ctx context.Context, name string, gvk schema.GroupVersionKind, object types.NamespacedName) (*unstructured.Unstructured, error) {
	m, resource, err := f.resource(name, gvk)
	if err != nil {
		return nil, err
	}
	obj, err := resource.Namespace(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	if proof := m.proven(ctx); proof != nil {
		return nil, proof
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", gvk.Kind, object, err)
	}
	return obj, nil
}

// List is a fresh read of the objects of a namespace that match.
func (f *Fleet) List(ctx context.Context, name string, gvk schema.GroupVersionKind, namespace string, sel labels.Selector) ([]unstructured.Unstructured, error) {
	m, resource, err := f.resource(name, gvk)
	if err != nil {
		return nil, err
	}
	list, err := resource.Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: sel.String()})
	if proof := m.proven(ctx); proof != nil {
		return nil, proof
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s in %s: %w", gvk.Kind, namespace, err)
	}
	return list.Items, nil
}

func (f *Fleet) resource(name string, gvk schema.GroupVersionKind) (*member, dynamic.NamespaceableResourceInterface, error) {
	m := f.member(name)
	if m == nil {
		return nil, nil, fmt.Errorf("%w: no member %q", ErrNotReady, name)
	}
	conn, err := m.usable()
	if err != nil {
		return nil, nil, err
	}
	k, ok := f.kindOf(gvk)
	if !ok {
		return nil, nil, fmt.Errorf("%s: %w", gvk.GroupKind(), render.ErrUnsupportedKind)
	}
	return m, conn.dynamic.Resource(k.GVR()), nil
}

// Owners are the owners that have children of a kind in use on a member, as cached.
func (f *Fleet) Owners(name string) []types.NamespacedName {
	seen := map[types.NamespacedName]struct{}{}
	f.eachChild(name, func(obj *unstructured.Unstructured) {
		if owner, ok := ownerOf(obj); ok {
			seen[owner] = struct{}{}
		}
	})
	out := slices.Collect(maps.Keys(seen))
	slices.SortFunc(out, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// MaxTerm is the largest term of an intent seen on any member, on children of the kinds in use: a confirmation raises the
// hub's term above it. Children of other kinds have no owner on this hub, and intents are compared between equal owners only.
func (f *Fleet) MaxTerm() int64 {
	out := int64(0)
	for _, name := range append(f.Names(), Local) {
		f.eachChild(name, func(obj *unstructured.Unstructured) {
			if i, err := render.ParseIntent(obj.GetAnnotations()[appsv1alpha1.AnnotationIntent]); err == nil {
				out = max(out, i.Term)
			}
		})
	}
	return out
}

func (f *Fleet) eachChild(name string, fn func(*unstructured.Unstructured)) {
	for _, k := range f.kinds {
		if c := f.cache(name, k.GVK); c != nil {
			for _, obj := range c.List() {
				fn(obj.(*unstructured.Unstructured))
			}
		}
	}
}

// Client is the dynamic client of a member, for package push. Error ErrNotReady while it is not ready.
func (f *Fleet) Client(name string) (dynamic.Interface, error) {
	m := f.member(name)
	if m == nil {
		return nil, fmt.Errorf("%w: no member %q", ErrNotReady, name)
	}
	conn, err := m.usable()
	if err != nil {
		return nil, err
	}
	return conn.dynamic, nil
}

// VerifyIdentity reads the member's identity anew and compares it with the stored one.
func (f *Fleet) VerifyIdentity(ctx context.Context, name string) error {
	m := f.member(name)
	if m == nil {
		return fmt.Errorf("%w: no member %q", ErrNotReady, name)
	}
	if _, err := m.usable(); err != nil {
		return err
	}
	return m.proven(ctx)
}

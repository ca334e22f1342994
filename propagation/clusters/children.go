package clusters

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

const ownerIndex = "owner"

// children caches the hub's children of one kind on one member.
type children struct {
	cache.Indexer
	kind    render.Kind
	changed func(obj *unstructured.Unstructured)
	// filled is called when a list has arrived whole.
	filled func()
	// failed is called when a list or the begin of a watch fails.
	failed func(error)
}

func newChildren(kind render.Kind, changed func(*unstructured.Unstructured), filled func()) *children {
	return &children{
		Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{ownerIndex: func(obj any) ([]string, error) {
			owner, ok := ownerOf(obj.(*unstructured.Unstructured))
			if !ok {
				return nil, nil
			}
			return []string{owner.String()}, nil
		}, markIndex: marksOf}),
		kind:    kind,
		changed: changed,
		filled:  filled,
	}
}

// Add is of cache.ReflectorStore.
func (c *children) Add(obj any) error {
	u := lean(obj)
	if err := c.Indexer.Add(u); err != nil {
		return fmt.Errorf("caching %s: %w", u.GetName(), err)
	}
	c.changed(u)
	return nil
}

// Update is of cache.ReflectorStore.
func (c *children) Update(obj any) error { return c.Add(obj) }

// Delete is of cache.ReflectorStore.
func (c *children) Delete(obj any) error {
	if err := c.Indexer.Delete(obj); err != nil {
		return fmt.Errorf("dropping from the cache: %w", err)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		c.changed(u)
	}
	return nil
}

// Replace is of cache.ReflectorStore. Only what differs from before is reported.
func (c *children) Replace(items []any, version string) error {
	before := map[string]*unstructured.Unstructured{}
	for _, obj := range c.List() {
		u := obj.(*unstructured.Unstructured)
		before[u.GetNamespace()+"/"+u.GetName()] = u
	}
	for i := range items {
		items[i] = lean(items[i])
	}
	if err := c.Indexer.Replace(items, version); err != nil {
		return fmt.Errorf("filling the cache: %w", err)
	}
	for _, obj := range items {
		u := obj.(*unstructured.Unstructured)
		key := u.GetNamespace() + "/" + u.GetName()
		if old := before[key]; old == nil || old.GetResourceVersion() != u.GetResourceVersion() {
			c.changed(u)
		}
		delete(before, key)
	}
	c.filled()
	for _, gone := range before {
		c.changed(gone)
	}
	return nil
}

// run lists and watches until ctx is done. proven must return nil, after a read, when the right cluster answered.
func (c *children) run(ctx context.Context, conn *connection, hubID string, proven func(context.Context) error) {
	resource := conn.dynamic.Resource(c.kind.GVR())
	selector := labels.Set{appsv1alpha1.LabelHub: hubID}.String()
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			list, err := resource.List(marked(ctx, patient), o)
			if err == nil {
				err = proven(ctx)
			}
			if err != nil {
				c.failed(err)
				return nil, fmt.Errorf("listing %s: %w", c.kind.Resource, err)
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			w, err := resource.Watch(ctx, o)
			if err != nil {
				c.failed(err)
				return nil, fmt.Errorf("watching %s: %w", c.kind.Resource, err)
			}
			if err := proven(ctx); err != nil {
				w.Stop()
				return nil, err
			}
			return w, nil
		},
	}
	expected := &unstructured.Unstructured{}
	expected.SetGroupVersionKind(c.kind.GVK)
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, conn.dynamic), expected, c,
		cache.ReflectorOptions{Name: "children of " + c.kind.GVK.Kind}).RunWithContext(ctx)
}

// of are the cached children of an owner.
func (c *children) of(owner types.NamespacedName) []*unstructured.Unstructured {
	objs, err := c.ByIndex(ownerIndex, owner.String())
	if err != nil {
		return nil
	}
	out := make([]*unstructured.Unstructured, len(objs))
	for i, obj := range objs {
		out[i] = obj.(*unstructured.Unstructured)
	}
	return out
}

func ownerOf(obj *unstructured.Unstructured) (types.NamespacedName, bool) {
	namespace, name, ok := strings.Cut(obj.GetAnnotations()[appsv1alpha1.AnnotationOwner], "/")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok
}

// lean drops what nobody reads: kubectl's copy of the object, and of managedFields all but our own entries and those
// that own spec.replicas.
func lean(obj any) *unstructured.Unstructured {
	u := obj.(*unstructured.Unstructured)
	meta, ok := u.Object["metadata"].(map[string]any)
	if !ok {
		return u
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	}
	managed, ok := meta["managedFields"].([]any)
	if !ok {
		return u
	}
	kept := make([]any, 0, len(managed))
	for _, item := range managed {
		if e, ok := item.(map[string]any); ok && keepEntry(e) {
			kept = append(kept, e)
		}
	}
	meta["managedFields"] = kept
	return u
}

func keepEntry(e map[string]any) bool {
	if e["manager"] == appsv1alpha1.FieldManagerHub && e["operation"] == string(metav1.ManagedFieldsOperationApply) {
		return true
	}
	raw, _, err := unstructured.NestedFieldNoCopy(e, "fieldsV1", "f:spec")
	spec, ok := raw.(map[string]any)
	if err != nil || !ok || spec["f:replicas"] == nil {
		return false
	}
	e["fieldsV1"] = map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}}
	return true
}

// notServed is true when a read says that the member does not have the kind at all.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

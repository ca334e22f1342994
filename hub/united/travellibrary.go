package united

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/hub/united/plan"
	travels "github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

// errNotListed says that the hub's objects of a kind have not arrived yet.
var errNotListed = errors.New("the hub's objects of this kind are not listed yet")

// Library reads the hub's objects that travel: their metadata by a watch, which is begun with the first look at a kind, and
// each object itself once per version. It is safe for concurrent use.
type Library struct {
	meta cache.Cache
	live client.Reader
	wake func(kind, namespace, name string)

	mu    sync.Mutex
	known map[string]volume
	// listed are the watches that were begun, by kind.
	listed map[string]toolscache.InformerSynced
}

// volume is one object as it is sent.
type volume struct {
	uid      types.UID
	version  string
	excluded string
	object   *unstructured.Unstructured
	needs    []travels.Ref
}

// NewLibrary returns a library over a cache of its own, in which nothing else is. wake is called with what changed.
func NewLibrary(meta cache.Cache, live client.Reader, wake func(kind, namespace, name string)) *Library {
	return &Library{meta: meta, live: live, wake: wake, known: map[string]volume{}, listed: map[string]toolscache.InformerSynced{}}
}

// Read is an object of the hub: what the plan is told, and what is sent, which nobody may change. An error says that it is
// not known; one that does not exist is an answer.
func (l *Library) Read(ctx context.Context, kind render.Kind, namespace, name string) (plan.HubObject, *unstructured.Unstructured, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.list(ctx, kind); err != nil {
		return plan.HubObject{}, nil, err
	}
	at := kind.GVK.Kind + "/" + namespace + "/" + name
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(kind.GVK)
	err := l.meta.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, meta)
	if apierrors.IsNotFound(err) {
		delete(l.known, at)
		return plan.HubObject{}, nil, nil
	}
	if err != nil {
		return plan.HubObject{}, nil, fmt.Errorf("reading %s: %w", at, err)
	}
	v, ok := l.known[at]
	if !ok || v.uid != meta.UID || before(v.version, meta.ResourceVersion) {
		if v, err = l.fetch(ctx, kind, namespace, name); err != nil {
			return plan.HubObject{}, nil, err
		}
		if v.uid == "" {
			return plan.HubObject{}, nil, nil
		}
		l.known[at] = v
	}
	return plan.HubObject{Found: true, Excluded: v.excluded, UID: v.uid, Version: v.version, Needs: v.needs}, v.object, nil
}

// fetch reads one object from the API server; the zero volume when there is none. What never travels is not kept.
func (l *Library) fetch(ctx context.Context, kind render.Kind, namespace, name string) (volume, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind.GVK)
	err := l.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		return volume{}, nil
	}
	if err != nil {
		return volume{}, fmt.Errorf("reading %s %s: %w", kind.GVK.Kind, name, err)
	}
	out := volume{uid: obj.GetUID(), version: obj.GetResourceVersion()}
	out.object, out.excluded = travels.Prepare(obj)
	if out.object != nil && kind.GVK.Kind == travels.KindServiceAccount {
		out.needs = travels.OfAccount(out.object)
	}
	return out, nil
}

// list begins the watch of a kind; an error until it has arrived. It needs mu.
func (l *Library) list(ctx context.Context, kind render.Kind) error {
	synced, begun := l.listed[kind.GVK.Kind]
	if !begun {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(kind.GVK)
		informer, err := l.meta.GetInformer(ctx, meta, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind.Resource, err)
		}
		handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { l.changed(kind, obj) },
			UpdateFunc: func(_, obj any) { l.changed(kind, obj) },
			DeleteFunc: func(obj any) { l.changed(kind, obj) },
		})
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind.Resource, err)
		}
		synced = handler.HasSynced
		l.listed[kind.GVK.Kind] = synced
	}
	if !synced() {
		return errNotListed
	}
	return nil
}

func (l *Library) changed(kind render.Kind, obj any) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if meta, ok := obj.(metav1.Object); ok {
		l.wake(kind.GVK.Kind, meta.GetNamespace(), meta.GetName())
	}
}

// Current is a quorum read of an object's version; false when it does not exist.
func (l *Library) Current(ctx context.Context, kind render.Kind, namespace, name string) (types.UID, string, bool, error) {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(kind.GVK)
	err := l.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, meta)
	if apierrors.IsNotFound(err) {
		return "", "", false, nil
	}
	if err != nil {
		return "", "", false, fmt.Errorf("reading %s %s: %w", kind.GVK.Kind, name, err)
	}
	return meta.UID, meta.ResourceVersion, true, nil
}

// before compares two resourceVersions; what is not a number differs.
func before(a, b string) bool {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	return errX != nil || errY != nil || x < y
}

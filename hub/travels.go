package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/travel"
	travelplan "github.com/underway-dev/underway/hub/travel/plan"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

var (
	errScope   = errors.New("its objects belong to no namespace, and only those that do travel")
	errSecrets = errors.New("--content=NoSecrets and Secrets in --propagate-kinds contradict each other")
)

// travelKinds are the kinds that travel by label: Services, and those that the hub was started with. One that the hub's API
// server does not have is left out, and said.
func travelKinds(ctx context.Context, mapper meta.RESTMapper, o Options) ([]render.Kind, error) {
	out := content.ByLabel()
	for _, gvk := range o.PropagateKinds {
		if gvk.Group == "" && gvk.Kind == content.KindSecret && o.Content == ContentNoSecrets {
			return nil, errSecrets
		}
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			klog.FromContext(ctx).Error(err, "A kind of --propagate-kinds does not travel: the hub's API server has none; install it and restart the hub", "kind", gvk.GroupKind())
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("--propagate-kinds: looking for %s: %w", gvk, err)
		}
		if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
			return nil, fmt.Errorf("--propagate-kinds: %s: %w", gvk.GroupKind(), errScope)
		}
		out = append(out, render.Kind{GVK: gvk, Resource: mapping.Resource.Resource})
	}
	return out, nil
}

// retiredKinds are those that the hub was started with before and is not asked for now: their objects carry its finalizer, and
// somebody must take it off. One that is asked for and not served is not given up. The present ones are remembered before the
// first of their objects is held.
func retiredKinds(ctx context.Context, mapper meta.RESTMapper, ledger *travel.Ledger, asked []schema.GroupVersionKind, travels []render.Kind) ([]render.Kind, error) {
	known, err := ledger.Kinds(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for kinds that travelled before: %w", err)
	}
	var out []render.Kind
	for _, gvk := range travel.GivenUp(known, asked) {
		mapping, err := mapper.RESTMapping(gvk.GroupKind())
		if meta.IsNoMatchError(err) {
			continue // without its CRD there are no objects
		}
		if err != nil {
			return nil, fmt.Errorf("looking for %s, which travelled before: %w", gvk.GroupKind(), err)
		}
		klog.FromContext(ctx).Info("A kind is not in --propagate-kinds any more: its objects are let go, and their copies stay", "kind", gvk.GroupKind())
		out = append(out, render.Kind{GVK: mapping.GroupVersionKind, Resource: mapping.Resource.Resource})
	}
	var present []schema.GroupVersionKind
	for _, k := range travels[len(content.ByLabel()):] {
		present = append(present, k.GVK)
	}
	return out, wrap("remembering the kinds that travel", ledger.AddKinds(ctx, present))
}

// union is what members may be asked for.
func union(kinds ...[]render.Kind) []render.Kind {
	var out []render.Kind
	for _, k := range slices.Concat(kinds...) {
		if !slices.ContainsFunc(out, func(o render.Kind) bool { return o.GVK.GroupKind() == k.GVK.GroupKind() }) {
			out = append(out, k)
		}
	}
	return out
}

// metadataCache is a cache of its own: the manager's holds Secrets of one namespace only.
func metadataCache(mgr ctrl.Manager, failed toolscache.WatchErrorHandlerWithContext) (cache.Cache, error) {
	out, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultTransform: cache.TransformStripManagedFields(), DefaultWatchErrorHandler: failed,
	})
	if err != nil {
		return nil, fmt.Errorf("building the cache of metadata: %w", err)
	}
	return out, wrap("adding the cache of metadata", mgr.Add(out))
}

// addTravel adds what travels by label. Members and Outbox are o's.
func addTravel(ctx context.Context, mgr ctrl.Manager, r *travel.Reconciler, meta cache.Cache) error {
	if err := r.Watch(ctx, meta); err != nil {
		return fmt.Errorf("watching what travels by label: %w", err)
	}
	return wrap("adding the controller of what travels by label", r.SetupWithManager(mgr, 1))
}

// noRight says once what the hub may not read in its own cluster; the other kinds go on.
func noRight(recorder events.EventRecorder) toolscache.WatchErrorHandlerWithContext {
	var mu sync.Mutex
	said := map[string]bool{}
	return func(ctx context.Context, reflector *toolscache.Reflector, err error) {
		toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
		if !apierrors.IsForbidden(err) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if text := err.Error(); !said[text] {
			said[text] = true
			about := &corev1.Namespace{}
			about.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
			about.Name = appsv1alpha1.SystemNamespace
			recorder.Eventf(about, nil, corev1.EventTypeWarning, travelplan.ReasonRefused, travelplan.ReasonRefused,
				"A kind does not travel until the hub may read it here, see docs/content.md: %s", text)
		}
	}
}

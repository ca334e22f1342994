package workload

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/podview"
)

// Names of the cache's indexes.
const (
	// indexController finds pods, claims and ControllerRevisions by the UID of their controller; nobody those without one.
	indexController = "underway.controller"
	nobody          = "nobody"
	// indexPod finds EndpointSlices by the name of a pod they list.
	indexPod = "underway.pod"
)

// Index adds the indexes that reconcilers read by. Once per cache, before it starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, obj := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}, Claim()} {
		if err := indexer.IndexField(ctx, obj, indexController, controllerUID); err != nil {
			return fmt.Errorf("indexing %T: %w", obj, err)
		}
	}
	if err := indexer.IndexField(ctx, &discoveryv1.EndpointSlice{}, indexPod, podsOfSlice); err != nil {
		return fmt.Errorf("indexing EndpointSlices: %w", err)
	}
	return nil
}

func controllerUID(obj client.Object) []string {
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
		return []string{string(owner.UID)}
	}
	return []string{nobody}
}

func podsOfSlice(obj client.Object) []string {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	names := make([]string, 0, len(s.Endpoints))
	for i := range s.Endpoints {
		if ref := s.Endpoints[i].TargetRef; ref != nil {
			names = append(names, ref.Name)
		}
	}
	return names
}

func groupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// ofController enqueues the controller of an object when it is of the kind; of a pod without one, those that may adopt it, of a
// claim without one those that may use it.
func (r *Reconciler) ofController(ctx context.Context, obj client.Object) []ctrl.Request {
	owner := metav1.GetControllerOfNoCopy(obj)
	if pod, is := obj.(*corev1.Pod); owner == nil && is && pod.DeletionTimestamp == nil {
		return r.wouldJoin(ctx, pod)
	}
	if claim, is := obj.(*corev1.PersistentVolumeClaim); owner == nil && is && r.named != nil {
		return r.those(ctx, claim.Namespace, func(o client.Object) bool { return r.named.Uses(o, claim.Name) })
	}
	if owner == nil || owner.Kind != r.Resource.Kind || groupOf(owner.APIVersion) != r.Resource.Group {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: owner.Name}}}
}

// drained wakes the workloads whose draining pods a slice names differently than before.
func (r *Reconciler) drained() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			was, ok := e.ObjectOld.(*discoveryv1.EndpointSlice)
			is, okToo := e.ObjectNew.(*discoveryv1.EndpointSlice)
			if ok && okToo {
				r.wake(ctx, is.Namespace, leftService(was, is), q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if was, ok := e.Object.(*discoveryv1.EndpointSlice); ok {
				r.wake(ctx, was.Namespace, leftService(was, &discoveryv1.EndpointSlice{}), q)
			}
		},
	}
}

// leftService names the pods that were ready in a slice and are not any more.
func leftService(was, is *discoveryv1.EndpointSlice) []string {
	ready := make(map[string]bool, len(is.Endpoints))
	for i := range is.Endpoints {
		name := is.Endpoints[i].TargetRef.Name
		ready[name] = ready[name] || podview.NamingOf(&is.Endpoints[i], name) == podview.NamedReady
	}
	var left []string
	for i := range was.Endpoints {
		name := was.Endpoints[i].TargetRef.Name
		if !ready[name] && podview.NamingOf(&was.Endpoints[i], name) == podview.NamedReady {
			left = append(left, name)
		}
	}
	return left
}

// wake enqueues the workloads of those named pods that wait to be out of service.
func (r *Reconciler) wake(ctx context.Context, namespace string, pods []string, q queue) {
	for _, name := range pods {
		var pod corev1.Pod
		if r.Cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &pod) != nil || !gateFalse(&pod) {
			continue
		}
		for _, request := range r.ofController(ctx, &pod) {
			q.Add(request)
		}
	}
}

// gateFalse reports whether the pod is being drained or updated.
func gateFalse(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == appsv1alpha1.ConditionInPlaceUpdateReady {
			return c.Status != corev1.ConditionTrue
		}
	}
	return false
}

// Watch makes the controller wake up for the kind's objects, their pods and claims, and the EndpointSlices that pods leave.
// The claims' informer is not waited for.
// ControllerRevisions need no watch of their own: only we write them.
func (r *Reconciler) Watch(c controller.Controller, from cache.Cache, claims cache.Informer) error {
	for _, s := range []source.Source{
		source.Kind(from, r.Kind.New(), &handler.EnqueueRequestForObject{}),
		source.Kind[client.Object](from, &corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofController)),
		&source.Informer{Informer: claims, Handler: handler.EnqueueRequestsFromMapFunc(r.ofController)},
		source.Kind[client.Object](from, &discoveryv1.EndpointSlice{}, r.drained()),
	} {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	return nil
}

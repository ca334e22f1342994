package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets,verbs=patch

// Striker is a Kind whose spec names pods that are to go, and from which they are struck out when they are gone.
type Striker interface {
	// Strike takes names out of obj's spec. Names that somebody applies (server-side) stay and are returned: their owner would
	// write them again. obj has its managedFields.
	Strike(obj client.Object, names []string) (stay []string)
}

// struck is what became of names that no pod has.
type struck struct {
	// gone were taken out of the spec.
	gone []string
	// stay are kept by whoever applies them.
	stay []string
}

// strike takes the names of pods that are gone out of the spec. It looks at the API server first: a name whose pod our view
// does not show yet is a request that must not be lost.
func (r *Reconciler) strike(ctx context.Context, seen *observation) (struck, error) {
	names, generation := seen.wanted.Intent.Population.NoSuchPods, seen.obj.GetGeneration()
	kind, ok := r.Kind.(Striker)
	if len(names) == 0 || !ok {
		return struck{}, nil
	}
	if seen.book.stay.generation == generation && slices.Equal(seen.book.stay.names, names) {
		return struck{stay: names}, nil
	}
	live := r.Kind.New()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen.obj), live); err != nil {
		return struck{}, fmt.Errorf("reading the object, of which names are to be struck out: %w", client.IgnoreNotFound(err))
	}
	if live.GetUID() != seen.obj.GetUID() || live.GetGeneration() != generation || live.GetDeletionTimestamp() != nil {
		return struck{}, nil
	}
	gone, err := r.nobodys(ctx, live, names)
	if err != nil || len(gone) == 0 {
		return struck{}, err
	}
	before, ok := live.DeepCopyObject().(client.Object)
	if !ok {
		return struck{}, fmt.Errorf("%T is no object", live)
	}
	out := struck{stay: kind.Strike(live, gone)}
	out.gone = slices.DeleteFunc(gone, func(name string) bool { return slices.Contains(out.stay, name) })
	if len(out.gone) == 0 {
		seen.book.stay.generation, seen.book.stay.names = generation, out.stay
		return out, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Live.Patch(ctx, live, patch, client.FieldOwner(appsv1alpha1.FieldManagerMember)); err != nil {
		return struck{}, fmt.Errorf("striking out pods that are gone: %w", err)
	}
	seen.book.wroteObject(live.GetResourceVersion(), r.Clock.Now())
	ctrl.LoggerFrom(ctx).Info("Struck out pods that are gone", "pods", out.gone)
	return out, nil
}

// stays are the names that are known to stay in this generation of the object.
func (s *observation) stays() []string {
	if s.book.stay.generation != s.obj.GetGeneration() {
		return nil
	}
	return s.book.stay.names
}

// nobodys are the names that no pod of the object has on the API server.
func (r *Reconciler) nobodys(ctx context.Context, obj client.Object, names []string) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.Live.List(ctx, list, client.InNamespace(obj.GetNamespace())); err != nil {
		return nil, fmt.Errorf("listing the pods, of which some are to be struck out: %w", err)
	}
	there := map[string]bool{}
	for i := range list.Items {
		there[list.Items[i].Name] = ours(&list.Items[i], obj)
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return there[name] }), nil
}

// warning is the sentence about names that stay.
func (s struck) warning() string {
	if len(s.stay) == 0 {
		return ""
	}
	return "spec.scaleStrategy.podsToDelete names pods that do not exist: " + some(s.stay) +
		"; who applies this object writes them, so take them out there"
}

// some names the first few.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

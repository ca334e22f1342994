package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/inplace"
)

// What only pods with names of their own need: their labels, names that somebody else uses, and claims that are resized.

const (
	// takenFor is how long a name that somebody else's pod has is not looked at again.
	takenFor = 30 * time.Second
	// forgetRelabelled is how long it is remembered that a pod was given labels.
	forgetRelabelled = time.Hour
	// classesFor is how long storage classes are not read again.
	classesFor = time.Minute
)

// lacksLabels are the patches of pods that lack labels of their identity.
func (r *Reconciler) lacksLabels(seen *observation, ours []corev1.Pod) []inplace.Patch {
	if r.named == nil {
		return nil
	}
	out := r.named.Relabel(seen.obj, ours, seen.book.relabelled, seen.now)
	return out[:min(len(out), burst)]
}

// relabels gives pods the labels that they lack.
func (c *claiming) relabels(ctx context.Context, m members) {
	if len(m.relabel) == 0 {
		return
	}
	result, err := c.reconciler.pods.Do(ctx, inplace.Decision{Patches: m.relabel})
	c.seen.book.wrote(result, c.reconciler.Clock.Now())
	c.changed += result.Patched + result.Conflicts
	written := map[types.UID]bool{}
	for _, w := range result.Written {
		written[w.UID] = true
	}
	if c.seen.book.relabelled == nil {
		c.seen.book.relabelled = map[types.UID]time.Time{}
	}
	maps.DeleteFunc(c.seen.book.relabelled, func(_ types.UID, at time.Time) bool { return c.seen.now.Sub(at) >= forgetRelabelled })
	for i := range m.relabel {
		if err != nil || written[m.relabel[i].UID] {
			// One that is refused is not asked for again at once, and the rest goes on.
			c.seen.book.relabelled[m.relabel[i].UID] = c.seen.now
		}
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot give pods the labels of their identity")
	}
}

// take notes that a name is somebody else's.
func (b *book) take(name string, at time.Time) {
	b.taken[name] = true
	if b.takenAt == nil {
		b.takenAt = map[string]time.Time{}
	}
	b.takenAt[name] = at
}

// readTaken looks again at names that somebody else's pods have: of a Named kind there are no others.
func (r *Reconciler) readTaken(ctx context.Context, seen *observation) error {
	if r.named == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(seen.book.taken)) {
		if seen.now.Sub(seen.book.takenAt[name]) < takenFor {
			continue
		}
		pod := &metav1.PartialObjectMetadata{}
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: seen.obj.GetNamespace(), Name: name}, pod)
		switch {
		case apierrors.IsNotFound(err), err == nil && ours(pod, seen.obj):
			delete(seen.book.taken, name)
			delete(seen.book.takenAt, name)
		case err != nil:
			return fmt.Errorf("reading pod %s, whose name was taken: %w", name, err)
		default:
			seen.book.take(name, seen.now)
		}
	}
	return nil
}

// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=list

// classes are what is remembered of storage classes.
type classes struct {
	expandable map[string]bool
	at         time.Time
}

// readClasses reads which storage classes allow expansion, where claims may have to be resized. What cannot be read is not
// known: nothing is resized then, and that is told.
func (r *Reconciler) readClasses(ctx context.Context, seen *observation) error {
	if !seen.wanted.Classes {
		return nil
	}
	if known := r.classes.Load(); known != nil && seen.now.Sub(known.at) < classesFor {
		seen.expandable = known.expandable
		return nil
	}
	var list storagev1.StorageClassList
	if err := r.Live.List(ctx, &list); err != nil {
		if apierrors.IsForbidden(err) {
			ctrl.LoggerFrom(ctx).Info("May not read storage classes, so no claim is resized", "reason", err.Error())
			return nil
		}
		return fmt.Errorf("listing the storage classes: %w", err)
	}
	known := &classes{expandable: make(map[string]bool, len(list.Items)), at: seen.now}
	for i := range list.Items {
		allows := list.Items[i].AllowVolumeExpansion
		known.expandable[list.Items[i].Name] = allows != nil && *allows
	}
	r.classes.Store(known)
	seen.expandable = known.expandable
	return nil
}

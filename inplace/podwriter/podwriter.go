package podwriter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// workers is how many requests are under way at once; the API server's own limits are the brake, not ours.
const workers = 32

// Written is one write that succeeded: the caller's cache has caught up when it shows the pod at this version or a
// later one (or, for Deleted, gone, terminating or with another UID).
type Written struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	Deleted         bool
}

// Result is what Do did.
type Result struct {
	Created, Patched, Deleted int
	// Conflicts counts patches and deletes whose pod had changed or gone, AlreadyExists the creates that found their pod
	// there. Neither is an error: the next observation decides anew.
	Conflicts     int
	AlreadyExists int
	// Written are the writes whose effect the caller waits for before its next pass.
	Written []Written
	// Unsure are pods of which it is not known whether the write took effect (no answer, or a 5xx). Before its next pass
	// the caller reads them anew from the API server: its cache may not show the write yet.
	Unsure []inplace.Ref
}

// Writer writes pods. It is safe for concurrent use.
type Writer struct {
	client client.Client
}

// New returns a Writer that writes through c as field manager underway-member.
func New(c client.Client) *Writer {
	return &Writer{client: c}
}

// Do carries out a decision: patches in parallel, then deletes and creates in slow-start batches (1, 2, 4, ...) that stop
// at the first batch with a failure. It goes on after a failed patch and returns what was done beside the joined errors.
func (w *Writer) Do(ctx context.Context, d inplace.Decision) (Result, error) {
	t := &track{}
	errs := []error{
		parallel(len(d.Patches), func(i int) error { return w.patch(ctx, d.Patches[i], t) }),
		slowStart(len(d.Deletes), func(i int) error { return w.delete(ctx, d.Deletes[i], t) }),
		slowStart(len(d.Creates), func(i int) error { return w.create(ctx, d.Creates[i], t) }),
	}
	return t.result, errors.Join(errs...)
}

// handle is a pod for a request whose answer we want little of: only metadata is sent back and decoded.
func handle(ref inplace.Ref) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return m
}

func (w *Writer) patch(ctx context.Context, p inplace.Patch, t *track) error {
	data, subresource, err := Body(p)
	if err != nil {
		return err
	}
	pod := handle(p.Ref)
	patch := client.RawPatch(types.StrategicMergePatchType, data)
	owner := client.FieldOwner(appsv1alpha1.FieldManagerMember)
	if subresource == "" {
		err = w.client.Patch(ctx, pod, patch, owner)
	} else {
		err = w.client.SubResource(subresource).Patch(ctx, pod, patch, owner)
	}
	switch {
	case err == nil:
		t.wrote(&t.result.Patched, written(pod))
		return nil
	case changed(err):
		t.count(&t.result.Conflicts)
		return nil
	default:
		t.failed(err, p.Ref)
		return fmt.Errorf("patching pod %s/%s (%s): %w", p.Namespace, p.Name, p.Kind, err)
	}
}

func (w *Writer) delete(ctx context.Context, d inplace.Delete, t *track) error {
	if d.UID == "" || d.ResourceVersion == "" {
		return fmt.Errorf("deleting pod %s/%s: no UID or resourceVersion to hold it to", d.Namespace, d.Name)
	}
	preconditions := client.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion}
	err := w.client.Delete(ctx, handle(d.Ref), preconditions)
	switch {
	case err == nil:
		t.wrote(&t.result.Deleted, Written{Namespace: d.Namespace, Name: d.Name, UID: d.UID, ResourceVersion: d.ResourceVersion, Deleted: true})
		return nil
	case changed(err):
		t.count(&t.result.Conflicts)
		return nil
	default:
		t.failed(err, d.Ref)
		return fmt.Errorf("deleting pod %s/%s: %w", d.Namespace, d.Name, err)
	}
}

func (w *Writer) create(ctx context.Context, c inplace.Create, t *track) error {
	if c.Object == nil || c.Object.GetName() == "" {
		return errors.New("creating a pod: it has no derived name")
	}
	pod := c.Object.DeepCopy()
	err := w.client.Create(ctx, pod, client.FieldOwner(appsv1alpha1.FieldManagerMember))
	switch {
	case err == nil:
		t.wrote(&t.result.Created, written(pod))
		return nil
	case apierrors.IsAlreadyExists(err):
		t.count(&t.result.AlreadyExists)
		return nil
	default:
		t.failed(err, inplace.Ref{Namespace: pod.GetNamespace(), Name: pod.GetName()})
		return fmt.Errorf("creating pod %s/%s: %w", pod.GetNamespace(), pod.GetName(), err)
	}
}

func written(o client.Object) Written {
	return Written{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
}

// changed reports whether the answer means that the pod is not the version that was judged: another version (409), gone
// (404), or re-created under another UID (422 on metadata.uid).
func changed(err error) bool {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return true
	}
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && apierrors.IsInvalid(err) && cause.Field == "metadata.uid"
}

// track collects results of parallel requests.
type track struct {
	mu     sync.Mutex
	result Result
}

func (t *track) wrote(counter *int, w Written) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*counter++
	t.result.Written = append(t.result.Written, w)
}

func (t *track) count(counter *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*counter++
}

// failed notes a write whose effect is not known: everything but a clear refusal (4xx).
func (t *track) failed(err error, ref inplace.Ref) {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Unsure = append(t.result.Unsure, ref)
}

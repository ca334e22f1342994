package podwriter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

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
	// Created, Patched and Deleted count pods, ClaimsCreated and ClaimsDeleted claims.
	Created, Patched, Deleted    int
	ClaimsCreated, ClaimsDeleted int
	// ClaimsPatched counts claims whose owners or requests were changed.
	ClaimsPatched int
	// Conflicts counts patches and deletes whose pod had changed or gone, AlreadyExists the creates that found their pod
	// there. Neither is an error: the next observation decides anew.
	Conflicts     int
	AlreadyExists int
	// Written are the writes whose effect the caller waits for before its next pass.
	Written []Written
	// Unsure are pods of which it is not known whether the write took effect (no answer, or a 5xx). Before its next pass
	// the caller reads them anew from the API server: its cache may not show the write yet.
	Unsure []inplace.Ref
	// Claims, UnsureClaims are the same of claims. A claim that was not there, or is another one now, counts as deleted by
	// nobody and is in neither.
	Claims       []Written
	UnsureClaims []inplace.Ref
	// ClaimsTaken are names of claims that were to be created and exist: their pods were not created. Whether they are
	// the workload's own, which its view does not show yet, is for the caller to find out.
	ClaimsTaken []types.NamespacedName
	// Refused are the pods whose resize the API server refused. The rest of their patch, if there was one, is written and
	// counted; the caller remembers the refusal, because nothing in the pod shows it.
	Refused []Refusal
}

// Refusal is one resize that the API server refused. It is no error: the next decision is made knowing it.
type Refusal struct {
	// Patch is what was refused, with the version of the pod it was held to.
	Patch inplace.Patch
	// Message is the API server's, without the name of the pod: equal for pods in the same trouble.
	Message string
	// Final is set when another try would be answered alike: the node can never hold it, its kubelet is older than
	// resizing, the QoS class or a field that cannot change would, or the API server does not serve pods/resize. Otherwise
	// (a quota, missing rights) it may be tried again.
	Final bool
}

// Writer writes pods. It is safe for concurrent use.
type Writer struct {
	client client.Client
}

// New returns a Writer that writes through c as field manager underway-member.
func New(c client.Client) *Writer {
	return &Writer{client: c}
}

// Do carries out a decision: patches of claims, and then of pods, in parallel, then deletes, deletes of claims, and creates in slow-start batches (1, 2,
// 4, ...) that stop at the first batch with a failure. It goes on after a failed patch and returns what was done beside the
// joined errors. Creates in a namespace that is being deleted stop and are no error: the workload goes with it.
//
// A pod's claims are created before it, and deleted after its own deletion was accepted; what comes between leaves a claim
// without a pod, never a pod without its claim.
func (w *Writer) Do(ctx context.Context, d inplace.Decision) (Result, error) {
	t := &track{}
	claimed := parallel(len(d.ClaimPatches), func(i int) error { return w.patchClaim(ctx, d.ClaimPatches[i], t) })
	patched := parallel(len(d.Patches), func(i int) error { return w.patch(ctx, d.Patches[i], t) })
	deleted := slowStart(len(d.Deletes), func(i int) error { return w.delete(ctx, d.Deletes[i], t) })
	dropped := slowStart(len(d.ClaimDeletes), func(i int) error { return w.deleteClaim(ctx, d.ClaimDeletes[i].Ref, t) })
	created := slowStart(len(d.Creates), func(i int) error { return w.create(ctx, d.Creates[i], t) })
	if errors.Is(created, errNamespaceEnds) {
		created = nil
	}
	return t.result, errors.Join(claimed, patched, deleted, dropped, created)
}

// errNamespaceEnds stops creating pods in a namespace that is being deleted.
var errNamespaceEnds = errors.New("the namespace is being deleted")

// handle is a pod for a request whose answer we want little of: only metadata is sent back and decoded.
func handle(ref inplace.Ref) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return m
}

// patch carries out one patch: one request, and with resources beside other changes a second one, held to the version
// that the first one made.
func (w *Writer) patch(ctx context.Context, p inplace.Patch, t *track) error {
	made, err := w.send(ctx, p, t)
	if err != nil || made == nil {
		return err
	}
	if p.Kind == inplace.PatchUpdate && len(p.Resources)+len(p.InitResources) > 0 {
		p.Kind, p.ResourceVersion = inplace.PatchResize, made.ResourceVersion
		resized, resizeErr := w.send(ctx, p, t)
		if resized != nil {
			made = resized
		}
		err = resizeErr
	}
	t.wrote(&t.result.Patched, *made)
	return err
}

// send sends one request and returns the version it made; nil without an error is a conflict or a refused resize, noted.
func (w *Writer) send(ctx context.Context, p inplace.Patch, t *track) (*Written, error) {
	data, subresource, err := Body(p)
	if err != nil {
		return nil, err
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
		return new(written(pod)), nil
	case changed(err):
		t.count(&t.result.Conflicts)
		return nil, nil
	case p.Kind == inplace.PatchResize && t.refused(p, err):
		return nil, nil
	default:
		t.failed(err, p.Ref)
		return nil, &PatchError{Patch: p, Err: err}
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
		t.wrote(&t.result.Deleted, gone(d.Ref))
		return w.deleteClaims(ctx, d.Claims, t)
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
	made, ok, err := w.createClaims(ctx, c.Claims, t)
	if !ok || err != nil {
		return errors.Join(err, w.dropClaims(ctx, c, made, err, t))
	}
	pod := c.Object.DeepCopy()
	err = w.client.Create(ctx, pod, client.FieldOwner(appsv1alpha1.FieldManagerMember))
	switch {
	case err == nil:
		t.wrote(&t.result.Created, written(pod))
		return nil
	case apierrors.IsAlreadyExists(err):
		t.count(&t.result.AlreadyExists)
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errNamespaceEnds
	default:
		t.failed(err, inplace.Ref{Namespace: pod.GetNamespace(), Name: pod.GetName()})
		refused := &CreateError{What: "pod", Namespace: pod.GetNamespace(), Name: pod.GetName(), Err: err}
		return errors.Join(refused, w.dropClaims(ctx, c, made, refused, t))
	}
}

// dropClaims deletes the claims that were made for a pod which is not to be, where each try would make other ones: after a
// clear refusal, and where a name was taken (no error). They have never had a pod. Of trouble on the way nothing is known.
func (w *Writer) dropClaims(ctx context.Context, c inplace.Create, made []inplace.Ref, err error, t *track) error {
	refused := (*CreateError)(nil)
	if errors.As(err, &refused) {
		if _, sure := refused.Refused(); !sure {
			return nil
		}
	}
	if !c.DropClaims || (err != nil && refused == nil) {
		return nil
	}
	return w.deleteClaims(ctx, made, t)
}

func gone(ref inplace.Ref) Written {
	return Written{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID, ResourceVersion: ref.ResourceVersion, Deleted: true}
}

func written(o client.Object) Written {
	return Written{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
}

// changed reports whether the answer means that the pod is not the version that was judged: another version (409), gone
// (404), or re-created under another UID (422 on metadata.uid). A 404 that is not about an object is about the path.
func changed(err error) bool {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return true
	}
	cause, ok := apierrors.StatusCause(err, metav1.CauseTypeFieldValueInvalid)
	return ok && apierrors.IsInvalid(err) && cause.Field == "metadata.uid"
}

// refusal reads the answer to a resize: how it was refused, if it was. Trouble on the way (429, 401, no answer, 5xx) is
// no refusal.
func refusal(err error) (message string, final, refused bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", false, false
	}
	message = status.Status().Message
	switch status.Status().Code {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "the API server does not serve pods/resize", true, true
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return without(message, " is invalid: "), true, true
	case http.StatusForbidden:
		message = without(message, " is forbidden: ")
		return message, slices.ContainsFunc(never(), func(words string) bool { return strings.Contains(message, words) }), true
	}
	return "", false, false
}

// never are words of a 403 that stands: an admission plugin found that the node can never hold the pod.
func never() []string {
	return []string{"allocatable", "didn't have enough", "QoS", "QOS"}
}

// without drops what names the object, and bounds the rest: a 422 may quote a whole spec.
func without(message, after string) string {
	const most = 512
	if _, rest, ok := strings.Cut(message, after); ok {
		message = rest
	}
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "..."
	}
	return message
}

package podwriter

import (
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/inplace"
)

// PatchError is a patch that failed.
type PatchError struct {
	// Patch is what was sent.
	Patch inplace.Patch
	Err   error
}

// Error names the pod and the step.
func (e *PatchError) Error() string {
	return fmt.Sprintf("patching pod %s/%s (%s): %v", e.Patch.Namespace, e.Patch.Name, e.Patch.Kind, e.Err)
}

// Unwrap is the answer.
func (e *PatchError) Unwrap() error {
	return e.Err
}

// CreateError is a pod or a claim that could not be created.
type CreateError struct {
	// What is "pod" or "claim".
	What            string
	Namespace, Name string
	Err             error
}

// Error names what could not be created.
func (e *CreateError) Error() string {
	return fmt.Sprintf("creating %s %s/%s: %v", e.What, e.Namespace, e.Name, e.Err)
}

// Unwrap is the answer.
func (e *CreateError) Unwrap() error {
	return e.Err
}

// Refused is the API server's message without the name of what it refused, equal for all that it refuses alike; ok is false
// when the answer is not a clear refusal (4xx but a conflict and 429) that another try would meet again.
func (e *CreateError) Refused() (message string, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(e.Err, &status) {
		return "", false
	}
	code := status.Status().Code
	if code < 400 || code >= 500 || apierrors.IsTooManyRequests(e.Err) || apierrors.IsConflict(e.Err) {
		return "", false
	}
	return without(without(status.Status().Message, " is forbidden: "), " is invalid: "), true
}

// ClaimError is a change of a claim that the API server did not take.
type ClaimError struct {
	// Patch is what was sent.
	Patch inplace.ClaimPatch
	Err   error
}

// Error names the claim.
func (e *ClaimError) Error() string {
	return fmt.Sprintf("changing claim %s/%s: %v", e.Patch.Namespace, e.Patch.Name, e.Err)
}

// Unwrap is the answer.
func (e *ClaimError) Unwrap() error {
	return e.Err
}

// Refused reports whether the answer is a clear refusal (400, 403, 422: a storage class that allows no expansion, a quota)
// that the same request would meet again at once.
func (e *ClaimError) Refused() bool {
	return apierrors.IsForbidden(e.Err) || apierrors.IsInvalid(e.Err) || apierrors.IsBadRequest(e.Err)
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

func (t *track) wroteClaim(counter *int, w Written) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*counter++
	t.result.Claims = append(t.result.Claims, w)
}

func (t *track) taken(claim client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.ClaimsTaken = append(t.result.ClaimsTaken, client.ObjectKeyFromObject(claim))
}

func (t *track) count(counter *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*counter++
}

// refused notes the answer to a resize if it is a refusal.
func (t *track) refused(p inplace.Patch, err error) bool {
	message, final, refused := refusal(err)
	if !refused {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Refused = append(t.result.Refused, Refusal{Patch: p, Message: message, Final: final})
	return true
}

// failed notes a write whose effect is not known: everything but a clear refusal (4xx).
func (t *track) failed(err error, ref inplace.Ref) {
	t.unsure(&t.result.Unsure, err, ref)
}

func (t *track) unsure(list *[]inplace.Ref, err error, ref inplace.Ref) {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	*list = append(*list, ref)
}

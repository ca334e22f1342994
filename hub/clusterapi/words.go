package clusterapi

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusal is an error whose words are for a status: they do not change from try to try.
type refusal string

func (r refusal) Error() string { return string(r) }

// failure is a step that failed.
type failure struct {
	doing string
	err   error
}

func (f *failure) Error() string { return f.doing + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func step(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{doing: doing, err: err}
}

// words puts an error into words for a status: what was being done, and why it failed, without addresses and times.
func words(err error) string {
	if said, ok := errors.AsType[refusal](err); ok {
		return string(said)
	}
	why := "it does not answer"
	switch {
	case apierrors.IsUnauthorized(err):
		why = "it refuses Cluster API's kubeconfig"
	case apierrors.IsForbidden(err):
		why = "Cluster API's kubeconfig may not do that"
	case apierrors.ReasonForError(err) != "":
		why = fmt.Sprintf("it answers %s", apierrors.ReasonForError(err))
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.doing + " failed: " + why
	}
	return why
}

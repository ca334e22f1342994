package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
)

// Explain adds the remedy to errors that a person can do something about.
func Explain(err error) error {
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%w\nthis cluster does not serve Underway's kinds: is --context the hub? `kubectl underway init` installs them", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w\nthe cluster does not know this user: look at --kubeconfig and --context", err)
	case clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("%w\nset KUBECONFIG or --kubeconfig to the hub's", err)
	}
	return err
}

// Args wraps a check of arguments so that its error shows how the verb is called.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return Usage(cmd, "%v", err)
		}
		return nil
	}
}

// Usage is an error of the call itself, with the line that shows how it is called.
func Usage(cmd *cobra.Command, format string, args ...any) error {
	return fmt.Errorf("%w\nusage: %s\nsee `%s --help`", fmt.Errorf(format, args...), cmd.UseLine(), cmd.CommandPath())
}

// ErrNotConfirmed says that a person was asked and did not say yes.
func ErrNotConfirmed() error { return errors.New("not confirmed: nothing was written") }

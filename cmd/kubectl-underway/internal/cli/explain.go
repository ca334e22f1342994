package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

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
	case clientcmd.IsEmptyConfig(err), errors.Is(err, errNoConfig):
		return fmt.Errorf("%w\nset KUBECONFIG or --kubeconfig to the hub's", err)
	case clientcmd.IsContextNotFound(err):
		return fmt.Errorf("%w\n`kubectl config get-contexts` lists those of a file", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w\nthis user may not do that there (`kubectl auth whoami`): init, join, unjoin and uninstall want an administrator", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w%s", err, missing(err))
	}
	return reached(err)
}

// errNoConfig is wrapped where neither a flag nor a file names a cluster: the client library would try localhost.
var errNoConfig = errors.New("there is no kubeconfig")

// missing says how to find what is there; nothing for kinds that a person does not name.
func missing(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	switch status.Status().Details.Kind {
	case "memberclusters":
		return "\n`kubectl underway get clusters` lists the members"
	case "uniteddeployments":
		return "\n`kubectl underway get ud -A` lists them; -n names the namespace"
	}
	return ""
}

// reached says what to look at where no API server has answered.
func reached(err error) error {
	var (
		proof *tls.CertificateVerificationError
		slow  net.Error
		dial  *net.OpError
	)
	switch {
	case errors.As(err, &proof):
		return fmt.Errorf("%w\nwhat answers there is not trusted by the kubeconfig: look at its server and certificate-authority-data", err)
	case errors.As(err, &slow) && slow.Timeout():
		return fmt.Errorf("%w\nthe server did not answer in time: is it the right one (--kubeconfig, --context), and reachable from here?", err)
	case errors.As(err, &dial):
		return fmt.Errorf("%w\nthe server cannot be reached: is it the right one (--kubeconfig, --context), and does it run?", err)
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

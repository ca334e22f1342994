package clusters

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// longest is how many bytes of what a member says of itself are kept: it is repeated in the statuses of others.
const longest = 253

// told is a member's text as it is kept: cut, and valid in any status.
func told(text string) string {
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return strings.ToValidUTF8(text, "")
}

// untrusted is true where the server that answers is not proven to be the member, by our own look at its certificate.
func untrusted(err error) bool {
	var proof *tls.CertificateVerificationError
	return errors.As(err, &proof)
}

// words says why a member does not answer in words that do not change from try to try: without ports, times and
// addresses of resolvers. They are compared to find out whether anything changed.
func words(err error) string { return told(wordsOf(err)) }

func wordsOf(err error) string {
	var (
		status  apierrors.APIStatus
		dns     *net.DNSError
		expired x509.CertificateInvalidError
		errno   syscall.Errno
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &status):
		return status.Status().Message
	case errors.As(err, &dns):
		return "its name is not found: " + dns.Name
	case errors.As(err, &expired) && expired.Reason == x509.Expired:
		// The text holds the present time.
		return "its certificate has expired or is not yet valid"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, errSlow), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), timedOut(err):
		return "no answer in time"
	case errors.Is(err, errLarge):
		return errLarge.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "the connection was closed"
	}
	return innermost(err).Error()
}

func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// innermost is the cause at the end of the chain.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

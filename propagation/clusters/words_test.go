package clusters

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestWordsDoNotChangeFromTryToTry: what differs from try to try would wake every object of every dead member at each of
// its tries.
func TestWordsDoNotChangeFromTryToTry(t *testing.T) {
	t.Parallel()
	through := func(port int, err error) error {
		return fmt.Errorf("asking /readyz: %w", &url.Error{Op: "Get", URL: "https://203.0.113.1:6443/readyz", Err: &net.OpError{
			Op: "read", Net: "tcp", Err: err, Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: port},
		}})
	}
	for name, tc := range map[string]struct {
		err  func(try int) error
		want string
	}{
		"a closed port": {func(try int) error { return through(try, syscall.ECONNREFUSED) }, "connection refused"},
		"a reset":       {func(try int) error { return through(try, syscall.ECONNRESET) }, "connection reset by peer"},
		"no name": {func(try int) error {
			return through(try, &net.DNSError{Name: "a.example", Server: fmt.Sprintf("10.0.0.%d:53", try), Err: "no such host"})
		}, "its name is not found: a.example"},
		"a black hole":        {func(try int) error { return through(try, context.DeadlineExceeded) }, "no answer in time"},
		"a frozen API server": {func(try int) error { return through(try, errSlow) }, "no answer in time"},
		"hung up":             {func(try int) error { return through(try, io.EOF) }, "the connection was closed"},
		"an expired certificate": {func(int) error {
			return through(1, x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time is after"})
		}, "its certificate has expired or is not yet valid"},
		"the API server's own words": {func(int) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "kube-system", errors.New("no"))
		}, `namespaces "kube-system" is forbidden: no`},
		"anything else": {func(try int) error { return through(try, errors.New("tls: bad record")) }, "tls: bad record"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := words(tc.err(1)), words(tc.err(2))
			if first != second || !strings.Contains(first, tc.want) {
				t.Errorf("got %q and %q, want %q", first, second, tc.want)
			}
		})
	}
	if words(nil) != "" {
		t.Error("no error has words")
	}
}

package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestErrorsSayWhatToDo: each kind of failure has its remedy, and the error itself stays to be read.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	of := func(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }
	through := func(err error) error {
		return fmt.Errorf("reading: %w", &url.Error{Op: "Get", URL: "https://x/api", Err: err})
	}
	for name, tc := range map[string]struct {
		err  error
		says string
	}{
		"no kubeconfig":         {fmt.Errorf("no cluster to talk to: %w", errNoConfig), "set KUBECONFIG"},
		"an unknown member":     {apierrors.NewNotFound(of("memberclusters"), "eu-9"), "get clusters"},
		"an unknown object":     {apierrors.NewNotFound(of("uniteddeployments"), "web"), "get ud -A"},
		"no permission":         {apierrors.NewForbidden(of("memberclusters"), "eu-1", errors.New("no")), "administrator"},
		"an expired token":      {apierrors.NewUnauthorized("expired"), "does not know this user"},
		"nobody listens":        {through(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), "cannot be reached"},
		"no such host":          {through(&net.OpError{Op: "dial", Err: &net.DNSError{Name: "x", IsNotFound: true}}), "cannot be reached"},
		"no answer":             {through(context.DeadlineExceeded), "did not answer in time"},
		"another's certificate": {through(&tls.CertificateVerificationError{Err: errors.New("unknown authority")}), "is not trusted"},
		"anything else":         {errors.New("strange"), "strange"},
	} {
		got := Explain(tc.err)
		if !strings.Contains(got.Error(), tc.says) || !errors.Is(got, tc.err) || !strings.HasPrefix(got.Error(), tc.err.Error()) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWithoutAFileNobodyIsAsked: the client library would try localhost.
func TestWithoutAFileNobodyIsAsked(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	flags := genericclioptions.NewConfigFlags(true)
	if _, err := configOf(flags); !errors.Is(err, errNoConfig) {
		t.Errorf("got %v", err)
	}
	server := "https://hub.example:6443"
	flags = genericclioptions.NewConfigFlags(true)
	flags.APIServer = &server
	if cfg, err := configOf(flags); err != nil || cfg.Host != server {
		t.Errorf("with --server: %v", err)
	}
}

// TestAServerThatNeverAnswersIsGivenUp, also in the middle of an answer; a watch goes on.
func TestAServerThatNeverAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("a"))
		w.(http.Flusher).Flush()
		select {
		case <-req.Context().Done():
		case <-time.After(500 * time.Millisecond):
			_, _ = w.Write([]byte("b"))
		}
	}))
	t.Cleanup(server.Close)
	c := &http.Client{Transport: &patient{next: http.DefaultTransport, limit: 50 * time.Millisecond}}
	read := func(query string) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+query, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		raw := make([]byte, 8)
		var out string
		for {
			n, err := resp.Body.Read(raw)
			out += string(raw[:n])
			if err != nil {
				if out == "ab" {
					return out, nil
				}
				return out, err
			}
		}
	}
	if got, err := read("/"); err == nil || got == "ab" {
		t.Errorf("it read %q: %v", got, err)
	}
	if got, err := read("/?watch=true"); err != nil || got != "ab" {
		t.Errorf("a watch read %q: %v", got, err)
	}
}

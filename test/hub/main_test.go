//go:build lab

package hub

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/underway-dev/underway/test/lab"
)

// binaries is where the product was built.
var binaries string

func TestMain(m *testing.M) {
	flag.Parse()
	// Parts of a test wait for each other's faults; they do not compute.
	_ = flag.Set("test.parallel", "16")
	ctrl.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "underway-hub-test-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		binaries, err = lab.Product(ctx, dir, "underway-hub", "underway-member", "kubectl-underway")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// long skips what takes minutes.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("LONG") == "" {
		t.Skip("takes minutes; LONG=1 runs it, and make test-long")
	}
}

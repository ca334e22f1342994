//go:build lab

package hub

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
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
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", dir+string(filepath.Separator),
			"./cmd/underway-hub", "./cmd/underway-member", "./cmd/kubectl-underway")
		cmd.Dir = "../.."
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("building: %w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binaries = dir
	return m.Run()
}

// long skips what takes minutes.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("LONG") == "" {
		t.Skip("takes minutes; LONG=1 runs it, and make test-long")
	}
}

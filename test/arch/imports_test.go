// Package arch proves the import rules on the whole graph, not only on direct imports.
package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/underway-dev/underway/"

// pure lists every package without client, clock or logger. A package that is gone makes `go list` fail, so the test
// cannot go quiet; TestPureListIsComplete catches one that is new.
func pure() []string {
	return []string{
		"inplace", "inplace/revision", "inplace/imagediff", "inplace/partition", "inplace/podview", "inplace/order",
		"inplace/step", "inplace/plan", "inplace/hooks", "inplace/claims", "inplace/podseed", "inplace/crowd", "inplace/defaults", "inplace/recorder", "member/cloneset/plan", "member/statefulset/plan",
		"hub/check", "hub/clusterapi/plan", "hub/subset", "hub/travel/plan", "hub/united/plan", "hub/screen",
		"propagation/render", "propagation/changeset", "propagation/content", "propagation/feedback",
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	client := []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"}
	cases := map[string]struct {
		roots  []string
		forbid []string
	}{
		"pure packages reach no client": {
			roots:  pure(),
			forbid: client,
		},
		"API types reach no client": {
			roots:  []string{"apis/fleet/v1alpha1", "apis/apps/v1alpha1", "apis/apps/v1beta1"},
			forbid: client,
		},
		"the hub binary links no member code": {
			roots:  []string{"cmd/underway-hub"},
			forbid: []string{module + "member", module + "inplace/podwriter"},
		},
		"the member binary links no hub code": {
			roots:  []string{"cmd/underway-member"},
			forbid: []string{module + "hub", module + "propagation", module + "apis/fleet"},
		},
		"propagation does not understand rollouts": {
			roots:  []string{"propagation/clusters", "propagation/outbox", "propagation/push"},
			forbid: []string{module + "inplace", module + "hub", module + "member"},
		},
		"the lab knows nothing of the product": {
			roots:  []string{"test/lab"},
			forbid: []string{module + "hub", module + "member", module + "propagation", module + "inplace", module + "apis", "sigs.k8s.io/controller-runtime"},
		},
		"binaries link no test code": {
			roots:  []string{"cmd/underway-hub", "cmd/underway-member", "cmd/kubectl-underway"},
			forbid: []string{module + "test"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"list", "-deps"}
			for _, r := range tc.roots {
				args = append(args, module+r)
			}
			out, err := exec.CommandContext(t.Context(), "go", args...).Output()
			if err != nil {
				t.Fatalf("go %v: %v", args, err)
			}
			for dep := range strings.Lines(string(out)) {
				dep = strings.TrimSpace(dep)
				for _, f := range tc.forbid {
					if dep == f || strings.HasPrefix(dep, f+"/") {
						t.Errorf("%v reaches %s", tc.roots, dep)
					}
				}
			}
		})
	}
}

// TestPureListIsComplete fails when a package that must be pure by its place is not listed above.
func TestPureListIsComplete(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"inplace/*", "hub/*/plan", "hub/*/wave", "member/*/plan"} {
		dirs, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			name, err := filepath.Rel(root, dir)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(dir)
			if err != nil || !info.IsDir() || name == "inplace/podwriter" || filepath.Base(dir) == "testdata" || !hasGo(dir) {
				continue
			}
			if !slices.Contains(pure(), filepath.ToSlash(name)) {
				t.Errorf("%s is a pure package by its place and is missing from pure() and perhaps from .golangci.yml", name)
			}
		}
	}
}

func hasGo(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	return err == nil && len(files) > 0
}

// TestFilesHaveAPlace fails when a folder appears at the top that the layout does not name.
func TestFilesHaveAPlace(t *testing.T) {
	t.Parallel()
	allowed := []string{"cmd", "apis", "hub", "member", "propagation", "inplace", "config", "test", "docs", "bin", "out"}
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(allowed, e.Name()) {
			t.Errorf("folder %s at the top is not part of the layout %v", e.Name(), allowed)
		}
	}
}

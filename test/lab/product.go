package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ProductVariable names the folder that holds the product's programs. Where it is
// set, tests use what is there: make test-lab builds them once for all suites.
const ProductVariable = "UNDERWAY_PRODUCT"

// Product returns a folder with these programs of the product (folders of cmd/),
// and builds them into dir unless [ProductVariable] says where they are. The
// working directory is inside the module.
func Product(ctx context.Context, dir string, programs ...string) (string, error) {
	if built := os.Getenv(ProductVariable); built != "" {
		return built, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	args := []string{"build", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the product: %w\n%s", err, out)
	}
	return dir, nil
}

// moduleRoot is the first folder from the working directory upwards with a cmd
// and a go.mod.
func moduleRoot() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		_, noModule := os.Stat(filepath.Join(dir, "go.mod"))
		_, noCommand := os.Stat(filepath.Join(dir, "cmd"))
		if errors.Join(noModule, noCommand) == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is in no module with a cmd folder", wd)
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/underway-dev/underway/test/lab"
)

// build builds Underway's three binaries into bin/ and what the lab starts into its cache.
func (d *demo) build(ctx context.Context) error {
	defer d.chapter("build", "build")()
	// What an earlier demo proved is not this one's.
	if err := os.Remove(d.jsonPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names := []string{"underway-hub", "underway-member", "kubectl-underway"}
	for i, name := range names {
		what := fmt.Sprintf("building %s (%d of %d)", name, i+1, len(names))
		if err := d.patiently(what, func() error { return d.compile(ctx, name) }); err != nil {
			return err
		}
	}
	return lab.Build(ctx, filepath.Join(d.opts.root, "test", "lab", "binaries"), false, d.out)
}

func (d *demo) binary(name string) string { return filepath.Join(d.opts.root, "bin", name) }

// compile builds without -trimpath, unlike `make build`: that would build every dependency a second time.
func (d *demo) compile(ctx context.Context, name string) error {
	flags := "-X github.com/underway-dev/underway/cmd/internal/boot.version=" + d.version(ctx)
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", flags, "-o", d.binary(name), "./cmd/"+name)
	cmd.Dir = d.opts.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return nil
}

// version is what git says of the tree, as in the Makefile.
func (d *demo) version(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty")
	cmd.Dir = d.opts.root
	out, err := cmd.Output()
	if err != nil {
		return "dev"
	}
	return strings.TrimSpace(string(out))
}

// patiently says what it does, and every ten seconds that it still does.
func (d *demo) patiently(what string, do func() error) error {
	began := time.Now()
	d.say("%s", what)
	done := make(chan error, 1)
	go func() { done <- do() }()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			d.say("%s ... %ds", what, int(time.Since(began).Seconds()))
		}
	}
}

// tail is the end of a file, for people who want to know what went wrong.
func tail(path string, lines int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}

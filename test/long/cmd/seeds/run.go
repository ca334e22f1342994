package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// sliceTimeout is for a story that never ends, and for machines that are twenty times as busy as they should be.
	sliceTimeout = 20 * time.Minute
	// tell how far it is so often.
	tellEvery = 30 * time.Second
)

// runner tells all stories.
type runner struct {
	out   io.Writer
	list  []*tally
	procs int
	limit time.Duration
	began time.Time
	root  string
	bin   string

	mu sync.Mutex
}

func (r *runner) say(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format+"\n", args...) }

// run tells the stories of each suite from when its tests are built, and says what came of them; it is an error when one failed.
func (r *runner) run(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("go list -m: %w", err)
	}
	r.root = strings.TrimSpace(string(out))
	if r.bin != "" {
		if r.bin, err = filepath.Abs(r.bin); err != nil {
			return err
		}
		return r.tellAll(ctx, r.build)
	}
	if r.bin, err = os.MkdirTemp("", "seeds-"); err != nil {
		return err
	}
	return errors.Join(r.tellAll(ctx, r.build), os.RemoveAll(r.bin))
}

func (r *runner) tellAll(ctx context.Context, build func(context.Context, suite) error) error {
	r.began = time.Now()
	ticking, stop := context.WithCancel(ctx)
	var ticker, workers sync.WaitGroup
	ticker.Go(func() { r.tick(ticking) })
	workers.Go(func() { r.buildAll(ctx, build) })
	for range r.procs {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
	stop()
	ticker.Wait()
	return r.finish(ctx)
}

// buildAll builds the tests of one suite after the other. One that cannot be built has failed, and the others are told.
func (r *runner) buildAll(ctx context.Context, build func(context.Context, suite) error) {
	for _, t := range r.list {
		err := build(ctx, t.suite)
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		t.state = built
		if err != nil {
			t.state, t.left = spoilt, nil
			t.failures = append(t.failures, failure{again: "go test -c -o /dev/null ./" + t.pkg, output: err.Error()})
			r.say("\nFAILED: %v\n", err)
		}
		r.mu.Unlock()
	}
}

// build makes the test binary of a suite, unless another suite has the same.
func (r *runner) build(ctx context.Context, s suite) error {
	to := r.binary(s)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", to, "./"+s.pkg)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the tests of %s: %w\n%s", s.pkg, err, out)
	}
	return nil
}

func (r *runner) binary(s suite) string {
	return filepath.Join(r.bin, strings.ReplaceAll(s.pkg, "/", "-")+".test")
}

// work takes slices until there are none, or the time is over.
func (r *runner) work(ctx context.Context) {
	for ctx.Err() == nil && (r.limit == 0 || time.Since(r.began) < r.limit) {
		r.mu.Lock()
		t, wait := next(r.list)
		if t == nil {
			r.mu.Unlock()
			if !wait {
				return
			}
			time.Sleep(100 * time.Millisecond)
			continue
		}
		at := t.take()
		r.mu.Unlock()
		got := r.tell(ctx, t.suite, at)
		if ctx.Err() != nil {
			return // it was ended, and says nothing
		}
		r.mu.Lock()
		t.done(got)
		if got.failed {
			f := t.failures[len(t.failures)-1]
			r.say("\nFAILED: %s\n%s\n", f.again, tail(f.output, 60))
		}
		r.mu.Unlock()
	}
}

// tell runs one slice.
func (r *runner) tell(ctx context.Context, s suite, at span) result {
	began := time.Now()
	cmd := exec.CommandContext(ctx, r.binary(s), s.args(at, sliceTimeout)...)
	cmd.Dir, cmd.Env = filepath.Join(r.root, s.pkg), append(os.Environ(), s.env(at)...)
	raw, err := cmd.CombinedOutput()
	got := judge(s, at, string(raw), err)
	got.took = time.Since(began)
	if p := cmd.ProcessState; p != nil {
		got.cpu = p.UserTime() + p.SystemTime()
	}
	return got
}

// judge reads what a test binary said. One that found no test has proven nothing.
func judge(s suite, at span, output string, err error) result {
	out := result{at: at, output: output, failed: err != nil}
	if strings.Contains(output, "no tests to run") {
		out.failed, out.output = true, "no test of that name: "+output
	}
	if out.failed {
		out.seed, out.said = s.culprit(output)
	}
	return out
}

// tick says how far it is, now and then.
func (r *runner) tick(ctx context.Context) {
	every := time.NewTicker(tellEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			r.mu.Lock()
			r.say("%s", r.progress())
			r.mu.Unlock()
		}
	}
}

// progress is one line: what is told, what has come the least far, and how long the rest takes.
func (r *runner) progress() string {
	told, want, failed := uint64(0), uint64(0), 0
	for _, t := range r.list {
		told, want, failed = told+t.told, want+t.want, failed+len(t.failures)
	}
	line := fmt.Sprintf("%s: %d of %d stories told, %d failed", time.Since(r.began).Round(time.Second), told, want, failed)
	if d, known := remaining(r.list); known {
		line += fmt.Sprintf("; the rest takes about %s", (d / time.Duration(r.procs)).Round(time.Minute))
	}
	if r.limit > 0 {
		line += fmt.Sprintf(", and ends after %s", r.limit)
	}
	return line
}

// finish writes the table to out/seeds.md, too.
func (r *runner) finish(ctx context.Context) error {
	r.say("\n%s", r.progress())
	text := table(r.list)
	r.say("\n%s", text)
	failed := 0
	for _, t := range r.list {
		for _, f := range t.failures {
			failed++
			r.say("failed: %s", f.again)
			text += "\nfailed: " + f.again + "\n"
		}
	}
	dir := filepath.Join(r.root, "out")
	err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "seeds.md"), []byte(text), 0o600))
	switch {
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("%d stories failed", failed)
	case ctx.Err() != nil:
		return errors.New("interrupted; what was told until then went well")
	}
	return nil
}

// tail is the end of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}

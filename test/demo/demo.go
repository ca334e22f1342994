package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/test/lab"
)

// What app.yaml declares, and the images the release goes between.
const (
	namespace = "shop"
	workload  = "web"
	changed   = "app"
	oldImage  = "app:v1"
	newImage  = "app:v2"
)

// member is one member cluster.
type member struct {
	name     string
	replicas int
	client   client.Client
}

// demo is one run.
type demo struct {
	opts    options
	out     io.Writer
	began   time.Time
	names   []string
	counts  []int
	steps   []step
	fleet   *lab.Fleet
	hub     client.Client
	members []*member
	live    *screenOf
	// marks are the ends of the audit logs before the release, by cluster.
	marks  map[string]lab.Mark
	report *report
}

func newDemo(opts options, out io.Writer) *demo {
	d := &demo{opts: opts, out: out, began: time.Now(), names: memberNames(opts.members), counts: share(opts.pods, opts.members)}
	d.steps = steps(d.names, d.counts)
	d.report = newReport(d)
	return d
}

func (d *demo) say(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format+"\n", args...) }

// chapter is a titled part of the demo whose duration is reported by the key.
func (d *demo) chapter(key, title string) (done func()) {
	began := time.Now()
	d.say("\n== %s", title)
	return func() { d.report.Chapters[key] = seconds(time.Since(began)) }
}

// play is the whole demo, but for the taking down.
func (d *demo) play(ctx context.Context) error {
	for _, part := range []func(context.Context) error{d.build, d.start, d.install, d.apply, d.release, d.prove} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// end takes everything down, unless the fleet is to be kept and the demo went well; logs of a demo that did not are kept.
func (d *demo) end(failed error) error {
	if d.fleet == nil {
		return nil
	}
	if failed == nil && d.opts.keep {
		d.invite()
		return nil
	}
	var kept error
	if failed != nil && !errors.Is(failed, context.Canceled) {
		kept = d.keepLogs()
	}
	d.say("\ntaking everything down")
	return errors.Join(kept, d.fleet.Stop())
}

// keepLogs copies the logs of hub and agents to out/demo-logs.
func (d *demo) keepLogs() error {
	to := filepath.Join(d.opts.root, "out", "demo-logs")
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	for _, p := range d.fleet.Processes() {
		raw, err := os.ReadFile(p.Log())
		if err != nil {
			return err
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, p.Name()+".log"), raw, 0o600); err != nil {
			return err
		}
	}
	d.say("logs of hub and agents are in out/demo-logs")
	return nil
}

// alive is an error when the hub or an agent has ended.
func (d *demo) alive() error {
	for _, p := range d.fleet.Processes() {
		if !p.Alive() {
			return fmt.Errorf("%s has ended; its log ends with:\n%s", p.Name(), tail(p.Log(), 15))
		}
	}
	return nil
}

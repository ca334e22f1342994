package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// report is out/demo.json. Every count of pods in it is measured in the members.
type report struct {
	Members     int      `json:"members"`
	MemberNames []string `json:"memberNames"`
	proof
	Steps []stepReport `json:"steps"`
	// Held is what was seen with the image changed and nothing granted.
	Held      *stepReport        `json:"held,omitempty"`
	Requests  *requestReport     `json:"requests,omitempty"`
	Versions  versions           `json:"versions"`
	StartedAt time.Time          `json:"startedAt"`
	Seconds   float64            `json:"seconds"`
	Chapters  map[string]float64 `json:"secondsByChapter"`

	before sight
}

type versions struct {
	Underway   string `json:"underway"`
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
}

type stepReport struct {
	Name string `json:"name"`
	// Granted and Updated are sums over the members; updated pods run the new image and are ready.
	Granted   int                   `json:"granted"`
	Updated   int                   `json:"updated"`
	PerMember map[string]memberStep `json:"perMember"`
	Seconds   float64               `json:"seconds"`
}

type memberStep struct {
	Pods    int `json:"pods"`
	Granted int `json:"granted"`
	Updated int `json:"updated"`
	Ready   int `json:"ready"`
}

func newReport(d *demo) *report {
	return &report{
		Members: len(d.names), MemberNames: d.names, StartedAt: d.began.UTC().Truncate(time.Second),
		Versions: versions{Go: runtime.Version()}, Chapters: map[string]float64{},
	}
}

func seconds(took time.Duration) float64 {
	return float64(took.Round(10*time.Millisecond)) / float64(time.Second)
}

func (r *report) step(d *demo, s step, now sight, took time.Duration) {
	out := stepReport{Name: s.name, Granted: sum(s.granted), PerMember: map[string]memberStep{}, Seconds: seconds(took)}
	for _, m := range d.members {
		one := memberStep{
			Pods: len(now.of(m.name)), Granted: s.granted[m.name],
			Updated: now.count(m.name, func(p pod) bool { return p.runs(newImage) }),
			Ready:   now.count(m.name, func(p pod) bool { return p.ready && !p.going }),
		}
		out.Updated += one.Updated
		out.PerMember[m.name] = one
	}
	if out.Granted == 0 {
		r.Held = &out
		return
	}
	r.Steps = append(r.Steps, out)
}

// last is the last step in words.
func (r *report) last() string {
	s := r.Held
	if n := len(r.Steps); n > 0 {
		s = &r.Steps[n-1]
	}
	return fmt.Sprintf("%d granted, %d updated, no other pod changed, after %.1fs", s.Granted, s.Updated, s.Seconds)
}

// prove compares all pods with those before the release, prints the table and writes out/demo.json.
func (d *demo) prove(ctx context.Context) error {
	after, err := look(ctx, d.members, true)
	if err != nil {
		return err
	}
	result, wrong := compare(d.report.before, after, newImage)
	d.report.proof = result
	uncounted := d.count(ctx) // the proof is worth its table, whatever became of the audit logs
	d.report.Versions.Underway = d.version(ctx)
	d.report.Seconds = seconds(time.Since(d.began))
	if err := errors.Join(d.table(after), d.write()); err != nil {
		return err
	}
	if wrong != nil {
		return fmt.Errorf("the proof does not hold: %w", wrong)
	}
	if n := d.opts.pods; result != proven(n) {
		return fmt.Errorf("the proof does not hold: got %+v, want %+v", result, proven(n))
	}
	if uncounted != nil {
		return fmt.Errorf("proven, but the requests are not counted: %w", uncounted)
	}
	d.say("\nproven: %d of %d pods updated in place, nothing recreated", result.UpdatedInPlace, d.opts.pods)
	d.say("total %.1fs, of which the release %.1fs; the numbers are in out/demo.json", d.report.Seconds, d.moving())
	return nil
}

// proven is the only result that is right.
func proven(pods int) proof {
	return proof{
		Pods: pods, UpdatedInPlace: pods, PodsWithSameUID: pods, PodsWithSameIP: pods, PodsOnSameNode: pods, ContainersRestartedOnce: pods,
	}
}

func (d *demo) moving() float64 {
	total := 0.0
	for _, s := range d.report.Steps {
		total += s.Seconds
	}
	return total
}

func (d *demo) table(after sight) error {
	d.say("\n== proof, counted from the pods in the members")
	w := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
	var lines strings.Builder
	lines.WriteString("MEMBER\tPODS\tIN PLACE\tRECREATED\tSAME UID\tSAME IP\tRESTARTED ONCE\tOTHER RESTARTS\n")
	row := func(name string, p proof) {
		fmt.Fprintf(&lines, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", name, p.Pods, p.UpdatedInPlace, p.Recreated,
			p.PodsWithSameUID, p.PodsWithSameIP, p.ContainersRestartedOnce, p.OtherContainersRestarted)
	}
	for _, m := range d.members {
		p, _ := compare(one(d.report.before, m.name), one(after, m.name), newImage)
		row(m.name, p)
	}
	row("all", d.report.proof)
	lines.WriteString("\nSTEP\tGRANTED\tUPDATED\tSECONDS\n")
	for _, s := range append([]stepReport{*d.report.Held}, d.report.Steps...) {
		fmt.Fprintf(&lines, "%s\t%d\t%d\t%.1f\n", s.Name, s.Granted, s.Updated, s.Seconds)
	}
	if _, err := w.Write([]byte(lines.String())); err != nil {
		return err
	}
	if err := w.Flush(); err != nil || d.report.Requests == nil {
		return err
	}
	d.say("\nrequests during the release")
	for _, line := range d.report.Requests.lines() {
		d.say("%s", line)
	}
	return nil
}

// one is the sight of one member.
func one(all sight, member string) sight {
	out := sight{}
	for key, p := range all {
		if p.member == member {
			out[key] = p
		}
	}
	return out
}

func (d *demo) jsonPath() string { return filepath.Join(d.opts.root, "out", "demo.json") }

func (d *demo) write() error {
	if err := os.MkdirAll(filepath.Dir(d.jsonPath()), 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(d.report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(d.jsonPath(), append(raw, '\n'), 0o600)
}

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Judge sums the results of a revision up; results of other revisions do not count. No result at all is nothing known:
// Wait is then HoldFor, and the caller, who knows since when, decides.
func Judge(revision string, results []Result, now time.Time) Verdict {
	j := judge{refusals: map[string][]string{}, now: now}
	for i := range results {
		if results[i].Revision == revision {
			j.mine = append(j.mine, &results[i])
		}
	}
	if len(j.mine) == 0 {
		j.out.Wait = HoldFor
	}
	for _, r := range j.mine {
		j.result(r)
	}
	for _, text := range slices.Sorted(maps.Keys(j.refusals)) {
		if by := slices.Compact(j.refusals[text]); by[0] != "" {
			text += " (Kubernetes " + strings.Join(by, ", ") + ")"
		}
		j.out.Invalid = append(j.out.Invalid, text)
	}
	slices.Sort(j.out.Warnings)
	j.out.Warnings = slices.Compact(j.out.Warnings)
	return j.out
}

type judge struct {
	mine []*Result
	now  time.Time
	out  Verdict
	// refusals by text, with the versions that say so.
	refusals map[string][]string
}

func (j *judge) result(r *Result) {
	switch {
	case r.Invalid != "":
		text := r.Invalid
		if slices.ContainsFunc(j.mine, func(other *Result) bool { return other.Subset != r.Subset }) {
			text = "subset " + r.Subset + ": " + text // templates differ by subset, so one of them may be the cause
		}
		j.refusals[text] = append(j.refusals[text], r.Version)
	case r.Unknown:
		j.unknown(r)
	case len(r.Dropped) > 0:
		j.out.Warnings = append(j.out.Warnings, fmt.Sprintf("Kubernetes %s does not keep %s: it is without effect on members of that version",
			r.Version, strings.Join(r.Dropped, ", ")))
	}
}

func (j *judge) unknown(r *Result) {
	if left := r.Since.Add(HoldFor).Sub(j.now); left > 0 && !r.Settled {
		j.out.Wait = max(j.out.Wait, left)
	}
	if r.Why == "" {
		return
	}
	about := "no member's version is known"
	if r.Version != "" {
		about = "Kubernetes " + r.Version
	}
	j.out.Warnings = append(j.out.Warnings, fmt.Sprintf("the template could not be looked at beforehand (%s): %s", about, r.Why))
}

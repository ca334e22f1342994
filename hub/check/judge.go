package check

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Judge sums the results of a revision up; results of other revisions do not count. No result at all is nothing known:
// Wait is then HoldFor, and the caller, who knows since when, decides.
func Judge(revision string, results []Result, now time.Time) Verdict {
	var out Verdict
	known := false
	for i := range results {
		r := &results[i]
		if r.Revision != revision {
			continue
		}
		known = true
		switch {
		case r.Invalid != "":
			out.Invalid = append(out.Invalid, r.Invalid)
		case r.Unknown:
			out.unknown(r, now)
		case len(r.Dropped) > 0:
			out.Warnings = append(out.Warnings, fmt.Sprintf("Kubernetes %s does not keep %s: it is without effect on members of that version",
				r.Version, strings.Join(r.Dropped, ", ")))
		}
	}
	if !known {
		out.Wait = HoldFor
	}
	slices.Sort(out.Invalid)
	out.Invalid = slices.Compact(out.Invalid)
	slices.Sort(out.Warnings)
	out.Warnings = slices.Compact(out.Warnings)
	return out
}

func (v *Verdict) unknown(r *Result, now time.Time) {
	if left := r.Since.Add(HoldFor).Sub(now); left > 0 && !r.Settled {
		v.Wait = max(v.Wait, left)
	}
	if r.Why == "" {
		return
	}
	about := "no member's version is known"
	if r.Version != "" {
		about = "Kubernetes " + r.Version
	}
	v.Warnings = append(v.Warnings, fmt.Sprintf("the template could not be looked at beforehand (%s): %s", about, r.Why))
}

package install

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
)

// FieldManager owns what this package writes.
const FieldManager = "underway-install"

// Action is what a step did.
type Action string

// Values of Action.
const (
	// Created: it was not there.
	Created Action = "created"
	// Updated: it was ours and differed.
	Updated Action = "updated"
	// Unchanged: it is as it should be.
	Unchanged Action = "unchanged"
	// Kept: it is ours and differs, and nobody asked for an upgrade.
	Kept Action = "kept"
	// Refused: it belongs to somebody else and was not touched.
	Refused Action = "refused"
	// Removed: it was ours.
	Removed Action = "removed"
	// Orphaned: it stays, marked as let go.
	Orphaned Action = "orphaned"
	// Missing: something that a person must make is not there.
	Missing Action = "missing"
	// Checked: something was proven.
	Checked Action = "checked"
	// Waiting: something that is waited for, and what moves it.
	Waiting Action = "waiting"
	// Warning: something a person should know.
	Warning Action = "warning"
)

// Step is one thing that was done or seen.
type Step struct {
	// Where is "hub" or the member's name.
	Where string
	// Action is what was done; in a dry run, what would be.
	Action Action
	// Object is "<kind>/<name>", or what was looked at.
	Object string
	// Note says why, and what to do about it; may be empty.
	Note string
}

// String is one line.
func (s Step) String() string {
	text := fmt.Sprintf("%-10s %-9s %s", s.Where, s.Action, s.Object)
	if s.Note != "" {
		text += ": " + s.Note
	}
	return text
}

// Options are what every installation shares.
type Options struct {
	// DryRun reports what would be done and writes nothing.
	DryRun bool
	// Upgrade changes CRDs and agents of ours that differ from this build's.
	Upgrade bool
	// Report is told every step as it happens, and every 10 s what is waited for; may be nil.
	Report func(Step)
	// Clock tells how long something is waited for. Default the real one.
	Clock clock.PassiveClock
}

func (o Options) now() time.Time {
	if o.Clock == nil {
		return clock.RealClock{}.Now()
	}
	return o.Clock.Now()
}

// nameOf is "kind/name" or "kind/namespace/name".
func nameOf(u *unstructured.Unstructured) string {
	if u.GetNamespace() == metav1.NamespaceNone {
		return u.GetKind() + "/" + u.GetName()
	}
	return u.GetKind() + "/" + u.GetNamespace() + "/" + u.GetName()
}

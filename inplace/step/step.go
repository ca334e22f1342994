package step

import (
	"time"

	"github.com/underway-dev/underway/inplace"
)

// Update is where one pod should go.
type Update struct {
	// To is the revision to move to. A To equal to the pod's own revision means: stay, finish what is under way.
	To inplace.Revision
	// Change is what differs between the pod's revision and To. Ignored when staying.
	Change inplace.Change
	// Grace is how long a drained pod waits before it is patched.
	Grace time.Duration
	// Undrained allows a pod without the gate to be patched while it serves.
	Undrained bool
}

// Outcome is what to do with the pod now. At most one of Patch and Recreate is set; with neither the pod waits, or is
// where it should be.
type Outcome struct {
	// Patch is the one write that is due.
	Patch *inplace.Patch
	// Recreate is set when the pod cannot be updated in place; Because says why.
	Recreate bool
	// Wait says what the pod waits for; empty when it waits for nothing.
	Wait inplace.HoldKind
	// Because is one sentence about the patch, the recreate or the wait.
	Because string
	// Problem is set when a wait has lasted so long that it is to be reported.
	Problem string
	// LookAgainIn is when time alone changes the answer; 0: never.
	LookAgainIn time.Duration
}

// Next decides on one pod.
func Next(p inplace.Pod, u Update, now time.Time) Outcome {
	_, _, _ = p, u, now
	return Outcome{}
}

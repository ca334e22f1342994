package step

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

const (
	// endpointsWait is how long a drained pod waits for EndpointSlices that go on naming it ready.
	endpointsWait = 30 * time.Second
	// retryResize is how long after a refusal that may pass a resize is tried again; that time doubles with each refusal,
	// up to retryResizeMost.
	retryResize     = time.Minute
	retryResizeMost = 30 * time.Minute
)

// Update is where one pod should go.
type Update struct {
	// To is the revision to move to. A To without a name, or equal to the pod's own revision, means: stay, and finish
	// what is under way.
	To inplace.Revision
	// Change is what differs between the pod's revision and To. Ignored when staying.
	Change inplace.Change
	// Grace is how long a drained pod waits before it is patched.
	Grace time.Duration
	// Undrained allows a pod without the gate to be patched while it serves.
	Undrained bool
	// Lifecycle are the hooks that may hold the pod; nil: none.
	Lifecycle *appsv1alpha1.Lifecycle
	// HooksUnread is set when it is not known which hooks there are: no state of a hook is written then.
	HooksUnread bool
}

// Outcome is what to do with the pod now. Without a Patch the pod waits, or is where it should be.
type Outcome struct {
	// Patch is the one write that is due.
	Patch *inplace.Patch
	// Obstacle is set when the pod cannot be updated in place to Update.To; it says why. Nothing else is set then.
	Obstacle string
	// Wait says what the pod waits for; empty when it waits for nothing.
	Wait inplace.HoldKind
	// Because is one sentence about the wait.
	Because string
	// Problem is set when a wait has lasted so long that it is to be reported, or will not end by itself; Reason is one
	// CamelCase word for it.
	Problem string
	Reason  string
	// Warning is set beside a Patch that goes on although something did not happen.
	Warning string
	// Undrained is set beside a Patch that restarts containers of a pod in service, which has no gate.
	Undrained bool
	// LookAgainIn is when time alone changes the answer; 0: never.
	LookAgainIn time.Duration
}

// Next decides on one pod.
func Next(p inplace.Pod, u Update, now time.Time) Outcome {
	if !p.Active() {
		return Outcome{}
	}
	if u.To.Name == "" || u.To.Name == p.Revision {
		return stay(&p, u, now)
	}
	return move(&p, u, now)
}

// Serves reports whether carrying out u takes a pod that serves out of service, or makes one that is available count as
// unavailable: what the budget has to allow. Labels, annotations and a resize without a restart do not, unless a lifecycle
// hook takes part.
func Serves(p inplace.Pod, u Update) bool {
	if !p.InService() {
		return false
	}
	a := hooks.Before(u.Lifecycle, &p)
	switch {
	case a.Write == hooks.PreparingUpdate, p.Available && a.Write != hooks.None:
		return true
	case !a.Ready:
		return a.Out && p.Gate == inplace.GateTrue
	default:
		return Restarts(p, u)
	}
}

// Restarts reports whether carrying out u starts a container anew.
func Restarts(p inplace.Pod, u Update) bool {
	w := due(&p, &u)
	return !w.harmless(&p)
}

// Obstacle says why the pod cannot be updated in place by u; empty when it can.
func Obstacle(p inplace.Pod, u Update) string {
	w := due(&p, &u)
	return obstacle(&p, &u, &w)
}

func obstacle(p *inplace.Pod, u *Update, w *work) string {
	if p.Parked != nil && p.Parked.Problem != "" {
		return "the update that another controller parked on it " + p.Parked.Problem
	}
	for _, name := range w.names() {
		c := p.Container(name)
		_, resized := w.resources[name]
		_, reads := w.metadata[name]
		_, restarted := w.images[name]
		switch {
		case c == nil:
			return "it has no container " + name
		case resized && c.Kind == inplace.KindInit:
			return fmt.Sprintf("container %s has run already and cannot be resized", name)
		case reads && !restarted:
			return fmt.Sprintf("the environment of container %s is to change without its image, which only an agent on the node could do", name)
		}
	}
	for _, name := range u.Change.EnvFrom {
		if _, restarted := w.images[name]; !restarted {
			return fmt.Sprintf("the environment of container %s reads metadata that changes, and its image is what it should be already: nothing would restart it", name)
		}
	}
	if p.Gate == inplace.GateNone && !u.Undrained && !w.harmless(p) {
		return "it has no readiness gate InPlaceUpdateReady, so it cannot be taken out of service"
	}
	return ""
}

// move brings the pod to another revision, when its hook lets it go.
func move(p *inplace.Pod, u Update, now time.Time) Outcome {
	w := due(p, &u)
	if why := obstacle(p, &u, &w); why != "" {
		return Outcome{Obstacle: why}
	}
	before := hooks.Before(u.Lifecycle, p)
	if !before.Ready {
		return held(p, &u, &before, now)
	}
	o := carryOut(p, u, &w, now)
	if o.Patch != nil && o.Patch.Kind == inplace.PatchUpdate && before.Write != hooks.None {
		o.Patch.Metadata = merged(o.Patch.Metadata, hooks.Change(before.Write, now))
	}
	return o
}

// carryOut patches the pod, out of service where a container of it restarts.
func carryOut(p *inplace.Pod, u Update, w *work, now time.Time) Outcome {
	patch := func() *inplace.Patch { return update(p, u, w, now) }
	switch {
	case w.harmless(p):
		return Outcome{Patch: patch()}
	case p.Gate == inplace.GateNone:
		return Outcome{Patch: undrained(patch()), Undrained: true}
	}
	return drained(p, u, now, patch)
}

func undrained(patch *inplace.Patch) *inplace.Patch {
	patch.Because += "; it has no readiness gate and is patched in service, as its workload allows"
	return patch
}

// drained takes the pod out of service and patches it when that is seen. A gate that was never set keeps the pod from
// being Ready just as well as False does.
func drained(p *inplace.Pod, u Update, now time.Time, patch func() *inplace.Patch) Outcome {
	switch {
	case p.Gate == inplace.GateTrue:
		return Outcome{Patch: drain(p, u, now)}
	case p.Gate == inplace.GateUnset:
		return Outcome{Patch: patch()}
	case p.Ready:
		return notReadyYet(p, now)
	}
	left, warning := endpointsLeft(p, now)
	if left > 0 {
		return Outcome{
			Wait: inplace.HoldDrain, LookAgainIn: left,
			Because: fmt.Sprintf("EndpointSlices still name it ready: %s", strings.Join(p.ReadyIn, ", ")),
		}
	}
	if left = graceLeft(p, u, now); left > 0 {
		return Outcome{Wait: inplace.HoldGrace, LookAgainIn: left, Because: "its grace period is not over"}
	}
	return Outcome{Patch: patch(), Warning: warning}
}

// notReadyYet waits without limit: a pod that still serves is never patched.
func notReadyYet(p *inplace.Pod, now time.Time) Outcome {
	o := Outcome{Wait: inplace.HoldDrain, Because: "it is not seen Ready=False yet"}
	if p.GateSince.IsZero() {
		return o
	}
	o.LookAgainIn = p.GateSince.Add(reportAfter).Sub(now)
	if o.LookAgainIn <= 0 {
		o.LookAgainIn, o.Reason = 0, ReasonNotProven
		o.Problem = "its readiness gate is False and it is still Ready: the kubelet of its node does not act on it"
	}
	return o
}

// endpointsLeft is how long to wait for EndpointSlices; the warning is set when that time is over.
func endpointsLeft(p *inplace.Pod, now time.Time) (left time.Duration, warning string) {
	if len(p.ReadyIn) == 0 {
		if len(p.PublishedIn) == 0 {
			return 0, ""
		}
		return 0, fmt.Sprintf("EndpointSlices publish %s although it is not ready; not waited for: %s", p.Name, strings.Join(p.PublishedIn, ", "))
	}
	if p.Seen.NotReadySince.IsZero() {
		return endpointsWait, ""
	}
	if left = p.Seen.NotReadySince.Add(endpointsWait).Sub(now); left > 0 {
		return left, ""
	}
	return 0, fmt.Sprintf("EndpointSlices name %s ready although it is not, after %d s; went on: %s",
		p.Name, int(endpointsWait.Seconds()), strings.Join(p.ReadyIn, ", "))
}

// graceLeft is what is left of the grace period, counted from when we saw the pod drained. For an update that OpenKruise
// parked, its own stamp counts too, so that a grace period that is over there is not begun again.
func graceLeft(p *inplace.Pod, u Update, now time.Time) time.Duration {
	grace := u.Grace
	if p.Parked != nil {
		grace = time.Duration(p.Parked.GraceSeconds) * time.Second
		if p.State != nil && !now.Before(p.State.UpdateTimestamp.Add(grace)) {
			return 0
		}
	}
	if grace <= 0 {
		return 0
	}
	from := p.Seen.DrainedSince
	if from.IsZero() && !p.Seen.NotReadySince.IsZero() {
		from = p.Seen.NotReadySince.Add(endpointsWait)
	}
	if from.IsZero() {
		return grace
	}
	return max(from.Add(grace).Sub(now), 0)
}

// stay finishes what is under way and brings the pod back into service, and out of the states of its hooks.
func stay(p *inplace.Pod, u Update, now time.Time) Outcome {
	return unheld(p, &u, hooked(p, &u, settle(p, u, now), now), now)
}

// settle is stay without hooks.
func settle(p *inplace.Pod, u Update, now time.Time) Outcome {
	u.To = inplace.Revision{Name: p.Revision, Hash: u.To.Hash}
	u.Change = inplace.Change{}
	switch {
	case p.Parked != nil && p.Parked.Problem == "" && p.Parked.Revision != p.Revision:
		return Outcome{Patch: dropParked(p, now)}
	case parkedHere(p) && blocked(p, &u) == "":
		return finish(p, u, now)
	case p.StateProblem != "":
		return Outcome{Patch: repair(p, now)}
	case p.State == nil && p.Parked == nil:
		return comeBack(p, now)
	}
	proof := prove(p, &u, now)
	switch {
	case proof.Done:
		return comeBack(p, now)
	case proof.batchDue:
		// The grace period was given before the first batch.
		u.Grace = 0
		return finish(p, u, now)
	case proof.resizeDue:
		return resizeAgain(p, u, now)
	case proof.Settled && (p.Gate == inplace.GateFalse || p.Gate == inplace.GateUnset):
		return Outcome{Patch: giveBack(p, now, "its containers run as asked, and what is left of its resize restarts none of them")}
	}
	return unproven(p, proof, now)
}

// finish carries out what is begun.
func finish(p *inplace.Pod, u Update, now time.Time) Outcome {
	w := due(p, &u)
	return carryOut(p, u, &w, now)
}

// resizeAgain sends the resize that the state asks for and the spec does not show.
func resizeAgain(p *inplace.Pod, u Update, now time.Time) Outcome {
	w := begun(p)
	patch := func() *inplace.Patch { return resize(p, now) }
	if w.harmless(p) || p.Gate == inplace.GateNone {
		return Outcome{Patch: patch(), Undrained: !w.harmless(p)}
	}
	u.Grace = 0
	return drained(p, u, now, patch)
}

func unproven(p *inplace.Pod, proof Proof, now time.Time) Outcome {
	o := Outcome{Wait: inplace.HoldProof, Because: proof.Missing, LookAgainIn: proof.LookAgainIn}
	if proof.Resize {
		o.Wait = inplace.HoldResize
	}
	if p.State == nil || proof.Hopeless || proof.Reason == ReasonResizeRefused {
		o.Problem, o.Reason = proof.Missing, proof.Reason
		return o
	}
	left := p.State.UpdateTimestamp.Add(reportAfter).Sub(now)
	switch {
	case left <= 0:
		o.Problem, o.Reason = proof.Missing, proof.Reason
	case o.LookAgainIn == 0 || left < o.LookAgainIn:
		o.LookAgainIn = left
	}
	return o
}

// comeBack sets the gate True, once.
func comeBack(p *inplace.Pod, now time.Time) Outcome {
	if p.Gate == inplace.GateNone || p.Gate == inplace.GateTrue {
		return Outcome{}
	}
	because := "it runs what it was asked to run"
	if p.Gate == inplace.GateUnset && p.State == nil {
		because = "it is new and no update is under way"
	}
	return Outcome{Patch: giveBack(p, now, because)}
}

func giveBack(p *inplace.Pod, now time.Time, because string) *inplace.Patch {
	return &inplace.Patch{Ref: p.Ref, Kind: inplace.PatchReturn, At: now, To: p.Revision, Kruise: p.Kruise, Because: because}
}

// sorted are the keys of a map, in order.
func sorted[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

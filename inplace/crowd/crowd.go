package crowd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

// PerPass bounds the pods of one plan: what is left over is planned anew when these exist, so that a mistyped number of
// replicas costs neither a long plan nor its memory.
const PerPass = 250

// Waits are reasons with the number of pods that wait for each; equal sentences are one.
type Waits map[inplace.Hold]int

// Add notes that so many pods wait.
func (w Waits) Add(kind inplace.HoldKind, pods int, because string) {
	w[inplace.Hold{Kind: kind, Because: because}] += pods
}

// Holds are the waits, ordered by kind and sentence, so that a status does not change without reason.
func (w Waits) Holds() []inplace.Hold {
	var out []inplace.Hold
	for h, pods := range w {
		h.Pods = int32(pods) //nolint:gosec // a number of pods
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b inplace.Hold) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Because, b.Because))
	})
	return out
}

// Soonest is the shorter of two waits, where 0 is no wait.
func Soonest(a, b time.Duration) time.Duration {
	if b > 0 && (a == 0 || b < a) {
		return b
	}
	return a
}

// lateAfter is how long after its grace period a terminating pod is told, and not waited for any more.
const lateAfter = 2 * time.Minute

// Late is how long until a terminating pod is late, not positive when it is. One that does not say when its grace period
// ends is never late.
func Late(p *inplace.Pod, now time.Time) time.Duration {
	if p.GoneBy.IsZero() {
		return lateAfter
	}
	return p.GoneBy.Add(lateAfter).Sub(now)
}

// Stuck is a sentence about pods that should be gone, at least one.
func Stuck(late []*inplace.Pod) string {
	first := late[0]
	who, are := "pod "+first.Name, "is still"
	if more := len(late) - 1; more > 0 {
		who, are = fmt.Sprintf("pods %s and %d more", first.Name, more), "are still"
	}
	why := "its node may be lost: when it is off for good, delete the pod with --force"
	if len(first.Finalizers) > 0 {
		why = "held by " + strings.Join(first.Finalizers, ", ")
	}
	return fmt.Sprintf("%s should have been gone by %s and %s terminating; %s",
		who, first.GoneBy.UTC().Format(time.RFC3339), are, why)
}

// NeverStarted reports whether a finished pod is one that its node refused before any container started.
func NeverStarted(p *inplace.Pod) bool {
	return p.Phase == inplace.PhaseTerminal &&
		!slices.ContainsFunc(p.Containers, func(c inplace.Container) bool { return c.Known })
}

// Refusal is a create that was refused: a quota, an admission policy.
type Refusal struct {
	// Message is the API server's, without the name of the pod.
	Message string
	// Times is how many passes in a row met it, Last when the last one did, by our clock.
	Times int
	Last  time.Time
}

const (
	// firstRetry and lastRetry bound the wait after a refusal; it doubles from one to the other. Nothing tells when a quota has
	// room again, so the last is what somebody waits who raises one.
	firstRetry = 5 * time.Second
	lastRetry  = time.Minute
)

// Wait is how long until the next try, not positive when it is due. A nil refusal waits for nothing.
func (r *Refusal) Wait(now time.Time) time.Duration {
	if r == nil {
		return 0
	}
	wait := lastRetry
	if doublings := max(r.Times-1, 0); doublings < 4 { //nolint:mnd // 5 s doubled four times is above a minute
		wait = firstRetry << doublings
	}
	return r.Last.Add(wait).Sub(now)
}

// NewLabels are a new pod's labels: in a template, the label of a lifecycle state or a request to delete would make every
// pod end as soon as it begins.
func NewLabels(labels map[string]string, life *appsv1alpha1.Lifecycle) map[string]string {
	out := maps.Clone(labels)
	delete(out, appsv1alpha1.LabelSpecifiedDelete)
	delete(out, appsv1alpha1.LabelLifecycleState)
	if state := hooks.New(life); state != hooks.None {
		if out == nil {
			out = map[string]string{}
		}
		out[appsv1alpha1.LabelLifecycleState] = string(state)
	}
	return out
}

// Few names the first three.
func Few(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

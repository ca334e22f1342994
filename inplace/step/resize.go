package step

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/underway-dev/underway/inplace"
)

// proveResources judges the cpu and memory that the state asks for.
func proveResources(p *inplace.Pod, now time.Time) Proof {
	wanted := asked(p)
	if len(wanted) == 0 {
		return Proof{Done: true}
	}
	j := resizeJudge{p: p, now: now, settled: true}
	for _, name := range sorted(wanted) {
		j.container(name, wanted[name])
	}
	return j.proof()
}

// asked are the resources to be proven. OpenKruise does not write down which it asked for; there all of the spec count.
func asked(p *inplace.Pod) map[string]corev1.ResourceRequirements {
	if len(p.State.Resources) > 0 || !p.State.UpdateResources || p.State.Generation > 0 {
		return p.State.Resources
	}
	all := map[string]corev1.ResourceRequirements{}
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Kind == inplace.KindApp && len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
			all[c.Name] = c.Resources
		}
	}
	return all
}

// resizeJudge gathers what the containers of one pod show.
type resizeJudge struct {
	p   *inplace.Pod
	now time.Time
	// unsent is set when a spec does not show what is asked; back when somebody else set it back.
	unsent, back string
	// missing is the first sentence about a status that does not show it, unclear whether one says too little.
	missing string
	unclear bool
	// settled stays set while nothing that is missing will restart a container.
	settled bool
}

func (j *resizeJudge) container(name string, want corev1.ResourceRequirements) {
	c := j.p.Container(name)
	if c == nil {
		j.lacks(true, "container "+name+" is not in the pod")
		return
	}
	was := recordedOf(j.p.State, name)
	restarts := was.Resources != nil && resizeRestarts(c, *was.Resources, want)
	switch standingOf(j.p, name) {
	case foreign:
		return
	case setBack:
		j.back = fmt.Sprintf("somebody set the cpu and memory of container %s back to what they were before its update", name)
		return
	case untouched:
		j.settled = j.settled && !restarts
		j.unsent = fmt.Sprintf("the resize of container %s to %s is not accepted yet", name, size(want))
		return
	case shown:
	}
	j.running(c, want, was, restarts)
}

// running judges a container whose spec shows what is asked.
func (j *resizeJudge) running(c *inplace.Container, want corev1.ResourceRequirements, was inplace.ContainerState, restarts bool) {
	same := was.ContainerID != nil && c.ContainerID == *was.ContainerID
	switch {
	case !c.Running:
		j.lacks(true, fmt.Sprintf("container %s is not running", c.Name))
	case c.RunningResources != nil && contradicts(want, *c.RunningResources):
		j.lacks(restarts, fmt.Sprintf("container %s does not run with %s yet", c.Name, size(want)))
	case restarts && same && c.RunningResources == nil && !was.Unsure:
		j.lacks(true, fmt.Sprintf("container %s is still the one from before its resize", c.Name))
	case restarts && same, restarts && was.Unsure, c.RunningResources == nil || !inplace.SameResources(want, *c.RunningResources):
		// The recorded container with the wanted resources: the resize was taken back before the kubelet acted, or it is a
		// request, which a kubelet shows before it acts. Until that is clear, a restart may be to come.
		j.unclear, j.settled = true, j.settled && !restarts
	}
}

// lacks notes what is missing; restart when it will start a container anew.
func (j *resizeJudge) lacks(restart bool, missing string) {
	j.settled = j.settled && !restart
	if j.missing == "" {
		j.missing = missing
	}
}

// contradicts reports whether has shows another value of something that want names. A value that is not shown does not.
func contradicts(want, has corev1.ResourceRequirements) bool {
	return other(want.Limits, has.Limits) || other(want.Requests, has.Requests)
}

func other(want, has corev1.ResourceList) bool {
	for name, w := range want {
		if h, ok := has[name]; ok && w.Cmp(h) != 0 {
			return true
		}
	}
	return false
}

// proof is the sum.
func (j *resizeJudge) proof() Proof {
	wait := func(reason, missing string) Proof {
		return Proof{Resize: true, Reason: reason, Missing: missing, Settled: j.settled}
	}
	switch {
	case j.unsent != "":
		return j.refused(wait)
	case j.back != "":
		return wait(ReasonNotProven, j.back)
	}
	if missing := unobserved(j.p, j.p.Generation); missing != "" {
		return wait(ReasonNotProven, missing)
	}
	if r := j.p.Resize; r.Pending != "" && (r.Generation == 0 || r.Generation >= j.p.Generation) {
		return j.pending(wait)
	}
	switch {
	case j.missing != "" && j.p.Resize.Failing:
		return wait(ReasonResizeFailing, "the kubelet fails to resize it: "+j.p.Resize.Message)
	case j.missing != "":
		return wait(ReasonNotProven, j.missing)
	case j.unclear && j.p.Resize.InProgress:
		return wait(ReasonNotProven, "its resize is in progress")
	case j.unclear || j.p.ObservedGeneration == 0:
		proof := afterQuiet(j.p, j.now)
		proof.Resize, proof.Settled = !proof.Done, j.settled && !j.unclear
		return proof
	}
	return Proof{Done: true}
}

// refused is the answer while the spec does not show what is asked: it is sent, unless the API server has refused it.
func (j *resizeJudge) refused(say func(reason, missing string) Proof) Proof {
	no := j.p.Seen.ResizeRefused
	if no == nil {
		proof := say(ReasonNotProven, j.unsent)
		proof.resizeDue = true
		return proof
	}
	proof := say(ReasonResizeRefused, "the API server refuses its resize: "+no.Message)
	if no.Final {
		// Nothing is sent again, so nothing restarts.
		proof.Hopeless, proof.Settled = true, true
		return proof
	}
	// Twice as long after each refusal: a pod whose resize restarts it is drained for each try, and serves in between.
	wait := retryResize
	if !no.Since.IsZero() {
		wait = min(max(no.Last.Sub(no.Since), retryResize), retryResizeMost)
	}
	proof.LookAgainIn = no.Last.Add(wait).Sub(j.now)
	if proof.LookAgainIn <= 0 {
		proof.LookAgainIn, proof.resizeDue = 0, true
		return proof
	}
	proof.Settled = true
	return proof
}

// pending is what the kubelet says about a resize that it has not begun. It is believed when it has stood for a while: a
// condition may still be about an earlier size.
func (j *resizeJudge) pending(wait func(reason, missing string) Proof) Proof {
	r := j.p.Resize
	if r.Pending != inplace.ResizeInfeasible {
		return wait(ReasonResizeDeferred, fmt.Sprintf("its node has no room for its resize now (%s): %s", r.Pending, r.Message))
	}
	proof := wait(ReasonResizeInfeasible, "its node can never hold its resize: "+r.Message)
	calm := afterQuiet(j.p, j.now)
	proof.Hopeless, proof.LookAgainIn = calm.Done, calm.LookAgainIn
	proof.Settled = proof.Settled || calm.Done
	return proof
}

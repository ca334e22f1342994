package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// What the pods of a member suffer is on the hub object: by the report of the member's agent, and by a look at the pods
// where there is none (Kubernetes' own kinds, OpenKruise's manager).

const (
	// notReadyFor is how long a pod's containers may run without the pod being Ready before that is trouble.
	notReadyFor = 2 * time.Minute
	// crashes is how many restarts of a container that is not ready are a crash loop, also in the moments in which it runs.
	crashes = 2
	// maxFailing is how many problems of one subset are kept, maxNamed how many pods are named for each.
	maxFailing, maxNamed = 3, 3
	// reasonNotReady is the agent's word for it, too.
	reasonNotReady = "NotReady"
)

// Trouble says what keeps a pod from coming up, in a CamelCase word and in a sentence; both are empty while nothing is
// known to. What a kubelet alternates between is one word, so that the answer changes only when the trouble does. The words
// are those of the member's agent.
func Trouble(pod *corev1.Pod, now time.Time) (reason, message string) {
	if pod.DeletionTimestamp != nil || ready(pod) {
		return "", ""
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if reason, message := containerTrouble(&statuses[i]); reason != "" {
				return reason, message
			}
		}
	}
	return podTrouble(pod, now)
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func podTrouble(pod *corev1.Pod, now time.Time) (reason, message string) {
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable:
			first, _, _ := strings.Cut(c.Message, ". ")
			return inplace.TroubleUnschedulable, "the scheduler finds no node for it: " + first
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && pod.Status.Phase == corev1.PodRunning &&
			!c.LastTransitionTime.IsZero() && now.Sub(c.LastTransitionTime.Time) >= notReadyFor:
			return reasonNotReady, "its containers run and the pod does not become Ready"
		}
	}
	return "", ""
}

func containerTrouble(c *corev1.ContainerStatus) (reason, message string) {
	waiting := ""
	if c.State.Waiting != nil {
		waiting = c.State.Waiting.Reason
	}
	last := c.LastTerminationState.Terminated
	switch waiting {
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed":
		return inplace.TroublePull, fmt.Sprintf("the image %s of container %s cannot be pulled", c.Image, c.Name)
	case "CrashLoopBackOff", "RunContainerError", "StartError":
		return inplace.TroubleCrash, crashed(c, last)
	case "ContainerCreating", "PodInitializing", "":
		if c.Ready || c.RestartCount < crashes || last == nil || last.ExitCode == 0 {
			return "", ""
		}
		return inplace.TroubleCrash, crashed(c, last)
	default:
		return waiting, fmt.Sprintf("container %s waits with %s for image %s", c.Name, waiting, c.Image)
	}
}

func crashed(c *corev1.ContainerStatus, last *corev1.ContainerStateTerminated) string {
	how := ""
	if last != nil {
		how = fmt.Sprintf(" (exit code %d)", last.ExitCode)
	}
	return fmt.Sprintf("container %s ends again and again%s with image %s", c.Name, how, c.Image)
}

// failing writes down what the pods of a place suffer, and puts it into the message. What is not known any more stands as
// it was told last.
func (p *pass) failing(pl *place) {
	c := pl.serving()
	member := p.Members[pl.cluster]
	switch {
	case member.Settling, !member.Ready:
		return // the entry has what was known
	case c == nil:
		pl.entry.Failing = nil
		return
	case c.Unreadable != "":
		return
	}
	var found []appsv1alpha1.PodProblem
	if c.Report.Workload != nil {
		found = slices.Clone(c.Report.Workload.Broken)
	} else {
		at := Target{Member: pl.cluster, Kind: c.Report.Kind, Name: c.Report.Name}
		found = grouped(p.Pods[at])
	}
	pl.entry.Failing = p.sinceWhen(found, pl.old.Failing)
	if len(found) > 0 && !pl.entry.Stale {
		pl.entry.Message = withTrouble(pl.entry.Message, suffered(pl.entry))
	}
}

// grouped counts pods by what is wrong with them, most pods first.
func grouped(pods []Pod) []appsv1alpha1.PodProblem {
	var out []appsv1alpha1.PodProblem
	for _, pod := range slices.SortedFunc(slices.Values(pods), func(a, b Pod) int { return strings.Compare(a.Name, b.Name) }) {
		if pod.Reason == "" || pod.Ready || pod.Deleting {
			continue
		}
		at := slices.IndexFunc(out, func(x appsv1alpha1.PodProblem) bool { return x.Reason == pod.Reason && x.Message == pod.Message })
		if at < 0 {
			at = len(out)
			out = append(out, appsv1alpha1.PodProblem{Reason: pod.Reason, Message: pod.Message})
		}
		out[at].Count++
		out[at].Pods = append(out[at].Pods, pod.Name)
	}
	slices.SortStableFunc(out, func(a, b appsv1alpha1.PodProblem) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason+a.Message, b.Reason+b.Message))
	})
	return out
}

// sinceWhen keeps the time at which a problem was told first, and bounds the list.
func (p *pass) sinceWhen(now, before []appsv1alpha1.PodProblem) []appsv1alpha1.PodProblem {
	out := now[:min(len(now), maxFailing)]
	for i := range out {
		out[i].Pods = out[i].Pods[:min(len(out[i].Pods), maxNamed)]
		if out[i].Since != nil {
			continue // the agent's own
		}
		out[i].Since = second(p.now)
		for _, b := range before {
			if b.Reason == out[i].Reason && b.Since != nil {
				out[i].Since = b.Since
			}
		}
	}
	return out
}

// suffered is a subset's trouble in words: "2 pods broken since 14:02:10Z on the 29th: ...".
func suffered(e *appsv1alpha1.SubsetStatus) string {
	var out []string
	for i := range e.Failing {
		x := &e.Failing[i]
		since := ""
		if x.Since != nil {
			since = " since " + x.Since.UTC().Format("2006-01-02T15:04:05Z")
		}
		out = append(out, fmt.Sprintf("%s broken%s, %s: %s", pods(max(int(x.Count), len(x.Pods), 1)), since, x.Reason, x.Message))
	}
	return strings.Join(out, "; ")
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// commandIn is where the command at the end of a message begins.
const commandIn = ": kubectl "

// withTrouble puts trouble in front of the command that ends a message, so that the command stays the end.
func withTrouble(message, trouble string) string {
	words, command, found := strings.Cut(message, commandIn)
	if words != "" {
		words += "; "
	}
	words += trouble
	if found {
		words += commandIn + command
	}
	return words
}

// sufferedMessage is what condition PodsFailing says.
func (p *pass) sufferedMessage() string {
	return p.where(func(pl *place) string { return suffered(pl.entry) })
}

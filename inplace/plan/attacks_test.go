package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/plan"
	"github.com/underway-dev/underway/inplace/podview"
)

// gateless pods in service, whose state OpenKruise wrote.
func adopted(n int, change func(*inplace.Pod)) []inplace.Pod {
	var text string
	for range n {
		text += "O"
	}
	p := pods(text)
	for i := range p {
		p[i].Gate, p[i].Revision = inplace.GateNone, "web-2"
		p[i].State = &inplace.State{Revision: "web-2", UpdateTimestamp: metav1.NewTime(now.Add(-time.Hour)), LastContainerStatuses: map[string]inplace.ContainerState{}}
		change(&p[i])
	}
	return p
}

// Parked by OpenKruise on pods without a gate: hopeless, so recreated; all at once.
func TestGatelessParkedPodsGoWithinTheBudget(t *testing.T) {
	t.Parallel()
	in := intent(6, 0, 1)
	d := plan.Next(in, adopted(6, func(p *inplace.Pod) {
		p.Parked = &inplace.Parked{Revision: "web-2", ContainerImages: map[string]string{"web": "app:v2"}, GraceSeconds: 60}
	}), now)
	if len(d.Deletes) > 1 {
		t.Errorf("maxUnavailable 1, deletes %d serving pods: %v", len(d.Deletes), writes(d))
	}
}

// Two tags of one digest, updated by OpenKruise weeks ago; the next release recreates pods without a gate.
func TestGatelessUnprovenPodsGoWithinTheBudget(t *testing.T) {
	t.Parallel()
	in := intent(6, 0, 1)
	in.Current, in.Update = app(2), app(3)
	in.Revisions = append(in.Revisions, app(3))
	d := plan.Next(in, adopted(6, func(p *inplace.Pod) {
		p.Containers[0].Image = "app:v2" // status.image names v1, one digest
		p.State.LastContainerStatuses["web"] = inplace.ContainerState{ImageID: "1"}
	}), now)
	if len(d.Deletes) > 1 {
		t.Errorf("maxUnavailable 1, deletes %d serving pods: %v", len(d.Deletes), writes(d))
	}
}

// The same by an unreadable state.
func TestGatelessUnreadablePodsGoWithinTheBudget(t *testing.T) {
	t.Parallel()
	in := intent(6, 0, 1)
	in.Current, in.Update = app(2), app(3)
	in.Revisions = append(in.Revisions, app(3))
	d := plan.Next(in, adopted(6, func(p *inplace.Pod) { p.State, p.StateProblem = nil, "is not JSON" }), now)
	if len(d.Deletes) > 1 {
		t.Errorf("maxUnavailable 1, deletes %d serving pods: %v", len(d.Deletes), writes(d))
	}
}

// Readiness turned false on long-running pods: time alone makes them Down, and nobody looks again.
func TestAPodAboutToBeDownIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	p := pods("bbb")
	for i := range p {
		p[i].DownIn = 9 * time.Second
		p[i].Seen.SameSince, p[i].Seen.UnreadySince = now.Add(-time.Hour), now.Add(-time.Second)
	}
	d := plan.Next(intent(3, 0, 1), p, now)
	if len(d.Patches) == 0 && (d.LookAgainIn == 0 || d.LookAgainIn > 9*time.Second) {
		t.Errorf("holds %v, look again in %s", holds(d), d.LookAgainIn)
	}
}

// A gate of somebody else (a load balancer's) says False on all pods of a bad release: the fix never moves them.
func TestAForeignReadinessGateDoesNotHoldFixForward(t *testing.T) {
	t.Parallel()
	m := podview.NewMemory()
	see := func(at time.Time) []inplace.Pod {
		var out []inplace.Pod
		for _, name := range []string{"a", "b", "c"} {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u" + "-" + "x", ResourceVersion: "1", Generation: 1, Labels: map[string]string{appsv1alpha1.LabelPodRevision: "web-1"}},
				Spec: corev1.PodSpec{
					NodeName: "n", Containers: []corev1.Container{{Name: "web", Image: "app:v1"}},
					ReadinessGates: []corev1.PodReadinessGate{{ConditionType: appsv1alpha1.ConditionInPlaceUpdateReady}, {ConditionType: "lb.example.com/healthy"}},
				},
				Status: corev1.PodStatus{
					Phase: corev1.PodRunning, ObservedGeneration: 1,
					Conditions: []corev1.PodCondition{
						{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady", LastTransitionTime: metav1.NewTime(now)},
						{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
						{Type: appsv1alpha1.ConditionInPlaceUpdateReady, Status: corev1.ConditionTrue},
						{Type: "lb.example.com/healthy", Status: corev1.ConditionFalse},
					},
					ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Image: "app:v1", ImageID: "1", ContainerID: "c", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
				},
			}
			pod.UID += "-" + "u"
			out = append(out, podview.From(pod, podview.Around{Now: at, Seen: m.Look(pod, podview.Endpoints{}, at)}))
		}
		return out
	}
	plan.Next(intent(3, 0, 1), see(now), now)
	later := now.Add(24 * time.Hour)
	if d := plan.Next(intent(3, 0, 1), see(later), later); len(d.Patches) == 0 {
		t.Errorf("nothing serves for a day, nothing moves: %v, look %s", holds(d), d.LookAgainIn)
	}
}

// InPlaceOnly: what OpenKruise parked cannot be finished; nothing was patched, and the pod never serves again.
func TestParkedAndRefusedGoesBackToService(t *testing.T) {
	t.Parallel()
	in := intent(1, 0, 1)
	in.Policy = inplace.PolicyInPlaceOnly
	p := pods("d")
	p[0].Revision = "web-2"
	p[0].State = &inplace.State{Revision: "web-2", UpdateTimestamp: metav1.NewTime(now.Add(-time.Hour)), LastContainerStatuses: map[string]inplace.ContainerState{}}
	p[0].Parked = &inplace.Parked{Revision: "web-2", ContainerRefMetadata: map[string]inplace.RefMetadata{"web": {Labels: map[string]string{"a": "b"}}}}
	p[0].Seen.NotReadySince, p[0].Seen.DrainedSince = now.Add(-time.Hour), now.Add(-time.Hour)
	d := plan.Next(in, p, now)
	if len(writes(d)) == 0 {
		t.Errorf("gate False for ever: %v, look %s", holds(d), d.LookAgainIn)
	}
}

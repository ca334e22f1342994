package step_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/step"
)

func cpu(text string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}}
}

func toCPU(text string) step.Update {
	return step.Update{To: inplace.Revision{Name: "web-2"}, Change: inplace.Change{Resources: map[string]corev1.ResourceRequirements{"web": cpu(text)}}}
}

// sized is a pod of web-1 in service with cpu 1.
func sized() inplace.Pod {
	p := serving()
	c := &p.Containers[0]
	c.Resources, c.RunningResources, c.ImageID, c.ContainerID = cpu("1"), new(cpu("1")), "sha1", "c1"
	return p
}

// restarting is sized, and a change of cpu restarts web.
func restarting() inplace.Pod {
	p := sized()
	p.Containers[0].ResizeRestarts = []corev1.ResourceName{corev1.ResourceCPU}
	return p
}

// out takes a pod out of service.
func out(p inplace.Pod) inplace.Pod {
	p.Gate, p.Ready, p.Available = inplace.GateFalse, false, false
	p.Seen.NotReadySince, p.Seen.DrainedSince = ago(time.Minute), ago(time.Minute)
	return p
}

// asked is the pod after the update patch: the state asks for cpu, the spec shows what has, the kubelet runs what runs.
func asked(t *testing.T, p inplace.Pod, u step.Update, has, runs string) inplace.Pod {
	t.Helper()
	patch := step.Next(p, u, now).Patch
	p = apply(t, p, patch)
	p.Generation = p.State.Generation
	c := &p.Containers[0]
	if has != "1" {
		p.Generation++
	}
	p.ObservedGeneration = p.Generation
	c.Resources, c.RunningResources = cpu(has), new(cpu(runs))
	p.Seen.SameSince = ago(time.Minute)
	return p
}

func TestO152O171AResizeWithoutARestartDrainsNothing(t *testing.T) {
	t.Parallel()
	got := step.Next(sized(), toCPU("2"), now).Patch
	if got == nil || got.Kind != inplace.PatchUpdate || len(got.Images) != 0 || !strings.Contains(got.Because, "web to requests.cpu 2") {
		t.Fatalf("%+v", got)
	}
	if diff := cmp.Diff(map[string]corev1.ResourceRequirements{"web": cpu("2")}, got.Resources); diff != "" {
		t.Error(diff)
	}
	s := state(t, got)
	if !s.UpdateResources || s.UpdateImages || !inplace.SameResources(cpu("2"), s.Resources["web"]) || len(s.LastContainerStatuses) != 0 {
		t.Errorf("%+v", s)
	}
	if was := s.OtherContainerStatuses["web"]; was.Resources == nil || !inplace.SameResources(cpu("1"), *was.Resources) {
		t.Errorf("recorded %+v", was)
	}
	if step.Serves(sized(), toCPU("2")) {
		t.Error("it costs budget")
	}
}

// B087, O170: with RestartContainer it is a disruption like another: drained, and counted against the budget.
func TestB087AResizeThatRestartsIsDrained(t *testing.T) {
	t.Parallel()
	if got := step.Next(restarting(), toCPU("2"), now).Patch; got == nil || got.Kind != inplace.PatchDrain {
		t.Fatalf("%+v", got)
	}
	if !step.Serves(restarting(), toCPU("2")) {
		t.Error("it costs no budget")
	}
	if got := step.Next(out(restarting()), toCPU("2"), now).Patch; got == nil || got.Kind != inplace.PatchUpdate || len(got.Resources) != 1 {
		t.Errorf("%+v", got)
	}
	p := sized()
	p.Containers[0].ResizeRestarts = []corev1.ResourceName{corev1.ResourceMemory}
	if step.Serves(p, toCPU("2")) {
		t.Error("cpu changes, and only memory restarts")
	}
}

func TestProveResize(t *testing.T) {
	t.Parallel()
	type change = func(*inplace.Pod)
	pending := func(reason string, generation int64) change {
		return func(p *inplace.Pod) { p.Resize = inplace.Resize{Pending: reason, Message: "m", Generation: generation} }
	}
	cases := map[string]struct {
		pod                     func() inplace.Pod
		has, runs               string
		change                  change
		want, settled, hopeless bool
		reason, missing         string
		look                    time.Duration
		patch                   inplace.PatchKind
		wait                    inplace.HoldKind
	}{
		"O163: the status shows it":                  {pod: sized, has: "2", runs: "2", want: true},
		"O163: the status does not show it":          {pod: sized, has: "2", runs: "1", settled: true, missing: "does not run with requests.cpu 2 yet", wait: inplace.HoldResize},
		"1000m is 1":                                 {pod: sized, has: "2000m", runs: "2", want: true},
		"a crash before the resize was sent: sent":   {pod: sized, has: "1", runs: "1", settled: true, missing: "not accepted yet", patch: inplace.PatchResize},
		"sent when the kubelet has observed nothing": {pod: sized, has: "1", runs: "1", change: func(p *inplace.Pod) { p.ObservedGeneration = 0 }, settled: true, missing: "not accepted", patch: inplace.PatchResize},
		"the generation of the resize is observed, not only the patch's": {
			pod: sized, has: "2", runs: "2", change: func(p *inplace.Pod) { p.ObservedGeneration-- }, settled: true, missing: "observed generation", wait: inplace.HoldResize,
		},
		"no room": {pod: sized, has: "2", runs: "1", change: pending("Deferred", 0), settled: true, reason: step.ReasonResizeDeferred, missing: "no room for its resize now (Deferred): m", wait: inplace.HoldResize},
		"can never be": {
			pod: sized, has: "2", runs: "1", change: pending("Infeasible", 2), settled: true, hopeless: true, reason: step.ReasonResizeInfeasible, missing: "can never hold", wait: inplace.HoldResize,
		},
		"said of an earlier size": {pod: sized, has: "2", runs: "2", change: pending("Infeasible", 1), want: true},
		"said a moment ago, of which size is not said": {
			pod: sized, has: "2", runs: "1", change: func(p *inplace.Pod) { pending("Infeasible", 0)(p); p.Seen.SameSince = ago(time.Second) },
			settled: true, reason: step.ReasonResizeInfeasible, look: 4 * time.Second, wait: inplace.HoldResize,
		},
		"the kubelet fails": {
			pod: sized, has: "2", runs: "1", change: func(p *inplace.Pod) { p.Resize = inplace.Resize{InProgress: true, Failing: true, Message: "m"} },
			settled: true, reason: step.ReasonResizeFailing, missing: "fails to resize it: m", wait: inplace.HoldResize,
		},
		"a kubelet that reports no resources, quiet": {pod: sized, has: "2", runs: "1", change: func(p *inplace.Pod) { p.Containers[0].RunningResources = nil }, want: true},
		"a kubelet that reports no resources, not quiet": {
			pod: sized, has: "2", runs: "1", change: func(p *inplace.Pod) { p.Containers[0].RunningResources, p.Seen.SameSince = nil, ago(time.Second) }, missing: "5 s", look: 4 * time.Second, wait: inplace.HoldResize,
		},
		"refused, and will be again": {
			pod: sized, has: "1", runs: "1", change: func(p *inplace.Pod) { p.Seen.ResizeRefused = &inplace.ResizeRefusal{Message: "too big", Final: true} },
			settled: true, hopeless: true, reason: step.ReasonResizeRefused, missing: "refuses its resize: too big", wait: inplace.HoldResize,
		},
		"refused by a quota: tried again after a minute": {
			pod: sized, has: "1", runs: "1", change: func(p *inplace.Pod) {
				p.Seen.ResizeRefused = &inplace.ResizeRefusal{Message: "quota", Last: ago(20 * time.Second)}
			},
			settled: true, reason: step.ReasonResizeRefused, look: 40 * time.Second, wait: inplace.HoldResize,
		},
		"refused by a quota a minute ago": {
			pod: sized, has: "1", runs: "1", change: func(p *inplace.Pod) {
				p.Seen.ResizeRefused = &inplace.ResizeRefusal{Message: "quota", Last: ago(time.Minute)}
			},
			settled: true, reason: step.ReasonResizeRefused, patch: inplace.PatchResize,
		},
		"somebody else sizes it now: not ours any more": {pod: sized, has: "5", runs: "5", want: true},
		"set back by somebody after ours: no fight, and no lie": {
			pod: sized, has: "1", runs: "1", change: func(p *inplace.Pod) { p.Generation += 2; p.ObservedGeneration += 2 }, settled: true, missing: "somebody set", wait: inplace.HoldResize,
		},
		"can never be, and never was in service: comes into service": {
			pod: sized, has: "2", runs: "1", change: func(p *inplace.Pod) { pending("Infeasible", 2)(p); p.Gate, p.Ready = inplace.GateUnset, false },
			settled: true, hopeless: true, reason: step.ReasonResizeInfeasible, patch: inplace.PatchReturn,
		},
		"restarts, and has": {
			pod: restarting, has: "2", runs: "2", change: func(p *inplace.Pod) { p.Containers[0].ContainerID = "c9" }, want: true, patch: inplace.PatchReturn,
		},
		"restarts, and has not": {pod: restarting, has: "2", runs: "1", missing: "does not run with", wait: inplace.HoldResize},
		"restarts, and shows the size in the recorded container, not quiet": {
			pod: restarting, has: "2", runs: "2", change: func(p *inplace.Pod) { p.Seen.SameSince = ago(time.Second) }, missing: "5 s", look: 4 * time.Second, wait: inplace.HoldResize,
		},
		"restarts, of a kubelet that reports no resources": {
			pod: restarting, has: "2", runs: "2", change: func(p *inplace.Pod) { p.Containers[0].RunningResources = nil }, missing: "still the one from before its resize", wait: inplace.HoldResize,
		},
		"restarts, no room: stays out of service, for the restart may come": {pod: restarting, has: "2", runs: "1", change: pending("Deferred", 0), reason: step.ReasonResizeDeferred, wait: inplace.HoldResize},
		"restarts, can never be: given up, back in service": {
			pod: restarting, has: "2", runs: "1", change: pending("Infeasible", 0), settled: true, hopeless: true, reason: step.ReasonResizeInfeasible, patch: inplace.PatchReturn,
		},
		"restarts, a crash before the resize was sent": {pod: restarting, has: "1", runs: "1", missing: "not accepted", patch: inplace.PatchResize},
		"restarts, not sent, and put into service by somebody": {
			pod: restarting, has: "1", runs: "1", change: func(p *inplace.Pod) { p.Gate, p.Ready = inplace.GateTrue, true }, patch: inplace.PatchDrain,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := tc.pod()
			if len(p.Containers[0].ResizeRestarts) > 0 {
				p = out(p)
			}
			p = asked(t, p, toCPU("2"), tc.has, tc.runs)
			if tc.change != nil {
				tc.change(&p)
			}
			got := step.Prove(p, step.Update{}, now)
			if got.Done != tc.want || got.Hopeless != tc.hopeless || (got.Settled != tc.settled && !tc.want) || !strings.Contains(got.Missing, tc.missing) || got.LookAgainIn != tc.look {
				t.Errorf("%+v", got)
			}
			if tc.reason != "" && got.Reason != tc.reason {
				t.Errorf("reason %q", got.Reason)
			}
			o := step.Next(p, step.Update{}, now)
			kind := inplace.PatchKind("")
			if o.Patch != nil {
				kind = o.Patch.Kind
			}
			if kind != tc.patch || o.Wait != tc.wait {
				t.Errorf("patch %q, wait %q (%s)", kind, o.Wait, o.Because)
			}
			if kind == inplace.PatchResize && cmp.Diff(map[string]corev1.ResourceRequirements{"web": cpu("2")}, o.Patch.Resources) != "" {
				t.Errorf("%+v", o.Patch.Resources)
			}
			if tc.hopeless && tc.patch == "" && (o.Problem == "" || o.Reason != tc.reason) {
				t.Errorf("not reported: %+v", o)
			}
		})
	}
}

// A resize that waits for room is no failure; after two minutes it is told.
func TestADeferredResizeIsToldAfterAWhile(t *testing.T) {
	t.Parallel()
	p := asked(t, sized(), toCPU("2"), "2", "1")
	p.Resize = inplace.Resize{Pending: inplace.ResizeDeferred, Message: "m"}
	if o := step.Next(p, step.Update{}, now); o.Problem != "" || o.LookAgainIn != 2*time.Minute {
		t.Errorf("%+v", o)
	}
	if o := step.Next(p, step.Update{}, now.Add(2*time.Minute)); o.Reason != step.ReasonResizeDeferred || o.Problem == "" {
		t.Errorf("%+v", o)
	}
}

// An image and cpu in one update: one patch and one resize; the pod is back as soon as the container runs, whatever the
// resize still waits for, and complete only with it.
func TestImageAndResizeTogether(t *testing.T) {
	t.Parallel()
	u := toCPU("2")
	u.Change.Images = map[string]string{"web": "app:v2"}
	patch := step.Next(out(sized()), u, now).Patch
	if patch.Images["web"] != "app:v2" || len(patch.Resources) != 1 {
		t.Fatalf("%+v", patch)
	}
	s := state(t, patch)
	if r := s.LastContainerStatuses["web"]; r.Resources == nil || r.ImageID != "sha1" || len(s.OtherContainerStatuses) != 0 || !s.UpdateImages || !s.UpdateResources {
		t.Errorf("%+v", s)
	}
	p := asked(t, out(sized()), u, "2", "1")
	p.Resize = inplace.Resize{Pending: inplace.ResizeDeferred}
	if got := step.Prove(p, step.Update{}, now); got.Done || got.Settled || !strings.Contains(got.Missing, "still the one from before") {
		t.Errorf("%+v", got)
	}
	p.Containers[0].ContainerID, p.Containers[0].ImageID = "c2", "sha2"
	if o := step.Next(p, step.Update{}, now); o.Patch == nil || o.Patch.Kind != inplace.PatchReturn || step.Prove(p, step.Update{}, now).Done {
		t.Errorf("%+v", o)
	}
	p.Gate = inplace.GateTrue
	if o := step.Next(p, step.Update{}, now); o.Patch != nil || o.Wait != inplace.HoldResize {
		t.Errorf("%+v", o)
	}
	p.Resize, p.Containers[0].RunningResources = inplace.Resize{}, new(cpu("2"))
	if !step.Prove(p, step.Update{}, now).Done {
		t.Error("not done")
	}
}

// TestRetargetWithAResizeUnderWay: whatever the resize is at, a newer target asks for its own size and no other.
func TestRetargetWithAResizeUnderWay(t *testing.T) {
	t.Parallel()
	to3 := func(text string) step.Update {
		u := toCPU(text)
		u.To.Name = "web-3"
		return u
	}
	image := step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{Images: map[string]string{"web": "app:v3"}}}
	pending := func(p inplace.Pod) inplace.Pod {
		p.Resize = inplace.Resize{Pending: inplace.ResizeInfeasible}
		return p
	}
	cases := map[string]struct {
		pod  inplace.Pod
		u    step.Update
		sent string
		asks string
	}{
		"not sent yet, rolled back: nothing to send":      {asked(t, sized(), toCPU("2"), "1", "1"), to3("1"), "", "1"},
		"not sent yet, another size":                      {asked(t, sized(), toCPU("2"), "1", "1"), to3("3"), "3", "3"},
		"not sent yet, another image: still asked for":    {asked(t, out(sized()), toCPU("2"), "1", "1"), image, "2", "2"},
		"accepted and not run, another image: asked for":  {asked(t, out(sized()), toCPU("2"), "2", "1"), image, "", "2"},
		"infeasible, rolled back":                         {pending(asked(t, sized(), toCPU("2"), "2", "1")), to3("1"), "1", "1"},
		"proven, another image: not asked for again":      {asked(t, out(sized()), toCPU("2"), "2", "2"), image, "", ""},
		"sized by somebody else, another image: left":     {asked(t, out(sized()), toCPU("2"), "5", "5"), image, "", ""},
		"sized by somebody else, a size of ours: wanted":  {asked(t, sized(), toCPU("2"), "5", "5"), to3("3"), "3", "3"},
		"restarts, accepted and not run, rolled back":     {asked(t, out(restarting()), toCPU("2"), "2", "1"), to3("1"), "1", "1"},
		"restarts, in service, another size: first drain": {with(asked(t, out(restarting()), toCPU("2"), "2", "2"), func(p *inplace.Pod) { p.Gate, p.Ready = inplace.GateTrue, true })(), to3("3"), "drain", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patch := step.Next(tc.pod, tc.u, now).Patch
			if tc.sent == "drain" {
				if patch == nil || patch.Kind != inplace.PatchDrain {
					t.Errorf("%+v", patch)
				}
				return
			}
			size := func(m map[string]corev1.ResourceRequirements) string {
				q, ok := m["web"].Requests[corev1.ResourceCPU]
				if !ok {
					return ""
				}
				return q.String()
			}
			if got := size(patch.Resources); got != tc.sent {
				t.Errorf("sent %q, want %q", got, tc.sent)
			}
			if got := size(state(t, patch).Resources); got != tc.asks {
				t.Errorf("asks for %q, want %q", got, tc.asks)
			}
		})
	}
}

// Rolled back before the kubelet acted, with and without a report of resources: the pod comes back.
func TestAResizeRolledBackInTimeComesBack(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]bool{"resources reported": true, "not reported": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := asked(t, out(restarting()), toCPU("2"), "2", "1")
			u := toCPU("1")
			u.To.Name = "web-1"
			p = apply(t, p, step.Next(p, u, now).Patch)
			p.Containers[0].Resources, p.Seen.SameSince, p.ObservedGeneration = cpu("1"), ago(6*time.Second), p.Generation
			if !report {
				p.Containers[0].RunningResources = nil
			}
			if o := step.Next(p, step.Update{}, now); o.Patch == nil || o.Patch.Kind != inplace.PatchReturn {
				t.Errorf("%+v", o)
			}
		})
	}
}

// O163: a state of OpenKruise says that resources change, not which: all of them count. Its feature gate has no
// counterpart here, a pod nobody resized is not judged by its resources (prove_test.go).
func TestO163StateOfOpenKruise(t *testing.T) {
	t.Parallel()
	p := sized()
	p.State = &inplace.State{Revision: "web-1", UpdateResources: true, UpdateTimestamp: metav1.NewTime(ago(time.Second)), LastContainerStatuses: map[string]inplace.ContainerState{}}
	if got := step.Prove(p, step.Update{}, now); !got.Done {
		t.Errorf("%+v", got)
	}
	p.Containers[0].RunningResources = new(cpu("3"))
	if got := step.Prove(p, step.Update{}, now); got.Done || !got.Resize {
		t.Errorf("%+v", got)
	}
}

// Once the containers run as asked only the resize is carried over: what they were started from is known again, and a newer
// image is proven at once. Amounts that the newer target does not name stay asked for.
func TestASettledPodIsRecordedAnew(t *testing.T) {
	t.Parallel()
	memory := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
	u := toCPU("2")
	u.Change.Images = map[string]string{"web": "app:v2"}
	u.Change.Resources["web"] = inplace.MergeResources(cpu("2"), corev1.ResourceRequirements{Requests: memory})
	p := out(sized())
	p.Containers[0].Resources = inplace.MergeResources(cpu("1"), corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}})
	p = apply(t, p, step.Next(p, u, now).Patch)
	p.ObservedGeneration, p.Resize = p.Generation, inplace.Resize{Pending: inplace.ResizeDeferred}
	c := &p.Containers[0]
	c.ContainerID, c.ImageID, c.RunningImage, c.Resources = "c2", "sha2", "app:v2", u.Change.Resources["web"]
	next := toCPU("3")
	next.To.Name, next.Change.Images = "web-3", map[string]string{"web": "app:v3"}
	s := state(t, step.Next(p, next, now).Patch)
	if was := s.LastContainerStatuses["web"]; was.Unsure || was.Image != "app:v2" || *was.ContainerID != "c2" {
		t.Errorf("%+v", was)
	}
	want := inplace.MergeResources(cpu("3"), corev1.ResourceRequirements{Requests: memory})
	if got := s.Resources["web"]; !inplace.SameResources(want, got) || !inplace.SameResources(got, want) {
		t.Errorf("asks for %+v", got)
	}
}

// TestARestartToComeIsNotSettled: a kubelet that reports no resources has started the new image, and has not seen the resize
// that starts the container once more: the pod is not given back in between (found by the simulation).
func TestARestartToComeIsNotSettled(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{true, false} {
		p := acted()
		p.Generation, p.ObservedGeneration = 3, 2
		p.Containers[0].Resources = cpu("2")
		if restarts {
			p.Containers[0].ResizeRestarts = []corev1.ResourceName{corev1.ResourceCPU}
		}
		was := p.State.LastContainerStatuses["web"]
		was.Resources = new(cpu("1"))
		p.State.LastContainerStatuses["web"] = was
		p.State.Resources, p.State.UpdateResources = map[string]corev1.ResourceRequirements{"web": cpu("2")}, true
		if proof := step.Prove(p, step.Update{}, now); proof.Done || proof.Settled == restarts {
			t.Errorf("restarts %t: %+v", restarts, proof)
		}
	}
}

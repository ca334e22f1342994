package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/plan"
)

// between releases one template over another, of 3 pods with maxUnavailable 1.
func between(older, newer string) inplace.Intent {
	in := intent(3, 0, 1)
	in.Current, in.Update = rev(1, older), rev(2, newer)
	in.Revisions = []inplace.Revision{in.Current, in.Update}
	return in
}

func container(rest string) string {
	return `{"spec":{"containers":[{"name":"web","image":"app:v1"` + rest + `}]}}`
}

func cpuOfWeb(amount, policy string) string {
	if policy != "" {
		policy = `,"resizePolicy":[{"resourceName":"cpu","restartPolicy":"` + policy + `"}]`
	}
	return container(`,"resources":{"requests":{"cpu":"` + amount + `"}}` + policy)
}

func cpu(amount string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
}

// resizing are old pods in service with cpu 1, whose container restarts for another where policy says so.
func resizing(restarts []corev1.ResourceName) []inplace.Pod {
	p := pods("OOO")
	for i := range p {
		p[i].Containers[0].Resources, p[i].Containers[0].RunningResources, p[i].Containers[0].ResizeRestarts = cpu("1"), new(cpu("1")), restarts
	}
	return p
}

// infeasible are pods on the update revision whose resize the node can never hold.
func infeasible() []inplace.Pod {
	p := resizing(nil)
	for i := range p {
		p[i].Revision, p[i].Generation, p[i].ObservedGeneration = "web-2", 2, 2
		p[i].State = &inplace.State{
			Revision: "web-2", Generation: 1, UpdateResources: true, UpdateTimestamp: metav1.NewTime(now),
			Resources:              map[string]corev1.ResourceRequirements{"web": cpu("100")},
			OtherContainerStatuses: map[string]inplace.ContainerState{"web": {ContainerID: new("c"), Image: "app:v1", Resources: new(cpu("1"))}},
		}
		p[i].Containers[0].Resources = cpu("100")
		p[i].Resize = inplace.Resize{Pending: inplace.ResizeInfeasible, Message: "too much"}
		p[i].Seen.SameSince = now.Add(-time.Minute)
	}
	return p
}

// B087: a resize without a restart goes on although the budget is spent; one that restarts is held by it.
func TestB087ResizeAndBudget(t *testing.T) {
	t.Parallel()
	in := between(cpuOfWeb("1", ""), cpuOfWeb("2", ""))
	in.MaxUnavailable = 0
	d := plan.Next(in, resizing(nil), now)
	if diff := cmp.Diff([]string{"Update O0", "Update O1", "Update O2"}, writes(d)); diff != "" || d.Because() != "" {
		t.Errorf("%s%s", diff, d.Because())
	}
	in = between(cpuOfWeb("1", "RestartContainer"), cpuOfWeb("2", "RestartContainer"))
	in.MaxUnavailable = 0
	d = plan.Next(in, resizing([]corev1.ResourceName{corev1.ResourceCPU}), now)
	if len(writes(d)) != 0 || d.Holds[0].Kind != inplace.HoldBudget {
		t.Errorf("%v, %v", writes(d), holds(d))
	}
	in.MaxUnavailable = 1
	d = plan.Next(in, resizing([]corev1.ResourceName{corev1.ResourceCPU}), now)
	if diff := cmp.Diff([]string{"Drain O0"}, writes(d)); diff != "" {
		t.Error(diff)
	}
}

// N6: labels and annotations alone create no pod, delete none and restart none, whatever the budget.
func TestN6MetadataOnly(t *testing.T) {
	t.Parallel()
	in := between(`{"metadata":{"annotations":{"a":"1"}},"spec":{"containers":[{"name":"web","image":"app:v1"}]}}`,
		`{"metadata":{"annotations":{"a":"2"}},"spec":{"containers":[{"name":"web","image":"app:v1"}]}}`)
	in.MaxUnavailable = 0
	d := plan.Next(in, pods("OOO"), now)
	if diff := cmp.Diff([]string{"Update O0", "Update O1", "Update O2"}, writes(d)); diff != "" || len(d.Creates) != 0 {
		t.Errorf("%s%+v", diff, d.Creates)
	}
	for _, p := range d.Patches {
		if len(p.Images)+len(p.InitImages)+len(p.Resources) != 0 {
			t.Errorf("%+v", p)
		}
	}
}

// What a policy makes of a change that cannot be made in place: the delete, the refusal and the event name the field.
func TestRecreatedOrRefused(t *testing.T) {
	t.Parallel()
	quarter := func(requests string) string {
		return container(`,"resources":{"requests":{"cpu":"` + requests + `","memory":"2Gi"},"limits":{"cpu":"1","memory":"2Gi"}}`)
	}
	prep := func(image string) string {
		return `{"spec":{"initContainers":[{"name":"prep","image":"` + image + `"}],"containers":[{"name":"web","image":"app:v1"}]}}`
	}
	env := func(label string) string {
		return `{"metadata":{"labels":{"v":"` + label + `"}},"spec":{"containers":[{"name":"web","image":"app:v1","env":[{"name":"V","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['v']"}}}]}]}}`
	}
	cases := map[string]struct {
		in   inplace.Intent
		text string
	}{
		"B085: the QoS class": {between(quarter("500m"), quarter("1")), "pod's QoS class from Burstable to Guaranteed"},
		"B079: an init image": {between(prep("1"), prep("2")), "spec.initContainers[prep].image: an init container has run already"},
		"an environment":      {between(env("1"), env("2")), "metadata.labels['v']: is read by spec.containers[web].env[V]"},
	}
	// O173: upstream reads the version of the API server. We ask its discovery for pods/resize, which is what the
	// version stands for; a server that says nothing, or garbage, serves none.
	noResize := between(cpuOfWeb("1", ""), cpuOfWeb("2", ""))
	noResize.NoResize = "the API server serves no pods/resize"
	cases["O173: an API server without pods/resize"] = struct {
		in   inplace.Intent
		text string
	}{noResize, "cpu and memory change: the API server serves no pods/resize"}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Next(tc.in, pods("OOO"), now)
			if diff := cmp.Diff([]string{"Delete O0"}, writes(d)); diff != "" || !strings.Contains(d.Deletes[0].Because, tc.text) {
				t.Errorf("%s%+v", diff, d.Deletes)
			}
			recreating := ""
			for _, e := range d.Events {
				if e.Reason == "Recreating" {
					recreating = e.Message
				}
			}
			if !strings.Contains(recreating, "1 pod was deleted to be recreated: cannot be updated in place: ") || !strings.Contains(recreating, tc.text) {
				t.Errorf("event %q", recreating)
			}
			tc.in.Policy = inplace.PolicyInPlaceOnly
			d = plan.Next(tc.in, pods("OOO"), now)
			if len(writes(d)) != 0 || d.Summary.Refused[0].Count != 3 || !strings.Contains(d.Summary.Refused[0].Message, tc.text) || d.Holds[0].Kind != inplace.HoldRefused {
				t.Errorf("%v, %+v", writes(d), d.Summary.Refused)
			}
		})
	}
}

// The event about recreated pods comes with the first and with every tenth.
func TestRecreatingIsToldSeldom(t *testing.T) {
	t.Parallel()
	in := between(container(``), container(`,"tty":true`))
	in.Replicas = 30
	for n, want := range map[int]bool{0: true, 1: false, 8: false, 9: true, 10: false, 19: true} {
		told := false
		for _, e := range plan.Next(in, pods(strings.Repeat("C", n)+strings.Repeat("O", 30-n)), now).Events {
			told = told || e.Reason == "Recreating"
		}
		if told != want {
			t.Errorf("after %d: told %v", n, told)
		}
	}
}

// An infeasible resize: recreated within the budget, or left in service and told; never while the release is paused.
func TestInfeasible(t *testing.T) {
	t.Parallel()
	in := between(cpuOfWeb("1", ""), cpuOfWeb("100", ""))
	d := plan.Next(in, infeasible(), now)
	if diff := cmp.Diff([]string{"Delete O0"}, writes(d)); diff != "" || d.Deletes[0].Because != "cannot be updated in place: its node can never hold its resize: too much" {
		t.Errorf("%s%+v", diff, d.Deletes)
	}
	if d.Summary.Updated != 0 || d.Summary.Asked != 3 {
		t.Errorf("%+v", d.Summary)
	}
	in.MaxUnavailable = 0
	if d := plan.Next(in, infeasible(), now); len(writes(d)) != 0 {
		t.Errorf("beyond the budget: %v", writes(d))
	}
	in.MaxUnavailable, in.Paused = 1, true
	if d := plan.Next(in, infeasible(), now); len(writes(d)) != 0 {
		t.Errorf("paused: %v", writes(d))
	}
	in.Paused, in.Policy = false, inplace.PolicyInPlaceOnly
	d = plan.Next(in, infeasible(), now)
	patched := metav1.NewTime(now)
	want := []appsv1alpha1.PodProblem{{
		Reason: "ResizeInfeasible", Message: "its node can never hold its resize: too much", Pods: []string{"O0", "O1", "O2"}, Count: 3, Since: &patched,
	}}
	if diff := cmp.Diff(want, d.Summary.Broken); diff != "" || len(writes(d)) != 0 || d.Holds[0].Kind != inplace.HoldResize {
		t.Errorf("%s%v", diff, holds(d))
	}
}

// A refusal is told with the API server's words, since when it was first heard.
func TestRefusedResize(t *testing.T) {
	t.Parallel()
	in := between(cpuOfWeb("1", ""), cpuOfWeb("100", ""))
	in.Policy = inplace.PolicyInPlaceOnly
	p := infeasible()
	since := metav1.NewTime(now.Add(-time.Hour))
	for i := range p {
		p[i].Containers[0].Resources, p[i].Resize = cpu("1"), inplace.Resize{}
		p[i].Seen.ResizeRefused = &inplace.ResizeRefusal{Message: "exceeded quota", Since: since.Time, Last: now.Add(-time.Second)}
	}
	d := plan.Next(in, p, now)
	want := []appsv1alpha1.PodProblem{{
		Reason: "ResizeRefused", Message: "the API server refuses its resize: exceeded quota", Pods: []string{"O0", "O1", "O2"}, Count: 3, Since: &since,
	}}
	if diff := cmp.Diff(want, d.Summary.Broken); diff != "" || d.LookAgainIn != 30*time.Minute-time.Second || len(writes(d)) != 0 {
		t.Errorf("%s%s %v", diff, d.LookAgainIn, writes(d))
	}
}

// B067: pods without the gate are recreated; where that is allowed they are patched in service, one at a time, and told.
func TestB067WithoutAGate(t *testing.T) {
	t.Parallel()
	bare := func(text string) []inplace.Pod {
		p := pods(text)
		for i := range p {
			p[i].Gate = inplace.GateNone
		}
		return p
	}
	in := intent(4, 0, 3)
	if diff := cmp.Diff([]string{"Delete O0", "Delete O1", "Delete O2"}, writes(plan.Next(in, bare("OOOO"), now))); diff != "" {
		t.Error(diff)
	}
	in.Policy = inplace.PolicyInPlaceOnly
	if d := plan.Next(in, bare("OOOO"), now); len(writes(d)) != 0 || !strings.Contains(d.Because(), "no readiness gate InPlaceUpdateReady") {
		t.Errorf("%v, %v", writes(d), holds(d))
	}
	in.PatchUndrained = true
	d := plan.Next(in, bare("OOOO"), now)
	if diff := cmp.Diff([]string{"Update O0"}, writes(d)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Budget: 3 pods wait: without the readiness gate InPlaceUpdateReady pods are patched in service, one at a time"}, holds(d)); diff != "" {
		t.Error(diff)
	}
	told := fmt.Sprint(d.Events)
	if !strings.Contains(told, "PatchedUndrained") || !strings.Contains(told, "O0: without the readiness gate") {
		t.Errorf("%+v", d.Events)
	}
	onItsWay := bare("uOOO")
	onItsWay[0].Ready, onItsWay[0].Available = true, true
	if d := plan.Next(in, onItsWay, now); len(writes(d)) != 0 {
		t.Errorf("the second before the first is proven: %v", writes(d))
	}
	if diff := cmp.Diff([]string{"Update O1"}, writes(plan.Next(in, bare("NOOO"), now))); diff != "" {
		t.Error(diff)
	}
	in.MaxUnavailable = 0
	if d := plan.Next(in, bare("OOOO"), now); len(writes(d)) != 0 {
		t.Errorf("beyond the budget: %v", writes(d))
	}
}

// A pod without a gate that is under way counts as down, goes on first to a newer target, and holds up only pods that serve.
func TestB067OneIsUnderWay(t *testing.T) {
	t.Parallel()
	mixed := func() []inplace.Pod {
		p := pods("uOOn")
		p[0].Gate, p[0].Ready, p[0].Available = inplace.GateNone, true, true
		p[3].Gate = inplace.GateNone
		return p
	}
	in := intent(4, 0, 2)
	in.PatchUndrained = true
	if diff := cmp.Diff([]string{"Update n3"}, writes(plan.Next(in, mixed(), now))); diff != "" {
		t.Errorf("pods with a gate wait for the budget, one that does not serve for nothing: %s", diff)
	}
	in.MaxUnavailable = 3
	if diff := cmp.Diff([]string{"Drain O1", "Update n3"}, writes(plan.Next(in, mixed(), now))); diff != "" {
		t.Error(diff)
	}
	in.Update, in.Partition = app(3), 3
	in.Revisions = append(in.Revisions, in.Update)
	p := mixed()
	p[3].Ready, p[3].Available = true, true
	if diff := cmp.Diff([]string{"Update u0"}, writes(plan.Next(in, p, now))); diff != "" {
		t.Error(diff)
	}
}

// What another controller parked on a pod in service is begun when the budget allows it.
func TestAParkedUpdateWaitsForTheBudget(t *testing.T) {
	t.Parallel()
	p := pods("OOO")
	for i := range p {
		p[i].Revision, p[i].Parked = "web-2", &inplace.Parked{Revision: "web-2", ContainerImages: map[string]string{"web": "app:v2"}}
	}
	d := plan.Next(intent(3, 0, 1), p, now)
	if diff := cmp.Diff([]string{"Drain O0"}, writes(d)); diff != "" {
		t.Error(diff)
	}
	if d = plan.Next(intent(3, 0, 0), p, now); len(writes(d)) != 0 {
		t.Errorf("%v", writes(d))
	}
}

// B065: pods of a paused or OnDelete workload come into service like any other.
func TestB065NewPodsOfAPausedWorkload(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*inplace.Intent){
		"paused":   func(in *inplace.Intent) { in.Paused = true },
		"OnDelete": func(in *inplace.Intent) { in.OnDelete = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := intent(2, 0, 1)
			stop(&in)
			p := pods("nn")
			for i := range p {
				p[i].Gate = inplace.GateUnset
			}
			if diff := cmp.Diff([]string{"Return n0", "Return n1"}, writes(plan.Next(in, p, now))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// B169: a pod that is evicted in the middle of its update counts as unavailable until another is there; only one is out.
func TestB169EvictedInTheMiddle(t *testing.T) {
	t.Parallel()
	p := pods("uOO")
	p[0].Phase = inplace.PhaseTerminating
	p[0].State.NextContainerImages = map[string]string{"side": "x"}
	d := plan.Next(intent(3, 0, 1), p, now)
	if len(writes(d)) != 0 || d.Summary.Replicas != 2 {
		t.Errorf("%v, %+v", writes(d), d.Summary)
	}
	p = append(p, pods("OOOx")[3])
	if d := plan.Next(intent(3, 0, 1), p, now); len(writes(d)) != 0 {
		t.Errorf("while its replacement starts: %v", writes(d))
	}
}

// A bad image takes nothing off the budget again: pods that it broke go on to the next revision at once.
func TestABadImageIsLeftWithoutBudget(t *testing.T) {
	t.Parallel()
	in := intent(3, 0, 0)
	in.Update = app(3)
	in.Revisions = append(in.Revisions, in.Update)
	p := pods("uuO")
	for i := range 2 {
		p[i].ObservedGeneration = 2
		p[i].Containers[0].Running, p[i].Containers[0].Waiting = false, "ImagePullBackOff"
	}
	if diff := cmp.Diff([]string{"Update u0", "Update u1"}, writes(plan.Next(in, p, now))); diff != "" {
		t.Error(diff)
	}
}

// TestTroubles: each trouble has its reason, its container and its beginning by our clock.
func TestTroubles(t *testing.T) {
	t.Parallel()
	long, short := now.Add(-3*time.Minute), now.Add(-time.Minute)
	trouble := func(reason string, since time.Time) func(*inplace.Pod) {
		return func(p *inplace.Pod) {
			p.Seen.Trouble = inplace.Trouble{Reason: reason, Container: "web", Since: since}
			p.Containers[0].Running = false
			p.Containers[0].Waiting = reason
		}
	}
	cases := map[string]struct {
		change          func(*inplace.Pod)
		reason, message string
		since           time.Time
		look            time.Duration
	}{
		"a pull that fails": {change: trouble("ImagePullBackOff", short), reason: "ImagePullBackOff", message: "container web waits with ImagePullBackOff for image app:v1", since: short},
		"an image that may not be pulled": {
			change: trouble("ErrImageNeverPull", short), reason: "ErrImageNeverPull", message: "container web waits with ErrImageNeverPull for image app:v1", since: short,
		},
		"a name that is none": {change: trouble("InvalidImageName", short), reason: "InvalidImageName", message: "container web waits with InvalidImageName for image app:v1", since: short},
		"a crash loop": {
			change: func(p *inplace.Pod) { trouble("CrashLoopBackOff", short)(p); p.Containers[0].LastExit = "exit code 1" },
			reason: "CrashLoopBackOff", message: "container web ends again and again (exit code 1) with image app:v1", since: short,
		},
		"a crash loop, running just now": {
			change: func(p *inplace.Pod) {
				trouble("CrashLoopBackOff", short)(p)
				p.Containers[0].Waiting, p.Containers[0].Running, p.Containers[0].LastExit = "", true, "OOMKilled"
			},
			reason: "CrashLoopBackOff", message: "container web ends again and again (OOMKilled) with image app:v1", since: short, look: 11 * time.Second,
		},
		"a config that is missing": {
			change: trouble("CreateContainerConfigError", short), reason: "CreateContainerConfigError", message: "container web waits with CreateContainerConfigError for image app:v1", since: short,
		},
		"a launch barrier holds a container that way for a while": {
			change: func(p *inplace.Pod) {
				trouble("CreateContainerConfigError", short)(p)
				p.Containers[0].Priority = new(int32(1))
			}, look: time.Minute,
		},
		"and not for ever": {
			change: func(p *inplace.Pod) {
				trouble("CreateContainerConfigError", long)(p)
				p.Containers[0].Priority = new(int32(1))
			},
			reason: "CreateContainerConfigError", message: "container web waits with CreateContainerConfigError for image app:v1", since: long,
		},
		"starting up": {
			change: func(p *inplace.Pod) {
				p.Seen.Trouble = inplace.Trouble{Reason: inplace.TroubleStartup, Container: "web", Since: short}
			}, look: time.Minute,
		},
		"never up": {
			change: func(p *inplace.Pod) {
				p.Seen.Trouble = inplace.Trouble{Reason: inplace.TroubleStartup, Container: "web", Since: long}
			},
			reason: "StartupNotReady", message: "container web runs image app:v1, and its startup probe does not succeed", since: long,
		},
		"no node": {
			change: func(p *inplace.Pod) {
				p.Unschedulable = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes"
				p.Seen.Trouble = inplace.Trouble{Reason: inplace.TroubleUnschedulable, Since: long}
			},
			reason: "Unschedulable", message: "the scheduler finds no node for it: 0/3 nodes are available: 3 Insufficient cpu", since: long,
		},
		"a new pod whose init image is absent": {
			change: func(p *inplace.Pod) {
				p.Phase = inplace.PhasePending
				p.Containers[0].Running, p.Containers[0].Waiting = false, "PodInitializing"
				p.Containers = append(p.Containers, inplace.Container{Name: "prep", Kind: inplace.KindInit, Image: "prep:9", Waiting: "ErrImagePull"})
				p.ReadySince = long
			},
			reason: "ImagePullBackOff", message: "container prep waits with ImagePullBackOff for image prep:9", since: long,
		},
		"being made": {change: func(p *inplace.Pod) { p.Containers[0].Running, p.Containers[0].Waiting = false, "ContainerCreating" }},
		"NotReady": {
			change: func(p *inplace.Pod) { p.Seen.SameSince, p.ReadySince = long, short }, reason: "NotReady", message: "its containers run and the pod does not become Ready", since: short,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pods("n")
			p[0].Containers[0].Started = true
			tc.change(&p[0])
			d := plan.Next(intent(1, 1, 1), p, now)
			var want []appsv1alpha1.PodProblem
			if tc.reason != "" {
				since := metav1.NewTime(tc.since)
				want = []appsv1alpha1.PodProblem{{Reason: tc.reason, Message: tc.message, Pods: []string{"n0"}, Count: 1, Since: &since}}
			}
			if diff := cmp.Diff(want, d.Summary.Broken); diff != "" || d.LookAgainIn != tc.look {
				t.Errorf("%slook again in %s", diff, d.LookAgainIn)
			}
		})
	}
}

//go:build lab

package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// given checks that every pod's main was given just so much, by the kubelet's word.
func (p place) given(what corev1.ResourceName, amount string) {
	p.Helper()
	want := resource.MustParse(amount)
	for name, pod := range p.Pods() {
		s := statusOf(pod, "main")
		if s.Resources == nil {
			p.Errorf("%s: the kubelet says nothing of resources", name)
			continue
		}
		if got := s.Resources.Requests[what]; got.Cmp(want) != 0 {
			p.Errorf("%s: %s is %s, want %s", name, what, got.String(), amount)
		}
	}
}

// TestResize: cpu changes while the container runs. No restart, no moment out of service, no budget, so all pods at once
// (B087), and it is called updated when the kubelet has done it.
func TestResize(t *testing.T) {
	p := onSteady(t)
	p.create(app{replicas: 3, rollout: "maxUnavailable: 1", main: "resources: {requests: {cpu: 10m}}"})
	before, r, mark := kit.Identities(p.Pods()), p.Record(), p.auditMark()
	p.set(mainResources, cpu("20m"))
	cs := p.Ready("web", 3, patience)
	p.given(corev1.ResourceCPU, "20m")
	p.kept(before, map[string]int32{"main": 0})
	if seen := r.Seen(); seen.Unready != 0 || seen.Held != 0 || cs.Status.Underway.UpdatedInPlace != 3 {
		t.Errorf("seen %+v, underway %s", seen, kit.Text(cs.Status.Underway))
	}
	writes, conflicts, reads := p.requests(mark)
	t.Logf("3 pods: %v, %d conflicts, %d reads", writes, conflicts, reads)
	if writes["patch pods"] != 3 || writes["patch pods/resize"] != 3 || len(writes) != 2 || reads != 0 {
		t.Errorf("%v and %d reads, want a patch of pods and one of pods/resize a pod", writes, reads)
	}
}

// TestResizeRestarts: a container whose resizePolicy says RestartContainer is taken out of service for it, restarts once,
// and waits for the budget (B087).
func TestResizeRestarts(t *testing.T) {
	p := onSteady(t)
	p.service()
	p.create(app{
		replicas: 2, rollout: "maxUnavailable: 1",
		main: "resources: {requests: {memory: 32Mi}}, resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]",
	})
	names, before, r, e := p.names(), kit.Identities(p.Pods()), p.Record(), p.endpoints()
	p.set(mainResources, map[string]any{"requests": map[string]any{"memory": "48Mi"}})
	p.Ready("web", 2, patience)
	p.given(corev1.ResourceMemory, "48Mi")
	p.kept(before, map[string]int32{"main": 1})
	time.Sleep(time.Second)
	e.once(p, names)
	if seen := r.Seen(); seen.FewestReady < 1 || seen.Held != 1 {
		t.Errorf("seen %+v", seen)
	}
}

// TestImageAndResize: an image and memory that restarts the container, in one release. They travel in two requests, so a
// kubelet may act on the first alone: the container starts anew once or twice, never more, and never in service.
func TestImageAndResize(t *testing.T) {
	p := onSteady(t)
	p.create(app{
		replicas: 2, rollout: "maxUnavailable: 1",
		main: "resources: {requests: {memory: 32Mi}}, resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]",
	})
	before, r := kit.Identities(p.Pods()), p.Record()
	p.set(mainImage, lab.Image(lab.AppImage, "v2"), mainResources, map[string]any{"requests": map[string]any{"memory": "48Mi"}})
	p.Ready("web", 2, patience)
	p.given(corev1.ResourceMemory, "48Mi")
	for name, was := range before {
		pod := p.Pods()[name]
		if pod == nil || pod.UID != was.UID || pod.Status.PodIP != was.IP {
			t.Errorf("%s is not the pod it was", name)
			continue
		}
		restarts := statusOf(pod, "main").RestartCount
		t.Logf("%s: started anew %d times", name, restarts)
		if restarts < 1 || restarts > 2 {
			t.Errorf("%s restarted %d times", name, restarts)
		}
	}
	if seen := r.Seen(); seen.FewestReady < 1 || seen.Held != 1 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v", seen)
	}
}

// room is what the place's node can give to pods, in thousandths of a processor.
func (p place) room() int64 {
	p.Helper()
	node := &corev1.Node{}
	if err := p.Get(p.Context(), client.ObjectKey{Name: p.node.Name()}, node); err != nil {
		p.Fatal(err)
	}
	return node.Status.Allocatable.Cpu().MilliValue()
}

// fill puts a pod on the place's node that takes so much of its processors.
func (p place) fill(milli int64) *corev1.Pod {
	p.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = p.NS, "filler"
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: p.node.Name()}
	pod.Spec.TerminationGracePeriodSeconds = new(int64)
	pod.Spec.Containers = []corev1.Container{{
		Name: "main", Image: lab.Image(lab.AppImage, "v1"), ImagePullPolicy: corev1.PullNever,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}},
	}}
	if err := p.Create(p.Context(), pod); err != nil {
		p.Fatal(err)
	}
	p.until(patience, func(pods map[string]*corev1.Pod) string {
		if s := pods["filler"]; s == nil || !kit.PodReady(s) {
			return "the filler does not run: " + kit.Text(s.Status.Conditions)
		}
		return ""
	})
	return pod
}

// TestResizeDeferred: the node has no room just now. The pod waits in service, with the reason on the workload, and is
// done when room is made. It takes no budget and restarts nothing.
func TestResizeDeferred(t *testing.T) {
	p := onRough(t)
	p.create(app{replicas: 1, rollout: "maxUnavailable: 1", main: "resources: {requests: {cpu: 100m}}"})
	before := kit.Identities(p.Pods())
	filler := p.fill(p.room() - 300)
	p.set(mainResources, cpu("400m"))
	p.Eventually(patience, func() string {
		for _, kind := range []string{appsv1alpha1.ConditionReady, appsv1alpha1.ConditionProgressing} {
			if c := p.Condition("web", kind); c == nil || !strings.Contains(c.Message, "Deferred") {
				return "no reason is told: " + kit.Text(p.CloneSet("web").Status)
			}
		}
		return ""
	})
	for name := range before {
		if pod := p.Pods()[name]; !kit.PodReady(pod) || gateFalse(pod) {
			t.Errorf("%s is out of service while it waits", name)
		}
	}
	if n := p.CloneSet("web").Status.UpdatedReplicas; n != 0 {
		t.Errorf("%d pods are called updated", n)
	}
	p.remove(filler)
	p.Ready("web", 1, patience)
	for name, pod := range p.Pods() {
		if id := kit.Identities(p.Pods())[name]; id != before[name] || kit.Restarts(pod) != 0 {
			t.Errorf("%s was %+v and is %+v, %d restarts", name, before[name], id, kit.Restarts(pod))
		}
	}
	p.given(corev1.ResourceCPU, "400m")
}

// TestResizeInfeasible: more than the node can ever give, which the API server itself refuses. Under InPlaceOnly that is told and the pod goes on as it is;
// under InPlaceIfPossible the pod is recreated, where there is no room for it either, and a template that fits ends it.
func TestResizeInfeasible(t *testing.T) {
	parallel(t)
	t.Run("InPlaceOnly", func(t *testing.T) {
		p := onSteady(t)
		p.create(app{replicas: 2, policy: appsv1alpha1.InPlaceOnlyUpdate, rollout: "maxUnavailable: 1", main: "resources: {requests: {cpu: 10m}}"})
		before, r := kit.Identities(p.Pods()), p.Record()
		p.set(mainResources, cpu("1000"))
		p.Eventually(patience, func() string {
			u := p.CloneSet("web").Status.Underway
			if u == nil || len(u.Broken) != 1 || u.Broken[0].Reason != "ResizeRefused" || u.Broken[0].Since == nil ||
				!strings.Contains(u.Broken[0].Message, "didn't have enough allocatable resources: cpu") {
				return "not told: " + kit.Text(p.CloneSet("web").Status)
			}
			return ""
		})
		p.kept(before, map[string]int32{"main": 0})
		p.set(mainResources, cpu("20m"))
		p.Ready("web", 2, patience)
		p.kept(before, map[string]int32{"main": 0})
		p.given(corev1.ResourceCPU, "20m")
		if seen := r.Seen(); seen.Unready > 0 {
			t.Errorf("seen %+v", seen)
		}
	})
	t.Run("InPlaceIfPossible", func(t *testing.T) {
		p := onSteady(t)
		p.create(app{replicas: 2, rollout: "maxUnavailable: 1", main: "resources: {requests: {cpu: 10m}}"})
		before, r := kit.Identities(p.Pods()), p.Record()
		p.set(mainResources, cpu("1000"))
		p.until(patience, func(pods map[string]*corev1.Pod) string {
			for name, pod := range pods {
				if before[name].UID != pod.UID && pod.Spec.NodeName == "" && len(pods) == 2 {
					return ""
				}
			}
			return "no pod is recreated: " + kit.Text(p.CloneSet("web").Status)
		})
		p.During(3*time.Second, func() string {
			if n := r.Seen().FewestReady; n < 1 {
				return fmt.Sprintf("%d pods are ready", n)
			}
			return ""
		})
		p.set(mainResources, cpu("20m"))
		p.Ready("web", 2, patience)
		p.given(corev1.ResourceCPU, "20m")
	})
}

//go:build lab

package node

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// TestB025 (and N4): two tags of one digest, both ways. Neither imageID nor status.image ever shows such an update; it
// completes all the same, and each change restarts each container once.
func TestB025(t *testing.T) {
	p := onSteady(t)
	p.create(app{replicas: 3, tag: "v2", rollout: "maxUnavailable: 2"})
	before := kit.Identities(p.Pods())
	digest := statusOf(p.Pods()[p.names()[0]], "main").ImageID
	for i, tag := range []string{"v2-again", "v2"} {
		p.tag(tag)
		cs := p.Ready("web", 3, time.Minute)
		p.kept(before, map[string]int32{"main": int32(i + 1)})
		p.runs("main", lab.Image(lab.AppImage, tag))
		for name, pod := range p.Pods() {
			if s := statusOf(pod, "main"); s.ImageID != digest {
				t.Fatalf("%s: imageID %s, was %s: the tags are not of one digest", name, s.ImageID, digest)
			}
		}
		if cs.Status.UpdatedReplicas != 3 || cs.Status.Underway.UpdatedInPlace != 3 {
			t.Errorf("status %s", kit.Text(cs.Status))
		}
	}
}

// TestRollback goes back to v1 from wherever the update to another image is.
func TestRollback(t *testing.T) {
	parallel(t)
	t.Run("while the new container crashes", func(t *testing.T) {
		p := onSteady(t)
		before := p.two("")
		p.tag("crash")
		broken := p.crashing()
		crashed := statusOf(p.Pods()[broken], "main").RestartCount
		if u := p.CloneSet("web").Status.Underway; u == nil || len(u.Broken) != 1 || u.Broken[0].Reason != "CrashLoopBackOff" || u.Broken[0].Pods[0] != broken {
			t.Errorf("underway %s", kit.Text(u))
		}
		p.tag("v1")
		p.Ready("web", 2, time.Minute)
		// One start for the way back, after however many the crashes took; the other pod was never touched.
		p.back(before, map[string]int32{broken: crashed + 1})
	})
	t.Run("while the new container is not ready", func(t *testing.T) {
		p := onSteady(t)
		before := p.two("")
		p.tag("never-ready")
		name := p.patched(lab.Image(lab.AppImage, "never-ready"), 30*time.Second)
		p.until(30*time.Second, func(pods map[string]*corev1.Pod) string {
			if s := statusOf(pods[name], "main"); s.RestartCount != 1 || s.State.Running == nil {
				return "the new container does not run: " + kit.Text(s)
			}
			return ""
		})
		// It is proven and in its place by then, and not ready for reasons of its own.
		p.During(3*time.Second, func() string {
			if n := p.On(lab.Image(lab.AppImage, "v1")); n != 1 {
				return fmt.Sprintf("%d pods are on v1, want 1", n)
			}
			return ""
		})
		p.tag("v1")
		p.Ready("web", 2, time.Minute)
		p.back(before, map[string]int32{name: 2})
	})
	t.Run("during the grace period", func(t *testing.T) {
		p := onSteady(t)
		before := p.two("inPlaceUpdateStrategy: {gracePeriodSeconds: 60}")
		p.tag("v2")
		p.drained(30 * time.Second)
		p.tag("v1")
		p.Ready("web", 2, 40*time.Second)
		p.back(before, nil)
	})
	t.Run("held by a partition during the grace period (N5)", func(t *testing.T) {
		p := onSteady(t)
		before := p.two("inPlaceUpdateStrategy: {gracePeriodSeconds: 60}")
		p.tag("v2")
		p.drained(30 * time.Second)
		p.Merge("web", `{spec: {updateStrategy: {partition: 2}}}`)
		p.Ready("web", 0, 40*time.Second)
		p.back(before, nil)
	})
	t.Run("before the kubelet sees the drain", func(t *testing.T) {
		p := onRough(t)
		before := p.two("")
		p.pause(p.node.PauseKubelet, p.node.ResumeKubelet)
		p.tag("v2")
		p.until(30*time.Second, func(pods map[string]*corev1.Pod) string {
			for _, pod := range pods {
				if gateFalse(pod) {
					return ""
				}
			}
			return "no gate is False"
		})
		p.During(2*time.Second, func() string {
			if n := p.On(lab.Image(lab.AppImage, "v1")); n != 2 {
				return "a pod was patched that is not seen out of service"
			}
			return ""
		})
		p.tag("v1")
		p.until(30*time.Second, func(pods map[string]*corev1.Pod) string {
			for name, pod := range pods {
				if gateFalse(pod) {
					return name + " is held out of service"
				}
			}
			return ""
		})
		p.resume(p.node.ResumeKubelet)
		p.Ready("web", 2, 40*time.Second)
		p.back(before, nil)
	})
	t.Run("after the drain, before the patch", func(t *testing.T) {
		p := onRough(t)
		before := p.two("inPlaceUpdateStrategy: {gracePeriodSeconds: 1}")
		p.tag("v2")
		name := p.drained(30 * time.Second)
		// The agent is asleep when the grace period ends: it wakes to a drained pod whose patch is due, and to another
		// template.
		p.pause(agent.Pause, agent.Resume)
		if got := imageOf(p.Pods()[name], "main"); got != lab.Image(lab.AppImage, "v1") {
			t.Fatalf("%s was patched to %s before the agent was stopped", name, got)
		}
		p.tag("v1")
		time.Sleep(2 * time.Second)
		p.resume(agent.Resume)
		p.Ready("web", 2, 40*time.Second)
		p.back(before, nil)
	})
}

// two is an app of two pods of v1, one of which may be unavailable.
func (p place) two(rollout string) map[string]kit.Identity {
	p.Helper()
	p.create(app{replicas: 2, rollout: "maxUnavailable: 1" + also(rollout)})
	return kit.Identities(p.Pods())
}

// back checks that the pods are as before, on v1, and restarted only where said and just so often.
func (p place) back(before map[string]kit.Identity, restarts map[string]int32) {
	p.Helper()
	p.kept(before, nil)
	p.runs("main", lab.Image(lab.AppImage, "v1"))
	for name, pod := range p.Pods() {
		if got := statusOf(pod, "main").RestartCount; got != restarts[name] {
			p.Errorf("%s restarted %d times, want %d", name, got, restarts[name])
		}
	}
}

// crashing waits until a pod is in a crash loop, and the workload says so, and returns the pod's name.
func (p place) crashing() string {
	p.Helper()
	var found string
	p.until(time.Minute, func(pods map[string]*corev1.Pod) string {
		for name, pod := range pods {
			if s := statusOf(pod, "main"); s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" {
				if u := p.CloneSet("web").Status.Underway; u != nil && len(u.Broken) > 0 {
					found = name
					return ""
				}
			}
		}
		return "no pod is told to crash: " + kit.Text(p.CloneSet("web").Status.Underway)
	})
	return found
}

// pause stops a process, and lets it run on when the test ends, however it does.
func (p place) pause(pause, resume func() error) {
	p.Helper()
	p.Cleanup(func() { _ = resume() })
	if err := pause(); err != nil {
		p.Fatal(err)
	}
}

func (p place) resume(resume func() error) {
	p.Helper()
	if err := resume(); err != nil {
		p.Fatal(err)
	}
}

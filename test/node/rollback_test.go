//go:build lab

package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// TestB025 (and N4): two tags of one digest, both ways. Neither imageID nor status.image ever shows such an update; it
// completes all the same, and each change restarts each container once.
func TestB025(t *testing.T) {
	p := onSteady(t)
	p.create(app{replicas: 3, tag: "v2", rollout: "maxUnavailable: 100%"})
	before := kit.Identities(p.Pods())
	digest := statusOf(p.Pods()[p.names()[0]], "main").ImageID
	for i, tag := range []string{"v2-again", "v2"} {
		p.tag(tag)
		cs := p.Ready("web", 3, patience)
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
		runs := p.runsOf("main")
		p.tag("crash")
		broken := p.crashing()
		if u := p.CloneSet("web").Status.Underway; u == nil || len(u.Broken) != 1 || u.Broken[0].Reason != "CrashLoopBackOff" || u.Broken[0].Pods[0] != broken {
			t.Errorf("underway %s", kit.Text(u))
		}
		p.tag("v1")
		p.Ready("web", 2, patience)
		p.kept(before, nil)
		p.runs("main", lab.Image(lab.AppImage, "v1"))
		// One start for the way back, after however many the crashes took; the other pod was never touched.
		for name, got := range runs.of(lab.Image(lab.AppImage, "v1")) {
			want := 1
			if name == broken {
				want = 2
			}
			if len(got) != want {
				t.Errorf("%s ran v1 in the containers %v, want %d", name, got, want)
			}
		}
	})
	t.Run("while the new container is not ready", func(t *testing.T) {
		p := onSteady(t)
		before := p.two("")
		p.tag("never-ready")
		name := p.patched(lab.Image(lab.AppImage, "never-ready"), patience)
		p.until(patience, func(pods map[string]*corev1.Pod) string {
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
		p.Ready("web", 2, patience)
		p.back(before, map[string]int32{name: 2})
	})
	t.Run("during the grace period", func(t *testing.T) {
		p := onSteady(t)
		before := p.two("inPlaceUpdateStrategy: {gracePeriodSeconds: 60}")
		p.tag("v2")
		p.drained(30 * time.Second)
		p.tag("v1")
		p.Ready("web", 2, patience)
		p.back(before, nil)
	})
	t.Run("held by a partition during the grace period (N5)", func(t *testing.T) {
		p := onSteady(t)
		before := p.two("inPlaceUpdateStrategy: {gracePeriodSeconds: 60}")
		p.tag("v2")
		p.drained(30 * time.Second)
		p.Merge("web", `{spec: {updateStrategy: {partition: 2}}}`)
		p.Ready("web", 0, patience)
		p.back(before, nil)
	})
	t.Run("before the kubelet sees the drain", func(t *testing.T) {
		p := onRough(t)
		before := p.two("")
		p.pause(p.node.PauseKubelet, p.node.ResumeKubelet)
		p.tag("v2")
		p.until(patience, func(pods map[string]*corev1.Pod) string {
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
		p.until(patience, func(pods map[string]*corev1.Pod) string {
			for name, pod := range pods {
				if gateFalse(pod) {
					return name + " is held out of service"
				}
			}
			return ""
		})
		p.resume(p.node.ResumeKubelet)
		p.Ready("web", 2, patience)
		p.back(before, nil)
	})
	t.Run("after the drain, before the patch", func(t *testing.T) {
		p := onSteady(t)
		before := p.two("")
		// The patch is due and the API server takes none: the pod stays drained and unpatched.
		p.withoutPatches()
		p.tag("v2")
		name := p.drained(30 * time.Second)
		p.Eventually(patience, func() string {
			if c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate); c == nil || !strings.Contains(c.Message, "no image may change") {
				return "the refusal is not told: " + kit.Text(c)
			}
			return ""
		})
		if pod := p.Pods()[name]; imageOf(pod, "main") != lab.Image(lab.AppImage, "v1") || !gateFalse(pod) {
			t.Fatalf("%s: %s", name, kit.Text(pod))
		}
		p.tag("v1")
		p.Ready("web", 2, patience)
		p.back(before, nil)
	})
}

// noPatches is an admission policy that lets no image of a pod of one namespace change.
const noPatches = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]
  matchConditions: [{name: here, expression: "object.metadata.namespace == '%[1]s'"}]
  failurePolicy: Fail
  validations: [{expression: "object.spec.containers[0].image == oldObject.spec.containers[0].image", message: no image may change}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`

// withoutPatches puts noPatches on the namespace and waits until the API server acts on it.
func (p place) withoutPatches() {
	p.Helper()
	p.cluster(fmt.Sprintf(noPatches, p.NS))
	body := fmt.Sprintf(`{"spec": {"containers": [{"name": "main", "image": %q}]}}`, lab.Image(lab.AppImage, "v3"))
	p.Eventually(patience, func() string {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = p.NS, p.names()[0]
		if err := p.Patch(p.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(body)), client.DryRunAll); err == nil {
			return "the admission policy does not act yet"
		}
		return ""
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
	p.until(patience, func(pods map[string]*corev1.Pod) string {
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

// runs are the containers that a watch saw run, by pod.
type runs struct {
	mu  sync.Mutex
	ids map[string]map[string][]string
}

// runsOf follows one container of each pod until the test ends.
func (p place) runsOf(container string) *runs {
	p.Helper()
	r := &runs{ids: map[string]map[string][]string{}}
	p.watchPods(func(pod *corev1.Pod) {
		s := statusOf(pod, container)
		if s.State.Running == nil {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.ids[s.Image] == nil {
			r.ids[s.Image] = map[string][]string{}
		}
		if got := r.ids[s.Image][pod.Name]; !slices.Contains(got, s.ContainerID) {
			r.ids[s.Image][pod.Name] = append(got, s.ContainerID)
		}
	})
	return r
}

// of are the containers that ran an image, by pod.
func (r *runs) of(image string) map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.ids[image])
}

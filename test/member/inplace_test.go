//go:build lab

package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// TestInPlace is the plain case: every pod keeps itself and restarts once.
func TestInPlace(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 5
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 2}`)
	first := p.Ready("web", 5, time.Minute)
	if first.Status.CurrentRevision != first.Status.UpdateRevision {
		t.Errorf("current %s, update %s", first.Status.CurrentRevision, first.Status.UpdateRevision)
	}
	before := kit.Identities(p.Pods())
	r := p.Record()
	p.Image("web", "app:v2")
	cs := p.Ready("web", 5, time.Minute)
	p.InPlace(before, 1)
	if seen := r.Seen(); seen.Unready > 2 || len(seen.Problems) > 0 {
		t.Errorf("%d pods unready at once, problems %v", seen.Unready, seen.Problems)
	}
	if cs.Status.CurrentRevision != cs.Status.UpdateRevision || cs.Status.CurrentRevision == first.Status.CurrentRevision {
		t.Errorf("status %s", kit.Text(cs.Status))
	}
	if cs.Status.Underway == nil || cs.Status.Underway.UpdatedInPlace != 5 || cs.Status.Underway.Recreated != 0 {
		t.Errorf("underway %s", kit.Text(cs.Status.Underway))
	}
}

// TestM001 is percent partition, in place, with a grace period.
func TestM001(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.Make(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: shop-front, labels: {app: shop-front}}
spec:
  replicas: 10
  revisionHistoryLimit: 5
  minReadySeconds: 10
  selector: {matchLabels: {app: shop-front}}
  template:
    metadata: {labels: {app: shop-front}}
    spec:
      terminationGracePeriodSeconds: 30
      containers:
      - name: main
        image: registry.local:5000/shop/front:1.4.0
        imagePullPolicy: IfNotPresent
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 3}
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: 500m, memory: 256Mi}}
  updateStrategy:
    type: InPlaceIfPossible
    partition: "70%"
    maxUnavailable: 2
    inPlaceUpdateStrategy: {gracePeriodSeconds: 15}`)
	p.Ready("shop-front", 10, time.Minute)
	for name, pod := range p.Pods() {
		if !slices.ContainsFunc(gates(pod), func(g string) bool { return g == appsv1alpha1.ConditionInPlaceUpdateReady }) {
			t.Errorf("%s has no readiness gate", name)
		}
	}
	before, r := kit.Identities(p.Pods()), p.Record()
	const v5 = "registry.local:5000/shop/front:1.5.0"
	patched := time.Now()
	p.Image("shop-front", v5)
	p.Eventually(30*time.Second, func() string {
		if p.On(v5) == 0 {
			return "no pod is patched"
		}
		return ""
	})
	if took := time.Since(patched); took < 15*time.Second {
		t.Errorf("a pod was patched %s after the template, the grace period is 15 s", took)
	}
	cs := p.Ready("shop-front", 3, 2*time.Minute)
	if cs.Status.ExpectedUpdatedReplicas != 3 || p.On(v5) != 3 {
		t.Errorf("expected %d, on the new image %d", cs.Status.ExpectedUpdatedReplicas, p.On(v5))
	}
	p.During(3*time.Second, func() string { return is(p.On(v5), 3) })
	p.Merge("shop-front", `{spec: {updateStrategy: {partition: "0%"}}}`)
	p.Ready("shop-front", 10, 4*time.Minute)
	p.InPlace(before, 1)
	if seen := r.Seen(); seen.Unready > 2 || len(seen.Problems) > 0 || seen.Deleted+seen.Created > 0 {
		t.Errorf("seen %+v", seen)
	}
}

func is(got, want int) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%d, want %d", got, want)
}

// TestB025: two tags of one digest; neither imageID nor status.image ever shows the update.
func TestB025(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "repo/same-digest:v1", `
replicas: 3
updateStrategy: {type: InPlaceIfPossible, partition: 0}`)
	p.Ready("web", 3, time.Minute)
	before := kit.Identities(p.Pods())
	p.Image("web", "repo/same-digest:v2")
	cs := p.Ready("web", 3, time.Minute)
	p.InPlace(before, 1)
	for name, pod := range p.Pods() {
		if pod.Spec.Containers[0].Image != "repo/same-digest:v2" || !kit.PodCondition(pod, appsv1alpha1.ConditionInPlaceUpdateReady) {
			t.Errorf("%s: %s", name, kit.Text(pod.Status))
		}
	}
	if cs.Status.UpdatedReadyReplicas != 3 {
		t.Errorf("status %s", kit.Text(cs.Status))
	}
}

// TestB027: an image without a tag, then a tagged one, and back within the grace period.
func TestB027(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "web", `
replicas: 1
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 60}}`)
	p.Ready("web", 1, time.Minute)
	before := kit.Identities(p.Pods())
	p.Image("web", "web:stable")
	p.Eventually(10*time.Second, func() string {
		for _, pod := range p.Pods() {
			if kit.PodReady(pod) {
				return "the pod is not drained"
			}
		}
		return ""
	})
	time.Sleep(10 * time.Second)
	p.Image("web", "web")
	p.Ready("web", 1, 2*time.Minute)
	for name, pod := range p.Pods() {
		switch {
		case before[name].UID != pod.UID, kit.Restarts(pod) > 1, pod.Spec.Containers[0].Image != "web":
			t.Errorf("%s: %s, %d restarts", name, pod.Spec.Containers[0].Image, kit.Restarts(pod))
		case !kit.PodCondition(pod, appsv1alpha1.ConditionInPlaceUpdateReady):
			t.Errorf("%s: the gate is not True", name)
		case pod.Annotations[appsv1alpha1.AnnotationInPlaceGrace] != "":
			t.Errorf("%s still has a parked update", name)
		}
	}
}

// TestB143: the status is neither early nor late.
func TestB143(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 3
updateStrategy: {type: InPlaceIfPossible, partition: 2, maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 3}}`)
	p.Ready("web", 3, time.Minute)
	p.Image("web", "app:v2-slow-pull-3s")
	done := time.Now().Add(3 * time.Minute)
	for cs := p.CloneSet("web"); ; cs = p.CloneSet("web") {
		// Read the pods after the status: what it counts must be there by then.
		running := 0
		for _, pod := range p.Pods() {
			if s := pod.Status.ContainerStatuses; len(s) == 1 && s[0].Image == "app:v2-slow-pull-3s" {
				running++
			}
		}
		if cs.Status.ObservedGeneration == cs.Generation && int(cs.Status.UpdatedReplicas) > running {
			t.Fatalf("the status says %d are updated, %d run the new image", cs.Status.UpdatedReplicas, running)
		}
		if cs.Status.ObservedGeneration == cs.Generation && cs.Status.UpdatedReadyReplicas == cs.Status.ExpectedUpdatedReplicas {
			break
		}
		if time.Now().After(done) {
			t.Fatalf("status %s", kit.Text(cs.Status))
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.Merge("web", `{spec: {updateStrategy: {partition: 1}}}`)
	p.Eventually(5*time.Second, func() string { return is(int(p.CloneSet("web").Status.ExpectedUpdatedReplicas), 2) })
	p.Ready("web", 2, time.Minute)
}

// TestInPlaceOnlyRefusal: what cannot be done in place moves nothing and names the field.
func TestInPlaceOnlyRefusal(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 3
updateStrategy: {type: InPlaceOnly}`)
	p.Ready("web", 3, time.Minute)
	before := kit.Identities(p.Pods())
	p.Merge("web", `{spec: {template: {spec: {containers: [{name: main, image: "app:v2", env: [{name: A, value: b}]}]}}}}`)
	p.Eventually(10*time.Second, func() string {
		c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate)
		if c == nil || !strings.Contains(c.Message, "env") {
			return "FailedUpdate does not name the field: " + kit.Text(c)
		}
		return ""
	})
	p.During(5*time.Second, func() string { return is(p.On("app:v1"), 3) })
	cs := p.CloneSet("web")
	if cs.Status.Underway == nil || len(cs.Status.Underway.Refused) == 0 || cs.Status.Underway.Refused[0].Count != 3 {
		t.Errorf("underway %s", kit.Text(cs.Status.Underway))
	}
	p.InPlace(before, 0)
	p.Merge("web", `{spec: {template: {spec: {containers: [{name: main, image: "app:v3"}]}}}}`)
	p.Ready("web", 3, time.Minute)
	p.InPlace(before, 1)
	if c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate); c != nil {
		t.Errorf("FailedUpdate stays: %s", kit.Text(c))
	}
}

// TestBrokenIsFixedForward: a release that does not come up takes the budget and no more, says so, and a newer image
// moves the broken pods without spending any.
func TestBrokenIsFixedForward(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 4
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1}`)
	p.Ready("web", 4, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	p.Image("web", "app:v2-pull-fails")
	p.Eventually(30*time.Second, func() string {
		u := p.CloneSet("web").Status.Underway
		if u == nil || len(u.Broken) == 0 || u.Broken[0].Since == nil || len(u.Broken[0].Pods) != 1 {
			return "not reported: " + kit.Text(u)
		}
		return ""
	})
	p.During(3*time.Second, func() string { return is(p.On("app:v1"), 3) })
	if meta.IsStatusConditionTrue(p.CloneSet("web").Status.Conditions, appsv1alpha1.ConditionReady) {
		t.Error("Ready is True")
	}
	p.Image("web", "app:v3")
	p.Ready("web", 4, time.Minute)
	p.InPlace(before, 1)
	if seen := r.Seen(); seen.Unready > 1 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v", seen)
	}
}

// TestRequestBudget counts the agent's requests in the audit log: three per pod, no read.
func TestRequestBudget(t *testing.T) {
	t.Parallel()
	const pods = 20
	p := in(t, steady)
	p.App("web", "app:v1", fmt.Sprintf(`
replicas: %d
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 20%%}`, pods))
	p.Ready("web", pods, time.Minute)
	mark := p.Marked()
	p.Image("web", "app:v2")
	p.Ready("web", pods, time.Minute)
	done, conflicts, reads := p.Requests(mark, "pods", "pods/status")
	t.Logf("%d pods: %v, %d conflicts, %d reads", pods, done, conflicts, reads)
	if done["patch pods"] != pods || done["patch pods/status"] != 2*pods || len(done) != 2 || reads != 0 {
		t.Errorf("want %d patches of pods and %d of pods/status, and nothing else", pods, 2*pods)
	}
	if conflicts > pods {
		t.Errorf("%d conflicts", conflicts)
	}
}

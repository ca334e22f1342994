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
	"github.com/underway-dev/underway/test/lab"
)

// TestInPlace is the plain case: every pod keeps itself and restarts once.
func TestInPlace(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.app("web", "app:v1", `
replicas: 5
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 2}`)
	first := p.ready("web", 5, time.Minute)
	if first.Status.CurrentRevision != first.Status.UpdateRevision {
		t.Errorf("current %s, update %s", first.Status.CurrentRevision, first.Status.UpdateRevision)
	}
	before := identities(p.pods())
	r := p.record()
	p.image("web", "app:v2")
	cs := p.ready("web", 5, time.Minute)
	p.inPlace(before, 1)
	if seen := r.seen(); seen.unready > 2 || len(seen.problems) > 0 {
		t.Errorf("%d pods unready at once, problems %v", seen.unready, seen.problems)
	}
	if cs.Status.CurrentRevision != cs.Status.UpdateRevision || cs.Status.CurrentRevision == first.Status.CurrentRevision {
		t.Errorf("status %s", text(cs.Status))
	}
	if cs.Status.Underway == nil || cs.Status.Underway.UpdatedInPlace != 5 || cs.Status.Underway.Recreated != 0 {
		t.Errorf("underway %s", text(cs.Status.Underway))
	}
}

// TestM001 is percent partition, in place, with a grace period.
func TestM001(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.create(`
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
	p.ready("shop-front", 10, time.Minute)
	for name, pod := range p.pods() {
		if !slices.ContainsFunc(gates(pod), func(g string) bool { return g == appsv1alpha1.ConditionInPlaceUpdateReady }) {
			t.Errorf("%s has no readiness gate", name)
		}
	}
	before, r := identities(p.pods()), p.record()
	const v5 = "registry.local:5000/shop/front:1.5.0"
	patched := time.Now()
	p.image("shop-front", v5)
	p.eventually(30*time.Second, func() string {
		if p.on(v5) == 0 {
			return "no pod is patched"
		}
		return ""
	})
	if took := time.Since(patched); took < 15*time.Second {
		t.Errorf("a pod was patched %s after the template, the grace period is 15 s", took)
	}
	cs := p.ready("shop-front", 3, 2*time.Minute)
	if cs.Status.ExpectedUpdatedReplicas != 3 || p.on(v5) != 3 {
		t.Errorf("expected %d, on the new image %d", cs.Status.ExpectedUpdatedReplicas, p.on(v5))
	}
	p.during(3*time.Second, func() string { return is(p.on(v5), 3) })
	p.patch("shop-front", `{spec: {updateStrategy: {partition: "0%"}}}`)
	p.ready("shop-front", 10, 4*time.Minute)
	p.inPlace(before, 1)
	if seen := r.seen(); seen.unready > 2 || len(seen.problems) > 0 || seen.deleted+seen.created > 0 {
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
	p.app("web", "repo/same-digest:v1", `
replicas: 3
updateStrategy: {type: InPlaceIfPossible, partition: 0}`)
	p.ready("web", 3, time.Minute)
	before := identities(p.pods())
	p.image("web", "repo/same-digest:v2")
	cs := p.ready("web", 3, time.Minute)
	p.inPlace(before, 1)
	for name, pod := range p.pods() {
		if pod.Spec.Containers[0].Image != "repo/same-digest:v2" || !podCondition(pod, appsv1alpha1.ConditionInPlaceUpdateReady) {
			t.Errorf("%s: %s", name, text(pod.Status))
		}
	}
	if cs.Status.UpdatedReadyReplicas != 3 {
		t.Errorf("status %s", text(cs.Status))
	}
}

// TestB027: an image without a tag, then a tagged one, and back within the grace period.
func TestB027(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.app("web", "web", `
replicas: 1
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 30}}`)
	p.ready("web", 1, time.Minute)
	before := identities(p.pods())
	p.image("web", "web:stable")
	p.eventually(10*time.Second, func() string {
		for _, pod := range p.pods() {
			if podReady(pod) {
				return "the pod is not drained"
			}
		}
		return ""
	})
	time.Sleep(10 * time.Second)
	p.image("web", "web")
	p.ready("web", 1, 40*time.Second)
	for name, pod := range p.pods() {
		switch {
		case before[name].UID != pod.UID, restarts(pod) > 1, pod.Spec.Containers[0].Image != "web":
			t.Errorf("%s: %s, %d restarts", name, pod.Spec.Containers[0].Image, restarts(pod))
		case !podCondition(pod, appsv1alpha1.ConditionInPlaceUpdateReady):
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
	p.app("web", "app:v1", `
replicas: 3
updateStrategy: {type: InPlaceIfPossible, partition: 2, maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 3}}`)
	p.ready("web", 3, time.Minute)
	p.image("web", "app:v2-slow-pull-3s")
	done := time.Now().Add(time.Minute)
	for cs := p.get("web"); ; cs = p.get("web") {
		// Read the pods after the status: what it counts must be there by then.
		running := 0
		for _, pod := range p.pods() {
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
			t.Fatalf("status %s", text(cs.Status))
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.patch("web", `{spec: {updateStrategy: {partition: 1}}}`)
	p.eventually(5*time.Second, func() string { return is(int(p.get("web").Status.ExpectedUpdatedReplicas), 2) })
	p.ready("web", 2, time.Minute)
}

// TestInPlaceOnlyRefusal: what cannot be done in place moves nothing and names the field.
func TestInPlaceOnlyRefusal(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.app("web", "app:v1", `
replicas: 3
updateStrategy: {type: InPlaceOnly}`)
	p.ready("web", 3, time.Minute)
	before := identities(p.pods())
	p.patch("web", `{spec: {template: {spec: {containers: [{name: main, image: "app:v2", env: [{name: A, value: b}]}]}}}}`)
	p.eventually(10*time.Second, func() string {
		c := p.condition("web", appsv1alpha1.ConditionFailedUpdate)
		if c == nil || !strings.Contains(c.Message, "env") {
			return "FailedUpdate does not name the field: " + text(c)
		}
		return ""
	})
	p.during(5*time.Second, func() string { return is(p.on("app:v1"), 3) })
	cs := p.get("web")
	if cs.Status.Underway == nil || len(cs.Status.Underway.Refused) == 0 || cs.Status.Underway.Refused[0].Count != 3 {
		t.Errorf("underway %s", text(cs.Status.Underway))
	}
	p.inPlace(before, 0)
	p.patch("web", `{spec: {template: {spec: {containers: [{name: main, image: "app:v3"}]}}}}`)
	p.ready("web", 3, time.Minute)
	p.inPlace(before, 1)
	if c := p.condition("web", appsv1alpha1.ConditionFailedUpdate); c != nil {
		t.Errorf("FailedUpdate stays: %s", text(c))
	}
}

// TestBrokenIsFixedForward: a release that does not come up takes the budget and no more, says so, and a newer image
// moves the broken pods without spending any.
func TestBrokenIsFixedForward(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.app("web", "app:v1", `
replicas: 4
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1}`)
	p.ready("web", 4, time.Minute)
	before, r := identities(p.pods()), p.record()
	p.image("web", "app:v2-pull-fails")
	p.eventually(30*time.Second, func() string {
		u := p.get("web").Status.Underway
		if u == nil || len(u.Broken) == 0 || u.Broken[0].Since == nil || len(u.Broken[0].Pods) != 1 {
			return "not reported: " + text(u)
		}
		return ""
	})
	p.during(3*time.Second, func() string { return is(p.on("app:v1"), 3) })
	if meta.IsStatusConditionTrue(p.get("web").Status.Conditions, appsv1alpha1.ConditionReady) {
		t.Error("Ready is True")
	}
	p.image("web", "app:v3")
	p.ready("web", 4, time.Minute)
	p.inPlace(before, 1)
	if seen := r.seen(); seen.unready > 1 || len(seen.problems) > 0 {
		t.Errorf("seen %+v", seen)
	}
}

// TestRequestBudget counts the agent's requests in the audit log: three per pod, no read.
func TestRequestBudget(t *testing.T) {
	t.Parallel()
	const pods = 20
	p := in(t, steady)
	p.app("web", "app:v1", fmt.Sprintf(`
replicas: %d
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 20%%}`, pods))
	p.ready("web", pods, time.Minute)
	mark, err := p.Mark()
	if err != nil {
		t.Fatal(err)
	}
	p.image("web", "app:v2")
	p.ready("web", pods, time.Minute)
	time.Sleep(2 * time.Second)
	here := func(e lab.AuditEvent) bool { return e.ObjectRef.Namespace == p.ns }
	events, err := p.Since(mark, lab.ByUser(user), here, lab.On("pods", "pods/status"))
	if err != nil {
		t.Fatal(err)
	}
	done, conflicts, reads := map[string]int{}, 0, 0
	for _, e := range events {
		switch {
		case !e.Write():
			reads++
		case e.ResponseStatus.Code == 409:
			conflicts++
		default:
			done[e.Verb+" "+e.Resource()]++
		}
	}
	t.Logf("%d pods: %v, %d conflicts, %d reads", pods, done, conflicts, reads)
	if done["patch pods"] != pods || done["patch pods/status"] != 2*pods || len(done) != 2 || reads != 0 {
		t.Errorf("want %d patches of pods and %d of pods/status, and nothing else", pods, 2*pods)
	}
	if conflicts > pods {
		t.Errorf("%d conflicts", conflicts)
	}
}

//go:build lab

package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// initStatus is the status of an init container or native sidecar.
func initStatus(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, s := range pod.Status.InitContainerStatuses {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// TestB081: the image of a native sidecar changes in place, proven from the sidecar's own status; the app goes on.
func TestB081(t *testing.T) {
	t.Parallel()
	p := kit.In(t, steady)
	spec := func(log string) string {
		return fmt.Sprintf(`{initContainers: [{name: log, image: %q, restartPolicy: Always}], containers: [{name: web, image: "web:1"}]}`, log)
	}
	before := web(p, 3, spec("log:1"), "{type: InPlaceIfPossible, maxUnavailable: 1}")
	template(p, spec("log:2-slow-pull-2s"))
	p.Eventually(time.Minute, func() string {
		cs := p.CloneSet("web")
		running := 0
		for _, pod := range p.Pods() {
			if initStatus(pod, "log").Image == "log:2-slow-pull-2s" {
				running++
			}
		}
		if cs.Status.ObservedGeneration == cs.Generation && int(cs.Status.UpdatedReplicas) > running {
			t.Fatalf("%d are called updated, %d run the new sidecar", cs.Status.UpdatedReplicas, running)
		}
		return is(running, 3)
	})
	cs := p.Ready("web", 3, time.Minute)
	p.InPlace(before, 0)
	for name, pod := range p.Pods() {
		if s := initStatus(pod, "log"); s.RestartCount != 1 {
			t.Errorf("%s: the sidecar restarted %d times", name, s.RestartCount)
		}
	}
	if u := cs.Status.Underway; u.UpdatedInPlace != 3 {
		t.Errorf("underway %s", kit.Text(u))
	}
}

// TestB079: only the image of an init container changes: it has run already, so the pod is recreated, or refused.
func TestB079(t *testing.T) {
	t.Parallel()
	spec := func(prep, app string) string {
		return fmt.Sprintf(`{initContainers: [{name: prep, image: %q}], containers: [{name: web, image: %q}]}`, prep, app)
	}
	t.Run("InPlaceIfPossible", func(t *testing.T) {
		t.Parallel()
		p := kit.In(t, steady)
		before := web(p, 2, spec("prep:1", "web:1"), "{type: InPlaceIfPossible, maxUnavailable: 1}")
		template(p, spec("prep:2", "web:1"))
		p.Ready("web", 2, time.Minute)
		for name, pod := range p.Pods() {
			if pod.UID == before[name].UID || initStatus(pod, "prep").Image != "prep:2" {
				t.Errorf("%s was not recreated, or prep:2 did not run: %s", name, kit.Text(pod.Status.InitContainerStatuses))
			}
		}
		// With the app's image the new one is recorded, runs when the pod begins anew, and nothing else restarts.
		before = kit.Identities(p.Pods())
		template(p, spec("prep:3", "web:2"))
		p.Ready("web", 2, time.Minute)
		p.InPlace(before, 1)
		for name, pod := range p.Pods() {
			if pod.Spec.InitContainers[0].Image != "prep:3" || initStatus(pod, "prep").Image != "prep:2" {
				t.Errorf("%s: init container %s, ran %s", name, pod.Spec.InitContainers[0].Image, initStatus(pod, "prep").Image)
			}
		}
	})
	t.Run("InPlaceOnly", func(t *testing.T) {
		t.Parallel()
		p := kit.In(t, steady)
		before := web(p, 2, spec("prep:1", "web:1"), "{type: InPlaceOnly, maxUnavailable: 1}")
		at := generations(p)
		template(p, spec("prep:2", "web:1"))
		told(p, refused, "NotInPlace", "prep", 2)
		if now := generations(p); kit.Text(now) != kit.Text(at) {
			t.Errorf("generations %v, were %v", now, at)
		}
		p.InPlace(before, 0)
	})
}

// TestB083: pods that end are not for a workload of replicas: nothing is made of such a template, nothing moves to it,
// and the field is named.
func TestB083(t *testing.T) {
	t.Parallel()
	p := kit.In(t, steady)
	p.App("web", "app:v1", "replicas: 2\nupdateStrategy: {type: InPlaceIfPossible, maxUnavailable: 2}")
	p.Ready("web", 2, time.Minute)
	before := kit.Identities(p.Pods())
	p.Merge("web", `{spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: "app:v2"}]}}}}`)
	invalid := func(name string) func() string {
		return func() string {
			c := p.Condition(name, appsv1alpha1.ConditionInvalid)
			if c == nil || !strings.Contains(c.Message, "restartPolicy") {
				return "Invalid does not name the field: " + kit.Text(c)
			}
			return ""
		}
	}
	p.Eventually(20*time.Second, invalid("web"))
	p.During(3*time.Second, func() string { return is(p.On("app:v1"), 2) })
	p.InPlace(before, 0)
	p.Make(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: fresh}
spec:
  replicas: 2
  selector: {matchLabels: {app: fresh}}
  template:
    metadata: {labels: {app: fresh}}
    spec: {restartPolicy: OnFailure, containers: [{name: main, image: "app:v1"}]}`)
	p.Eventually(20*time.Second, invalid("fresh"))
	p.During(3*time.Second, func() string { return is(len(p.Pods()), 2) })
}

// TestN6: labels and annotations alone restart nothing, drain nothing, and create no pod although surge is set.
func TestN6(t *testing.T) {
	t.Parallel()
	p := kit.In(t, steady)
	p.App("web", "app:v1", "replicas: 4\nupdateStrategy: {type: InPlaceIfPossible, maxUnavailable: 0, maxSurge: 2}")
	p.Ready("web", 4, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	p.Merge("web", `{spec: {template: {metadata: {annotations: {note: new}, labels: {tier: front}}}}}`)
	cs := p.Ready("web", 4, time.Minute)
	p.InPlace(before, 0)
	for name, pod := range p.Pods() {
		if pod.Annotations["note"] != "new" || pod.Labels["tier"] != "front" {
			t.Errorf("%s: %v %v", name, pod.Annotations, pod.Labels)
		}
	}
	if seen := r.Seen(); seen.Unready+seen.Created+seen.Deleted > 0 {
		t.Errorf("seen %+v", seen)
	}
	if u := cs.Status.Underway; u.UpdatedInPlace != 4 {
		t.Errorf("underway %s", kit.Text(u))
	}
}

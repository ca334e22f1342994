//go:build lab

package member

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// Mutations of pods, as a platform team would install them.
const (
	toMirror = `[JSONPatch{op: "replace", path: "/spec/containers/0/image",
		value: object.spec.containers[0].image.startsWith("mirror.test/") ? object.spec.containers[0].image : "mirror.test/" + object.spec.containers[0].image}]`
	proxyInFront = `[JSONPatch{op: "add", path: "/spec/containers/0",
		value: Object.spec.containers{name: "proxy", image: "proxy:v1", resources: Object.spec.containers.resources{requests: {"cpu": "50m"}}}}]`
	withoutGate = `[JSONPatch{op: "remove", path: "/spec/readinessGates"}]`
)

// mutate installs an admission policy for pods of the namespace until the function it returns is called, or the test ends.
// It returns when the policy is in force: when works says so of a pod that is tried.
func mutate(p kit.Place, operations, expression string, works func(*corev1.Pod) bool) func() {
	p.Helper()
	text := fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [%[2]s], resources: [pods]}]
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: %[3]q}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s}
`, p.NS, operations, strings.Join(strings.Fields(expression), " "))
	var objects []client.Object
	for doc := range strings.SplitSeq(text, "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			p.Fatal(err)
		}
		if err := p.Create(p.Context(), u); err != nil {
			p.Fatal(err)
		}
		objects = append(objects, u)
	}
	remove := func() {
		for _, o := range objects {
			_ = p.Delete(context.Background(), o)
		}
	}
	p.Cleanup(remove)
	tried := func() bool {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.NS, Name: "tried"},
			Spec: corev1.PodSpec{
				Containers:     []corev1.Container{{Name: "main", Image: "app:v1"}},
				ReadinessGates: []corev1.PodReadinessGate{{ConditionType: appsv1alpha1.ConditionInPlaceUpdateReady}},
			},
		}
		return p.Create(p.Context(), pod, client.DryRunAll) == nil && works(pod)
	}
	p.Eventually(20*time.Second, func() string {
		if !tried() {
			return "the policy is not in force"
		}
		return ""
	})
	return func() {
		remove()
		p.Eventually(20*time.Second, func() string {
			if tried() {
				return "the policy is still in force"
			}
			return ""
		})
	}
}

// generations are those of the pods, by name.
func generations(p kit.Place) map[string]int64 {
	p.Helper()
	all := map[string]int64{}
	for name, pod := range p.Pods() {
		all[name] = pod.Generation
	}
	return all
}

// TestB031: a policy rewrites the images of all pods. A pod's revision is its label, so nothing is seen to differ for
// ever, and an update is one write and one restart.
func TestB031(t *testing.T) {
	t.Parallel()
	p := kit.In(t, steady)
	mutate(p, "CREATE, UPDATE", toMirror, func(pod *corev1.Pod) bool { return strings.HasPrefix(pod.Spec.Containers[0].Image, "mirror.test/") })
	p.App("web", "app:1", `
replicas: 2
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1}`)
	p.Ready("web", 2, time.Minute)
	before, at := kit.Identities(p.Pods()), generations(p)
	if n := p.On("mirror.test/app:1"); n != 2 {
		t.Fatalf("%d pods have the rewritten image", n)
	}
	p.During(10*time.Second, func() string {
		if now := generations(p); kit.Text(now) != kit.Text(at) {
			return fmt.Sprintf("generations %v, were %v", now, at)
		}
		return ""
	})
	p.Image("web", "app:2")
	p.Ready("web", 2, time.Minute)
	p.InPlace(before, 1)
	for name, pod := range p.Pods() {
		if pod.Generation != at[name]+1 || pod.Spec.Containers[0].Image != "mirror.test/app:2" {
			t.Errorf("%s: generation %d after %d, image %s", name, pod.Generation, at[name], pod.Spec.Containers[0].Image)
		}
	}
	at = generations(p)
	p.During(5*time.Second, func() string {
		if now := generations(p); kit.Text(now) != kit.Text(at) {
			return fmt.Sprintf("generations %v, were %v", now, at)
		}
		return ""
	})
}

// TestB033: a sidecar is injected in front of the app's container; image and cpu of the app change, by name.
func TestB033(t *testing.T) {
	t.Parallel()
	p := kit.In(t, steady)
	mutate(p, "CREATE", proxyInFront, func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Name == "proxy" })
	p.Make(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "web:1", resources: {requests: {cpu: 100m}}}
      - {name: agent, image: "agent:1"}
  updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1}`)
	p.Ready("web", 2, time.Minute)
	before := kit.Identities(p.Pods())
	// Two of the list change, and by name "agent" comes before "web": their order must stay.
	p.Merge("web", `{spec: {template: {spec: {containers: [{name: web, image: "web:2", resources: {requests: {cpu: 150m}}}, {name: agent, image: "agent:2"}]}}}}`)
	p.Ready("web", 2, time.Minute)
	p.InPlace(before, 2)
	for name, pod := range p.Pods() {
		got := map[string]string{}
		for i, c := range pod.Spec.Containers {
			got[c.Name] = fmt.Sprintf("%d %s %s", i, c.Image, c.Resources.Requests.Cpu())
		}
		for _, s := range pod.Status.ContainerStatuses {
			got[s.Name] += fmt.Sprintf(" %d", s.RestartCount)
		}
		if want := `{"agent":"2 agent:2 0 1","proxy":"0 proxy:v1 50m 0","web":"1 web:2 150m 1"}`; kit.Text(got) != want {
			t.Errorf("%s: %s, want %s", name, kit.Text(got), want)
		}
	}
	if c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate); c != nil {
		t.Errorf("FailedUpdate: %s", kit.Text(c))
	}
}

// oneWithoutGate is an app of 3 pods, one of which was made without the gate. It returns that one's name.
func oneWithoutGate(p kit.Place, strategy string) string {
	p.Helper()
	remove := mutate(p, "CREATE", withoutGate, func(pod *corev1.Pod) bool { return len(pod.Spec.ReadinessGates) == 0 })
	p.App("web", "app:v1", "replicas: 1\nupdateStrategy: "+strategy)
	p.Ready("web", 1, time.Minute)
	remove()
	var name string
	for name = range p.Pods() {
		if g := gates(p.Pods()[name]); len(g) != 0 {
			p.Fatalf("%s has gates %v", name, g)
		}
	}
	p.Merge("web", `{spec: {replicas: 3}}`)
	p.Ready("web", 3, time.Minute)
	return name
}

// TestB067: a pod without the gate cannot be drained. It is recreated within the budget; under InPlaceOnly it stays and
// that is said.
func TestB067(t *testing.T) {
	t.Parallel()
	t.Run("InPlaceIfPossible", func(t *testing.T) {
		t.Parallel()
		p := kit.In(t, steady)
		without := oneWithoutGate(p, "{type: InPlaceIfPossible, maxUnavailable: 1}")
		before, r := kit.Identities(p.Pods()), p.Record()
		p.Image("web", "app:v2")
		cs := p.Ready("web", 3, time.Minute)
		after := kit.Identities(p.Pods())
		for name, was := range before {
			if is, kept := after[name]; kept && is == was != (name != without) {
				t.Errorf("%s: was %v, is %v", name, was, is)
			}
		}
		for name, pod := range p.Pods() {
			if len(gates(pod)) != 1 {
				t.Errorf("%s has gates %v", name, gates(pod))
			}
		}
		if seen := r.Settled(); seen.Unready > 1 || len(seen.Problems) > 0 || seen.Deleted != 1 || seen.Created != 1 {
			t.Errorf("seen %+v", seen)
		}
		if u := cs.Status.Underway; u == nil || u.UpdatedInPlace != 2 || u.Recreated != 1 {
			t.Errorf("underway %s", kit.Text(u))
		}
	})
	t.Run("InPlaceOnly", func(t *testing.T) {
		t.Parallel()
		p := kit.In(t, steady)
		without := oneWithoutGate(p, "{type: InPlaceOnly, maxUnavailable: 1}")
		before := kit.Identities(p.Pods())
		p.Image("web", "app:v2")
		p.Eventually(time.Minute, func() string {
			c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate)
			switch {
			case p.On("app:v2") != 2:
				return fmt.Sprintf("%d pods are updated", p.On("app:v2"))
			case c == nil || !strings.Contains(c.Message, appsv1alpha1.ConditionInPlaceUpdateReady):
				return "FailedUpdate does not name the gate: " + kit.Text(c)
			}
			return ""
		})
		p.During(3*time.Second, func() string { return is(p.On("app:v1"), 1) })
		if image := p.Pods()[without].Spec.Containers[0].Image; image != "app:v1" || kit.Text(kit.Identities(p.Pods())) != kit.Text(before) {
			t.Errorf("the pod without a gate has %s", image)
		}
	})
}

// TestPatchUndrained: where the workload allows it, pods without the gate are patched while they serve, one at a time,
// and that is said.
func TestPatchUndrained(t *testing.T) {
	t.Parallel()
	p := kit.In(t, steady)
	mutate(p, "CREATE", withoutGate, func(pod *corev1.Pod) bool { return len(pod.Spec.ReadinessGates) == 0 })
	p.App("web", "app:v1", "replicas: 3\nupdateStrategy: {type: InPlaceOnly, maxUnavailable: 2}")
	p.Ready("web", 3, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	p.Image("web", "app:v2-slow-pull-1s")
	p.Eventually(20*time.Second, func() string {
		if c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate); c == nil {
			return "not refused"
		}
		return ""
	})
	p.Merge("web", fmt.Sprintf(`{metadata: {annotations: {%s: "true"}}}`, appsv1alpha1.AnnotationPatchUndrained))
	cs := p.Ready("web", 3, time.Minute)
	p.InPlace(before, 1)
	seen := r.Seen()
	if len(seen.Problems) != 3 || seen.Deleted+seen.Created != 0 {
		t.Errorf("seen %+v, want each pod patched while Ready", seen)
	}
	if cs.Status.Underway.UpdatedInPlace != 3 || p.Condition("web", appsv1alpha1.ConditionFailedUpdate) != nil {
		t.Errorf("status %s", kit.Text(cs.Status))
	}
	p.Eventually(10*time.Second, func() string {
		for _, note := range p.Notes() {
			if strings.Contains(note, "without") && strings.Contains(note, "gate") || strings.Contains(note, "undrained") {
				return ""
			}
		}
		return fmt.Sprintf("no event says so: %v", p.Notes())
	})
	// Each started at least a pull (1 s, stamps have whole seconds) after the one before.
	var started []time.Time
	for _, pod := range p.Pods() {
		started = append(started, pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time)
	}
	slices.SortFunc(started, time.Time.Compare)
	for i := range started[1:] {
		if started[i+1].Sub(started[i]) < time.Second {
			t.Errorf("started at %v: more than one at a time", started)
		}
	}
}

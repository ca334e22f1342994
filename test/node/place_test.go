//go:build lab

package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// slots is how many tests may be at work on the steady node at once: the machine has two processors. turn is held by the
// test whose turn it is on the rough node.
var (
	slots = make(chan struct{}, 3)
	turn  = make(chan struct{}, 1)
)

// patience is how long anything may take before a test gives up on it: kubelets on a busy machine are slow, and how fast
// they are is not what is tested.
const patience = 4 * time.Minute

// place is one namespace of the member, for one test, with the node its pods run on.
type place struct {
	kit.Place
	node *lab.RealNode
}

// onSteady gives a test a namespace on the node that nothing disturbs.
func onSteady(t *testing.T) place {
	t.Helper()
	return in(t, slots, 0)
}

// onRough gives a test the node whose kubelet is stopped and killed, alone.
func onRough(t *testing.T) place {
	t.Helper()
	p := in(t, turn, 1)
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.node.StartKubelet(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

// alone gives a test the steady node before all others: go test runs what is not parallel first.
func alone(t *testing.T) place {
	t.Helper()
	return enter(t, slots, 0)
}

func in(t *testing.T, room chan struct{}, node int) place {
	t.Helper()
	if noNodes == "" {
		t.Parallel()
	}
	return enter(t, room, node)
}

func enter(t *testing.T, room chan struct{}, node int) place {
	t.Helper()
	if noNodes != "" {
		t.Skip("SKIPPED real nodes: " + noNodes)
	}
	room <- struct{}{}
	t.Cleanup(func() { <-room })
	p := place{Place: kit.In(t, member), node: member.RealNodes()[node]}
	t.Cleanup(func() {
		// Before its namespace, which takes pods first: they would be made anew.
		cs := &appsv1alpha1.CloneSet{}
		cs.Namespace, cs.Name = p.NS, "web"
		_ = p.Delete(context.Background(), cs)
	})
	p.trace()
	return p
}

// trace prints, when the test failed, every change of the pods that it saw.
func (p place) trace() {
	var mu sync.Mutex
	var lines []string
	last := map[string]string{}
	p.watchPods(func(pod *corev1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		line := pod.Name
		if pod.DeletionTimestamp != nil {
			line += " terminating"
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady || c.Type == appsv1alpha1.ConditionInPlaceUpdateReady {
				line += fmt.Sprintf(" %s=%s", c.Type, c.Status)
			}
		}
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			s := statusOf(pod, c.Name)
			line += fmt.Sprintf(" %s(spec %s, is %s, ready %t, %d restarts", c.Name, path.Base(c.Image), path.Base(s.Image), s.Ready, s.RestartCount)
			if s.State.Waiting != nil {
				line += ", waiting " + s.State.Waiting.Reason
			}
			line += ")"
		}
		if last[pod.Name] != line {
			last[pod.Name] = line
			lines = append(lines, time.Now().Format("15:04:05.000 ")+line)
		}
	})
	p.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if p.Failed() {
			p.Logf("what became of the pods:\n%s", strings.Join(lines, "\n"))
		}
	})
}

// parallel lets the sub-tests of a test wait for their places side by side with other tests.
func parallel(t *testing.T) {
	t.Helper()
	if noNodes != "" {
		t.Skip("SKIPPED real nodes: " + noNodes)
	}
	t.Parallel()
}

// app is a CloneSet named web of the lab's server, in container main, with a volume at /data. Fields are YAML in flow
// style; those that say "more" begin with a comma or are a list.
type app struct {
	replicas int
	// tag of main's image; v1 by default.
	tag string
	// policy is InPlaceIfPossible by default.
	policy appsv1alpha1.CloneSetUpdateStrategyType
	// rollout are more fields of the update strategy.
	rollout string
	// annotations of the CloneSet, and of its template.
	annotations, templateAnnotations string
	// main are more fields of the container main.
	main string
	// more containers, and init containers.
	more, init string
	// pod is one more field of the pod's spec; the place's node is selected by default.
	pod string
}

// create creates the app and waits until all pods are ready.
func (p place) create(a app) {
	p.Helper()
	p.start(a)
	p.Ready("web", int32(a.replicas), patience)
}

func (p place) start(a app) {
	p.Helper()
	where := fmt.Sprintf("nodeSelector: {kubernetes.io/hostname: %s}", p.node.Name())
	p.Make(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web, annotations: {%[1]s}}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: web}}
  updateStrategy: {type: %[3]s%[4]s}
  template:
    metadata: {labels: {app: web}, annotations: {%[5]s}}
    spec:
      terminationGracePeriodSeconds: 5
      volumes: [{name: data, emptyDir: {}}]
      initContainers: [%[6]s]
      containers:
      - {name: main, image: "%[7]s", imagePullPolicy: Never, volumeMounts: [{name: data, mountPath: /data}],
         readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, timeoutSeconds: 5}%[8]s}
%[9]s
      %[10]s
`, a.annotations, a.replicas, cmp.Or(a.policy, appsv1alpha1.InPlaceIfPossibleUpdate), also(a.rollout), a.templateAnnotations,
		a.init, lab.Image(lab.AppImage, cmp.Or(a.tag, "v1")), also(a.main), items(a.more), cmp.Or(a.pod, where)))
}

// also is more fields of a mapping in flow style.
func also(fields string) string {
	if fields == "" {
		return ""
	}
	return ", " + fields
}

// items are more entries of the list of containers, one a line.
func items(lines string) string {
	var out strings.Builder
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		out.WriteString("      - " + strings.TrimSpace(line) + "\n")
	}
	return out.String()
}

// second is a second server beside main, named side.
const second = `{name: side, image: "underway.test/app:v1", imagePullPolicy: Never, env: [{name: PORT, value: "8081"}]}`

// tag changes the tag of main's image, and nothing else.
func (p place) tag(tag string) {
	p.Helper()
	p.Image("web", lab.Image(lab.AppImage, tag))
}

// set sets fields of the app, each a JSON pointer followed by its value.
func (p place) set(fields ...any) {
	p.Helper()
	var ops []map[string]any
	for pair := range slices.Chunk(fields, 2) {
		ops = append(ops, map[string]any{"op": "add", "path": pair[0], "value": pair[1]})
	}
	body, err := json.Marshal(ops)
	if err != nil {
		p.Fatal(err)
	}
	cs := &appsv1alpha1.CloneSet{}
	cs.Namespace, cs.Name = p.NS, "web"
	if err := p.Patch(p.Context(), cs, client.RawPatch(types.JSONPatchType, body)); err != nil {
		p.Fatal(err)
	}
}

// Pointers into the app.
const (
	mainImage     = "/spec/template/spec/containers/0/image"
	sideImage     = "/spec/template/spec/containers/1/image"
	initImage     = "/spec/template/spec/initContainers/0/image"
	mainResources = "/spec/template/spec/containers/0/resources"
)

// service puts a Service named web in front of the app.
func (p place) service() {
	p.Helper()
	svc := &corev1.Service{}
	svc.Namespace, svc.Name = p.NS, "web"
	svc.Spec.Selector = map[string]string{"app": "web"}
	svc.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
	if err := p.Create(p.Context(), svc); err != nil {
		p.Fatal(err)
	}
}

// names are the pods' names in order.
func (p place) names() []string {
	p.Helper()
	return slices.Sorted(maps.Keys(p.Pods()))
}

// statusOf is what the kubelet says of a container, native sidecars and init containers included.
func statusOf(pod *corev1.Pod, container string) corev1.ContainerStatus {
	for _, s := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if s.Name == container {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// imageOf is what the spec says.
func imageOf(pod *corev1.Pod, container string) string {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// kept checks that the pods are the ones they were (UID, IP, node), each container restarted just so often.
func (p place) kept(before map[string]kit.Identity, restarts map[string]int32) {
	p.Helper()
	pods := p.Pods()
	after := kit.Identities(pods)
	for name, was := range before {
		if after[name] != was {
			p.Errorf("%s was %+v and is %+v", name, was, after[name])
		}
	}
	if len(after) != len(before) {
		p.Errorf("%d pods, there were %d", len(after), len(before))
	}
	for name, pod := range pods {
		for container, want := range restarts {
			if got := statusOf(pod, container); got.RestartCount != want {
				p.Errorf("%s: container %s restarted %d times, want %d: %s", name, container, got.RestartCount, want, kit.Text(got))
			}
		}
	}
}

// runs waits until a container of every pod runs an image: wanted by the spec, running, and the pod in service.
func (p place) runs(container, image string) {
	p.Helper()
	p.until(patience, func(pods map[string]*corev1.Pod) string {
		for name, pod := range pods {
			s := statusOf(pod, container)
			if imageOf(pod, container) != image || s.State.Running == nil || !kit.PodReady(pod) || gateFalse(pod) {
				return fmt.Sprintf("%s: container %s wants %s, status %s, conditions %s", name, container, imageOf(pod, container), kit.Text(s), kit.Text(pod.Status.Conditions))
			}
		}
		return ""
	})
}

// until waits for something of the pods; what says what is missing, and nothing when it is there.
func (p place) until(within time.Duration, what func(pods map[string]*corev1.Pod) string) {
	p.Helper()
	p.Eventually(within, func() string { return what(p.Pods()) })
}

// drained waits until a pod is out of service by us and the kubelet has said so, and returns its name.
func (p place) drained(within time.Duration) string {
	p.Helper()
	var found string
	p.until(within, func(pods map[string]*corev1.Pod) string {
		for name, pod := range pods {
			if gateFalse(pod) && !kit.PodReady(pod) {
				found = name
				return ""
			}
		}
		return "no pod is drained"
	})
	return found
}

func gateFalse(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == appsv1alpha1.ConditionInPlaceUpdateReady {
			return c.Status == corev1.ConditionFalse
		}
	}
	return false
}

// patched waits until a pod's main has an image in its spec, and returns the pod's name.
func (p place) patched(image string, within time.Duration) string {
	p.Helper()
	var found string
	p.until(within, func(pods map[string]*corev1.Pod) string {
		for name, pod := range pods {
			if imageOf(pod, "main") == image {
				found = name
				return ""
			}
		}
		return "no pod is patched to " + image
	})
	return found
}

// state is the record of a pod's last update in place; nil when it has none.
func (p place) state(pod *corev1.Pod) *inplace.State {
	p.Helper()
	text := pod.Annotations[appsv1alpha1.AnnotationInPlaceState]
	if text == "" {
		return nil
	}
	state := &inplace.State{}
	if err := json.Unmarshal([]byte(text), state); err != nil {
		p.Fatal(err)
	}
	return state
}

// exec runs a command of the lab's server in container main.
func (p place) exec(pod string, command ...string) string {
	p.Helper()
	node := p.RealNode(p.Pods()[pod].Spec.NodeName)
	out, err := node.Exec(p.Context(), p.NS, pod, "main", append([]string{"/app"}, command...)...)
	if err != nil {
		p.Fatalf("%s: %v: %v: %s", pod, command, err, out)
	}
	// ctr may put a warning of its own first.
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// mark writes a file of its own into each pod's volume.
func (p place) mark() {
	p.Helper()
	for _, name := range p.names() {
		p.exec(name, "write", "/data/mark", "written by "+name)
	}
}

// marked checks that the files are still there.
func (p place) marked() {
	p.Helper()
	for _, name := range p.names() {
		if got := p.exec(name, "cat", "/data/mark"); got != "written by "+name {
			p.Errorf("%s: the file in the volume says %q", name, got)
		}
	}
}

// cluster creates objects of the cluster, for the time of the test.
func (p place) cluster(text string) {
	p.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			p.Fatal(err)
		}
		u := &unstructured.Unstructured{Object: object}
		if err := p.Create(p.Context(), u); err != nil {
			p.Fatal(err)
		}
		p.Cleanup(func() { _ = p.Delete(context.Background(), u) })
	}
}

// watchPods calls see for every pod as it is, and for each change, until the test ends; deleted pods are left out.
func (p place) watchPods(see func(*corev1.Pod)) {
	p.Helper()
	list := &corev1.PodList{}
	if err := p.List(p.Context(), list, client.InNamespace(p.NS)); err != nil {
		p.Fatal(err)
	}
	for i := range list.Items {
		see(&list.Items[i])
	}
	w, err := p.Watch(p.Context(), &corev1.PodList{}, client.InNamespace(p.NS), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(w.Stop)
	go func() {
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Deleted {
				see(pod)
			}
		}
	}()
}

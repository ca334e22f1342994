//go:build lab

package member

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	agent "github.com/underway-dev/underway/member"
	"github.com/underway-dev/underway/test/lab"
)

// place is one namespace of one cluster.
type place struct {
	*testing.T
	cluster
	ns string
}

// turn is held by the test whose turn it is on the rough cluster.
var turn sync.Mutex

// onRough waits for the cluster whose agents are started and killed by tests.
func onRough(t *testing.T) place {
	t.Helper()
	t.Parallel()
	turn.Lock()
	t.Cleanup(turn.Unlock)
	return in(t, rough)
}

// agent starts an agent on the cluster for the time of the test.
func (p place) agent(name string, args ...string) *lab.Process {
	p.Helper()
	a, err := p.startAgent(name, args...)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = a.Stop(10 * time.Second) })
	return a
}

// in makes a namespace for a test.
func in(t *testing.T, c cluster) place {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), ns) })
	return place{T: t, cluster: c, ns: ns.Name}
}

// app is a CloneSet of one container. spec, YAML of CloneSetSpec, is added to it.
func (p place) app(name, image, spec string) {
	p.Helper()
	p.create(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers: [{name: main, image: "%[2]s"}]
%[3]s`, name, image, indent(spec)))
}

func indent(spec string) string {
	lines := strings.Split(strings.TrimSpace(spec), "\n")
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

func (p place) create(text string) {
	p.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		p.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetNamespace(p.ns)
	if err := p.Create(p.Context(), u); err != nil {
		p.Fatal(err)
	}
}

// patch merges YAML into a CloneSet.
func (p place) patch(name, text string) {
	p.Helper()
	if err := p.tryPatch(name, text); err != nil {
		p.Fatal(err)
	}
}

func (p place) tryPatch(name, text string) error {
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	cs := &appsv1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name}}
	return p.Patch(p.Context(), cs, client.RawPatch(types.MergePatchType, body))
}

// image changes the image of an app, and nothing else.
func (p place) image(name, image string) {
	p.Helper()
	body := fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}]`, image)
	cs := &appsv1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name}}
	if err := p.Patch(p.Context(), cs, client.RawPatch(types.JSONPatchType, []byte(body))); err != nil {
		p.Fatal(err)
	}
}

func (p place) get(name string) *appsv1alpha1.CloneSet {
	p.Helper()
	cs := &appsv1alpha1.CloneSet{}
	if err := p.Get(p.Context(), client.ObjectKey{Namespace: p.ns, Name: name}, cs); err != nil {
		p.Fatal(err)
	}
	return cs
}

// pods are those of the namespace that are not being deleted, by name.
func (p place) pods() map[string]*corev1.Pod {
	p.Helper()
	var list corev1.PodList
	if err := p.List(p.Context(), &list, client.InNamespace(p.ns)); err != nil {
		p.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			pods[list.Items[i].Name] = &list.Items[i]
		}
	}
	return pods
}

// on counts pods whose spec has an image.
func (p place) on(image string) int {
	p.Helper()
	n := 0
	for _, pod := range p.pods() {
		if pod.Spec.Containers[0].Image == image {
			n++
		}
	}
	return n
}

// eventually waits until check says nothing, and fails with the last it said.
func (p place) eventually(within time.Duration, check func() string) {
	p.Helper()
	deadline := time.Now().Add(within)
	for {
		said := check()
		if said == "" {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("after %s: %s", within, said)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// during checks for a while that check says nothing.
func (p place) during(d time.Duration, check func() string) {
	p.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		if said := check(); said != "" {
			p.Fatal(said)
		}
	}
}

// ready waits until an app is done: observed, condition Ready, and this many pods updated and ready.
func (p place) ready(name string, updatedReady int32, within time.Duration) *appsv1alpha1.CloneSet {
	p.Helper()
	var cs *appsv1alpha1.CloneSet
	p.eventually(within, func() string {
		cs = p.get(name)
		s := cs.Status
		switch {
		case s.ObservedGeneration != cs.Generation:
			return fmt.Sprintf("generation %d of %d observed", s.ObservedGeneration, cs.Generation)
		case !meta.IsStatusConditionTrue(s.Conditions, appsv1alpha1.ConditionReady):
			return "not Ready: " + text(s)
		case s.UpdatedReadyReplicas != updatedReady:
			return fmt.Sprintf("%d pods are updated and ready, want %d", s.UpdatedReadyReplicas, updatedReady)
		}
		return ""
	})
	return cs
}

func text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func (p place) condition(name, kind string) *metav1.Condition {
	p.Helper()
	return meta.FindStatusCondition(p.get(name).Status.Conditions, kind)
}

func podReady(pod *corev1.Pod) bool { return podCondition(pod, corev1.PodReady) }

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// identity is what an in-place update must not change.
type identity struct {
	UID  types.UID
	IP   string
	Node string
}

func identities(pods map[string]*corev1.Pod) map[string]identity {
	out := map[string]identity{}
	for name, pod := range pods {
		out[name] = identity{pod.UID, pod.Status.PodIP, pod.Spec.NodeName}
	}
	return out
}

func restarts(pod *corev1.Pod) int32 {
	var n int32
	for _, s := range pod.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

// worst is the worst that a recorder saw.
type worst struct {
	// unready is the most pods that were not Ready at once.
	unready int
	// most is the most pods that had an image at once.
	most map[string]int
	// deleted counts pods that went away, created those that came.
	deleted, created int
	// problems are pods that were patched while they were Ready.
	problems []string
}

// recorder watches the pods of a namespace.
type recorder struct {
	mu   sync.Mutex
	pods map[types.UID]*corev1.Pod
	worst
}

// record starts a recorder; it ends with the test.
func (p place) record() *recorder {
	p.Helper()
	var list corev1.PodList
	if err := p.List(p.Context(), &list, client.InNamespace(p.ns)); err != nil {
		p.Fatal(err)
	}
	r := &recorder{pods: map[types.UID]*corev1.Pod{}, worst: worst{most: map[string]int{}}}
	for i := range list.Items {
		r.pods[list.Items[i].UID] = &list.Items[i]
	}
	r.look()
	w, err := p.Watch(p.Context(), &corev1.PodList{}, client.InNamespace(p.ns), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			r.see(e)
		}
	}()
	return r
}

func (r *recorder) see(e watch.Event) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Type == watch.Deleted {
		delete(r.pods, pod.UID)
		r.deleted++
		r.look()
		return
	}
	was := r.pods[pod.UID]
	if was == nil {
		r.created++
	} else if podReady(was) && was.Spec.Containers[0].Image != pod.Spec.Containers[0].Image {
		r.problems = append(r.problems, fmt.Sprintf("pod %s was patched while it was Ready", pod.Name))
	}
	r.pods[pod.UID] = pod
	r.look()
}

func (r *recorder) look() {
	unready, images := 0, map[string]int{}
	for _, pod := range r.pods {
		if !podReady(pod) {
			unready++
		}
		images[pod.Spec.Containers[0].Image]++
	}
	r.unready = max(r.unready, unready)
	for image, n := range images {
		r.most[image] = max(r.most[image], n)
	}
}

// seen returns the worst that was seen so far.
func (r *recorder) seen() worst {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.worst
	w.most = maps.Clone(w.most)
	return w
}

// inPlace checks that the pods are the ones they were, each restarted so often.
func (p place) inPlace(before map[string]identity, restarted int32) {
	p.Helper()
	pods := p.pods()
	if diff := cmp.Diff(before, identities(pods)); diff != "" {
		p.Errorf("pods changed (-before +after):\n%s", diff)
	}
	for name, pod := range pods {
		if restarts(pod) != restarted {
			p.Errorf("%s restarted %d times, want %d", name, restarts(pod), restarted)
		}
	}
}

// notes are the events of the namespace that are not of Kubernetes itself.
func (p place) notes() []string {
	p.Helper()
	var list eventsv1.EventList
	if err := p.List(p.Context(), &list, client.InNamespace(p.ns)); err != nil {
		p.Fatal(err)
	}
	var notes []string
	for i := range list.Items {
		if list.Items[i].ReportingController == agent.Name {
			notes = append(notes, list.Items[i].Note)
		}
	}
	return notes
}

// noted counts the events that say just that.
func (p place) noted(note string) int {
	n := 0
	for _, is := range p.notes() {
		if is == note {
			n++
		}
	}
	return n
}

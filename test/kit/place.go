//go:build lab

package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
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

// Place is one namespace of one cluster, for one test.
type Place struct {
	*testing.T
	Cluster
	NS string
}

// In makes a namespace for a test; it is deleted when the test ends.
func In(t *testing.T, c Cluster) Place {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), ns) })
	p := Place{T: t, Cluster: c, NS: ns.Name}
	// Pods are refused until Kubernetes has made the account that they run by, and an agent tries again ever more seldom.
	p.Eventually(0, func() string {
		account := &corev1.ServiceAccount{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "default"}, account); err != nil {
			return err.Error()
		}
		return ""
	})
	return p
}

// Agent starts an agent on the cluster for the time of the test.
func (p Place) Agent(name string, args ...string) *lab.Process {
	p.Helper()
	a, err := p.StartAgent(name, args...)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = a.Stop(10 * time.Second) })
	return a
}

// App is a CloneSet of one container. spec, YAML of CloneSetSpec, is added to it.
func (p Place) App(name, image, spec string) {
	p.Helper()
	p.Make(fmt.Sprintf(`
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

// Make creates an object of the namespace from YAML.
func (p Place) Make(text string) {
	p.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		p.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetNamespace(p.NS)
	if err := p.Create(p.Context(), u); err != nil {
		p.Fatal(err)
	}
}

// Merge merges YAML into a CloneSet.
func (p Place) Merge(name, text string) {
	p.Helper()
	if err := p.TryMerge(name, text); err != nil {
		p.Fatal(err)
	}
}

// TryMerge is Merge for what may be refused.
func (p Place) TryMerge(name, text string) error {
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	cs := &appsv1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.NS, Name: name}}
	return p.Patch(p.Context(), cs, client.RawPatch(types.MergePatchType, body))
}

// Image changes the image of an app, and nothing else.
func (p Place) Image(name, image string) {
	p.Helper()
	body := fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}]`, image)
	cs := &appsv1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.NS, Name: name}}
	if err := p.Patch(p.Context(), cs, client.RawPatch(types.JSONPatchType, []byte(body))); err != nil {
		p.Fatal(err)
	}
}

// Edit merges YAML into a pod; null takes something off.
func (p Place) Edit(pod, text string) {
	p.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		p.Fatal(err)
	}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.NS, Name: pod}}
	if err := p.Patch(p.Context(), object, client.RawPatch(types.MergePatchType, body)); err != nil {
		p.Fatal(err)
	}
}

// CloneSet reads a CloneSet.
func (p Place) CloneSet(name string) *appsv1alpha1.CloneSet {
	p.Helper()
	cs := &appsv1alpha1.CloneSet{}
	if err := p.Get(p.Context(), client.ObjectKey{Namespace: p.NS, Name: name}, cs); err != nil {
		p.Fatal(err)
	}
	return cs
}

// Pods are those of the namespace that are not being deleted, by name.
func (p Place) Pods() map[string]*corev1.Pod {
	p.Helper()
	var list corev1.PodList
	if err := p.List(p.Context(), &list, client.InNamespace(p.NS)); err != nil {
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

// On counts pods whose spec has an image.
func (p Place) On(image string) int {
	p.Helper()
	n := 0
	for _, pod := range p.Pods() {
		if pod.Spec.Containers[0].Image == image {
			n++
		}
	}
	return n
}

// patience is the least that Eventually waits: nothing is measured by it, and machines are slow at times.
const patience = 2 * time.Minute

// Patience is how long a wait may take that takes so long on a quiet machine: two minutes at least, and in CI, which is slower
// and runs suites side by side, twice that.
func Patience(within time.Duration) time.Duration {
	within = max(within, patience)
	if os.Getenv("CI") != "" {
		within *= 2
	}
	return within
}

// Eventually waits until check says nothing, and fails with the last it said. Within is how long that may take where it takes
// longer than two minutes; see [Patience].
func (p Place) Eventually(within time.Duration, check func() string) {
	p.Helper()
	within = Patience(within)
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

// During checks for a while that check says nothing.
func (p Place) During(d time.Duration, check func() string) {
	p.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		if said := check(); said != "" {
			p.Fatal(said)
		}
	}
}

// Ready waits until an app is done: observed, condition Ready, and this many pods updated and ready.
func (p Place) Ready(name string, updatedReady int32, within time.Duration) *appsv1alpha1.CloneSet {
	p.Helper()
	var cs *appsv1alpha1.CloneSet
	p.Eventually(within, func() string {
		cs = p.CloneSet(name)
		s := cs.Status
		switch {
		case s.ObservedGeneration != cs.Generation:
			return fmt.Sprintf("generation %d of %d observed", s.ObservedGeneration, cs.Generation)
		case !meta.IsStatusConditionTrue(s.Conditions, appsv1alpha1.ConditionReady):
			return "not Ready: " + Text(s)
		case s.UpdatedReadyReplicas != updatedReady:
			return fmt.Sprintf("%d pods are updated and ready, want %d", s.UpdatedReadyReplicas, updatedReady)
		}
		return ""
	})
	return cs
}

// Text is v as JSON.
func Text(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// Condition reads a condition of a CloneSet, nil when it has none of that type.
func (p Place) Condition(name, kind string) *metav1.Condition {
	p.Helper()
	return meta.FindStatusCondition(p.CloneSet(name).Status.Conditions, kind)
}

// PodReady says whether a pod is Ready.
func PodReady(pod *corev1.Pod) bool { return PodCondition(pod, corev1.PodReady) }

// PodCondition says whether a pod has a condition and it is True.
func PodCondition(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	c := condition(pod, kind)
	return c != nil && c.Status == corev1.ConditionTrue
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Identity is what an in-place update must not change.
type Identity struct {
	UID  types.UID
	IP   string
	Node string
}

// Identities are those of pods, by name.
func Identities(pods map[string]*corev1.Pod) map[string]Identity {
	out := map[string]Identity{}
	for name, pod := range pods {
		out[name] = Identity{pod.UID, pod.Status.PodIP, pod.Spec.NodeName}
	}
	return out
}

// Restarts is how often the containers of a pod restarted in all, init containers and native sidecars left out.
func Restarts(pod *corev1.Pod) int32 {
	var n int32
	for _, s := range pod.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

// Worst is the worst that a recorder saw.
type Worst struct {
	// Unready is the most pods that were not Ready at once.
	Unready int
	// FewestReady is the fewest pods that were Ready, and not being deleted, at once.
	FewestReady int
	// Held is the most pods at once whose gate was False: taken out of service by us.
	Held int
	// Most is the most pods that had an image at once.
	Most map[string]int
	// Deleted counts pods that went away, Created those that came.
	Deleted, Created int
	// Total is the most pods that existed at once, those being deleted and finished ones left out.
	Total int
	// Order are the pods in the order in which their first container's image was changed.
	Order []string
	// Problems are pods that were patched while they were Ready.
	Problems []string
}

// Recorder watches the pods of a namespace.
type Recorder struct {
	// now lists the pods that there are.
	now  func() map[types.UID]*corev1.Pod
	mu   sync.Mutex
	pods map[types.UID]*corev1.Pod
	Worst
}

// Record starts a recorder; it ends with the test.
func (p Place) Record() *Recorder {
	p.Helper()
	r := &Recorder{now: p.everyPod, pods: map[types.UID]*corev1.Pod{}, Worst: Worst{Most: map[string]int{}, FewestReady: math.MaxInt}}
	ctx, stop := context.WithCancel(p.Context())
	p.Cleanup(stop)
	r.mu.Lock()
	defer r.mu.Unlock()
	pods, err := p.Follow(ctx, p.NS, r.see, r.missed)
	if err != nil {
		p.Fatal(err)
	}
	for i := range pods {
		r.pods[pods[i].UID] = &pods[i]
	}
	r.look()
	return r
}

// missed makes a test fail that believes a recorder which may have missed something.
func (r *Recorder) missed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Problems = append(r.Problems, err.Error())
	r.Created, r.Deleted, r.FewestReady, r.Unready = -1, -1, -1, math.MaxInt
}

func (r *Recorder) see(e watch.Event) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Type == watch.Deleted {
		delete(r.pods, pod.UID)
		r.Deleted++
		r.look()
		return
	}
	was := r.pods[pod.UID]
	switch {
	case was == nil:
		r.Created++
	case was.Spec.Containers[0].Image == pod.Spec.Containers[0].Image:
	default:
		r.Order = append(r.Order, pod.Name)
		if PodReady(was) {
			r.Problems = append(r.Problems, fmt.Sprintf("pod %s was patched while it was Ready", pod.Name))
		}
	}
	r.pods[pod.UID] = pod
	r.look()
}

func (r *Recorder) look() {
	unready, ready, held, total, images := 0, 0, 0, 0, map[string]int{}
	for _, pod := range r.pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
			total++
		}
		switch {
		case !PodReady(pod):
			unready++
		case pod.DeletionTimestamp == nil:
			ready++
		}
		if gate := condition(pod, appsv1alpha1.ConditionInPlaceUpdateReady); gate != nil && gate.Status == corev1.ConditionFalse {
			held++
		}
		images[pod.Spec.Containers[0].Image]++
	}
	r.Unready = max(r.Unready, unready)
	r.FewestReady = min(r.FewestReady, ready)
	r.Held = max(r.Held, held)
	r.Total = max(r.Total, total)
	for image, n := range images {
		r.Most[image] = max(r.Most[image], n)
	}
}

// everyPod lists the pods of the namespace, those that are being deleted too.
func (p Place) everyPod() map[types.UID]*corev1.Pod {
	p.Helper()
	var list corev1.PodList
	if err := p.List(p.Context(), &list, client.InNamespace(p.NS)); err != nil {
		p.Fatal(err)
	}
	pods := map[types.UID]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].UID] = &list.Items[i]
	}
	return pods
}

// Settled is Seen, once no pod of the namespace is being deleted any more: what was deleted counts when it is gone.
func (r *Recorder) Settled() Worst {
	going := func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }
	for end := time.Now().Add(Patience(0)); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if !slices.ContainsFunc(slices.Collect(maps.Values(r.now())), going) {
			break
		}
	}
	return r.Seen()
}

// behind says whether the watch has still to tell of what there is.
func (r *Recorder) behind() bool {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, pod := range now {
		if seen := r.pods[uid]; seen == nil || seen.ResourceVersion != pod.ResourceVersion {
			return true
		}
	}
	return len(r.pods) != len(now)
}

// Seen returns the worst that was seen so far. What the API server shows is waited for: a watch may lag behind. Pods that change
// all the time are waited for no longer than five seconds.
func (r *Recorder) Seen() Worst {
	for end := time.Now().Add(5 * time.Second); r.behind() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.Worst
	w.Most = maps.Clone(w.Most)
	w.Order = slices.Clone(w.Order)
	return w
}

// InPlace checks that the pods are the ones they were, each restarted so often.
func (p Place) InPlace(before map[string]Identity, restarted int32) {
	p.Helper()
	pods := p.Pods()
	if diff := cmp.Diff(before, Identities(pods)); diff != "" {
		p.Errorf("pods changed (-before +after):\n%s", diff)
	}
	for name, pod := range pods {
		if Restarts(pod) != restarted {
			p.Errorf("%s restarted %d times, want %d", name, Restarts(pod), restarted)
		}
	}
}

// Notes are the events of the namespace that are not of Kubernetes itself.
func (p Place) Notes() []string {
	p.Helper()
	var list eventsv1.EventList
	if err := p.List(p.Context(), &list, client.InNamespace(p.NS)); err != nil {
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

// Noted counts the events that say just that.
func (p Place) Noted(note string) int {
	n := 0
	for _, is := range p.Notes() {
		if is == note {
			n++
		}
	}
	return n
}

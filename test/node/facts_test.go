//go:build lab

package node

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// sidecar is a native sidecar, prepare an ordinary init container.
const (
	sidecar = `{name: log, image: "underway.test/side:v1", imagePullPolicy: Never, restartPolicy: Always}`
	prepare = `{name: prepare, image: "underway.test/init:v1", imagePullPolicy: Never}`
)

// TestB081: the image of a native sidecar changes in place. It restarts, alone, and the update is not done before it runs.
func TestB081(t *testing.T) {
	p := onSteady(t)
	p.create(app{replicas: 2, rollout: "maxUnavailable: 1", init: sidecar})
	p.mark()
	before, r := kit.Identities(p.Pods()), p.Record()
	p.set(initImage, lab.Image(lab.SideImage, "v2"))
	cs := p.Ready("web", 2, patience)
	// Read after the status: what it calls updated must run by then.
	p.runs("log", lab.Image(lab.SideImage, "v2"))
	for name, pod := range p.Pods() {
		if s := statusOf(pod, "log"); s.Image != lab.Image(lab.SideImage, "v2") {
			t.Errorf("%s: updated, and its sidecar runs %s", name, s.Image)
		}
	}
	p.kept(before, map[string]int32{"log": 1, "main": 0})
	p.marked()
	if u := cs.Status.Underway; u.UpdatedInPlace != 2 || r.Seen().FewestReady < 1 {
		t.Errorf("underway %s, seen %+v", kit.Text(u), r.Seen())
	}
}

// TestInitWithMain: the image of an ordinary init container changes together with the app's: it is recorded in the pod and
// does not run again; the app restarts once.
func TestInitWithMain(t *testing.T) {
	p := onSteady(t)
	p.create(app{replicas: 2, rollout: "maxUnavailable: 1", init: prepare})
	before, ran := kit.Identities(p.Pods()), map[string]corev1.ContainerStatus{}
	for name, pod := range p.Pods() {
		ran[name] = statusOf(pod, "prepare")
	}
	p.set(initImage, lab.Image(lab.InitImage, "v2"), mainImage, lab.Image(lab.AppImage, "v2"))
	cs := p.Ready("web", 2, patience)
	p.kept(before, map[string]int32{"main": 1, "prepare": 0})
	p.runs("main", lab.Image(lab.AppImage, "v2"))
	for name, pod := range p.Pods() {
		s := statusOf(pod, "prepare")
		if imageOf(pod, "prepare") != lab.Image(lab.InitImage, "v2") || s.ContainerID != ran[name].ContainerID {
			t.Errorf("%s: init container wants %s, ran as %s, is %s", name, imageOf(pod, "prepare"), kit.Text(ran[name]), kit.Text(s))
		}
	}
	if u := cs.Status.Underway; u.UpdatedInPlace != 2 {
		t.Errorf("underway %s", kit.Text(u))
	}
}

// TestB079: only the image of an ordinary init container changes. It has run already, so the pod is recreated and the new
// one runs; under InPlaceOnly nothing changes, and that is said.
func TestB079(t *testing.T) {
	parallel(t)
	t.Run("InPlaceIfPossible", func(t *testing.T) {
		p := onSteady(t)
		p.create(app{replicas: 1, rollout: "maxUnavailable: 1", init: prepare})
		before := kit.Identities(p.Pods())
		p.set(initImage, lab.Image(lab.InitImage, "v2"))
		cs := p.Ready("web", 1, patience)
		for name, pod := range p.Pods() {
			s := statusOf(pod, "prepare")
			if before[name].UID == pod.UID || s.Image != lab.Image(lab.InitImage, "v2") || s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
				t.Errorf("%s: UID %s, was %s, init container %s", name, pod.UID, before[name].UID, kit.Text(s))
			}
		}
		if u := cs.Status.Underway; u.Recreated != 1 || u.UpdatedInPlace != 0 {
			t.Errorf("underway %s", kit.Text(u))
		}
	})
	t.Run("InPlaceOnly", func(t *testing.T) {
		p := onSteady(t)
		p.create(app{replicas: 1, policy: appsv1alpha1.InPlaceOnlyUpdate, init: prepare})
		before := kit.Identities(p.Pods())
		p.set(initImage, lab.Image(lab.InitImage, "v2"))
		p.refused("initContainers")
		p.kept(before, map[string]int32{"main": 0, "prepare": 0})
	})
}

// refused waits until FailedUpdate says why, in a sentence that holds a word.
func (p place) refused(word string) {
	p.Helper()
	p.Eventually(patience, func() string {
		c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate)
		if c == nil || !strings.Contains(c.Message, word) {
			return fmt.Sprintf("FailedUpdate does not say %q: %s", word, kit.Text(c))
		}
		return ""
	})
}

// env asks the server in a pod for a variable of its environment.
func (p place) env(pod *corev1.Pod, name string) string {
	p.Helper()
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, fmt.Sprintf("http://%s:8080/env?name=%s", pod.Status.PodIP, name), nil)
	if err != nil {
		p.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		p.Fatalf("%s: %s: %v", pod.Name, response.Status, err)
	}
	return strings.TrimSpace(string(body))
}

// TestB077: a variable that reads an annotation whose value holds "=". Changed together with the image it is updated in
// place, with one restart that shows the whole value and then no other; changed alone, it takes a new pod.
func TestB077(t *testing.T) {
	p := onSteady(t)
	p.create(app{
		replicas: 2, rollout: "maxUnavailable: 1", templateAnnotations: `deployed: "2024-01-01 m=+0.5"`,
		main: `env: [{name: DEPLOYED, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['deployed']"}}}]`,
	})
	const deployed, value, next = "/spec/template/metadata/annotations/deployed", "2024-01-02 m=+1.02", "2024-01-03 m=+2=3"
	before := kit.Identities(p.Pods())
	p.set(deployed, value, mainImage, lab.Image(lab.AppImage, "v2"))
	p.Ready("web", 2, patience)
	p.During(8*time.Second, func() string {
		for name, pod := range p.Pods() {
			if n := kit.Restarts(pod); n != 1 {
				return fmt.Sprintf("%s restarted %d times, want 1", name, n)
			}
		}
		return ""
	})
	p.kept(before, map[string]int32{"main": 1})
	for name, pod := range p.Pods() {
		if got := p.env(pod, "DEPLOYED"); got != value {
			t.Errorf("%s: DEPLOYED is %q, want %q", name, got, value)
		}
	}
	p.set(deployed, next)
	cs := p.Ready("web", 2, patience)
	for name, pod := range p.Pods() {
		if got := p.env(pod, "DEPLOYED"); got != next || before[name].UID == pod.UID || kit.Restarts(pod) != 0 {
			t.Errorf("%s: DEPLOYED is %q, want %q; UID %s, was %s, %d restarts", name, got, next, pod.UID, before[name].UID, kit.Restarts(pod))
		}
	}
	if u := cs.Status.Underway; u.Recreated != 2 {
		t.Errorf("underway %s", kit.Text(u))
	}
}

// TestLabelsOnly: labels and annotations change without a restart and without a moment out of service.
func TestLabelsOnly(t *testing.T) {
	p := onSteady(t)
	p.service()
	p.create(app{replicas: 3, rollout: "maxUnavailable: 1"})
	before, r, e := kit.Identities(p.Pods()), p.Record(), p.endpoints()
	p.set("/spec/template/metadata/labels/tier", "front", "/spec/template/metadata/annotations/note", "new")
	cs := p.Ready("web", 3, patience)
	time.Sleep(2 * time.Second)
	p.kept(before, map[string]int32{"main": 0})
	for name, pod := range p.Pods() {
		if pod.Labels["tier"] != "front" || pod.Annotations["note"] != "new" {
			t.Errorf("%s: labels %v, annotations %v", name, pod.Labels, pod.Annotations)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if seen := r.Seen(); seen.Unready != 0 || seen.Held != 0 || len(e.left) != 0 || cs.Status.Underway.UpdatedInPlace != 3 {
		t.Errorf("seen %+v, left the endpoints %v, underway %s", seen, e.left, kit.Text(cs.Status.Underway))
	}
}

// TestImageNeverPull: an image that no node has is told on the workload, with pod, container, reason and since when, takes
// the budget and no more; a good image moves the broken pod on without spending any.
func TestImageNeverPull(t *testing.T) {
	p := onSteady(t)
	p.create(app{replicas: 4, rollout: "maxUnavailable: 1"})
	before, r := kit.Identities(p.Pods()), p.Record()
	p.tag("absent")
	var broken string
	p.Eventually(patience, func() string {
		u := p.CloneSet("web").Status.Underway
		if u == nil || len(u.Broken) != 1 || u.Broken[0].Reason != "ErrImageNeverPull" || len(u.Broken[0].Pods) != 1 || u.Broken[0].Since == nil || !strings.Contains(u.Broken[0].Message, "main") {
			return "not told: " + kit.Text(u)
		}
		broken = u.Broken[0].Pods[0]
		return ""
	})
	since := p.CloneSet("web").Status.Underway.Broken[0].Since
	// The kubelet names the restart back-off of the container before, which ended well, in turn with the image: that is one
	// trouble, and no crash of an image that never ran.
	waited := p.waitsOf(broken)
	p.During(15*time.Second, func() string {
		u := p.CloneSet("web").Status.Underway
		if n := p.On(lab.Image(lab.AppImage, "v1")); n != 3 || len(u.Broken) != 1 || u.Broken[0].Reason != "ErrImageNeverPull" || !u.Broken[0].Since.Equal(since) {
			return fmt.Sprintf("%d pods are on v1, want 3; since %s; underway %s; the kubelet said %v", n, since, kit.Text(u), waited.all())
		}
		return ""
	})
	t.Logf("the kubelet said %v", waited.all())
	p.tag("v2")
	// The broken pod is the first to go.
	p.until(patience, func(pods map[string]*corev1.Pod) string {
		if imageOf(pods[broken], "main") != lab.Image(lab.AppImage, "v2") {
			return broken + " is not patched"
		}
		return ""
	})
	cs := p.Ready("web", 4, patience)
	p.kept(before, map[string]int32{"main": 1})
	p.runs("main", lab.Image(lab.AppImage, "v2"))
	if seen := r.Seen(); seen.FewestReady < 3 || seen.Created+seen.Deleted > 0 || len(cs.Status.Underway.Broken) > 0 {
		t.Errorf("seen %+v, underway %s", seen, kit.Text(cs.Status.Underway))
	}
}

// waits are the reasons for which a container was seen to wait.
type waits struct {
	mu      sync.Mutex
	reasons map[string]int
}

// waitsOf follows main of one pod until the test ends.
func (p place) waitsOf(name string) *waits {
	p.Helper()
	w := &waits{reasons: map[string]int{}}
	p.watchPods(func(pod *corev1.Pod) {
		if s := statusOf(pod, "main"); pod.Name == name && s.State.Waiting != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reasons[s.State.Waiting.Reason]++
		}
	})
	return w
}

func (w *waits) all() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.reasons)
}

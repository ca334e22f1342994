//go:build lab

package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// TestKubeletStoppedAMinute: the kubelet of one of two nodes stops in the middle of an update, long enough for the node to
// be called NotReady, and starts again. Its pods are unavailable meanwhile, so no pod of the other node may go, and they
// themselves are not broken: they restart within the budget when their node is back, not all at once.
func TestKubeletStoppedAMinute(t *testing.T) {
	p := onRough(t)
	p.create(app{replicas: 4, rollout: "maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 2}", pod: spread})
	before, r := kit.Identities(p.Pods()), p.Record()
	rough, calm := p.sides()
	if len(rough) != 2 || len(calm) != 2 {
		t.Fatalf("%d pods on one node, %d on the other", len(rough), len(calm))
	}
	p.tag("v2")
	p.drained(30 * time.Second)
	if err := p.node.StopKubelet(); err != nil {
		t.Fatal(err)
	}
	p.until(patience, func(pods map[string]*corev1.Pod) string {
		for _, name := range rough {
			if kit.PodReady(pods[name]) {
				return name + " is Ready still"
			}
		}
		return ""
	})
	// Whatever was under way on the calm node is finished, and then nothing moves there.
	p.until(patience, func(pods map[string]*corev1.Pod) string {
		for _, name := range calm {
			if !kit.PodReady(pods[name]) {
				return name + " is not Ready"
			}
		}
		return ""
	})
	p.During(8*time.Second, func() string {
		pods := p.Pods()
		for _, name := range calm {
			if gateFalse(pods[name]) || !kit.PodReady(pods[name]) {
				return name + " was taken out of service while two pods are away"
			}
		}
		return ""
	})
	if err := p.node.StartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Ready("web", 4, patience)
	p.kept(before, map[string]int32{"main": 1})
	p.runs("main", lab.Image(lab.AppImage, "v2"))
	seen := r.Seen()
	t.Logf("at most %d pods held at once, at least %d ready", seen.Held, seen.FewestReady)
	if seen.Created+seen.Deleted > 0 || len(seen.Problems) > 0 || seen.FewestReady < 1 || seen.Held > 1 {
		t.Errorf("seen %+v", seen)
	}
}

// spread puts pods on both nodes, as many on each.
const spread = `topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]`

// sides are the names of the pods on the place's node, and of those on the other.
func (p place) sides() (here, there []string) {
	p.Helper()
	pods := p.Pods()
	for _, name := range p.names() {
		if pods[name].Spec.NodeName == p.node.Name() {
			here = append(here, name)
		} else {
			there = append(there, name)
		}
	}
	return here, there
}

// TestKubeletKilled: the kubelet is killed when a pod is patched, and again when a container has been replaced; it comes
// back, and calls each pod not Ready until its probe has run. That is no reason to take them all; each container is
// replaced once all the same.
func TestKubeletKilled(t *testing.T) {
	p := onRough(t)
	p.create(app{replicas: 3, rollout: "maxUnavailable: 1"})
	before, r, ran := kit.Identities(p.Pods()), p.Record(), p.runsOf("main")
	again := func() {
		if err := p.node.KillKubelet(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := p.node.StartKubelet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.tag("v2")
	first := p.patched(lab.Image(lab.AppImage, "v2"), patience)
	again()
	p.until(patience, func(pods map[string]*corev1.Pod) string {
		for name, pod := range pods {
			if name != first && statusOf(pod, "main").RestartCount == 1 {
				return ""
			}
		}
		return "no second container is replaced"
	})
	again()
	p.Ready("web", 3, patience)
	p.kept(before, nil)
	p.runs("main", lab.Image(lab.AppImage, "v2"))
	// Not by restartCount: a kubelet that is killed while it starts a container counts that one, too.
	for _, tag := range []string{"v1", "v2"} {
		for name, ids := range ran.of(lab.Image(lab.AppImage, tag)) {
			if len(ids) != 1 {
				t.Errorf("%s ran %s in the containers %v, want one", name, tag, ids)
			}
		}
	}
	// Pods that are not Ready for a moment because the kubelet is new are nobody's budget; those we hold are.
	seen := r.Seen()
	t.Logf("at most %d pods held at once, at least %d ready", seen.Held, seen.FewestReady)
	if seen.Held > 1 || seen.Created+seen.Deleted > 0 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v", seen)
	}
}

// TestKubeletSeesOnlyTheEnd: the kubelet is away while a pod is patched from one image to another and back. The container
// that runs is the wanted one, so it need not restart, and does not; the update completes.
func TestKubeletSeesOnlyTheEnd(t *testing.T) {
	parallel(t)
	for _, tc := range []struct{ name, from, over string }{
		{"different digests", "v1", "v2"},
		{"equal digests", "v2", "v2-again"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := onRough(t)
			p.create(app{replicas: 1, tag: tc.from, rollout: "maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 8}"})
			before := kit.Identities(p.Pods())
			p.tag(tc.over)
			name := p.drained(30 * time.Second)
			// At once: it must not act on the patch that comes when the grace period is over.
			if err := p.node.KillKubelet(); err != nil {
				t.Fatal(err)
			}
			p.patched(lab.Image(lab.AppImage, tc.over), patience)
			p.tag(tc.from)
			p.patched(lab.Image(lab.AppImage, tc.from), patience)
			// Nothing is proven by then: no kubelet has seen either patch.
			p.During(7*time.Second, func() string {
				if pod := p.Pods()[name]; !gateFalse(pod) {
					return "the pod is in service again although no kubelet has acted: " + kit.Text(pod.Status)
				}
				return ""
			})
			if err := p.node.StartKubelet(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.Ready("web", 1, patience)
			p.kept(before, map[string]int32{"main": 0})
			p.runs("main", lab.Image(lab.AppImage, tc.from))
		})
	}
}

// TestPodGoesInTheMiddle: the pod that is being updated goes away; another takes its place, on the update revision and
// without a trace of the update, and nothing else is taken down meanwhile.
func TestPodGoesInTheMiddle(t *testing.T) {
	parallel(t)
	for _, tc := range []struct {
		name string
		goes func(p place, pod *corev1.Pod)
		// recreated is whether the successor counts as one; a pod that was patched may have been proven updated already,
		// and then it replaces no older one.
		recreated []int32
	}{
		{"deleted when it is patched", func(p place, pod *corev1.Pod) {
			p.patched(lab.Image(lab.AppImage, "v2"), patience)
			p.remove(pod)
		}, []int32{0, 1}},
		{"deleted in the grace period", place.remove, []int32{1}},
		{"evicted in the grace period (B169)", place.evict, []int32{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := onSteady(t)
			p.create(app{replicas: 3, rollout: "maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 6}", more: second})
			p.budget()
			before, r := kit.Identities(p.Pods()), p.Record()
			p.set(mainImage, lab.Image(lab.AppImage, "v2"), sideImage, lab.Image(lab.AppImage, "v2"))
			name := p.drained(30 * time.Second)
			tc.goes(p, p.Pods()[name])
			cs := p.Ready("web", 3, patience)
			p.runs("main", lab.Image(lab.AppImage, "v2"))
			p.runs("side", lab.Image(lab.AppImage, "v2"))
			replaced := 0
			for name, pod := range p.Pods() {
				want := int32(1)
				if before[name].UID != pod.UID {
					replaced++
					want = 0
					if p.state(pod) != nil || pod.Annotations["apps.kruise.io/inplace-update-grace"] != "" {
						t.Errorf("%s is new and carries %v", name, pod.Annotations)
					}
				}
				for _, container := range []string{"main", "side"} {
					if got := statusOf(pod, container).RestartCount; got != want {
						t.Errorf("%s: %s restarted %d times, want %d", name, container, got, want)
					}
				}
			}
			if u := cs.Status.Underway; replaced != 1 || u.UpdatedInPlace != 2 || !slices.Contains(tc.recreated, u.Recreated) {
				t.Errorf("%d pods are new, underway %s", replaced, kit.Text(u))
			}
			if seen := r.Seen(); seen.FewestReady < 2 || len(seen.Problems) > 0 {
				t.Errorf("seen %+v", seen)
			}
		})
	}
}

// remove deletes a pod.
func (p place) remove(pod *corev1.Pod) {
	p.Helper()
	if err := p.Delete(p.Context(), pod, client.Preconditions{UID: &pod.UID}); err != nil {
		p.Fatal(fmt.Errorf("deleting %s: %w", pod.Name, err))
	}
}

// budget puts a PodDisruptionBudget on the app: two pods stay.
func (p place) budget() {
	p.Helper()
	p.Make(`
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}`)
}

// evict sends a pod away as draining its node does, as soon as its budget allows that.
func (p place) evict(pod *corev1.Pod) {
	p.Helper()
	client, err := kubernetes.NewForConfig(p.RESTConfig())
	if err != nil {
		p.Fatal(err)
	}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.NS, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}
	p.Eventually(patience, func() string {
		if err := client.PolicyV1().Evictions(p.NS).Evict(p.Context(), eviction); err != nil {
			return "evicting: " + err.Error()
		}
		return ""
	})
}

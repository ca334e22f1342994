//go:build lab

package member

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// ordered are two containers with launch priorities, main before side, as OpenKruise's webhook writes them.
func ordered(main, side string) string {
	container := func(name, image string, priority int) string {
		return fmt.Sprintf(`{name: %s, image: %q, env: [{name: KRUISE_CONTAINER_BARRIER, valueFrom: {configMapKeyRef: {name: barrier, key: p_%d}}}]}`, name, image, priority)
	}
	return fmt.Sprintf("{containers: [%s, %s]}", container("side", side, 0), container("main", main, 10))
}

func status(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

func stateOf(t *testing.T, pod *corev1.Pod) inplace.State {
	t.Helper()
	var state inplace.State
	if err := json.Unmarshal([]byte(pod.Annotations[appsv1alpha1.AnnotationInPlaceState]), &state); err != nil {
		t.Fatal(err)
	}
	return state
}

// TestLaunchPriorities: the container of the higher priority is patched first, and has to run and be ready before the
// other is; for each further batch the agent sends one request more.
func TestLaunchPriorities(t *testing.T) {
	t.Parallel()
	const pods = 4
	p := kit.In(t, steady)
	before := web(p, pods, ordered("main:1", "side:1"), "{type: InPlaceIfPossible, maxUnavailable: 2}")
	mark := p.Marked()
	r := p.Record()
	template(p, ordered("main:2-slow-start-2s", "side:2"))
	p.Ready("web", pods, 2*time.Minute)
	p.InPlace(before, 2)
	if seen := r.Seen(); seen.Unready > 2 {
		t.Errorf("seen %+v", seen)
	}
	for name, pod := range p.Pods() {
		main, side := status(pod, "main"), status(pod, "side")
		if main.Image != "main:2-slow-start-2s" || side.Image != "side:2" || main.RestartCount != 1 || side.RestartCount != 1 {
			t.Errorf("%s: %s", name, kit.Text(pod.Status.ContainerStatuses))
		}
		if wait := side.State.Running.StartedAt.Sub(main.State.Running.StartedAt.Time); wait < 2*time.Second {
			t.Errorf("%s: side started %s after main, which is ready after 2 s", name, wait)
		}
		state := stateOf(t, pod)
		if state.Next() || len(state.ContainerBatchesRecord) != 2 || !slices.Equal(state.ContainerBatchesRecord[0].Containers, []string{"main"}) {
			t.Errorf("%s: %s", name, kit.Text(state))
		}
	}
	budget(t, p, mark, map[string]int{"patch pods": 2 * pods, "patch pods/status": 2 * pods})
}

// TestRequestBudgetOfResources: an image and cpu together are one request more than the image, cpu alone are two.
func TestRequestBudgetOfResources(t *testing.T) {
	t.Parallel()
	const pods = 5
	p := kit.In(t, steady)
	spec := func(image, cpu string) string {
		return fmt.Sprintf(`{containers: [{name: main, image: %q, resources: {requests: {cpu: %s}}}]}`, image, cpu)
	}
	before := web(p, pods, spec("app:v1", "100m"), "{type: InPlaceIfPossible, maxUnavailable: 2}")
	mark := p.Marked()
	template(p, spec("app:v2", "200m"))
	p.Ready("web", pods, time.Minute)
	p.InPlace(before, 1)
	budget(t, p, mark, map[string]int{"patch pods": pods, "patch pods/resize": pods, "patch pods/status": 2 * pods})
	mark = p.Marked()
	template(p, spec("app:v2", "300m"))
	p.Ready("web", pods, time.Minute)
	p.InPlace(before, 1)
	budget(t, p, mark, map[string]int{"patch pods": pods, "patch pods/resize": pods})
	if got := cpus(p); got["300m 300m"] != pods {
		t.Errorf("cpu, wanted and running: %v", got)
	}
}

// budget checks what the agent asked of pods since a mark: these writes, no reads, and no more conflicts than pods.
func budget(t *testing.T, p kit.Place, mark lab.Mark, want map[string]int) {
	t.Helper()
	done, conflicts, reads := p.Requests(mark, "pods", "pods/status", "pods/resize")
	t.Logf("%v, %d conflicts", done, conflicts)
	if kit.Text(done) != kit.Text(want) || reads > 0 {
		t.Errorf("requests %v and %d reads, want %v and no read", done, reads, want)
	}
	if n := len(p.Pods()); conflicts > n {
		t.Errorf("%d conflicts for %d pods", conflicts, n)
	}
}

// evict asks the API server to evict a pod. It answers with a Status, which only untyped objects can hold.
func evict(p kit.Place, pod *corev1.Pod) {
	p.Helper()
	of, eviction := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	of.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	of.SetNamespace(pod.Namespace)
	of.SetName(pod.Name)
	eviction.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
	if err := p.SubResource("eviction").Create(p.Context(), of, eviction); err != nil {
		p.Fatal(err)
	}
}

// TestB169: a pod is evicted during its update. Its successor begins at the update revision with nothing of the update
// on it, and no second pod is taken down meanwhile.
func TestB169(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		from, to, strategy string
		// reached says that the pod is where it is to be evicted.
		reached func(*corev1.Pod) bool
	}{
		"in its grace period": {
			from: ordered("main:1", "side:1"), to: ordered("main:2", "side:2"),
			strategy: "{type: InPlaceIfPossible, maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 5}}",
			reached: func(pod *corev1.Pod) bool {
				return !kit.PodReady(pod) && !kit.PodCondition(pod, appsv1alpha1.ConditionInPlaceUpdateReady) && status(pod, "main").Image == "main:1"
			},
		},
		"between two batches": {
			from: ordered("main:1", "side:1"), to: ordered("main:2-slow-start-5s", "side:2"),
			strategy: "{type: InPlaceIfPossible, maxUnavailable: 1}",
			reached: func(pod *corev1.Pod) bool {
				return status(pod, "main").Image == "main:2-slow-start-5s" && !status(pod, "main").Ready && status(pod, "side").Image == "side:1"
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := kit.In(t, steady)
			before := web(p, 3, tc.from, tc.strategy)
			r := p.Record()
			template(p, tc.to)
			var victim *corev1.Pod
			p.Eventually(30*time.Second, func() string {
				for _, pod := range p.Pods() {
					if tc.reached(pod) {
						victim = pod
						return ""
					}
				}
				return "no pod is there yet"
			})
			evict(p, victim)
			cs := p.Ready("web", 3, 2*time.Minute)
			fresh := 0
			for name, pod := range p.Pods() {
				if pod.UID == before[name].UID {
					continue
				}
				fresh++
				for _, key := range []string{appsv1alpha1.AnnotationInPlaceState, appsv1alpha1.AnnotationInPlaceGrace} {
					if text, has := pod.Annotations[key]; has {
						t.Errorf("%s has %s: %s", name, key, text)
					}
				}
				if kit.Restarts(pod) != 0 || pod.Labels[appsv1alpha1.LabelPodRevision] != cs.Status.UpdateRevision || !kit.PodCondition(pod, appsv1alpha1.ConditionInPlaceUpdateReady) {
					t.Errorf("%s: %d restarts, labels %v", name, kit.Restarts(pod), pod.Labels)
				}
			}
			if seen := r.Settled(); fresh != 1 || seen.FewestReady < 2 || seen.Created != 1 || seen.Deleted != 1 {
				t.Errorf("%d new pods, seen %+v", fresh, seen)
			}
		})
	}
}

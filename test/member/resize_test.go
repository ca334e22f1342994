//go:build lab

package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// web makes CloneSet web of pods with this spec (YAML of a PodSpec) and waits until they are ready. spec is YAML of
// CloneSetSpec, with replicas first.
func web(p kit.Place, replicas int32, podSpec, spec string) map[string]kit.Identity {
	p.Helper()
	p.Make(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: %s
  updateStrategy: %s`, replicas, podSpec, spec))
	p.Ready("web", replicas, time.Minute)
	return kit.Identities(p.Pods())
}

// template merges YAML into the spec of web's pods. Lists are replaced.
func template(p kit.Place, podSpec string) {
	p.Helper()
	p.Merge("web", "{spec: {template: {spec: "+podSpec+"}}}")
}

// cpus are the requests of each pod's first container as the spec has them and as the kubelet reports them.
func cpus(p kit.Place) map[string]int {
	p.Helper()
	n := map[string]int{}
	for _, pod := range p.Pods() {
		spec, running := pod.Spec.Containers[0].Resources.Requests.Cpu().String(), "none"
		if s := pod.Status.ContainerStatuses; len(s) > 0 && s[0].Resources != nil {
			running = s[0].Resources.Requests.Cpu().String()
		}
		n[spec+" "+running]++
	}
	return n
}

// told waits until the workload says a problem with these words, of so many pods, and since when.
func told(p kit.Place, list func(*appsv1alpha1.WorkloadReport) []appsv1alpha1.PodProblem, reason, words string, pods int32) {
	p.Helper()
	p.Eventually(time.Minute, func() string {
		u := p.CloneSet("web").Status.Underway
		if u == nil {
			return "no report"
		}
		for _, problem := range list(u) {
			if problem.Reason == reason && strings.Contains(problem.Message, words) && problem.Count == pods && problem.Since != nil && len(problem.Pods) > 0 {
				return ""
			}
		}
		return "not reported: " + kit.Text(u)
	})
}

func broken(u *appsv1alpha1.WorkloadReport) []appsv1alpha1.PodProblem  { return u.Broken }
func refused(u *appsv1alpha1.WorkloadReport) []appsv1alpha1.PodProblem { return u.Refused }

// TestB085: another QoS class cannot be had in place.
func TestB085(t *testing.T) {
	t.Parallel()
	const (
		burstable  = `{containers: [{name: main, image: "app:v1", resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: "1", memory: 2Gi}}}]}`
		guaranteed = `{containers: [{name: main, image: "app:v1", resources: {requests: {cpu: "1", memory: 2Gi}, limits: {cpu: "1", memory: 2Gi}}}]}`
	)
	t.Run("InPlaceIfPossible", func(t *testing.T) {
		t.Parallel()
		p := kit.In(t, steady)
		before := web(p, 3, burstable, "{type: InPlaceIfPossible, maxUnavailable: 1}")
		template(p, guaranteed)
		cs := p.Ready("web", 3, time.Minute)
		for name, is := range kit.Identities(p.Pods()) {
			if is == before[name] {
				t.Errorf("%s was not recreated", name)
			}
			if class := p.Pods()[name].Status.QOSClass; class != corev1.PodQOSGuaranteed {
				t.Errorf("%s is %s", name, class)
			}
		}
		if u := cs.Status.Underway; u.Recreated != 3 || u.UpdatedInPlace != 0 {
			t.Errorf("underway %s", kit.Text(u))
		}
	})
	t.Run("InPlaceOnly", func(t *testing.T) {
		t.Parallel()
		p := kit.In(t, steady)
		before := web(p, 3, burstable, "{type: InPlaceOnly, maxUnavailable: 1}")
		at := generations(p)
		template(p, guaranteed)
		told(p, refused, "NotInPlace", "QoS", 3)
		if c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate); c == nil || !strings.Contains(c.Message, "QoS") {
			t.Errorf("FailedUpdate: %s", kit.Text(c))
		}
		p.During(3*time.Second, func() string {
			if now := generations(p); kit.Text(now) != kit.Text(at) {
				return fmt.Sprintf("generations %v, were %v", now, at)
			}
			return ""
		})
		p.InPlace(before, 0)
	})
}

// otherGate is a readiness gate of somebody else, by which a test takes a pod out of service whatever it runs.
const otherGate = "example.test/other"

func (p place) other(pod *corev1.Pod, status corev1.ConditionStatus) {
	p.Helper()
	body := fmt.Sprintf(`{"status": {"conditions": [{"type": %q, "status": %q}]}}`, otherGate, status)
	if err := p.Status().Patch(p.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(body))); err != nil {
		p.Fatal(err)
	}
}

// TestB087: with no pod to be spared, cpu that changes without a restart goes on, and cpu that wants one waits.
func TestB087(t *testing.T) {
	t.Parallel()
	for policy, moves := range map[string]bool{"NotRequired": true, "RestartContainer": false} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			spec := func(cpu string) string {
				return fmt.Sprintf(`{readinessGates: [{conditionType: %s}],
					containers: [{name: main, image: "app:v1", resources: {limits: {cpu: %q}}, resizePolicy: [{resourceName: cpu, restartPolicy: %s}]}]}`,
					otherGate, cpu, policy)
			}
			p.Make(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: %s}
  updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1}`, spec("1")))
			p.Eventually(30*time.Second, func() string { return is(len(p.Pods()), 3) })
			for _, pod := range p.Pods() {
				p.other(pod, corev1.ConditionTrue)
			}
			p.Ready("web", 3, time.Minute)
			before := kit.Identities(p.Pods())
			down := p.one(func(*corev1.Pod) bool { return true })
			p.other(down, corev1.ConditionFalse)
			p.Eventually(20*time.Second, func() string { return is(int(p.CloneSet("web").Status.ReadyReplicas), 2) })
			r := p.Record()
			template(p.Place, spec("2"))
			if moves {
				p.Eventually(time.Minute, func() string { return is(cpus(p.Place)["2 2"], 3) })
			} else {
				p.Eventually(30*time.Second, func() string {
					if c := p.Condition("web", appsv1alpha1.ConditionReady); c == nil || c.Reason != "Budget" {
						return "not held by the budget: " + kit.Text(c)
					}
					return ""
				})
				p.During(3*time.Second, func() string {
					if n := cpus(p.Place)["1 1"]; n < 2 {
						return fmt.Sprintf("%d pods are as they were, the two that serve have to be", n)
					}
					return ""
				})
			}
			if seen := r.Seen(); seen.Unready > 1 || seen.FewestReady < 2 || seen.Created+seen.Deleted > 0 {
				t.Errorf("seen %+v", seen)
			}
			p.other(p.Pods()[down.Name], corev1.ConditionTrue)
			p.Ready("web", 3, time.Minute)
			p.InPlace(before, 0)
			if seen := r.Seen(); seen.Unready > 1 {
				t.Errorf("seen %+v", seen)
			}
		})
	}
}

// TestResizeThatRestarts is drained and within the budget like any other restart.
func TestResizeThatRestarts(t *testing.T) {
	t.Parallel()
	p := kit.In(t, steady)
	spec := func(cpu, image string) string {
		return fmt.Sprintf(`{containers: [{name: main, image: %q, resources: {requests: {cpu: %s}}, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]}`, image, cpu)
	}
	before := web(p, 3, spec("100m", "app:v1"), "{type: InPlaceIfPossible, maxUnavailable: 1}")
	r := p.Record()
	// With an image: one restart, and both are there before it is called updated.
	template(p, spec("200m", "app:v2"))
	p.Ready("web", 3, time.Minute)
	p.InPlace(before, 1)
	if got := cpus(p); got["200m 200m"] != 3 || p.On("app:v2") != 3 {
		t.Errorf("cpu, wanted and running: %v; %d on the image", got, p.On("app:v2"))
	}
	if seen := r.Seen(); seen.Unready > 1 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v", seen)
	}
}

// TestResizeRefused: cpu that the node does not have at all is refused by the API server. By InPlaceOnly that is
// reported, with the patch's own image in place, and the way back needs no restart; by InPlaceIfPossible the pod is
// recreated where there is room.
func TestResizeRefused(t *testing.T) {
	t.Parallel()
	spec := func(cpu string) string {
		return fmt.Sprintf(`{containers: [{name: main, image: "app:v1", resources: {requests: {cpu: %[1]q}}}],
			tolerations: [{key: %[3]s, operator: Exists}],
			affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference: {matchExpressions: [{key: %[3]s, operator: In, values: [%[2]s]}]}}]}}}`, cpu, "SIZE", ownLabel)
	}
	for _, policy := range []string{"InPlaceOnly", "InPlaceIfPossible"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			node := p.node(corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10"),
			})
			p.scheduled(node)
			spec := func(cpu string) string { return strings.Replace(spec(cpu), "SIZE", p.NS, 1) }
			before := web(p.Place, 2, spec("1"), "{type: "+policy+", maxUnavailable: 1}")
			for name, pod := range p.Pods() {
				if pod.Spec.NodeName != node {
					t.Fatalf("%s is on %s", name, pod.Spec.NodeName)
				}
			}
			template(p.Place, spec("8"))
			if policy == "InPlaceIfPossible" {
				cs := p.Ready("web", 2, time.Minute)
				for name, is := range kit.Identities(p.Pods()) {
					if is == before[name] || is.Node == node {
						t.Errorf("%s was not recreated elsewhere: %v", name, is)
					}
				}
				if u := cs.Status.Underway; u.Recreated != 2 {
					t.Errorf("underway %s", kit.Text(u))
				}
				return
			}
			p.Eventually(time.Minute, func() string {
				c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate)
				if c == nil || !strings.Contains(c.Message, "enough allocatable") {
					return "FailedUpdate: " + kit.Text(c)
				}
				return ""
			})
			if u := p.CloneSet("web").Status.Underway; len(u.Broken)+len(u.Refused) == 0 {
				t.Errorf("underway %s", kit.Text(u))
			}
			// What is refused for good is not tried again and again; the other pod has its turn first.
			p.Quiet(3*time.Second, lab.On("pods", "pods/resize"), p.Here)
			p.InPlace(before, 0)
			template(p.Place, spec("1"))
			p.Ready("web", 2, time.Minute)
			p.InPlace(before, 0)
			if c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate); c != nil {
				t.Errorf("FailedUpdate stays: %s", kit.Text(c))
			}
		})
	}
}

// TestResizeOverQuota: a refusal that somebody can change is tried again, by itself.
func TestResizeOverQuota(t *testing.T) {
	t.Parallel()
	p := kit.In(t, steady)
	spec := func(cpu string) string {
		return fmt.Sprintf(`{containers: [{name: main, image: "app:v1", resources: {requests: {cpu: %q}}}]}`, cpu)
	}
	before := web(p, 2, spec("1"), "{type: InPlaceIfPossible, maxUnavailable: 1}")
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: p.NS},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("3")}},
	}
	if err := p.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	p.Eventually(20*time.Second, func() string {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil || len(quota.Status.Used) == 0 {
			return "the quota is not counted"
		}
		return ""
	})
	inForce(p, overCPU())
	template(p, spec("2"))
	told(p, broken, "ResizeRefused", "exceeded quota", 1)
	if c := p.Condition("web", appsv1alpha1.ConditionFailedUpdate); c == nil || c.Reason != "ResizeRefused" {
		t.Errorf("FailedUpdate: %s", kit.Text(c))
	}
	p.InPlace(before, 0)
	quota.Spec.Hard[corev1.ResourceRequestsCPU] = resource.MustParse("4")
	quota.ResourceVersion = ""
	if err := p.Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	p.Ready("web", 2, 3*time.Minute)
	p.InPlace(before, 0)
	if got := cpus(p); got["2 2"] != 2 {
		t.Errorf("cpu, wanted and running: %v", got)
	}
}

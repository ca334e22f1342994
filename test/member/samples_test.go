//go:build lab

package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// TestM003 is priority by weight: labelled pods first, the rest in the default order, and no further than the partition.
func TestM003(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.manifest("M003")
	p.Ready("ranker", 6, time.Minute)
	var names []string
	for name := range p.Pods() {
		names = append(names, name)
	}
	slices.Sort(names)
	canary, staging := names[4], names[2]
	p.Edit(staging, `{metadata: {labels: {tier: staging}}}`)
	p.Edit(canary, `{metadata: {labels: {tier: canary}}}`)
	p.Known()
	before, r := kit.Identities(p.Pods()), p.Record()
	p.Image("ranker", "ranker:2024.2")
	p.Ready("ranker", 3, time.Minute)
	p.During(2*time.Second, func() string { return is(p.On("ranker:2024.2"), 3) })
	seen := r.Seen()
	if len(seen.Order) != 3 || seen.Order[0] != canary || seen.Order[1] != staging || seen.Unready > 1 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v, want %s, %s and one of the others", seen, canary, staging)
	}
	if now := kit.Identities(p.Pods()); kit.Text(now) != kit.Text(before) {
		t.Errorf("pods %v, were %v", now, before)
	}
}

// TestM039 is cpu that is resized while the pod runs, a change of the QoS class, and a size that no node has. What only a
// kubelet can show (a restart for memory, room that comes later) is in test/node.
func TestM039(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.manifest("M039")
	p.Ready("stream", 3, time.Minute)
	resources := func(cpu, memory, cpuLimit, memoryLimit string) {
		p.Helper()
		p.Merge("stream", fmt.Sprintf(`{spec: {template: {spec: {containers: [{name: stream, image: "stream:1",
			resources: {requests: {cpu: %q, memory: %q}, limits: {cpu: %q, memory: %q}},
			resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: RestartContainer}]}]}}}}`,
			cpu, memory, cpuLimit, memoryLimit))
	}
	before, r := kit.Identities(p.Pods()), p.Record()
	resources("500m", "512Mi", "2", "1Gi")
	p.Ready("stream", 3, time.Minute)
	p.InPlace(before, 0)
	for name, pod := range p.Pods() {
		if got := pod.Status.ContainerStatuses[0].Resources.Limits.Cpu().String(); got != "2" {
			t.Errorf("%s counts as updated and has a limit of %s", name, got)
		}
	}
	if seen := r.Seen(); seen.Unready+seen.Held+seen.Created+seen.Deleted != 0 {
		t.Errorf("seen %+v, want nothing taken out of service", seen)
	}
	resources("2", "1Gi", "2", "1Gi")
	p.Ready("stream", 3, time.Minute)
	for name, now := range kit.Identities(p.Pods()) {
		if pod := p.Pods()[name]; now == before[name] || pod.Status.QOSClass != corev1.PodQOSGuaranteed {
			t.Errorf("%s is %s, want it recreated as Guaranteed", name, pod.Status.QOSClass)
		}
	}
	before = kit.Identities(p.Pods())
	resources("5000", "1Gi", "5000", "1Gi")
	p.Eventually(time.Minute, func() string {
		if len(p.Pods()) != 3 || p.CloneSet("stream").Status.ReadyReplicas != 2 {
			return "status " + kit.Text(p.CloneSet("stream").Status)
		}
		return ""
	})
	p.During(3*time.Second, func() string {
		same := 0
		for name, now := range kit.Identities(p.Pods()) {
			if now == before[name] {
				same++
			}
		}
		return is(same, 2)
	})
}

// TestA01 is a CloneSet with every strategy at once: accepted, one claim per pod, a name that does not exist told and taken
// out of the list.
func TestA01(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.manifest("A01")
	p.Ready("sample-data", 3, time.Minute)
	for name, pod := range p.Pods() {
		id := pod.Labels[appsv1alpha1.LabelCloneSetInstanceID]
		claim := p.Claims()["data-sample-data-"+id]
		switch {
		case claim == nil:
			t.Errorf("%s has no claim of its own: %s", name, kit.Text(p.Claims()))
		case claim.Status.Phase != corev1.ClaimBound, claim.Labels[appsv1alpha1.LabelCloneSetInstanceID] != id, metav1.GetControllerOf(claim) == nil:
			t.Errorf("the claim of %s: %s", name, kit.Text(claim))
		}
	}
	if n := len(p.Claims()); n != 3 {
		t.Errorf("%d claims, want one per pod", n)
	}
	p.Eventually(20*time.Second, func() string {
		if left := p.CloneSet("sample-data").Spec.ScaleStrategy.PodsToDelete; len(left) != 0 {
			return fmt.Sprintf("podsToDelete still names %v", left)
		}
		if said := p.told("sample-data"); !strings.Contains(said, "sample-data-9m4hp") {
			return "nothing says that the pod does not exist: " + said
		}
		return ""
	})
	before, claims, r, mark := kit.Identities(p.Pods()), kit.Text(uids(p)), p.Record(), p.Marked()
	order := map[string]string{}
	for i, labels := range []string{"{test-key: bar}", "{test-key: foo, some-label-key: a-1}", "{test-key: foo, some-label-key: a-2}"} {
		name := p.one(func(pod *corev1.Pod) bool { return order[pod.Name] == "" }).Name
		order[name] = fmt.Sprint(i)
		p.Edit(name, "{metadata: {labels: "+labels+"}}")
	}
	p.Known()
	p.Merge("sample-data", `{spec: {updateStrategy: {maxUnavailable: 1}}}`)
	p.Image("sample-data", "nginx:2")
	p.Ready("sample-data", 3, time.Minute)
	p.InPlace(before, 1)
	got := ""
	for _, name := range r.Seen().Order {
		got += order[name]
	}
	// B123: what the API server wrote into a claim is never written again.
	if verbs := p.calls(mark, "persistentvolumeclaims"); got != "210" || kit.Text(uids(p)) != claims || len(verbs) != 0 {
		t.Errorf("order %s, want 210 (weight, then the ordered key); requests for claims %v", got, verbs)
	}
}

// uids are the claims of a place and the volumes that they are bound to.
func uids(p place) map[string]string {
	out := map[string]string{}
	for name, claim := range p.Claims() {
		out[name] = string(claim.UID) + " " + claim.Spec.VolumeName
	}
	return out
}

// TestA02 is the smallest useful CloneSet: all three at once, none replaced.
func TestA02(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.manifest("A02")
	p.Ready("guestbook-clone", 3, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	p.Image("guestbook-clone", "openkruise/guestbook:v3-slow-pull-2s")
	p.Ready("guestbook-clone", 3, time.Minute)
	p.InPlace(before, 1)
	if seen := r.Seen(); seen.Held != 3 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v, want all three out of service at once", seen)
	}
}

// TestA03 is a leader and its followers: two CloneSets, each with its Service. The one's release never touches the other,
// and endpoints follow readiness.
func TestA03(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	for name, replicas := range map[string]int{"leader": 1, "follower": 2} {
		p.App(name, "redis:v1", fmt.Sprintf("replicas: %d\nupdateStrategy: {type: InPlaceIfPossible}", replicas))
		p.Make(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: 6379}]}`, name))
	}
	p.Ready("leader", 1, time.Minute)
	p.Ready("follower", 2, time.Minute)
	// serving are the addresses that a Service sends traffic to.
	serving := func(service string) int {
		var slices discoveryv1.EndpointSliceList
		if err := p.List(t.Context(), &slices, client.InNamespace(p.NS), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range slices.Items {
			for _, e := range slices.Items[i].Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					n++
				}
			}
		}
		return n
	}
	p.Eventually(20*time.Second, func() string { return is(10*serving("leader")+serving("follower"), 12) })
	r, mark := p.Record(), p.Marked()
	followers := kit.Identities(p.Pods())
	p.Image("leader", "redis:v2-slow-start-2s")
	p.Eventually(20*time.Second, func() string { return is(serving("leader"), 0) })
	p.Ready("leader", 1, time.Minute)
	p.Eventually(20*time.Second, func() string { return is(10*serving("leader")+serving("follower"), 12) })
	if now := kit.Identities(p.Pods()); kit.Text(now) != kit.Text(followers) {
		t.Errorf("pods %v, were %v", now, followers)
	}
	leader := p.one(func(pod *corev1.Pod) bool { return pod.Labels["app"] == "leader" }).Name
	if order := r.Seen().Order; !slices.Equal(order, []string{leader}) {
		t.Errorf("pods %v were changed, want %s alone", order, leader)
	}
	if writes, _, reads := p.Requests(mark, "pods"); writes["patch pods"] != 1 || len(writes) != 1 || reads > 0 {
		t.Errorf("requests for pods %v and %d reads, want one patch", writes, reads)
	}
}

// TestAutoscaler: an HPA object, of the cluster's own controller, scales a CloneSet out and in through the scale subresource.
// Below its minimum and above its maximum it needs no metrics.
func TestAutoscaler(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", "replicas: 1\nupdateStrategy: {type: InPlaceIfPossible, partition: \"50%\"}")
	p.Ready("web", 1, time.Minute)
	p.Image("web", "app:v2")
	hpa := `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {
		scaleTargetRef: {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: web}, minReplicas: %d, maxReplicas: %d,
		metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}`
	p.Make(fmt.Sprintf(hpa, 4, 6))
	p.split("app:v1", 2, "app:v2", 2, time.Minute)
	object := p.unstructured("autoscaling/v2", "HorizontalPodAutoscaler", "web")
	if err := p.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"minReplicas": 1, "maxReplicas": 2}}`))); err != nil {
		t.Fatal(err)
	}
	p.split("app:v1", 1, "app:v2", 1, time.Minute)
	p.Eventually(20*time.Second, func() string {
		if s := p.CloneSet("web").Status; s.LabelSelector != "app=web" || s.Replicas != 2 || s.UpdatedReplicas != 1 {
			return "status " + kit.Text(s)
		}
		return ""
	})
}

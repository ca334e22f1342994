//go:build lab

package node

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// traffic sends 50 requests a second to the ready endpoints of the app. Only requests that are not answered at all fail: on
// a busy machine answers are late, and that is not what these tests are about.
func (p place) traffic(keepAlive bool) *lab.Traffic {
	p.Helper()
	traffic, err := lab.StartTraffic(p.Context(), p.RESTConfig(), lab.TrafficOptions{
		Namespace: p.NS, Service: "web", PerSecond: 50, KeepAlive: keepAlive, Timeout: 20 * time.Second,
	})
	if err != nil {
		p.Fatal(err)
	}
	return traffic
}

// endpoints counts what happened to each pod in the EndpointSlices of a service.
type endpoints struct {
	mu    sync.Mutex
	ready map[string]map[string]bool
	in    map[string]bool
	// left and back count the times a pod left the ready endpoints, and came back to them.
	left, back map[string]int
}

// endpoints follows the service web until the test ends.
func (p place) endpoints() *endpoints {
	p.Helper()
	e := &endpoints{ready: map[string]map[string]bool{}, in: map[string]bool{}, left: map[string]int{}, back: map[string]int{}}
	which := []client.ListOption{client.InNamespace(p.NS), client.MatchingLabels{discoveryv1.LabelServiceName: "web"}}
	list := &discoveryv1.EndpointSliceList{}
	if err := p.List(p.Context(), list, which...); err != nil {
		p.Fatal(err)
	}
	for i := range list.Items {
		e.see(watch.Added, &list.Items[i])
	}
	// Those that are there at the start did not come back.
	e.back = map[string]int{}
	w, err := p.Watch(p.Context(), &discoveryv1.EndpointSliceList{}, append(which, &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	})...)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(w.Stop)
	go func() {
		for event := range w.ResultChan() {
			if slice, ok := event.Object.(*discoveryv1.EndpointSlice); ok {
				e.see(event.Type, slice)
			}
		}
	}()
	return e
}

func (e *endpoints) see(kind watch.EventType, slice *discoveryv1.EndpointSlice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ready := map[string]bool{}
	for _, endpoint := range slice.Endpoints {
		if endpoint.TargetRef != nil && (endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready) && kind != watch.Deleted {
			ready[endpoint.TargetRef.Name] = true
		}
	}
	e.ready[slice.Name] = ready
	now := map[string]bool{}
	for _, names := range e.ready {
		for name := range names {
			now[name] = true
		}
	}
	for name := range now {
		if !e.in[name] {
			e.back[name]++
		}
	}
	for name := range e.in {
		if !now[name] {
			e.left[name]++
		}
	}
	e.in = now
}

// once checks that each pod left the endpoints once and came back once.
func (e *endpoints) once(p place, names []string) {
	p.Helper()
	p.Eventually(patience, func() string { // by the cluster's own controller, in its time
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, name := range names {
			if e.left[name] != 1 || e.back[name] != 1 {
				return fmt.Sprintf("%s left the endpoints %d times and came back %d times, want once each", name, e.left[name], e.back[name])
			}
		}
		return ""
	})
}

// TestLosslessTraffic: requests go on through an update in place, and none fails; every pod keeps what it is and has. It runs
// alone, and with the grace period that is there for it: a starved app answers a request, or takes a connection out of its
// backlog, seconds after it was sent, and what it has not taken when it ends is reset.
func TestLosslessTraffic(t *testing.T) {
	p := alone(t)
	p.service()
	p.create(app{replicas: 4, rollout: "maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 2}", more: second})
	p.mark()
	names, before, r, e := p.names(), kit.Identities(p.Pods()), p.Record(), p.endpoints()
	fresh, kept := p.traffic(false), p.traffic(true)
	time.Sleep(2 * time.Second)
	p.tag("v2")
	cs := p.Ready("web", 4, patience)
	time.Sleep(2 * time.Second)
	for how, traffic := range map[string]*lab.Traffic{"a connection per request": fresh, "keep-alive": kept} {
		p.served(how, traffic.Stop(), names)
	}
	e.once(p, names)
	p.kept(before, map[string]int32{"main": 1, "side": 0})
	p.runs("main", lab.Image(lab.AppImage, "v2"))
	p.marked()
	if seen := r.Seen(); seen.FewestReady < 3 || seen.Created+seen.Deleted > 0 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v", seen)
	}
	if u := cs.Status.Underway; u == nil || u.UpdatedInPlace != 4 || u.Recreated != 0 {
		t.Errorf("underway %s", kit.Text(u))
	}
}

// served checks that no request failed, and that every pod and both versions answered some.
func (p place) served(how string, report lab.TrafficReport, names []string) {
	p.Helper()
	p.Logf("%s: %d requests in %.1f s, %d answered, %d failed; by version %v; by pod %v", how, report.Sent,
		report.Duration.Seconds(), report.Succeeded, len(report.Failures), report.ByVersion, report.ByPod)
	for i, f := range report.Failures {
		if i < 10 {
			p.Errorf("%s: %s %s (%s): %s", how, f.Time.Format(time.StampMilli), f.Pod, f.Address, f.Err)
		}
	}
	if report.Succeeded != report.Sent || len(report.Failures) > 0 {
		p.Errorf("%s: %d of %d requests were answered, %d failed", how, report.Succeeded, report.Sent, len(report.Failures))
	}
	for _, version := range []string{"v1", "v2"} {
		if report.ByVersion[version] == 0 {
			p.Errorf("%s: %s answered no request", how, version)
		}
	}
	for _, name := range names {
		if report.ByPod[name] == 0 {
			p.Errorf("%s: %s answered no request", how, name)
		}
	}
}

// noGates is an admission policy that takes the readiness gates off new pods of one namespace: pods as they are adopted
// from elsewhere.
const noGates = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions: [{name: here, expression: "object.metadata.namespace == '%[1]s'"}, {name: gated, expression: has(object.spec.readinessGates)}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/spec/readinessGates'}]"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s}
`

// withoutGates puts noGates on the namespace and waits until the API server acts on it.
func (p place) withoutGates() {
	p.Helper()
	p.cluster(fmt.Sprintf(noGates, p.NS))
	p.Eventually(patience, func() string {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = p.NS, "probe"
		pod.Spec.Containers = []corev1.Container{{Name: "main", Image: lab.Image(lab.AppImage, "v1")}}
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: appsv1alpha1.ConditionInPlaceUpdateReady}}
		switch err := p.Create(p.Context(), pod, client.DryRunAll); {
		case err != nil:
			return err.Error()
		case len(pod.Spec.ReadinessGates) > 0:
			return "the admission policy does not act yet"
		}
		return ""
	})
}

// TestUndrainedLosesRequests shows that the test above can fail, and that only the drain makes it pass: pods without the
// gate are patched while they serve, where the workload allows that, one at a time; requests are lost. Without the
// permission they are recreated (B067).
func TestUndrainedLosesRequests(t *testing.T) {
	p := onSteady(t)
	p.withoutGates()
	p.service()
	p.create(app{replicas: 4, rollout: "maxUnavailable: 50%", annotations: `apps.underway.dev/patch-undrained: "true"`})
	for name, pod := range p.Pods() {
		if len(pod.Spec.ReadinessGates) > 0 {
			t.Fatalf("%s has the gate", name)
		}
	}
	names, before, e := p.names(), kit.Identities(p.Pods()), p.endpoints()
	fresh, kept := p.traffic(false), p.traffic(true)
	p.tag("v2")
	p.Ready("web", 4, patience)
	time.Sleep(time.Second)
	lost := 0
	for how, traffic := range map[string]*lab.Traffic{"a connection per request": fresh, "keep-alive": kept} {
		report := traffic.Stop()
		t.Logf("%s: %d requests, %d failed; by version %v", how, report.Sent, len(report.Failures), report.ByVersion)
		lost += len(report.Failures)
	}
	if lost == 0 {
		t.Error("no request was lost although no pod was drained: this client would not see a loss")
	}
	e.mu.Lock()
	t.Logf("left the endpoints: %v", e.left)
	e.mu.Unlock()
	p.kept(before, map[string]int32{"main": 1})
	if !slices.ContainsFunc(p.Notes(), func(note string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(note, name) })
	}) {
		t.Errorf("no event names a pod that was patched while it served: %q", p.Notes())
	}

	p.Merge("web", `{metadata: {annotations: {apps.underway.dev/patch-undrained: null}}}`)
	p.tag("v3")
	p.Ready("web", 4, patience)
	for name, id := range kit.Identities(p.Pods()) {
		if before[name].UID == id.UID {
			t.Errorf("%s cannot be drained, and was not recreated", name)
		}
	}
}

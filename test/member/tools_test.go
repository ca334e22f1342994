//go:build lab

package member

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/crd"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// place is one namespace of one cluster.
type place struct{ kit.Place }

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

// in makes a namespace for a test.
func in(t *testing.T, c kit.Cluster) place {
	t.Helper()
	return place{kit.In(t, c)}
}

// manifest creates a sample of test/crd as it stands, in the test's namespace.
func (p place) manifest(id string) {
	p.Helper()
	all, err := crd.Manifests()
	if err != nil {
		p.Fatal(err)
	}
	object := all[id]
	if object == nil {
		p.Fatalf("no manifest %s", id)
	}
	object.SetNamespace(p.NS)
	if err := p.Create(p.Context(), object); err != nil {
		p.Fatal(err)
	}
}

// states counts the pods by the state of their lifecycle.
func (p place) states() map[string]int {
	p.Helper()
	n := map[string]int{}
	for _, pod := range p.Pods() {
		n[pod.Labels[appsv1alpha1.LabelLifecycleState]]++
	}
	return n
}

// one returns a pod that matches.
func (p place) one(match func(*corev1.Pod) bool) *corev1.Pod {
	p.Helper()
	for _, pod := range p.Pods() {
		if match(pod) {
			return pod
		}
	}
	p.Fatal("no such pod: " + kit.Text(p.states()))
	return nil
}

func runs(image string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == image }
}

func inState(state string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Labels[appsv1alpha1.LabelLifecycleState] == state }
}

// split waits for so many pods on the one image and on the other, all of them ready.
func (p place) split(old string, n int, fresh string, m int, within time.Duration) {
	p.Helper()
	p.Eventually(within, func() string {
		on := map[string]int{}
		for _, pod := range p.Pods() {
			if kit.PodReady(pod) {
				on[pod.Spec.Containers[0].Image]++
			}
		}
		if on[old] != n || on[fresh] != m || len(p.Pods()) != n+m {
			return fmt.Sprintf("%d pods, ready %v, want %d on %s and %d on %s", len(p.Pods()), on, n, old, m, fresh)
		}
		return ""
	})
}

// calls counts what the agent asked of a resource of the namespace since a mark, by verb, and what was refused with it: an
// exact number is for [kit.Place.Requests], since a conflict with somebody else's write is no fault.
func (p place) calls(since lab.Mark, resource string) map[string]int {
	p.Helper()
	here := func(e lab.AuditEvent) bool { return e.ObjectRef.Namespace == p.NS }
	events, err := p.Since(since, lab.ByUser(kit.User), here, lab.On(resource))
	if err != nil {
		p.Fatal(err)
	}
	verbs := map[string]int{}
	for _, e := range events {
		verbs[e.Verb]++
	}
	return verbs
}

// inForce waits until a quota refuses an object that is too much for it: the API server hears of quotas in its own time.
func inForce(p kit.Place, over client.Object) {
	p.Helper()
	over.SetNamespace(p.NS)
	over.SetName("over")
	p.Eventually(time.Minute, func() string {
		err := p.Create(p.Context(), over.DeepCopyObject().(client.Object), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Sprintf("not refused: %v", err)
		}
		return ""
	})
}

// overCPU is a pod that asks for more than any quota of these tests has.
func overCPU() client.Object {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "app:v1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100")}},
	}}}}
}

// mark is the end of the audit log as it is; [kit.Place.Marked] waits first until nothing is on the way there.
func (p place) mark() lab.Mark {
	p.Helper()
	mark, err := p.Mark()
	if err != nil {
		p.Fatal(err)
	}
	return mark
}

// told is what an app says of itself in its conditions and events.
func (p place) told(name string) string {
	p.Helper()
	return kit.Text(p.CloneSet(name).Status.Conditions) + kit.Text(p.Notes())
}

// unstructured names an object of the namespace whose type the client does not know.
func (p place) unstructured(version, kind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetNamespace(p.NS)
	u.SetName(name)
	return u
}

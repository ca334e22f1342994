//go:build lab

package member

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/test/kit"
)

// states of a pod's lifecycle, as OpenKruise writes them.
const (
	normal          = "Normal"
	preparingUpdate = "PreparingUpdate"
	updated         = "Updated"
	preparingDelete = "PreparingDelete"
)

// registered is the label by which M005's load balancer says that it sends traffic.
const registered = "example.test/lb-registered"

func (p place) register(pod, value string) {
	p.Helper()
	p.Edit(pod, fmt.Sprintf(`{metadata: {labels: {%s: %q}}}`, registered, value))
}

// letGo takes the finalizers off all pods at the end of a test, or its namespace would never be gone.
func (p place) letGo() {
	var list corev1.PodList
	if err := p.List(context.Background(), &list, client.InNamespace(p.NS)); err != nil {
		p.Error(err)
	}
	for i := range list.Items {
		none := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
		if err := p.Patch(context.Background(), &list.Items[i], none); client.IgnoreNotFound(err) != nil {
			p.Error(err)
		}
	}
}

// TestM005 is life-cycle hooks with finalizer and label blockers, B061 in it: a pod whose update is reverted while it waits
// for its hook goes back to service, unrestarted.
func TestM005(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	t.Cleanup(p.letGo)
	p.manifest("M005")
	p.Ready("gateway", 4, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	waiting := func() *corev1.Pod {
		var found *corev1.Pod
		p.Eventually(20*time.Second, func() string {
			found = nil
			for _, pod := range p.Pods() {
				if inState(preparingUpdate)(pod) && !kit.PodReady(pod) {
					found = pod
				}
			}
			if found == nil {
				return "no pod waits, out of service: " + kit.Text(p.states())
			}
			return ""
		})
		return found
	}
	p.Image("gateway", "gw:4")
	first := waiting()
	p.During(2*time.Second, func() string {
		if n := p.On("gw:4"); n != 0 {
			return fmt.Sprintf("%d pods are patched before their hook let them go", n)
		}
		return is(p.states()[preparingUpdate], 1)
	})
	p.Eventually(20*time.Second, func() string {
		if c := p.Condition("gateway", "Ready"); c == nil || !strings.Contains(c.Message, registered) || !strings.Contains(c.Message, first.Name) {
			return "what is waited for, and where, is not told: " + kit.Text(c)
		}
		return ""
	})
	// B061.
	p.Image("gateway", "gw:3")
	p.Eventually(30*time.Second, func() string {
		if pod := p.Pods()[first.Name]; !kit.PodReady(pod) || inState(preparingUpdate)(pod) {
			return "not back in service: " + kit.Text(p.states())
		}
		return ""
	})
	p.InPlace(before, 0)

	p.Image("gateway", "gw:4")
	second := waiting()
	p.register(second.Name, "false")
	p.Eventually(20*time.Second, func() string {
		if !inState(updated)(p.Pods()[second.Name]) {
			return "not Updated: " + kit.Text(p.states())
		}
		return ""
	})
	p.During(2*time.Second, func() string {
		if n := p.states()[preparingUpdate]; n != 0 {
			return fmt.Sprintf("%d pods more are taken while one is not back", n)
		}
		return is(p.On("gw:4"), 1)
	})
	p.register(second.Name, "true")
	// The load balancer's controller does the rest.
	p.Eventually(time.Minute, func() string {
		for name, pod := range p.Pods() {
			switch {
			case inState(preparingUpdate)(pod) && pod.Labels[registered] == "true":
				p.register(name, "false")
			case inState(updated)(pod) && pod.Labels[registered] != "true":
				p.register(name, "true")
			}
		}
		if n := p.CloneSet("gateway").Status.UpdatedReadyReplicas; n != 4 || p.states()[updated]+p.states()[preparingUpdate] > 0 {
			return fmt.Sprintf("%d pods are updated and ready, states %v", n, p.states())
		}
		return ""
	})
	p.Ready("gateway", 4, 20*time.Second)
	p.InPlace(before, 1)
	if seen := r.Seen(); seen.Unready > 1 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v", seen)
	}

	p.Merge("gateway", `{spec: {replicas: 3}}`)
	p.Eventually(20*time.Second, func() string {
		if p.states()[preparingDelete] != 1 || kit.PodReady(p.one(inState(preparingDelete))) {
			return "no pod waits for its deletion, out of service: " + kit.Text(p.states())
		}
		return ""
	})
	p.During(2*time.Second, func() string { return is(len(p.Pods()), 4) })
	p.Eventually(20*time.Second, func() string {
		if c := p.Condition("gateway", "Ready"); c == nil || !strings.Contains(c.Message, "example.test/unregister") {
			return "what is waited for is not told: " + kit.Text(c)
		}
		return ""
	})
	p.Edit(p.one(inState(preparingDelete)).Name, `{metadata: {finalizers: null}}`)
	p.Eventually(20*time.Second, func() string { return is(len(p.Pods()), 3) })
	p.Ready("gateway", 3, 20*time.Second)
}

// TestB063: one pod may be updated and waits for its hook. Another is deleted meanwhile: what replaces it stays on the old
// revision, or the quota would be used up and the drained pod would wait for ever.
func TestB063(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.Make(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  lifecycle: {inPlaceUpdate: {labelsHandler: {example.test/lb-registered: "true"}, markPodNotReady: true}}
  template:
    metadata: {labels: {app: web, example.test/lb-registered: "true"}}
    spec: {containers: [{name: main, image: "app:v1"}]}
  updateStrategy: {type: InPlaceIfPossible, partition: 2}`)
	p.Ready("web", 3, time.Minute)
	p.Image("web", "app:v2")
	p.Eventually(20*time.Second, func() string { return is(p.states()[preparingUpdate], 1) })
	first := p.one(inState(preparingUpdate))
	if err := p.Delete(t.Context(), p.one(func(pod *corev1.Pod) bool { return pod.Name != first.Name })); err != nil {
		t.Fatal(err)
	}
	p.Eventually(30*time.Second, func() string {
		if len(p.Pods()) != 3 || p.On("app:v2") != 0 {
			return fmt.Sprintf("%d pods, %d of them on the new image, want 3 and none", len(p.Pods()), p.On("app:v2"))
		}
		return is(p.states()[preparingUpdate], 1)
	})
	p.register(first.Name, "false")
	p.Eventually(20*time.Second, func() string { return is(p.states()[updated], 1) })
	p.register(first.Name, "true")
	p.split("app:v1", 2, "app:v2", 1, 30*time.Second)
	if pod := p.Pods()[first.Name]; pod == nil || pod.UID != first.UID || pod.Spec.Containers[0].Image != "app:v2" {
		t.Errorf("the pod that was drained is not the updated one: %s", kit.Text(p.states()))
	}
}

// TestB161: scaling while a pod waits to be deleted.
func TestB161(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scale  string
		asked  bool
		exists int
	}{
		"taken back":                                {"{}", false, 3},
		"taken back, with the switch too":           {"{excludePreparingDelete: true}", false, 3},
		"asked to go by name, and replaced at once": {"{excludePreparingDelete: true}", true, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			p.Make(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 3
  scaleStrategy: %s
  selector: {matchLabels: {app: web}}
  lifecycle: {preDelete: {labelsHandler: {example.test/hold: "true"}}}
  template:
    metadata: {labels: {app: web, example.test/hold: "true"}}
    spec: {containers: [{name: main, image: "app:v1"}]}`, tc.scale))
			p.Ready("web", 3, time.Minute)
			before, r := kit.Identities(p.Pods()), p.Record()
			if tc.asked {
				victim := p.one(func(*corev1.Pod) bool { return true }).Name
				p.Merge("web", fmt.Sprintf(`{spec: {scaleStrategy: {podsToDelete: [%s, no-such-pod]}}}`, victim))
				p.Eventually(20*time.Second, func() string {
					if n := p.states()[preparingDelete]; n != 1 || len(p.Pods()) != tc.exists {
						return fmt.Sprintf("%d wait to be deleted of %d pods", n, len(p.Pods()))
					}
					return ""
				})
				if !inState(preparingDelete)(p.Pods()[victim]) {
					t.Errorf("%s was asked to go, states %v", victim, p.states())
				}
				p.Eventually(10*time.Second, func() string {
					if left := p.CloneSet("web").Spec.ScaleStrategy.PodsToDelete; slices.Contains(left, "no-such-pod") {
						return fmt.Sprintf("podsToDelete still names %v", left)
					}
					return ""
				})
				p.Edit(victim, `{metadata: {labels: {example.test/hold: null}}}`)
				p.Eventually(20*time.Second, func() string {
					if left := p.CloneSet("web").Spec.ScaleStrategy.PodsToDelete; len(left) != 0 || len(p.Pods()) != 3 {
						return fmt.Sprintf("%d pods, podsToDelete names %v", len(p.Pods()), left)
					}
					return ""
				})
				p.Ready("web", 3, 30*time.Second)
				return
			}
			p.Merge("web", `{spec: {replicas: 2}}`)
			p.Eventually(20*time.Second, func() string { return is(p.states()[preparingDelete], 1) })
			p.Merge("web", `{spec: {replicas: 3}}`)
			p.Eventually(20*time.Second, func() string { return is(p.states()[preparingDelete], 0) })
			p.Ready("web", 3, 20*time.Second)
			p.InPlace(before, 0)
			if seen := r.Seen(); seen.Created+seen.Deleted != 0 {
				t.Errorf("seen %+v, want no pod made or deleted", seen)
			}
		})
	}
}

// TestPreNormal: a new pod counts when its hook has let it in, and not before.
func TestPreNormal(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 2
lifecycle: {preNormal: {labelsHandler: {example.test/warm: "true"}}}`)
	p.Eventually(30*time.Second, func() string {
		s := p.CloneSet("web").Status
		if s.ReadyReplicas != 2 || s.AvailableReplicas != 0 {
			return "status " + kit.Text(s)
		}
		return is(p.states()["PreparingNormal"], 2)
	})
	for name := range p.Pods() {
		p.Edit(name, `{metadata: {labels: {example.test/warm: "true"}}}`)
	}
	p.Ready("web", 2, 20*time.Second)
	p.Eventually(20*time.Second, func() string {
		if s := p.CloneSet("web").Status; s.AvailableReplicas != 2 || p.states()[normal] != 2 {
			return fmt.Sprintf("status %s, states %v", kit.Text(s), p.states())
		}
		return ""
	})
}

//go:build lab

package member

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// ownLabel is on a node that a test made for itself, with the test's namespace; its taint keeps other pods away.
const ownLabel = "test.underway.dev/own"

// ownPods is the part of a pod's spec that lets it run on the test's own nodes, and prefers them.
func (p place) ownPods() string {
	return fmt.Sprintf(`
      tolerations: [{key: %[1]s, operator: Equal, value: %[2]s}]
      affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference: {matchExpressions: [{key: %[1]s, operator: In, values: [%[2]s]}]}}]}}`,
		ownLabel, p.NS)
}

// node makes a node of the test's own that has just this room, where given, and waits until it is ready.
func (p place) node(has corev1.ResourceList) string {
	p.Helper()
	like := &corev1.Node{}
	if err := p.Cluster.Get(p.Context(), client.ObjectKey{Name: p.NodeName(0)}, like); err != nil {
		p.Fatal(err)
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "own-", Labels: map[string]string{lab.TypeLabel: lab.SimulatedType, ownLabel: p.NS}},
		Spec: corev1.NodeSpec{
			PodCIDR: like.Spec.PodCIDR, PodCIDRs: like.Spec.PodCIDRs,
			Taints: []corev1.Taint{{Key: ownLabel, Value: p.NS, Effect: corev1.TaintEffectNoSchedule}},
		},
	}
	if err := p.Create(p.Context(), n); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = steady.Delete(context.Background(), n) })
	room := like.Status.Allocatable.DeepCopy()
	maps.Copy(room, has)
	p.Eventually(30*time.Second, func() string {
		if err := p.Cluster.Get(p.Context(), client.ObjectKeyFromObject(n), n); err != nil {
			return err.Error()
		}
		if !equality.Semantic.DeepEqual(n.Status.Allocatable, room) {
			n.Status.Capacity, n.Status.Allocatable = room, room
			if err := p.Status().Update(p.Context(), n); err != nil {
				return err.Error()
			}
			return "it has no room yet"
		}
		if len(n.Spec.Taints) != 1 {
			return "taints " + kit.Text(n.Spec.Taints)
		}
		return ""
	})
	return n.Name
}

// scheduled waits until the scheduler knows a node of the test's own: it puts a pod there that can go nowhere else.
func (p place) scheduled(node string) {
	p.Helper()
	p.Make(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: first}, spec: {terminationGracePeriodSeconds: 0,
		nodeSelector: {%[1]s: %[2]s}, tolerations: [{key: %[1]s, operator: Exists}], containers: [{name: main, image: "app:v1"}]}}`, ownLabel, p.NS))
	p.Eventually(time.Minute, func() string {
		if pod := p.Pods()["first"]; !onNode(node)(pod) {
			return "no pod is put on " + node
		}
		return ""
	})
	p.gone(p.Pods()["first"])
	p.Eventually(time.Minute, func() string { return is(len(p.Pods()), 0) })
}

// die ends the kubelet of a node of the test's own: nobody works on its pods any more, and none is put there.
func (p place) die(node string) {
	p.Helper()
	body := fmt.Sprintf(`{"metadata": {"labels": {%q: null}}, "spec": {"unschedulable": true}}`, lab.TypeLabel)
	p.patchNode(node, body, "")
	// What plays the nodes hears of them by one watch and in order: when it plays a node that was made now, it has let go of
	// that one.
	next := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "next-", Labels: map[string]string{lab.TypeLabel: lab.SimulatedType}},
		Spec:       corev1.NodeSpec{Unschedulable: true},
	}
	if err := p.Create(p.Context(), next); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = steady.Delete(context.Background(), next) })
	p.Eventually(time.Minute, func() string {
		if err := p.Cluster.Get(p.Context(), client.ObjectKeyFromObject(next), next); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(next.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			return "nobody plays " + next.Name + " yet"
		}
		return ""
	})
}

// miss does at once what the control plane does 50 s after a node was heard from last: the node is Unknown, its pods are not
// Ready.
func (p place) miss(node string) {
	p.Helper()
	now := time.Now().UTC().Format(time.RFC3339)
	p.patchNode(node, fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
		"message": "the kubelet is dead", "lastHeartbeatTime": %[1]q, "lastTransitionTime": %[1]q}]}}`, now), "status")
	for _, pod := range p.Pods() {
		if pod.Spec.NodeName != node {
			continue
		}
		body := fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": %q}]}}`, now)
		if err := p.Status().Patch(p.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(body))); err != nil {
			p.Fatal(err)
		}
	}
}

func (p place) patchNode(node, body, sub string) {
	p.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	patch := client.RawPatch(types.StrategicMergePatchType, []byte(body))
	var err error
	if sub == "" {
		err = p.Patch(p.Context(), n, patch)
	} else {
		err = p.Status().Patch(p.Context(), n, patch)
	}
	if err != nil {
		p.Fatal(err)
	}
}

// roomForOne is room for one pod.
func roomForOne() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)}
}

// onOwn returns the pod that is on a node. The scheduler prefers it, when it has heard of the node in time: if not, one pod
// is made anew.
func (p place) onOwn(node string) *corev1.Pod {
	p.Helper()
	var found *corev1.Pod
	p.Eventually(time.Minute, func() string {
		pods := p.Pods()
		for _, pod := range pods {
			if found = pod; onNode(node)(pod) && kit.PodReady(pod) {
				return ""
			}
		}
		if s := p.CloneSet("web").Status; found != nil && s.ReadyReplicas == s.Replicas && int(s.Replicas) == len(pods) {
			if err := p.Delete(p.Context(), found); err != nil {
				return err.Error()
			}
			time.Sleep(time.Second)
		}
		return "no pod is on " + node
	})
	p.Eventually(30*time.Second, func() string {
		if s := p.CloneSet("web").Status; s.AvailableReplicas != *p.CloneSet("web").Spec.Replicas {
			return "status " + kit.Text(s)
		}
		return ""
	})
	return found
}

func onNode(node string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node }
}

// gone deletes a pod as nobody but a person can whose node is dead.
func (p place) gone(pod *corev1.Pod) {
	p.Helper()
	if err := p.Delete(p.Context(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		p.Fatal(err)
	}
}

const claimTemplates = `
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`

// TestB055: a node dies, and its pod hangs in Terminating.
func TestB055(t *testing.T) {
	t.Parallel()
	for name, reuse := range map[string]bool{"claims are not used again": false, "claims are used again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			node := p.node(roomForOne())
			p.Make(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 3
  scaleStrategy: {disablePVCReuse: %t}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "app:v1"}]%s%s`, !reuse, p.ownPods(), claimTemplates))
			p.Ready("web", 3, time.Minute)
			victim := p.onOwn(node)
			id := victim.Labels[appsv1alpha1.LabelCloneSetInstanceID]
			claim := p.Claims()["data-web-"+id]
			// Pods that were made anew on the way here may have left claims behind.
			if claim == nil {
				t.Fatalf("there is no claim data-web-%s", id)
			}
			p.die(node)
			mark := p.Marked()
			if err := p.Delete(t.Context(), victim); err != nil {
				t.Fatal(err)
			}
			fresh := func() string {
				if s := p.CloneSet("web").Status; len(p.Pods()) != 3 || s.ReadyReplicas != 3 {
					return fmt.Sprintf("%d pods, status %s", len(p.Pods()), kit.Text(s))
				}
				return ""
			}
			if !reuse {
				p.Eventually(time.Minute, fresh)
				claims := p.Claims()
				if claims["data-web-"+id] == nil {
					t.Error("the claim of the pod that hangs is gone")
				}
				for name, pod := range p.Pods() {
					if its := pod.Labels[appsv1alpha1.LabelCloneSetInstanceID]; its == id || claims["data-web-"+its] == nil {
						t.Errorf("%s has the id %s, with its claim: %t", name, its, claims["data-web-"+its] != nil)
					}
				}
				p.gone(victim)
				// A claim without a pod is left for two minutes: its pod may be about to be created.
				p.Eventually(5*time.Minute, func() string { return is(len(p.Claims()), 3) })
				if p.Claims()["data-web-"+id] != nil {
					t.Error("the claim of the pod that is gone is kept, and another one deleted")
				}
				return
			}
			p.Eventually(20*time.Second, func() string {
				if said := p.told("web"); !strings.Contains(said, victim.Name) {
					return "nothing names the pod that is waited for: " + said
				}
				return ""
			})
			p.During(5*time.Second, func() string { return is(len(p.Pods()), 2) })
			if n := p.calls(mark, "pods")["create"]; n > 10 {
				t.Errorf("%d creates while the name is taken", n)
			}
			p.gone(victim)
			p.Eventually(30*time.Second, fresh)
			if now := p.Claims()["data-web-"+id]; now == nil || now.UID != claim.UID || p.Pods()[victim.Name] == nil {
				t.Errorf("the claim is %s, the pod's name in use: %t", kit.Text(now), p.Pods()[victim.Name] != nil)
			}
		})
	}
}

// TestB057: a node keeps rejecting what replaces a failed pod.
func TestB057(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.Make(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "app:v1-slow-pull-2s"}]}` + claimTemplates)
	p.Ready("web", 3, time.Minute)
	before := p.Pods()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	rejected, mark := p.reject(ctx, before), p.mark()
	p.Edit(p.one(func(*corev1.Pod) bool { return true }).Name, `{metadata: {labels: {apps.kruise.io/specified-delete: "true"}}}`)
	p.Eventually(time.Minute, func() string {
		if p.calls(mark, "pods")["create"] == 0 {
			return "nothing replaces the pod yet"
		}
		return ""
	})
	time.Sleep(20 * time.Second)
	failed := 0
	for _, pod := range p.Pods() {
		if pod.Status.Phase == corev1.PodFailed {
			failed++
		}
	}
	p.Eventually(20*time.Second, func() string { return is(int(p.CloneSet("web").Status.ReadyReplicas), 2) }) // never touched
	stop()
	n := len(<-rejected)
	if n < 1 || n > 8 || failed >= 10 {
		t.Errorf("%d pods were made and rejected in 20 s, %d failed ones are kept", n, failed)
	}
	p.Ready("web", 3, 90*time.Second)
	p.Eventually(20*time.Second, func() string { return is(len(p.Claims()), 3) })
}

// reject lets every new pod fail as a node does that does not admit it, until ctx ends; then it sends their names.
func (p place) reject(ctx context.Context, known map[string]*corev1.Pod) <-chan []types.UID {
	p.Helper()
	w, err := p.Watch(ctx, &corev1.PodList{}, client.InNamespace(p.NS))
	if err != nil {
		p.Fatal(err)
	}
	out := make(chan []types.UID, 1)
	go func() {
		var done []types.UID
		defer func() { out <- done }()
		fail := client.RawPatch(types.MergePatchType, []byte(`{"status": {"phase": "Failed", "reason": "NodeAffinity", "message": "Pod was rejected"}}`))
		for {
			select {
			case <-ctx.Done():
				w.Stop()
				return
			case e, open := <-w.ResultChan():
				if !open {
					return
				}
				pod, ok := e.Object.(*corev1.Pod)
				was := known[pod.GetName()]
				if !ok || e.Type == watch.Deleted || pod.Status.Phase != corev1.PodPending || (was != nil && was.UID == pod.UID) || slices.Contains(done, pod.UID) {
					continue
				}
				if p.Status().Patch(ctx, pod, fail) == nil {
					done = append(done, pod.UID)
				}
			}
		}
	}()
	return out
}

// TestB059: a node that was dead before the release holds up nobody; one that dies in it stops it.
func TestB059(t *testing.T) {
	t.Parallel()
	spec := func(p place, unavailable int) string {
		return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "app:v1"}]%s
  updateStrategy:
    type: InPlaceIfPossible
    maxUnavailable: %d
    priorityStrategy: {weightPriority: [{weight: 100, matchSelector: {matchLabels: {node: dead}}}]}`, p.ownPods(), unavailable)
	}
	t.Run("dead before", func(t *testing.T) {
		t.Parallel()
		p := in(t, steady)
		node := p.node(roomForOne())
		p.Make(spec(p, 2))
		p.Ready("web", 4, time.Minute)
		p.onOwn(node)
		p.die(node)
		p.miss(node)
		p.Image("web", "app:v2")
		p.Eventually(time.Minute, func() string { return is(int(p.CloneSet("web").Status.UpdatedReadyReplicas), 3) })
		p.Eventually(30*time.Second, func() string {
			if said := p.told("web"); strings.Contains(said, "3 of 4") {
				return ""
			}
			return "nothing says how far it is: " + p.told("web")
		})
	})
	t.Run("dies in it", func(t *testing.T) {
		t.Parallel()
		p := in(t, steady)
		node := p.node(roomForOne())
		p.Make(spec(p, 1))
		p.Ready("web", 4, time.Minute)
		victim := p.onOwn(node)
		p.Edit(victim.Name, `{metadata: {labels: {node: dead}}}`)
		p.die(node)
		p.Known()
		r := p.Record()
		p.Image("web", "app:v2")
		p.Eventually(20*time.Second, func() string {
			if kit.PodCondition(p.Pods()[victim.Name], appsv1alpha1.ConditionInPlaceUpdateReady) {
				return "the pod of the dead node is not the first"
			}
			return ""
		})
		p.miss(node)
		p.During(10*time.Second, func() string {
			for name, pod := range p.Pods() {
				if name != victim.Name && (pod.Spec.Containers[0].Image != "app:v1" || !kit.PodReady(pod)) {
					return name + " is moved too"
				}
			}
			return ""
		})
		if seen := r.Seen(); seen.Held > 1 || seen.FewestReady < 3 {
			t.Errorf("seen %+v", seen)
		}
	})
}

//go:build lab

package member

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

func gates(pod *corev1.Pod) []string {
	var names []string
	for _, g := range pod.Spec.ReadinessGates {
		names = append(names, string(g.ConditionType))
	}
	return names
}

// observed waits until the agent has seen the present generation.
func (p place) observed(name string) {
	p.Helper()
	p.Eventually(30*time.Second, func() string {
		if cs := p.CloneSet(name); cs.Status.ObservedGeneration != cs.Generation {
			return "not observed"
		}
		return ""
	})
}

// allOn waits for so many pods on an image and ready, none on another.
func (p place) allOn(n int, image string, within time.Duration) {
	p.Helper()
	p.Eventually(within, func() string {
		pods, on := p.Pods(), 0
		for _, pod := range pods {
			if pod.Spec.Containers[0].Image == image && kit.PodReady(pod) {
				on++
			}
		}
		if len(pods) != n || on != n {
			return fmt.Sprintf("%d pods, %d on %s and ready, want %d", len(pods), on, image, n)
		}
		return ""
	})
}

// TestB001: a percent below 100 is never rounded up to everything.
func TestB001(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		replicas, updated int32
		partition         string
	}{
		"99% of 3":  {3, 1, "99%"},
		"99% of 1":  {1, 0, "99%"},
		"95% of 10": {10, 1, "95%"},
		// A CloneSet keeps 3 of 10 old at 25%, a DaemonSet would keep 2.
		"B003: 25% of 10": {10, 7, "25%"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			p.App("web", "app:v1", fmt.Sprintf(`
replicas: %d
updateStrategy: {type: InPlaceIfPossible, partition: "%s"}`, tc.replicas, tc.partition))
			p.Ready("web", tc.replicas, time.Minute)
			p.Image("web", "app:v2")
			cs := p.Ready("web", tc.updated, time.Minute)
			if cs.Status.ExpectedUpdatedReplicas != tc.updated {
				t.Errorf("expected %d", cs.Status.ExpectedUpdatedReplicas)
			}
			p.During(3*time.Second, func() string { return is(p.On("app:v2"), int(tc.updated)) })
		})
	}
}

// TestB005: a quoted number is refused, naming the field and the remedy.
func TestB005(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", "replicas: 1\nupdateStrategy: {maxUnavailable: 5}")
	for _, bad := range []string{`maxUnavailable: "5"`, `maxSurge: "2"`} {
		field, _, _ := strings.Cut(bad, ":")
		err := p.TryMerge("web", `{spec: {updateStrategy: {`+bad+`}}}`)
		if err == nil || !strings.Contains(err.Error(), "spec.updateStrategy."+field) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := p.TryMerge("web", `{spec: {updateStrategy: {maxUnavailable: "50%"}}}`); err != nil {
		t.Error(err)
	}
}

// TestB007: what is out of range is clamped, what is no number is refused; neither moves a pod too many.
func TestB007(t *testing.T) {
	t.Parallel()
	for _, good := range []string{`"150%"`, `12`} {
		t.Run(good, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			p.App("web", "app:v1", fmt.Sprintf(`
replicas: 4
updateStrategy: {type: InPlaceIfPossible, partition: %s}`, good))
			p.Ready("web", 4, time.Minute)
			p.Image("web", "app:v2")
			p.Ready("web", 0, time.Minute)
			p.During(3*time.Second, func() string { return is(p.On("app:v1"), 4) })
		})
	}
	p := in(t, steady)
	p.App("web", "app:v1", `replicas: 1`)
	for _, bad := range []string{`"-10%"`, `"#%"`, `"90#"`, `""`, `"abc"`, `"50"`, `-1`} {
		err := p.TryMerge("web", `{spec: {updateStrategy: {partition: `+bad+`}}}`)
		if err == nil || !strings.Contains(err.Error(), "spec.updateStrategy.partition") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestB013: raising the partition moves nobody back; a replacement honours it.
func TestB013(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 8
updateStrategy: {type: InPlaceIfPossible, partition: 5, maxUnavailable: 3}`)
	p.Ready("web", 8, time.Minute)
	p.Image("web", "app:v2")
	p.Ready("web", 3, time.Minute)
	p.Merge("web", `{spec: {updateStrategy: {partition: 7}}}`)
	p.During(8*time.Second, func() string { return is(p.On("app:v2"), 3) })
	for _, pod := range p.Pods() {
		if pod.Spec.Containers[0].Image == "app:v2" {
			if err := p.Delete(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	p.Eventually(30*time.Second, func() string {
		if old, fresh := p.On("app:v1"), p.On("app:v2"); old != 6 || fresh != 2 {
			return fmt.Sprintf("%d old and %d new, want 6 and 2", old, fresh)
		}
		return ""
	})
}

// TestHold: at partition 100% no scaling, no loss and no return from zero brings a pod of the new revision.
func TestHold(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 3
updateStrategy: {type: InPlaceIfPossible, partition: "100%"}`)
	first := p.Ready("web", 3, time.Minute).Status.CurrentRevision
	p.Image("web", "app:v2")
	r := p.Record()
	for i, replicas := range []int{6, 2, 0, 4} {
		p.Merge("web", fmt.Sprintf(`{spec: {replicas: %d}}`, replicas))
		p.allOn(replicas, "app:v1", 30*time.Second)
		p.Ready("web", 0, 30*time.Second)
		if s := p.CloneSet("web").Status; s.CurrentRevision != first || s.UpdateRevision == first {
			t.Fatalf("step %d: current %s, update %s, want current %s", i, s.CurrentRevision, s.UpdateRevision, first)
		}
	}
	if err := p.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(p.NS)); err != nil {
		t.Fatal(err)
	}
	p.Eventually(30*time.Second, func() string { return is(r.Seen().Created, 3+4+4) })
	p.allOn(4, "app:v1", 30*time.Second)
	if seen := r.Seen(); seen.Most["app:v2"] != 0 {
		t.Errorf("%d pods of the new revision", seen.Most["app:v2"])
	}
	p.Merge("web", `{spec: {updateStrategy: {partition: "50%"}}}`)
	p.Ready("web", 2, time.Minute)
	p.Merge("web", `{spec: {replicas: 8}}`)
	p.Ready("web", 4, time.Minute)
	if seen := r.Seen(); seen.Most["app:v2"] != 4 {
		t.Errorf("%d pods of the new revision, 4 were granted", seen.Most["app:v2"])
	}
}

// TestCurrentRevisionIsTheFirst is how the hub makes a child: created from the completed template, and given the new one
// with a hold as soon as it is observed, before its pods are there.
func TestCurrentRevisionIsTheFirst(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 6
updateStrategy: {type: InPlaceIfPossible}`)
	r := p.Record()
	p.observed("web")
	p.Merge("web", `{spec: {updateStrategy: {partition: "100%"}, template: {spec: {containers: [{name: main, image: "app:v2"}]}}}}`)
	p.allOn(6, "app:v1", 30*time.Second)
	p.During(3*time.Second, func() string { return is(p.On("app:v1"), 6) })
	if seen := r.Seen(); seen.Most["app:v2"] != 0 {
		t.Errorf("%d pods of the new revision", seen.Most["app:v2"])
	}
}

// TestB065: the gate of a new pod is set whatever keeps updates off.
func TestB065(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]string{
		"paused":   `{type: InPlaceIfPossible, paused: true}`,
		"OnDelete": `{type: OnDelete}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			p.App("web", "app:v1", "replicas: 0\nupdateStrategy: "+strategy)
			p.observed("web")
			p.Merge("web", `{spec: {replicas: 2}}`)
			p.allOn(2, "app:v1", time.Minute)
			for name, pod := range p.Pods() {
				if !kit.PodCondition(pod, appsv1alpha1.ConditionInPlaceUpdateReady) {
					t.Errorf("%s: the gate is not True", name)
				}
				// By one clock, the node's: a busy machine is not the agent's fault.
				started := pod.Status.ContainerStatuses[0].State.Running.StartedAt
				for _, c := range pod.Status.Conditions {
					if c.Type == corev1.PodReady && c.LastTransitionTime.Sub(started.Time) > time.Minute {
						t.Errorf("%s was Ready %s after its container started", name, c.LastTransitionTime.Sub(started.Time))
					}
				}
			}
		})
	}
}

// TestB069 counts creates while reconciles are forced. The unit test of the same name delays the cache.
func TestB069(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `replicas: 0`)
	p.observed("web")
	mark := p.Marked()
	p.Merge("web", `{spec: {replicas: 5}}`)
	for i := range 10 {
		p.Merge("web", fmt.Sprintf(`{metadata: {annotations: {forced: "%d"}}}`, i))
	}
	p.Ready("web", 5, time.Minute)
	p.Quiet(2 * time.Second)
	if verbs := p.calls(mark, "pods"); verbs["create"] != 5 || verbs["delete"] != 0 {
		t.Errorf("calls %v, want 5 creates", verbs)
	}
}

// TestB121: long names, and names that differ only at their end.
func TestB121(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	long := "a23456789-123456789-123456789-123456789-123456789-1234567"
	twin := long + "-x"
	for _, name := range []string{long, twin + "1", twin + "2"} {
		p.App(name, "app:v1", `
replicas: 2
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 2}`)
	}
	for _, name := range []string{long, twin + "1", twin + "2"} {
		p.Ready(name, 2, time.Minute)
	}
	before := kit.Identities(p.Pods())
	if len(before) != 6 {
		t.Fatalf("%d pods, want 6", len(before))
	}
	for name := range before {
		if len(name) > 63 {
			t.Errorf("pod name %s has %d characters", name, len(name))
		}
	}
	for _, name := range []string{long, twin + "1", twin + "2"} {
		p.Image(name, "app:v2")
	}
	for _, name := range []string{long, twin + "1", twin + "2"} {
		p.Ready(name, 2, time.Minute)
	}
	p.InPlace(before, 1)
}

// TestOnDelete is the nested shape's: pods move when somebody deletes them.
func TestOnDelete(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 3
updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}`)
	p.Ready("web", 3, time.Minute)
	p.Image("web", "app:v2")
	p.During(5*time.Second, func() string { return is(p.On("app:v1"), 3) })
	for _, pod := range p.Pods() {
		if err := p.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		break
	}
	p.Eventually(30*time.Second, func() string {
		if old, fresh := p.On("app:v1"), p.On("app:v2"); old != 2 || fresh != 1 {
			return fmt.Sprintf("%d old and %d new, want 2 and 1", old, fresh)
		}
		return ""
	})
}

// TestReCreate replaces pods within the budget and says how many.
func TestReCreate(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 4
updateStrategy: {type: ReCreate, maxUnavailable: 1}`)
	p.Ready("web", 4, time.Minute)
	before := kit.Identities(p.Pods())
	p.Image("web", "app:v2")
	cs := p.Ready("web", 4, time.Minute)
	for name, pod := range p.Pods() {
		// The name may be one that was free again; the pod is another.
		if before[name].UID == pod.UID || pod.Spec.Containers[0].Image != "app:v2" || kit.Restarts(pod) != 0 {
			t.Errorf("%s: %s", name, kit.Text(pod.Status))
		}
	}
	if cs.Status.Underway == nil || cs.Status.Underway.Recreated != 4 || cs.Status.Underway.UpdatedInPlace != 0 {
		t.Errorf("underway %s", kit.Text(cs.Status.Underway))
	}
	if cs.Status.CurrentRevision != cs.Status.UpdateRevision {
		t.Errorf("status %s", kit.Text(cs.Status))
	}
}

// TestRecreateWhereInPlaceIsNotPossible names the field that forced it.
func TestRecreateWhereInPlaceIsNotPossible(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 2
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1}`)
	p.Ready("web", 2, time.Minute)
	before := kit.Identities(p.Pods())
	p.Merge("web", `{spec: {template: {spec: {containers: [{name: main, image: "app:v2", env: [{name: A, value: b}]}]}}}}`)
	p.Ready("web", 2, time.Minute)
	for name, id := range kit.Identities(p.Pods()) {
		if before[name] == id {
			t.Errorf("%s was not replaced", name)
		}
	}
	p.Eventually(10*time.Second, func() string {
		for _, note := range p.Notes() {
			if strings.Contains(note, "env") {
				return ""
			}
		}
		return "no event names the field: " + kit.Text(p.Notes())
	})
}

// TestFailedPodIsReplaced: an evicted pod never runs again.
func TestFailedPodIsReplaced(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `replicas: 2`)
	p.Ready("web", 2, time.Minute)
	var gone *corev1.Pod
	for _, gone = range p.Pods() {
		break
	}
	evict := client.RawPatch(types.MergePatchType, []byte(`{"status": {"phase": "Failed", "reason": "Evicted"}}`))
	if err := p.Status().Patch(t.Context(), gone, evict); err != nil {
		t.Fatal(err)
	}
	p.Eventually(30*time.Second, func() string {
		if p.Pods()[gone.Name] != nil {
			return "the failed pod is still there"
		}
		return ""
	})
	p.allOn(2, "app:v1", 30*time.Second)
}

// TestWarnings: what is accepted and not acted on, and what this build does not know, stands on the object and in one event.
func TestWarnings(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.Make(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  updateStrategy: {inPlaceUpdateStrategy: {imagePreDownloadParallelism: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      fieldOfTomorrow: {a: b}
      containers: [{name: main, image: "app:v1"}]`)
	p.Ready("web", 1, time.Minute)
	for kind, field := range map[string]string{
		appsv1alpha1.ConditionNotActedOn:    "spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadParallelism",
		appsv1alpha1.ConditionUnknownFields: "fieldOfTomorrow",
	} {
		c := p.Condition("web", kind)
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, field) {
			t.Errorf("%s: %s", kind, kit.Text(c))
			continue
		}
		p.Eventually(10*time.Second, func() string { return is(p.Noted(c.Message), 1) })
	}
	p.Merge("web", `{spec: {updateStrategy: {inPlaceUpdateStrategy: null}}}`)
	p.Eventually(10*time.Second, func() string {
		if c := p.Condition("web", appsv1alpha1.ConditionNotActedOn); c != nil {
			return "still there: " + kit.Text(c)
		}
		return ""
	})
}

//go:build lab

package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/test/kit"
)

// revisions are the stored templates of the namespace, oldest first.
func (p place) revisions() []appsv1.ControllerRevision {
	p.Helper()
	var list appsv1.ControllerRevisionList
	if err := p.List(p.Context(), &list, client.InNamespace(p.NS)); err != nil {
		p.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

// TestB015: the last old pod is deleted by hand and the workload scaled at once. What is created keeps the split, and the
// current revision does not move.
func TestB015(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", "replicas: 2\nupdateStrategy: {type: InPlaceIfPossible, partition: \"50%\"}")
	first := p.Ready("web", 2, time.Minute).Status.CurrentRevision
	p.Image("web", "app:v2")
	p.split("app:v1", 1, "app:v2", 1, time.Minute)
	if err := p.Delete(t.Context(), p.one(runs("app:v1"))); err != nil {
		t.Fatal(err)
	}
	p.Merge("web", `{spec: {replicas: 4}}`)
	p.split("app:v1", 2, "app:v2", 2, time.Minute)
	cs := p.Ready("web", 2, 20*time.Second)
	if s := cs.Status; s.CurrentRevision != first || s.UpdateRevision == first {
		t.Errorf("current %s, update %s, want current %s", s.CurrentRevision, s.UpdateRevision, first)
	}
	p.Merge("web", `{spec: {updateStrategy: {partition: 0}}}`)
	if s := p.Ready("web", 4, time.Minute).Status; s.CurrentRevision != s.UpdateRevision || s.CurrentRevision == first {
		t.Errorf("at the end: current %s, update %s", s.CurrentRevision, s.UpdateRevision)
	}
}

// TestB017: surge is for the pods that are to be updated, and those only: the partition bounds it.
func TestB017(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 8
updateStrategy: {type: ReCreate, partition: 6, maxSurge: "50%", maxUnavailable: 0}`)
	p.Ready("web", 8, time.Minute)
	r := p.Record()
	p.Image("web", "app:v2")
	p.split("app:v1", 6, "app:v2", 2, time.Minute)
	p.Ready("web", 2, 20*time.Second)
	p.During(3*time.Second, func() string { return is(len(p.Pods()), 8) })
	if seen := r.Settled(); seen.Total > 10 || seen.Created != 2 || seen.Deleted != 2 || seen.FewestReady < 8 {
		t.Errorf("seen %+v, want 2 made and 2 deleted, at most 10, and 8 ready at every moment", seen)
	}
}

// TestB019: what is paused makes no surge pods. It scales.
func TestB019(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 4
updateStrategy: {type: ReCreate, maxSurge: "50%", maxUnavailable: 1, partition: 4, paused: true}`)
	p.Ready("web", 4, time.Minute)
	r := p.Record()
	p.Image("web", "app:v2")
	p.Merge("web", `{spec: {updateStrategy: {partition: 0}}}`)
	p.observed("web")
	p.During(4*time.Second, func() string { return is(len(p.Pods()), 4) })
	if s := p.CloneSet("web").Status; s.UpdatedReplicas != 0 || r.Seen().Created != 0 {
		t.Errorf("seen %+v, status %s", r.Seen(), kit.Text(s))
	}
	p.Merge("web", `{spec: {replicas: 3}}`)
	p.Eventually(30*time.Second, func() string { return is(len(p.Pods()), 3) })
	p.Merge("web", `{spec: {updateStrategy: {paused: false}}}`)
	p.allOn(3, "app:v2", time.Minute)
	if seen := r.Seen(); seen.Total > 5 {
		t.Errorf("seen %+v, surge of 50%% is 2", seen)
	}
}

// TestB021: a budget of one pod is free again when that pod is ready again.
func TestB021(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 4
updateStrategy: {type: InPlaceOnly, maxUnavailable: "10%"}`)
	p.Ready("web", 4, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	p.Image("web", "app:v2-slow-start-2s")
	p.Ready("web", 4, 90*time.Second)
	p.InPlace(before, 1)
	if seen := r.Seen(); seen.Unready > 1 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v, want one at a time", seen)
	}
}

// TestB023: a pod that is broken already is the one that is moved first, and no second one is down because of the release.
func TestB023(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 3
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1}`)
	p.Ready("web", 3, time.Minute)
	victim := p.one(func(*corev1.Pod) bool { return true })
	// Somebody's own patch breaks it: a crash loop on the old revision.
	broken := client.RawPatch(types.JSONPatchType, []byte(`[{"op": "replace", "path": "/spec/containers/0/image", "value": "app:v1-crash"}]`))
	if err := p.Patch(t.Context(), victim, broken); err != nil {
		t.Fatal(err)
	}
	p.Eventually(20*time.Second, func() string { return is(int(p.CloneSet("web").Status.ReadyReplicas), 2) })
	r := p.Record()
	p.Image("web", "app:v2-slow-start-1s")
	p.Ready("web", 3, time.Minute)
	seen := r.Seen()
	if seen.Unready > 1 || len(seen.Order) != 3 || seen.Order[0] != victim.Name || seen.Created+seen.Deleted != 0 {
		t.Errorf("seen %+v, want %s first and never two down", seen, victim.Name)
	}
}

// TestB073: a template that was there before is its old revision again, renumbered, and each pod restarts once for it.
func TestB073(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", "replicas: 2\nupdateStrategy: {type: InPlaceIfPossible, maxUnavailable: 2}")
	first := p.Ready("web", 2, time.Minute).Status.UpdateRevision
	before := kit.Identities(p.Pods())
	p.Image("web", "app:v2")
	p.Ready("web", 2, time.Minute)
	for _, rev := range p.revisions() {
		if rev.Name == first {
			rev.Annotations = nil
			if err := p.Update(t.Context(), &rev); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.Image("web", "app:v1")
	if s := p.Ready("web", 2, time.Minute).Status; s.UpdateRevision != first || s.CurrentRevision != first {
		t.Errorf("current %s, update %s, want %s", s.CurrentRevision, s.UpdateRevision, first)
	}
	p.InPlace(before, 2)
	all := p.revisions()
	if len(all) != 2 || all[1].Name != first || all[1].Revision != 3 {
		for _, rev := range all {
			t.Errorf("revision %s is number %d", rev.Name, rev.Revision)
		}
	}
}

// TestB075: a revision that does not come up is left by reverting it, and by a newer one, with nothing deleted by hand; pods
// that were never broken are not restarted by the revert.
func TestB075(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]string{"reverted": "app:v1", "fixed": "app:v3"} {
		for policy, bad := range map[string]string{"InPlaceIfPossible": "app:v2-pull-fails", "ReCreate": "app:v2-crash"} {
			t.Run(name+" "+policy, func(t *testing.T) {
				t.Parallel()
				p := in(t, steady)
				p.App("web", "app:v1", fmt.Sprintf("replicas: 3\nupdateStrategy: {type: %s, maxUnavailable: 1}", policy))
				p.Ready("web", 3, time.Minute)
				p.Image("web", bad)
				p.Eventually(30*time.Second, func() string {
					if u := p.CloneSet("web").Status.Underway; u == nil || len(u.Broken) == 0 {
						return "not reported: " + kit.Text(u)
					}
					return is(p.On(bad), 1)
				})
				// What replaced a pod may have any name, that of one which is gone too.
				sound := map[types.UID]bool{}
				for _, pod := range p.Pods() {
					if !runs(bad)(pod) {
						sound[pod.UID] = true
					}
				}
				p.Image("web", next)
				p.allOn(3, next, time.Minute)
				p.Ready("web", 3, 20*time.Second)
				if next != "app:v1" {
					return
				}
				stayed := 0
				for _, pod := range p.Pods() {
					if sound[pod.UID] && kit.Restarts(pod) == 0 {
						stayed++
					}
				}
				if len(sound) != 2 || stayed != 2 {
					t.Errorf("of %d pods that were never broken %d are there and not restarted", len(sound), stayed)
				}
			})
		}
	}
}

// TestB091: new claims come with a change of the pod template, and never alone.
func TestB091(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.Make(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "app:v1"}]}
  updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1}` + claimTemplates)
	revision := p.Ready("web", 2, time.Minute).Status.UpdateRevision
	before := kit.Identities(p.Pods())
	size := func(size string) string {
		return `volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: ` + size + `}}}}]`
	}
	// sizes are the claims that the pods have.
	sizes := func() map[string]int {
		n := map[string]int{}
		for _, pod := range p.Pods() {
			for _, v := range pod.Spec.Volumes {
				if v.PersistentVolumeClaim == nil {
					continue
				}
				if claim := p.Claims()[v.PersistentVolumeClaim.ClaimName]; claim != nil {
					n[claim.Spec.Resources.Requests.Storage().String()]++
				}
			}
		}
		return n
	}
	p.Merge("web", "{spec: {"+size("2Gi")+"}}")
	p.observed("web")
	p.During(4*time.Second, func() string {
		if now := kit.Identities(p.Pods()); kit.Text(now) != kit.Text(before) {
			return fmt.Sprintf("pods %v, were %v", now, before)
		}
		return ""
	})
	if s := p.CloneSet("web").Status; s.UpdateRevision != revision || len(p.revisions()) != 1 {
		t.Errorf("update revision %s, was %s; %d revisions", s.UpdateRevision, revision, len(p.revisions()))
	}
	for _, step := range []struct{ patch, size string }{
		{`{spec: {template: {spec: {containers: [{name: main, image: "app:v2"}]}}}}`, "2Gi"},
		{`{spec: {template: {spec: {containers: [{name: main, image: "app:v3"}]}}, ` + size("3Gi") + `}}`, "3Gi"},
	} {
		p.Merge("web", step.patch)
		cs := p.Ready("web", 2, time.Minute)
		if got := sizes(); got[step.size] != 2 || len(got) != 1 {
			t.Errorf("claims of %v, want two of %s", got, step.size)
		}
		for name, now := range kit.Identities(p.Pods()) {
			if now == before[name] {
				t.Errorf("%s was not recreated", name)
			}
		}
		if u := cs.Status.Underway; u == nil || u.Recreated != 2 || u.UpdatedInPlace != 0 {
			t.Errorf("underway %s", kit.Text(u))
		}
		before = kit.Identities(p.Pods())
	}
}

// TestB097: pods with a label are spread over the release.
func TestB097(t *testing.T) {
	t.Parallel()
	for labelled, want := range map[int]string{3: "LULUL", 2: ""} {
		t.Run(fmt.Sprintf("%d of 5", labelled), func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			p.App("web", "app:v1", `
replicas: 5
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1, scatterStrategy: [{key: foo, value: bar}]}`)
			p.Ready("web", 5, time.Minute)
			has := map[string]string{}
			for name := range p.Pods() {
				has[name] = "U"
				if len(has) <= labelled {
					has[name] = "L"
					p.Edit(name, `{metadata: {labels: {foo: bar}}}`)
				}
			}
			p.Known()
			r := p.Record()
			p.Image("web", "app:v2")
			p.Ready("web", 5, time.Minute)
			got := ""
			for _, name := range r.Seen().Order {
				got += has[name]
			}
			if len(got) != 5 || (want != "" && got != want) || (want == "" && strings.Contains(got, "LL")) {
				t.Errorf("order %s, want %s or no two with the label beside each other", got, want)
			}
		})
	}
}

// TestB119: a quota with no room for a pod more. What must be recreated is held, the old pod in service; what is changed in
// place needs no room.
func TestB119(t *testing.T) {
	t.Parallel()
	for policy, moves := range map[string]bool{"ReCreate": false, "InPlaceIfPossible": true} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			quota := &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "one-pod", Namespace: p.NS},
				Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
			}
			if err := p.Create(t.Context(), quota); err != nil {
				t.Fatal(err)
			}
			p.App("web", "app:v1", fmt.Sprintf("replicas: 1\nupdateStrategy: {type: %s, maxSurge: 1, maxUnavailable: 0}", policy))
			p.Ready("web", 1, time.Minute)
			before, r, mark := kit.Identities(p.Pods()), p.Record(), p.Marked()
			p.Image("web", "app:v2")
			if moves {
				p.Ready("web", 1, time.Minute)
				p.InPlace(before, 1)
				if n := p.calls(mark, "pods")["create"]; n != 0 {
					t.Errorf("%d creates", n)
				}
				return
			}
			p.Eventually(30*time.Second, func() string {
				if said := p.told("web"); !strings.Contains(said, "one-pod") {
					return "nothing names the quota: " + said
				}
				return ""
			})
			p.During(5*time.Second, func() string { return is(p.On("app:v1"), 1) })
			if seen, n := r.Seen(), p.calls(mark, "pods")["create"]; seen.FewestReady < 1 || n > 10 {
				t.Errorf("seen %+v, %d creates", seen, n)
			}
			quota.Spec.Hard[corev1.ResourcePods] = resource.MustParse("2")
			quota.ResourceVersion = ""
			if err := p.Update(t.Context(), quota); err != nil {
				t.Fatal(err)
			}
			p.allOn(1, "app:v2", 90*time.Second)
			p.Eventually(20*time.Second, func() string {
				if c := p.Condition("web", "FailedScale"); c != nil {
					return "FailedScale stays: " + kit.Text(c)
				}
				return ""
			})
			if seen := r.Seen(); seen.FewestReady < 1 {
				t.Errorf("seen %+v, want one ready at every moment", seen)
			}
		})
	}
}

// TestB155: with the host's network the API server writes hostPort into the pod. That is no change of the template; another
// port is, and then the old pod goes first, for no second one fits on its node.
func TestB155(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	node := p.node(nil)
	spec := func(image string, port int) string {
		return fmt.Sprintf(`{hostNetwork: true, nodeSelector: {%[1]s: %[2]s}, tolerations: [{key: %[1]s, operator: Exists}],
			containers: [{name: main, image: "%[3]s", ports: [{containerPort: %[4]d}]}]}`, ownLabel, p.NS, image, port)
	}
	before := web(p.Place, 1, spec("app:v1", 9033), "{type: InPlaceIfPossible, maxUnavailable: 1}")
	if pod := p.one(onNode(node)); pod.Spec.Containers[0].Ports[0].HostPort != 9033 {
		t.Fatalf("ports %s", kit.Text(pod.Spec.Containers[0].Ports))
	}
	template(p.Place, spec("app:v2", 9033))
	p.Ready("web", 1, time.Minute)
	p.InPlace(before, 1)
	r := p.Record()
	template(p.Place, spec("app:v3", 9034))
	p.Ready("web", 1, time.Minute)
	for name, now := range kit.Identities(p.Pods()) {
		if now == before[name] || p.Pods()[name].Spec.Containers[0].Ports[0].HostPort != 9034 {
			t.Errorf("%s was not recreated: %s", name, kit.Text(p.Pods()[name].Spec.Containers[0].Ports))
		}
	}
	if seen := r.Seen(); seen.Total > 1 {
		t.Errorf("seen %+v, want the old pod to go first", seen)
	}
}

// TestB157: minReadySeconds count in an update in place too: the next pod waits for them.
func TestB157(t *testing.T) {
	t.Parallel()
	const seconds, pods = 5, 4
	p := in(t, steady)
	p.App("web", "app:v1", fmt.Sprintf(`
replicas: %d
minReadySeconds: %d
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1}`, pods, seconds))
	p.Ready("web", pods, time.Minute)
	before := kit.Identities(p.Pods())
	p.Image("web", "app:v2")
	p.Eventually(20*time.Second, func() string {
		if n := p.CloneSet("web").Status.UpdatedReplicas; n == pods {
			return "the new template is not looked at yet"
		}
		return ""
	})
	lagged, done := false, time.Now().Add(4*time.Minute)
	for s := p.CloneSet("web").Status; s.UpdatedAvailableReplicas < pods; s = p.CloneSet("web").Status {
		lagged = lagged || s.UpdatedAvailableReplicas < s.UpdatedReadyReplicas
		if s.UpdatedReplicas > s.UpdatedAvailableReplicas+1 {
			t.Fatalf("status %s: the next pod did not wait", kit.Text(s))
		}
		if time.Now().After(done) {
			t.Fatalf("status %s", kit.Text(s))
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.Ready("web", pods, 20*time.Second)
	p.InPlace(before, 1)
	var started []time.Time
	for _, pod := range p.Pods() {
		started = append(started, pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time)
	}
	slices.SortFunc(started, time.Time.Compare)
	for i := range started[1:] {
		if gap := started[i+1].Sub(started[i]); gap < seconds*time.Second {
			t.Errorf("one started %s after the one before, want %d s at least", gap, seconds)
		}
	}
	if !lagged {
		t.Error("updatedAvailableReplicas never lagged behind updatedReadyReplicas")
	}
}

// TestProgressDeadline: a release that does not get on is told after the deadline, and the word is taken back when it does.
func TestProgressDeadline(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 2
progressDeadlineSeconds: 5
updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1}`)
	p.Ready("web", 2, time.Minute)
	progressing := func(status metav1.ConditionStatus, reason string, within time.Duration) {
		t.Helper()
		p.Eventually(within, func() string {
			if c := p.Condition("web", "Progressing"); c == nil || c.Status != status || c.Reason != reason {
				return "Progressing: " + kit.Text(c)
			}
			return ""
		})
	}
	p.Image("web", "app:v2-never-ready")
	progressing(metav1.ConditionFalse, "ProgressDeadlineExceeded", 30*time.Second)
	p.Image("web", "app:v3")
	p.Ready("web", 2, time.Minute)
	progressing(metav1.ConditionTrue, "CloneSetAvailable", 10*time.Second)
}

// TestPartitionRollback: with the switch, a raised partition moves running pods back, in place; without it nobody moves
// (B013).
func TestPartitionRollback(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.App("web", "app:v1", `
replicas: 4
updateStrategy: {type: InPlaceIfPossible, partition: 1, maxUnavailable: 1, partitionRollback: true}`)
	p.Ready("web", 4, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	p.Image("web", "app:v2")
	p.Ready("web", 3, time.Minute)
	p.Merge("web", `{spec: {updateStrategy: {partition: 3}}}`)
	p.split("app:v1", 3, "app:v2", 1, time.Minute)
	p.Ready("web", 1, 20*time.Second)
	if now := kit.Identities(p.Pods()); kit.Text(now) != kit.Text(before) {
		t.Errorf("pods %v, were %v", now, before)
	}
	if seen := r.Seen(); seen.Unready > 1 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v", seen)
	}
}

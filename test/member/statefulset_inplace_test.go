//go:build lab

package member

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// TestSetOfFive: five pods with claims come up one after the other, each under its own name, host name and claim, and are
// updated in place from the highest ordinal down: nodes, addresses, pods and claims stay.
func TestSetOfFive(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.Make(`{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {clusterIP: None, selector: {app: db}, ports: [{port: 80}]}}`)
	q := p.follow()
	s := p.Stateful("db", "app:v1", "replicas: 5"+inPlace+dataOf("1Gi", ""))
	s.Ready(5, time.Minute)
	names := []string{"db-0", "db-1", "db-2", "db-3", "db-4"}
	p.Eventually(20*time.Second, func() string {
		came, _, _ := q.seen()
		return differs(came, names)
	})
	came, left, early := q.seen()
	if said := differs(came, names); said != "" || len(left)+len(early) > 0 {
		t.Errorf("came: %s; left %v; before those below them were ready: %v", said, left, early)
	}
	for name, pod := range p.Pods() {
		claim := ""
		for _, v := range pod.Spec.Volumes {
			if v.Name == "data" && v.PersistentVolumeClaim != nil {
				claim = v.PersistentVolumeClaim.ClaimName
			}
		}
		labels := []string{pod.Labels[appsv1alpha1.LabelPodName], pod.Labels[appsv1alpha1.LabelPodIndex]}
		switch {
		case pod.Spec.Hostname != name || pod.Spec.Subdomain != "db":
			t.Errorf("%s: host name %q, subdomain %q", name, pod.Spec.Hostname, pod.Spec.Subdomain)
		case claim != "data-"+name:
			t.Errorf("%s mounts the claim %q", name, claim)
		case !slices.Equal(labels, []string{name, strconv.Itoa(ordinal(t, name))}):
			t.Errorf("%s: labels %v", name, pod.Labels)
		case !slices.Contains(gates(pod), string(appsv1alpha1.ConditionInPlaceUpdateReady)):
			t.Errorf("%s: gates %v, and nobody has to write ours", name, gates(pod))
		}
	}
	p.hostNames("db", names)
	pods, claims, r, mark := kit.Identities(p.Pods()), p.claimIDs(), p.Record(), p.Marked()
	s.Image("app:v2")
	set := s.Ready(5, time.Minute)
	p.InPlace(pods, 1)
	if diff := gocmp.Diff(claims, p.claimIDs()); diff != "" || len(claims) != 5 {
		t.Errorf("claims changed (-before +after):\n%s", diff)
	}
	slices.Reverse(names)
	seen := r.Seen()
	if said := differs(seen.Order, names); said != "" || seen.Unready > 1 || seen.Created+seen.Deleted > 0 || len(seen.Problems) > 0 {
		t.Errorf("order: %s; seen %+v", said, seen)
	}
	is := set.Status
	counts := []int32{is.Replicas, is.ReadyReplicas, is.AvailableReplicas, is.CurrentReplicas, is.UpdatedReplicas, is.UpdatedReadyReplicas, is.UpdatedAvailableReplicas}
	if said := differs(counts, []int32{5, 5, 5, 5, 5, 5, 5}); said != "" || is.CurrentRevision != is.UpdateRevision || is.LabelSelector != "app=db" {
		t.Errorf("status %s", kit.Text(is))
	}
	if kit.Text(is.VolumeClaims) != `[{"volumeClaimName":"data","compatibleReplicas":5,"compatibleReadyReplicas":5}]` {
		t.Errorf("claims in the status: %s", kit.Text(is.VolumeClaims))
	}
	if u := is.Underway; u == nil || u.UpdatedInPlace != 5 || u.Recreated != 0 {
		t.Errorf("underway %s", kit.Text(u))
	}
	p.hostNames("db", names)
	budget(t, p.Place, mark, map[string]int{"patch pods": 5, "patch pods/status": 10})
	p.idle()
}

// idle checks that the agent comes to an end of writing in the namespace.
func (p place) idle() {
	p.Helper()
	p.Quiet(4 * time.Second)
}

// hostNames waits until the endpoints of a headless Service have these host names, which is what its DNS names are made of.
func (p place) hostNames(service string, want []string) {
	p.Helper()
	want = slices.Sorted(slices.Values(want))
	p.Eventually(20*time.Second, func() string {
		var list discoveryv1.EndpointSliceList
		if err := p.List(p.Context(), &list, client.InNamespace(p.NS), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
			return err.Error()
		}
		var got []string
		for i := range list.Items {
			for _, e := range list.Items[i].Endpoints {
				if e.Hostname != nil && e.Conditions.Ready != nil && *e.Conditions.Ready {
					got = append(got, *e.Hostname)
				}
			}
		}
		slices.Sort(got)
		return differs(got, want)
	})
}

// TestB075Ordered: OrderedReady with a broken revision at ordinal 2, then a good one or the one before: the set recovers by
// itself, nobody deletes a pod, and what was never broken is restarted once at most.
func TestB075Ordered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy, broken, good string
		// restarts of the pods that were never broken.
		restarts  int32
		partition int
	}{
		"reverted, in place":             {"InPlaceIfPossible", "app:v2-pull-fails", "app:v1", 0, 0},
		"replaced, in place":             {"InPlaceIfPossible", "app:v2-crash", "app:v3", 1, 0},
		"reverted, recreating":           {"ReCreate", "app:v2-never-ready", "app:v1", 0, 0},
		"replaced, recreating":           {"ReCreate", "app:v2-pull-fails", "app:v3", 0, 0},
		"reverted, and a partition held": {"InPlaceIfPossible", "app:v2-pull-fails", "app:v1", 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			s := p.Stateful("db", "app:v1", fmt.Sprintf("replicas: 3\nupdateStrategy: {rollingUpdate: {podUpdatePolicy: %s, partition: %d}}", tc.policy, tc.partition)+dataOf("1Gi", ""))
			s.Ready(3, time.Minute)
			pods, claims := kit.Identities(p.Pods()), p.claimIDs()
			s.Image(tc.broken)
			p.Eventually(30*time.Second, func() string {
				if pod := p.Pods()["db-2"]; pod == nil || !runs(tc.broken)(pod) || kit.PodReady(pod) {
					return "db-2 is not broken yet"
				}
				return ""
			})
			p.During(3*time.Second, func() string {
				for _, name := range []string{"db-0", "db-1"} {
					if pod := p.Pods()[name]; pod == nil || pod.UID != pods[name].UID || !runs("app:v1")(pod) || !kit.PodReady(pod) {
						return name + " is touched while db-2 is broken"
					}
				}
				return ""
			})
			p.Eventually(20*time.Second, func() string {
				// A pod that just does not become ready is called broken after two minutes.
				if u := s.Get().Status.Underway; tc.broken != "app:v2-never-ready" && (u == nil || !strings.Contains(kit.Text(u.Broken), "db-2")) {
					return "nothing says that db-2 is broken: " + kit.Text(u)
				}
				return ""
			})
			mark := p.mark()
			s.Image(tc.good)
			s.Ready(3, 2*time.Minute)
			p.allOn(3, tc.good, time.Second)
			for _, name := range []string{"db-0", "db-1"} {
				pod := p.Pods()[name]
				stays := tc.policy != "ReCreate" || tc.good == "app:v1"
				if (pod.UID == pods[name].UID) != stays || kit.Restarts(pod) != tc.restarts {
					t.Errorf("%s: same pod %t, restarted %d times, want %t and %d", name, pod.UID == pods[name].UID, kit.Restarts(pod), stays, tc.restarts)
				}
			}
			if now := p.Pods()["db-2"]; tc.policy != "ReCreate" && now.UID != pods["db-2"].UID {
				t.Error("db-2 was recreated")
			}
			if n := p.calls(mark, "pods")["delete"]; tc.policy != "ReCreate" && n > 0 {
				t.Errorf("%d pods were deleted", n)
			}
			if diff := gocmp.Diff(claims, p.claimIDs()); diff != "" {
				t.Errorf("claims changed (-before +after):\n%s", diff)
			}
		})
	}
	t.Run("the first of all", func(t *testing.T) {
		t.Parallel()
		p := in(t, steady)
		s := p.Stateful("db", "app:v1-never-ready", "replicas: 3"+inPlace)
		p.Eventually(30*time.Second, func() string { return differs(p.ordinals(), []int{0}) })
		p.During(2*time.Second, func() string { return differs(p.ordinals(), []int{0}) })
		first := p.Pods()["db-0"].UID
		s.Image("app:v2")
		s.Ready(3, time.Minute)
		if p.Pods()["db-0"].UID != first {
			t.Error("db-0 was recreated")
		}
	})
}

// TestSetHeld: where nothing may move a lost pod comes back all the same, with its gate set, and the others stay as they are.
func TestSetHeld(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ strategy, back string }{
		"paused":              {"{rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, paused: true}}", ""},
		"OnDelete":            {"{type: OnDelete}", "app:v2"},
		"the hold of the hub": {"{rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 2147483647}}", "app:v1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			s := p.Stateful("db", "app:v1", "replicas: 3\npodManagementPolicy: Parallel\nupdateStrategy: "+tc.strategy)
			p.numbered(time.Minute, 0, 1, 2)
			// Who they are is known once the set is settled: a kubelet that is late fills in a pod's address after it is ready.
			s.Ready(3, time.Minute)
			before := kit.Identities(p.Pods())
			s.Image("app:v2")
			p.Eventually(20*time.Second, func() string {
				if set := s.Get(); set.Status.ObservedGeneration != set.Generation {
					return "not observed"
				}
				return ""
			})
			p.During(2*time.Second, func() string { return is(p.On("app:v1"), 3) })
			if err := p.Delete(t.Context(), p.Pods()["db-1"]); err != nil {
				t.Fatal(err)
			}
			p.Eventually(30*time.Second, func() string {
				if pod := p.Pods()["db-1"]; pod == nil || pod.UID == before["db-1"].UID || !kit.PodReady(pod) || !kit.PodCondition(pod, appsv1alpha1.ConditionInPlaceUpdateReady) {
					return "db-1 is not back in service"
				}
				return ""
			})
			if got := p.image("db-1"); tc.back != "" && got != tc.back {
				t.Errorf("db-1 is back on %s, want %s", got, tc.back)
			}
			for _, name := range []string{"db-0", "db-2"} {
				if p.image(name) != "app:v1" || kit.Identities(p.Pods())[name] != before[name] {
					t.Errorf("%s has moved", name)
				}
			}
		})
	}
}

// TestSetSpecifiedDelete: a pod that is asked to go comes back under its name, on its claims, at the revision that the
// partition keeps it on, and one at a time.
func TestSetSpecifiedDelete(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	s := p.Stateful("db", "app:v1", "replicas: 3\nupdateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 3}}"+dataOf("1Gi", ""))
	s.Ready(3, time.Minute)
	s.Image("app:v2")
	s.Ready(0, time.Minute)
	pods, claims, r := kit.Identities(p.Pods()), p.claimIDs(), p.Record()
	for _, name := range []string{"db-0", "db-1"} {
		p.Edit(name, `{metadata: {labels: {apps.kruise.io/specified-delete: "true"}}}`)
	}
	p.Eventually(time.Minute, func() string {
		now := kit.Identities(p.Pods())
		if len(now) != 3 || now["db-0"].UID == pods["db-0"].UID || now["db-1"].UID == pods["db-1"].UID {
			return "not replaced yet: " + kit.Text(now)
		}
		return ""
	})
	s.Ready(0, time.Minute)
	// The status may be a second old, so the pods are asked, too.
	p.numbered(time.Minute, 0, 1, 2)
	if now := kit.Identities(p.Pods()); now["db-2"] != pods["db-2"] || p.On("app:v1") != 3 {
		t.Errorf("pods %s, %d on the old image", kit.Text(now), p.On("app:v1"))
	}
	if diff := gocmp.Diff(claims, p.claimIDs()); diff != "" {
		t.Errorf("claims changed (-before +after):\n%s", diff)
	}
	if seen := r.Settled(); seen.Deleted != 2 || seen.FewestReady < 2 {
		t.Errorf("seen %+v", seen)
	}
}

// TestSetMendsIdentity: labels of its identity that somebody took off a pod, or changed, come back, and the pod runs on.
func TestSetMendsIdentity(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	s := p.Stateful("db", "app:v1", "replicas: 2\npodManagementPolicy: Parallel")
	s.Ready(2, time.Minute)
	before := kit.Identities(p.Pods())
	p.Edit("db-1", `{metadata: {labels: {statefulset.kubernetes.io/pod-name: null, apps.kubernetes.io/pod-index: "7"}}}`)
	p.Eventually(20*time.Second, func() string {
		pod := p.Pods()["db-1"]
		if pod == nil || pod.Labels[appsv1alpha1.LabelPodName] != "db-1" || pod.Labels[appsv1alpha1.LabelPodIndex] != "1" {
			return "the labels are not back: " + kit.Text(pod)
		}
		return ""
	})
	s.Ready(2, 20*time.Second)
	p.InPlace(before, 0)
	p.idle()
}

// TestSetHooks: a set's pods go through the hooks as a CloneSet's do, in the order of their ordinals. A pod that waits to be
// deleted goes with its claims, and when its ordinal is wanted again before, both stay.
func TestSetHooks(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	p.Make(`
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  selector: {matchLabels: {app: db}}
  lifecycle:
    inPlaceUpdate: {labelsHandler: {example.test/lb-registered: "true"}}
    preDelete: {labelsHandler: {example.test/hold: "true"}}
  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}
  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
  template:
    metadata: {labels: {app: db, example.test/lb-registered: "true", example.test/hold: "true"}}
    spec: {containers: [{name: main, image: "app:v1"}]}`)
	s := kit.Set{Place: p.Place, Name: "db"}
	s.Ready(3, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	state := func(want map[string]string) func() string {
		return func() string {
			got := map[string]string{}
			for name, pod := range p.Pods() {
				// A pod that no hook has touched yet says nothing.
				got[name] = cmp.Or(pod.Labels[appsv1alpha1.LabelLifecycleState], normal)
			}
			if !maps.Equal(got, want) {
				return fmt.Sprintf("states %v, want %v", got, want)
			}
			return ""
		}
	}
	s.Image("app:v2")
	p.Eventually(20*time.Second, state(map[string]string{"db-0": normal, "db-1": normal, "db-2": preparingUpdate}))
	p.During(time.Second, func() string { return is(p.On("app:v2"), 0) })
	p.register("db-2", "false")
	p.Eventually(20*time.Second, state(map[string]string{"db-0": normal, "db-1": normal, "db-2": updated}))
	p.During(time.Second, state(map[string]string{"db-0": normal, "db-1": normal, "db-2": updated}))
	p.register("db-2", "true")
	p.Eventually(20*time.Second, state(map[string]string{"db-0": normal, "db-1": preparingUpdate, "db-2": normal}))
	// The partition is raised over a pod that waits: it goes back, unrestarted.
	s.Merge(`{spec: {updateStrategy: {rollingUpdate: {partition: 2}}}}`)
	p.Eventually(20*time.Second, state(map[string]string{"db-0": normal, "db-1": normal, "db-2": normal}))
	s.Ready(1, 20*time.Second)
	if seen := r.Seen(); !slices.Equal(seen.Order, []string{"db-2"}) || seen.Created+seen.Deleted > 0 || len(seen.Problems) > 0 {
		t.Errorf("seen %+v", seen)
	}
	if diff := gocmp.Diff(before, kit.Identities(p.Pods())); diff != "" {
		t.Errorf("pods changed (-before +after):\n%s", diff)
	}

	claims := p.claimIDs()
	s.Merge(`{spec: {replicas: 2}}`)
	p.Eventually(20*time.Second, state(map[string]string{"db-0": normal, "db-1": normal, "db-2": preparingDelete}))
	p.Eventually(20*time.Second, func() string { return differs([]string{p.owners("data-db-2")}, []string{"Pod"}) })
	s.Merge(`{spec: {replicas: 3}}`)
	p.Eventually(20*time.Second, state(map[string]string{"db-0": normal, "db-1": normal, "db-2": normal}))
	p.Eventually(20*time.Second, func() string { return differs([]string{p.owners("data-db-2")}, []string{""}) })
	s.Ready(1, 20*time.Second)
	if diff := gocmp.Diff(before, kit.Identities(p.Pods())); diff != "" {
		t.Errorf("pods changed (-before +after):\n%s", diff)
	}
	s.Merge(`{spec: {replicas: 2}}`)
	p.Eventually(20*time.Second, state(map[string]string{"db-0": normal, "db-1": normal, "db-2": preparingDelete}))
	p.Edit("db-2", `{metadata: {labels: {example.test/hold: null}}}`)
	p.numbered(20*time.Second, 0, 1)
	p.Eventually(30*time.Second, func() string {
		now := p.claimIDs()
		if len(now) != 2 || now["data-db-0"] != claims["data-db-0"] || now["data-db-1"] != claims["data-db-1"] {
			return "claims " + kit.Text(now)
		}
		return ""
	})
}

// TestSetWaitsForItsNames: a pod that hangs in Terminating, and a pod of somebody else under a name of the set: neither is
// touched or replaced, nothing is tried again and again, and both are said. The name is used when it is free.
func TestSetWaitsForItsNames(t *testing.T) {
	t.Parallel()
	t.Run("terminating", func(t *testing.T) {
		t.Parallel()
		p := in(t, steady)
		t.Cleanup(p.letGo)
		s := p.Stateful("db", "app:v1", "replicas: 2"+inPlace+dataOf("1Gi", ""))
		s.Ready(2, time.Minute)
		claims := p.claimIDs()
		p.Edit("db-0", `{metadata: {finalizers: [example.test/hangs]}}`)
		first, mark := p.Pods()["db-0"], p.Marked()
		if err := p.Delete(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		p.During(4*time.Second, func() string { return differs(p.ordinals(), []int{1}) })
		if n := p.calls(mark, "pods")["create"]; n > 0 {
			t.Errorf("%d creates while the name is in use", n)
		}
		p.letGo()
		s.Ready(2, time.Minute)
		if p.Pods()["db-0"].UID == first.UID {
			t.Error("db-0 is the old one")
		}
		if diff := gocmp.Diff(claims, p.claimIDs()); diff != "" {
			t.Errorf("claims changed (-before +after):\n%s", diff)
		}
	})
	t.Run("somebody else's", func(t *testing.T) {
		t.Parallel()
		p := in(t, steady)
		p.Make(`{apiVersion: v1, kind: Pod, metadata: {name: db-1}, spec: {containers: [{name: main, image: "other:v1"}]}}`)
		other := p.Pods()["db-1"].UID
		s, mark := p.Stateful("db", "app:v1", "replicas: 3\npodManagementPolicy: Parallel"), p.mark()
		p.Eventually(30*time.Second, func() string {
			if c := s.Condition(appsv1alpha1.ConditionFailedCreatePod); c == nil || !strings.Contains(c.Message, "db-1") {
				return "nothing names db-1: " + p.says(s)
			}
			return differs(p.ordinals(), []int{0, 1, 2})
		})
		p.During(4*time.Second, func() string {
			if pod := p.Pods()["db-1"]; pod == nil || pod.UID != other || len(pod.OwnerReferences) > 0 {
				return "somebody else's pod is touched"
			}
			return ""
		})
		if n := p.calls(mark, "pods")["create"]; n > 10 {
			t.Errorf("%d creates while a name is taken", n)
		}
		if err := p.Delete(t.Context(), &corev1.Pod{ObjectMeta: p.Pods()["db-1"].ObjectMeta}); err != nil {
			t.Fatal(err)
		}
		// Nothing tells the agent that the name is free; it looks again every 30 s.
		s.Ready(3, time.Minute)
	})
}

//go:build lab

package member

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// TestReserveAndScale: reserved ordinals are skipped, in numbers and in ranges; the set is scaled over them from 4 to 6 to 2,
// in order; a pod on an ordinal that is reserved, or below the start, gives its place to the next free one.
func TestReserveAndScale(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	q := p.follow()
	s := p.Stateful("db", "app:v1", "replicas: 4\nreserveOrdinals: [1, 3]"+inPlace+dataOf("1Gi", ""))
	steps := []struct {
		merge string
		want  []int
	}{
		{"", []int{0, 2, 4, 5}},
		{`{spec: {replicas: 6}}`, []int{0, 2, 4, 5, 6, 7}},
		{`{spec: {replicas: 2}}`, []int{0, 2}},
		{`{spec: {reserveOrdinals: [1, "2-3"]}}`, []int{0, 4}},
		{`{spec: {ordinals: {start: 4}}}`, []int{4, 5}},
		{`{spec: {ordinals: null, reserveOrdinals: null}}`, []int{0, 1}},
	}
	for _, step := range steps {
		if step.merge != "" {
			s.Merge(step.merge)
		}
		p.numbered(time.Minute, step.want...)
		s.Ready(int32(len(step.want)), 20*time.Second)
		if got := s.Get().Status.Replicas; int(got) != len(step.want) {
			t.Errorf("%s: %d replicas in the status", step.merge, got)
		}
	}
	came, left, _ := q.seen()
	wantCame := []string{"db-0", "db-2", "db-4", "db-5", "db-6", "db-7"}
	wantLeft := []string{"db-7", "db-6", "db-5", "db-4"}
	if len(came) < 6 || len(left) < 4 || !slices.Equal(came[:6], wantCame) || !slices.Equal(left[:4], wantLeft) {
		t.Errorf("came %v, left %v, want them to begin with %v and %v", came, left, wantCame, wantLeft)
	}
	// Retain is the default: every ordinal that ever was has its claim.
	for _, n := range []int{0, 1, 2, 4, 5, 6, 7} {
		if got := p.owners(fmt.Sprintf("data-db-%d", n)); got != "" {
			t.Errorf("claim of ordinal %d: owners %q", n, got)
		}
	}
}

// TestSetCreatesInSteps: scaleStrategy.maxUnavailable bounds how many new pods are down at once.
func TestSetCreatesInSteps(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	r := p.Record()
	s := p.Stateful("db", "app:v1-slow-start-1s", "replicas: 6\npodManagementPolicy: Parallel\nscaleStrategy: {maxUnavailable: 2}")
	s.Ready(6, time.Minute)
	if seen := r.Seen(); seen.Unready != 2 {
		t.Errorf("%d pods were down at once, want 2", seen.Unready)
	}
}

// TestB093 is the case with a reserved ordinal: the claim of the highest ordinal that is really there goes with its pod.
func TestB093(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	s := p.Stateful("db", "app:v1", "replicas: 3\nreserveOrdinals: [0]\npersistentVolumeClaimRetentionPolicy: {whenScaled: Delete}"+dataOf("1Gi", ""))
	s.Ready(3, time.Minute)
	claims := p.claimIDs()
	s.Merge(`{spec: {replicas: 2}}`)
	p.numbered(time.Minute, 1, 2)
	delete(claims, "data-db-3")
	p.Eventually(30*time.Second, func() string { return cmp.Diff(claims, p.claimIDs()) })
	p.During(3*time.Second, func() string { return cmp.Diff(claims, p.claimIDs()) })
	if len(claims) != 2 {
		t.Errorf("claims %v", claims)
	}
}

// TestB095: with a hole in the ordinals the partition is a number of pods, and an edit through v1alpha1 loses nothing that
// v1beta1 has, nor the other way round. What is lost comes back on the revision of its place.
func TestB095(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	s := p.Stateful("db", "app:v1", `
replicas: 5
reserveOrdinals: [1]
scaleStrategy: {maxUnavailable: 3}
persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain}
lifecycle: {preDelete: {labelsHandler: {example.test/none: "true"}}}
volumeClaimUpdateStrategy: {type: OnDelete}
ordinals: {start: 0}
updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 2}}`)
	s.Ready(5, time.Minute)
	before, r := kit.Identities(p.Pods()), p.Record()
	s.Image("app:v2")
	set := s.Ready(3, time.Minute)
	p.During(2*time.Second, func() string { return is(p.On("app:v2"), 3) })
	if seen := r.Seen(); !slices.Equal(seen.Order, []string{"db-5", "db-4", "db-3"}) || seen.Unready > 1 || seen.Created+seen.Deleted > 0 {
		t.Errorf("seen %+v", seen)
	}
	if diff := cmp.Diff(before, kit.Identities(p.Pods())); diff != "" {
		t.Errorf("pods changed (-before +after):\n%s", diff)
	}
	if is := set.Status; is.CurrentReplicas != 2 || is.UpdatedReplicas != 3 || is.CurrentRevision == is.UpdateRevision {
		t.Errorf("status %s", kit.Text(is))
	}
	for _, versions := range [][2]string{{"v1alpha1", "v1beta1"}, {"v1beta1", "v1alpha1"}} {
		edited, other := p.unstructured("apps.kruise.io/"+versions[0], "StatefulSet", "db"), p.unstructured("apps.kruise.io/"+versions[1], "StatefulSet", "db")
		if err := p.Cluster.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
			t.Fatal(err)
		}
		want, _, _ := unstructured.NestedMap(other.Object, "spec")
		p.Eventually(10*time.Second, func() string {
			if err := p.Cluster.Get(t.Context(), client.ObjectKeyFromObject(edited), edited); err != nil {
				return err.Error()
			}
			edited.SetAnnotations(map[string]string{"example.test/edited": versions[0]})
			if err := p.Update(t.Context(), edited); err != nil {
				return err.Error()
			}
			return ""
		})
		if err := p.Cluster.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
			t.Fatal(err)
		}
		got, _, _ := unstructured.NestedMap(other.Object, "spec")
		if diff := cmp.Diff(want, got); diff != "" || want["reserveOrdinals"] == nil {
			t.Errorf("an edit through %s (-before +after):\n%s", versions[0], diff)
		}
	}
	for _, name := range []string{"db-0", "db-4"} {
		if err := p.Delete(t.Context(), p.Pods()[name]); err != nil {
			t.Fatal(err)
		}
	}
	p.numbered(time.Minute, 0, 2, 3, 4, 5)
	s.Ready(3, time.Minute)
	if p.image("db-0") != "app:v1" || p.image("db-4") != "app:v2" || p.On("app:v1") != 2 {
		t.Errorf("db-0 is back on %s, db-4 on %s, %d pods on the old one", p.image("db-0"), p.image("db-4"), p.On("app:v1"))
	}
}

// TestSetAutoscaler: an HPA of the cluster's own controller scales a set out and in through the scale subresource, and the
// partition holds on to its number of pods.
func TestSetAutoscaler(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	s := p.Stateful("db", "app:v1", "replicas: 1\nupdateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 2}}")
	s.Ready(1, time.Minute)
	s.Image("app:v2")
	hpa := `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: db}, spec: {
		scaleTargetRef: {apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, name: db}, minReplicas: 4, maxReplicas: 6,
		metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}`
	p.Make(hpa)
	p.split("app:v1", 2, "app:v2", 2, time.Minute)
	object := p.unstructured("autoscaling/v2", "HorizontalPodAutoscaler", "db")
	if err := p.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"minReplicas": 1, "maxReplicas": 3}}`))); err != nil {
		t.Fatal(err)
	}
	p.split("app:v1", 2, "app:v2", 1, time.Minute)
	p.numbered(20*time.Second, 0, 1, 2)
	if p.image("db-2") != "app:v2" {
		t.Errorf("db-2 runs %s", p.image("db-2"))
	}
}

// foundSet is a set that is made again after the first of its name was deleted without its pods.
const foundSet = `
apiVersion: %s
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: "app:v1", volumeMounts: [{name: data, mountPath: /data}]}]}`

// again creates the set that was deleted, from what the API server showed of it, as ours.
func (p place) again(was *unstructured.Unstructured) {
	p.Helper()
	set := p.unstructured("apps.kruise.io/v1beta1", "StatefulSet", was.GetName())
	set.Object["spec"] = was.Object["spec"]
	if err := p.Create(p.Context(), set); err != nil {
		p.Fatal(err)
	}
}

// TestSetsAreAdopted: an Advanced StatefulSet, or Kubernetes' own, is deleted with --cascade=orphan, and ours of the same name
// is made: the pods go on without a restart, by their names and in their claims, and are moved later. Pods of Kubernetes' own
// have no readiness gate, which a running pod cannot get: they are recreated then.
func TestSetsAreAdopted(t *testing.T) {
	t.Parallel()
	const ours = "apps.kruise.io/v1beta1"
	for name, tc := range map[string]struct {
		version string
		// shown: the manifest is what the API server showed, with the defaults of apps/v1 in its template.
		shown    bool
		restarts int32
	}{
		"ours":                        {ours, true, 1},
		"Kubernetes' own, as shown":   {"apps/v1", true, 0},
		"Kubernetes' own, as written": {"apps/v1", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := in(t, steady)
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(fmt.Appendf(nil, foundSet, tc.version), &object.Object); err != nil {
				t.Fatal(err)
			}
			object.SetNamespace(p.NS)
			if err := p.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			p.numbered(time.Minute, 0, 1, 2)
			before, claims := kit.Identities(p.Pods()), p.claimIDs()
			if err := p.Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
				t.Fatal(err)
			}
			// The garbage collector looks for new kinds every 30 s.
			p.Eventually(90*time.Second, func() string {
				gone := p.unstructured(tc.version, "StatefulSet", "db")
				if err := p.Cluster.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
					return fmt.Sprintf("not gone: %v", err)
				}
				return ""
			})
			if tc.shown {
				p.again(object)
			} else {
				p.Make(fmt.Sprintf(foundSet, ours))
			}
			s := p.Set("db")
			s.Merge("{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1}}}}")
			s.Ready(3, time.Minute)
			p.InPlace(before, 0)
			p.ofSet(s)
			if is := s.Get().Status; is.CurrentRevision != is.UpdateRevision || is.UpdatedReplicas != 3 {
				t.Errorf("status %s", kit.Text(is))
			}
			r := p.Record()
			s.Image("app:v2")
			s.Ready(3, time.Minute)
			p.allOn(3, "app:v2", 20*time.Second)
			if diff := cmp.Diff(claims, p.claimIDs()); diff != "" {
				t.Errorf("claims changed (-before +after):\n%s", diff)
			}
			now := kit.Identities(p.Pods())
			for name, pod := range p.Pods() {
				if (now[name].UID == before[name].UID) != (tc.version == ours) || kit.Restarts(pod) != tc.restarts {
					t.Errorf("%s: same pod %t, restarted %d times", name, now[name].UID == before[name].UID, kit.Restarts(pod))
				}
				if !slices.Contains(gates(pod), string(appsv1alpha1.ConditionInPlaceUpdateReady)) {
					t.Errorf("%s has no gate", name)
				}
			}
			if seen := r.Seen(); seen.FewestReady < 2 {
				t.Errorf("seen %+v", seen)
			}
		})
	}
}

// TestSetLetsGo: a pod whose labels do not match any more is let go and keeps running, in the way of its own successor, which
// is said; when it is deleted the successor comes. An orphan that matches, and has a name of the set, joins.
func TestSetLetsGo(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	s := p.Stateful("db", "app:v1", "replicas: 2\npodManagementPolicy: Parallel"+inPlace)
	s.Ready(2, time.Minute)
	before := kit.Identities(p.Pods())
	p.Edit("db-1", `{metadata: {labels: {app: debug}}}`)
	p.Eventually(30*time.Second, func() string {
		if owner := metav1.GetControllerOf(p.Pods()["db-1"]); owner != nil {
			return "db-1 is still controlled by " + owner.Name
		}
		return is(int(s.Get().Status.Replicas), 1)
	})
	p.Edit("db-1", `{metadata: {labels: {app: db}}}`)
	s.Ready(2, time.Minute)
	p.InPlace(before, 0)
	p.ofSet(s)
	var revisions appsv1.ControllerRevisionList
	if err := p.List(t.Context(), &revisions, client.InNamespace(p.NS)); err != nil || len(revisions.Items) != 1 {
		t.Errorf("%d revisions, %v", len(revisions.Items), err)
	}
}

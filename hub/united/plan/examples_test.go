package plan

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// example is a manifest of the docs, read strictly.
func example(t *testing.T, name string) *appsv1alpha1.UnitedDeployment {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return strictly(t, raw)
}

func strictly(t *testing.T, raw []byte) *appsv1alpha1.UnitedDeployment {
	t.Helper()
	ud := &appsv1alpha1.UnitedDeployment{}
	if err := yaml.UnmarshalStrict(raw, ud); err != nil {
		t.Fatal(err)
	}
	if problems := ud.Spec.Problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return ud
}

func allotted(w *world) map[string]int32 { return maps.Clone(w.ud.Status.SubsetReplicas) }

// TestM041: the manifest of docs/coming-from-other-tools.md does what the pushed list of manifests did.
func TestM041(t *testing.T) {
	t.Parallel()
	w := newWorld(t, example(t, "from-manifestwork.yaml"))
	w.run()
	if got := allotted(w); got["east"] != 4 || w.child("east").kind.GVK.Kind != "CloneSet" {
		t.Fatalf("%v", got)
	}
	raw := string(w.ud.Spec.Template.CloneSetTemplate.Spec.Raw)
	setSpec(w.ud, strings.ReplaceAll(raw, "feed:1", "feed:2"))
	w.run()
	if e := w.entry("east"); e.State != stateHeld || e.UpdatedReplicas != 0 {
		t.Errorf("partition 4 of 4: %+v", e)
	}
	partitions(w.ud, map[string]string{"east": "2"})
	w.run()
	if e := w.entry("east"); e.UpdatedReadyReplicas != 2 || e.State != stateHeld {
		t.Errorf("4 -> 2: %+v", e)
	}
	partitions(w.ud, map[string]string{"east": "0"})
	w.run()
	c := w.child("east")
	c.replicas, c.scaledBy = 6, []string{"hpa"}
	w.run()
	if got := w.child("east").replicas; got != 6 {
		t.Errorf("the member's autoscaler is overruled: %d", got)
	}
}

// TestM043: prod starts when somebody names it, an offline member holds up nobody, and is shown.
func TestM043(t *testing.T) {
	t.Parallel()
	w := newWorld(t, example(t, "from-fleet.yaml"))
	add := func(name, env string) {
		w.members[name] = &member{name: name, labels: map[string]string{"env": env}, children: map[string]*cloneSet{}}
	}
	add("canary-1", "canary")
	for i := range 15 {
		add(fmt.Sprintf("prod-%02d", i), "prod")
	}
	w.run()
	if got := allotted(w); len(got) != 16 || got["canary-1"] != 3 || got["prod-07"] != 10 {
		t.Fatalf("%v", got)
	}
	setSpec(w.ud, strings.ReplaceAll(string(w.ud.Spec.Template.CloneSetTemplate.Spec.Raw), "checkout:1", "checkout:2"))
	w.members["prod-03"].down = true
	w.run()
	if e := w.entry("canary-1"); e.UpdatedReadyReplicas != 3 {
		t.Errorf("%+v", e)
	}
	for i := range 15 {
		if e := w.entry(fmt.Sprintf("prod-%02d", i)); e.UpdatedReplicas != 0 || e.Granted != 0 {
			t.Errorf("prod has begun: %+v", e)
		}
	}
	partitions(w.ud, map[string]string{"canary-1": "0", "prod-02": "0", "prod-03": "0"})
	w.run()
	if e := w.entry("prod-02"); e.UpdatedReadyReplicas != 10 {
		t.Errorf("%+v", e)
	}
	if e := w.entry("prod-03"); e.State != stateStale || e.Granted != 10 {
		t.Errorf("an offline member is not shown as one of the two: %+v", e)
	}
}

// TestM045: east 3 and west 5, an override by the container's name, and an autoscaler's replicas are kept.
func TestM045(t *testing.T) {
	t.Parallel()
	w := newWorld(t, example(t, "from-kubefed.yaml"))
	w.run()
	if diff := cmp.Diff(map[string]int32{"east": 3, "west": 5}, allotted(w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	raw := string(w.ud.Spec.Template.DeploymentTemplate.Spec.Raw)
	w.ud.Spec.Template.DeploymentTemplate.Spec.Raw = []byte(strings.Replace(raw, `"containers":[`, `"containers":[{"name":"front","image":"proxy:1"},`, 1))
	w.ud.Generation++
	w.run()
	b, err := newBook(w.decoded(w.revs))
	if err != nil {
		t.Fatal(err)
	}
	west, err := b.render(w.ud.Status.UpdatedRevision, overrideOf(&w.ud.Spec.Topology.Subsets[1].SubsetPlace))
	if err != nil {
		t.Fatal(err)
	}
	var pod struct {
		Spec struct {
			Containers []struct{ Name, Image string }
		}
	}
	if err := yaml.Unmarshal(west.pod, &pod); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range pod.Spec.Containers {
		got[c.Name] = c.Image
	}
	if diff := cmp.Diff(map[string]string{"front": "proxy:1", "web": "mirror.west.test/web:1"}, got); diff != "" {
		t.Errorf("the override follows the position (-want +got):\n%s", diff)
	}
	c := w.child("west")
	c.replicas, c.scaledBy = 7, []string{"hpa"}
	w.run()
	if w.child("west").replicas != 7 {
		t.Errorf("%d", w.child("west").replicas)
	}
}

func TestKarmadaExampleDivides(t *testing.T) {
	t.Parallel()
	w := newWorld(t, example(t, "from-karmada.yaml"))
	w.run()
	if diff := cmp.Diff(map[string]int32{"east": 6, "west": 3}, allotted(w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestM025: long names, as the manifest stands, and a total that an autoscaler moves.
func TestM025(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strictly(t, []byte(`
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: customer-notification-dispatch-service-production, namespace: demo}
spec:
  replicas: 4
  selector: {matchLabels: {app: notify}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: notify}}
      spec:
        selector: {matchLabels: {app: notify}}
        template:
          metadata: {labels: {app: notify}}
          spec:
            containers: [{name: "n", image: "notify:1"}] # quoted: a bare n is a boolean to YAML 1.1, kubectl included
        updateStrategy: {type: InPlaceIfPossible}
  topology:
    subsets:
    - {name: region-north-primary, minReplicas: 1, maxReplicas: 3}
    - {name: region-south-backup}
`)))
	for _, tc := range []struct{ total, north, south int32 }{{4, 3, 1}, {2, 2, 0}, {10, 3, 7}} {
		w.ud.Spec.Replicas = &tc.total
		w.ud.Generation++
		w.run()
		if diff := cmp.Diff(map[string]int32{"region-north-primary": tc.north, "region-south-backup": tc.south}, allotted(w)); diff != "" {
			t.Errorf("%d (-want +got):\n%s", tc.total, diff)
		}
		if s := &w.ud.Status; s.LabelSelector != "app=notify" || s.Replicas != tc.total || s.CurrentRevision != s.UpdatedRevision || len(w.revs) != 1 {
			t.Errorf("a scale is a release, or its selector is lost: %+v", s)
		}
	}
	for _, name := range []string{w.child("region-north-primary").name, w.child("region-south-backup").name, w.ud.Status.UpdatedRevision} {
		if len(name) > 63 {
			t.Errorf("%s is no label value", name)
		}
	}
}

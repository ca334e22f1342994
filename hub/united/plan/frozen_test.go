package plan

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew; a subset revision that differs is a release in the field")

// manifests are UnitedDeployments whose revisions must never change: every kind of template, nulls, empty maps, the order of
// keys, fields that no build knows, and each of the overrides.
func manifests() map[string]*appsv1alpha1.UnitedDeployment {
	const pod = `"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"app:v1"}]}}`
	out := map[string]*appsv1alpha1.UnitedDeployment{}
	add := func(name, kind, spec string, edit func(s *appsv1alpha1.Subset)) {
		ud := united("web", 4, "app:v1", sub("a", "east", ""))
		templateSpec(ud, kind, spec)
		if edit != nil {
			edit(&ud.Spec.Topology.Subsets[0])
		}
		out[name] = ud
	}
	for _, kind := range []string{"cloneSet", "statefulSet", "advancedStatefulSet", "deployment"} {
		add(kind, kind, `{"selector":{"matchLabels":{"app":"web"}},`+pod+`}`, nil)
	}
	add("nulls and empty maps are as if they were not there", "cloneSet", `{"selector":{"matchLabels":{"app":"web"}},`+pod+`,"lifecycle":null,"scaleStrategy":{}}`, nil)
	add("the order of keys counts for nothing", "cloneSet", `{`+pod+`,"selector":{"matchLabels":{"app":"web"}}}`, nil)
	add("a field that no build knows", "cloneSet", `{"selector":{"matchLabels":{"app":"web"}},`+pod+`,"fieldOf2031":{"deep":[true,null,1.0,{}]}}`, nil)
	add("numbers as they were written", "cloneSet", `{"selector":{"matchLabels":{"app":"web"}},`+pod+`,"minReadySeconds":10,"big":123456789012345678901234567890,"float":1.0}`, nil)
	add("text beyond ASCII", "cloneSet", `{"template":{"metadata":{"labels":{"app":"web"},"annotations":{"a":"<é>&\u2028"}},"spec":{"containers":[{"name":"web","image":"app:v1"}]}}}`, nil)
	add("a patch", "cloneSet", `{`+pod+`}`, func(s *appsv1alpha1.Subset) {
		s.Patch = rawJSON(`{"spec":{"containers":[{"name":"web","image":"mirror/app:v1","fieldOf2031":1}]}}`)
	})
	add("tolerations", "cloneSet", `{`+pod+`}`, func(s *appsv1alpha1.Subset) {
		s.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	})
	add("a node selector term", "deployment", `{`+pod+`}`, func(s *appsv1alpha1.Subset) {
		s.NodeSelectorTerm = &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"z1", "z2"}}}}
	})
	add("all overrides", "statefulSet", `{"serviceName":"web",`+pod+`}`, func(s *appsv1alpha1.Subset) {
		s.Patch = rawJSON(`{"metadata":{"annotations":{"x":"y"}}}`)
		s.Tolerations = []corev1.Toleration{{Key: "pool"}}
		s.NodeSelectorTerm = &corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}}}}
	})
	return out
}

// TestSubsetRevisionsAreFrozen: equal in all clusters, whoever renders them, and over our upgrades. A hash that changes is a
// release of every workload of every fleet at the next upgrade.
func TestSubsetRevisionsAreFrozen(t *testing.T) {
	got := map[string]map[string]string{}
	for name, ud := range manifests() {
		w := newWorld(t, ud)
		w.pass()
		w.pass()
		if len(w.last.Pushes) != 1 {
			t.Fatalf("%s: %d pushes: %+v", name, len(w.last.Pushes), w.ud.Status.Conditions)
		}
		got[name] = map[string]string{"united": w.ud.Status.UpdatedRevision, "subset": w.last.Pushes[0].Input.Revision}
	}
	file := filepath.Join("testdata", "revisions.json")
	if *update {
		raw, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(raw, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("revisions changed (-frozen +now):\n%s", diff)
	}
	for _, same := range []string{"nulls and empty maps are as if they were not there", "the order of keys counts for nothing"} {
		if got[same]["subset"] != got["cloneSet"]["subset"] {
			t.Errorf("%s, and it is another revision", same)
		}
	}
}

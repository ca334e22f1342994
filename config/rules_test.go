package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/crd"
)

// Each case is answered alike by the CRD, in all its versions, and by the Go rules that hold an object which came
// through a CRD without ours.
func TestRules(t *testing.T) {
	t.Parallel()
	all := admissions(t)
	for _, tc := range crd.Cases() {
		t.Run(tc.Kind+": "+tc.Name, func(t *testing.T) {
			t.Parallel()
			for key, server := range all {
				kind, version, _ := strings.Cut(key, "/")
				if kind != tc.Kind {
					continue
				}
				object, err := tc.Object(version)
				if err != nil {
					t.Fatal(err)
				}
				_, errs := server.admit(t.Context(), object, nil)
				if found := wrong(errs, tc); len(found) > 0 {
					t.Errorf("%s: %s\ngot: %v", version, strings.Join(found, "\n"), errs)
				}
				if !tc.CRDOnly {
					checkGoRules(t, object, tc.Refused)
				}
			}
		})
	}
}

func checkGoRules(t *testing.T, object *unstructured.Unstructured, refused map[string]string) {
	t.Helper()
	problems := goRules(t, object)
	if len(refused) == 0 && len(problems) > 0 {
		t.Errorf("accepted by the CRD, but a problem here: %v", problems)
	}
	for path := range refused {
		found := false
		for _, problem := range problems {
			found = found || strings.HasPrefix(problem, path)
		}
		if !found {
			t.Errorf("refused by the CRD at %s, but no problem here: %v", path, problems)
		}
	}
}

func goRules(t *testing.T, object *unstructured.Unstructured) []string {
	t.Helper()
	read := func(into any) {
		t.Helper()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
			t.Fatal(err)
		}
	}
	switch object.GetKind() {
	case "CloneSet":
		set := &appsv1alpha1.CloneSet{}
		read(set)
		return set.Spec.Problems()
	case "StatefulSet":
		set := &appsv1alpha1.StatefulSet{}
		read(set)
		return set.Spec.Problems()
	case "UnitedDeployment":
		ud := &appsv1alpha1.UnitedDeployment{}
		read(ud)
		return ud.Spec.Problems()
	default:
		return nil
	}
}

func TestSelectorCannotBeChanged(t *testing.T) {
	t.Parallel()
	all := admissions(t)
	for _, kind := range []string{"CloneSet", "StatefulSet", "UnitedDeployment"} {
		old, err := crd.Case{Kind: kind}.Object("v1alpha1")
		if err != nil {
			t.Fatal(err)
		}
		object, err := crd.Case{Kind: kind, Patch: "spec: {selector: {matchLabels: {app: other}}}"}.Object("v1alpha1")
		if err != nil {
			t.Fatal(err)
		}
		_, errs := all[kind+"/v1alpha1"].admit(t.Context(), object, old)
		if found := wrong(errs, crd.Case{Refused: map[string]string{"spec.selector": "cannot be changed"}}); len(found) > 0 {
			t.Errorf("%s: %v: %v", kind, found, errs)
		}
	}
}

// What this build does not know travels: templates, metadata, patches and claims keep every field; nothing is defaulted
// inside them. What the levels around them do not know is pruned, as upstream does.
func TestUnknownTemplateFieldsSurvive(t *testing.T) {
	t.Parallel()
	all := admissions(t)
	for name, tc := range map[string]crd.Case{
		"CloneSet": {Kind: "CloneSet", Patch: `spec:
  template: {metadata: {newField: [1]}, spec: {newField: {a: null, b: 1.50}, containers: [{name: main, image: "app:v1", newField: x}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {newField: 1}}]`},
		"StatefulSet": {Kind: "StatefulSet", Patch: `spec:
  template: {metadata: {newField: [1]}, spec: {newField: {a: null, b: 1.50}, containers: [{name: main, image: "app:v1", newField: x}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {newField: 1}}]`},
		"UnitedDeployment": {Kind: "UnitedDeployment", Patch: `spec:
  template: {cloneSetTemplate: {metadata: {newField: 1}, spec: {newField: 1, template: {spec: {newField: 1}}}}}
  topology: {subsets: [{name: a, patch: {spec: {newField: [{}]}}}]}`},
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			object, err := tc.Object(version)
			if err != nil {
				t.Fatal(err)
			}
			stored, errs := all[name+"/"+version].admit(t.Context(), object, nil)
			if len(errs) > 0 {
				t.Fatalf("%s: %v", name, errs)
			}
			if diff := cmp.Diff(object.Object["spec"], withoutDefaults(stored)); diff != "" {
				t.Errorf("%s %s (-written +stored):\n%s", name, version, diff)
			}
		}
	}
}

func withoutDefaults(stored *unstructured.Unstructured) any {
	spec, _, _ := unstructured.NestedMap(stored.Object, "spec")
	if stored.GetKind() != "UnitedDeployment" {
		delete(spec, "replicas")
	}
	delete(spec, "revisionHistoryLimit")
	return spec
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	all := admissions(t)
	for kind, want := range map[string]map[string]any{
		"CloneSet":         {"replicas": int64(1), "revisionHistoryLimit": int64(10)},
		"StatefulSet":      {"replicas": int64(1), "revisionHistoryLimit": int64(10)},
		"UnitedDeployment": {"revisionHistoryLimit": int64(10)},
	} {
		object, err := crd.Case{Kind: kind}.Object("v1alpha1")
		if err != nil {
			t.Fatal(err)
		}
		stored, errs := all[kind+"/v1alpha1"].admit(t.Context(), object, nil)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		spec, _, _ := unstructured.NestedMap(stored.Object, "spec")
		written, _, _ := unstructured.NestedMap(object.Object, "spec")
		for key := range written {
			delete(spec, key)
		}
		if diff := cmp.Diff(want, spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

func TestManifestsAreAccepted(t *testing.T) {
	t.Parallel()
	all := admissions(t)
	manifests, err := crd.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for id, object := range manifests {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			_, version, _ := strings.Cut(object.GetAPIVersion(), "/")
			stored, errs := all[object.GetKind()+"/"+version].admit(t.Context(), object, nil)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if problems := goRules(t, object); len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
			for _, path := range lost(object.Object["spec"], stored.Object["spec"], "spec") {
				t.Errorf("%s was written and not stored", path)
			}
		})
	}
}

// lost lists what is in written and not in stored.
func lost(written, stored any, path string) []string {
	var out []string
	switch w := written.(type) {
	case map[string]any:
		s, _ := stored.(map[string]any)
		for key, value := range w {
			if _, ok := s[key]; !ok {
				out = append(out, path+"."+key)
				continue
			}
			out = append(out, lost(value, s[key], path+"."+key)...)
		}
	case []any:
		s, _ := stored.([]any)
		if len(s) != len(w) {
			return []string{path}
		}
		for i := range w {
			out = append(out, lost(w[i], s[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return out
}

func TestTheLargestObjectsAreAccepted(t *testing.T) {
	t.Parallel()
	all := admissions(t)
	for _, tc := range append(crd.Largest(), crd.TooLarge()...) {
		t.Run(tc.Name, func(t *testing.T) {
			t.Parallel()
			object, err := tc.Object("v1alpha1")
			if err != nil {
				t.Fatal(err)
			}
			_, errs := all[tc.Kind+"/v1alpha1"].admit(t.Context(), object, nil)
			if found := wrong(errs, tc); len(found) > 0 {
				t.Errorf("%v\ngot: %v", found, errs)
			}
		})
	}
}

// The name of the governing Service is fixed, also from nothing to something.
func TestServiceNameCannotBeChanged(t *testing.T) {
	t.Parallel()
	server := admissions(t)["StatefulSet/v1beta1"]
	for _, tc := range []struct {
		before, after string
		refused       bool
	}{
		{"db", "db", false}, {"db", "other", true}, {"db", "", true}, {"", "db", true}, {"", "", false},
	} {
		objects := make([]*unstructured.Unstructured, 0, 2)
		for _, name := range []string{tc.before, tc.after} {
			patch := ""
			if name != "" {
				patch = "spec: {serviceName: " + name + "}"
			}
			object, err := crd.Case{Kind: "StatefulSet", Patch: patch}.Object("v1beta1")
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, object)
		}
		_, errs := server.admit(t.Context(), objects[1], objects[0])
		if (len(errs) > 0) != tc.refused {
			t.Errorf("%q -> %q: refused %t: %v", tc.before, tc.after, tc.refused, errs)
		}
	}
}

// TestB095 (the half of admission): what only v1beta1 has is kept when the object is written through v1alpha1.
func TestB095(t *testing.T) {
	t.Parallel()
	all := admissions(t)
	object, err := crd.Case{Kind: "StatefulSet", Patch: `spec:
  replicas: 5
  reserveOrdinals: [1, "7-9"]
  lifecycle: {preDelete: {finalizersHandler: [x.io/y]}}
  scaleStrategy: {maxUnavailable: 2}
  podManagementPolicy: Parallel
  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}
  ordinals: {start: 0}
  volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}`}.Object("v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	stored, errs := all["StatefulSet/v1alpha1"].admit(t.Context(), object, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, path := range lost(object.Object["spec"], stored.Object["spec"], "spec") {
		t.Errorf("%s was written and not stored", path)
	}
}

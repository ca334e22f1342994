package v1alpha1_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

func toJSON(tb testing.TB, text string) []byte {
	tb.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func TestDecodePodTemplate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		raw       string
		wantImage string
		want      []string
		wantErr   string
	}{
		"known fields": {`{"spec":{"containers":[{"name":"a","image":"app:v1"}]}}`, "app:v1", nil, ""},
		"unknown fields are named and stop nothing": {
			`{"newField":1,"spec":{"containers":[{"name":"a","image":"app:v1","newField":{"x":1}}],"schedulingGroup2":[]}}`,
			"app:v1",
			[]string{"newField", "spec.containers[0].newField", "spec.schedulingGroup2"},
			"",
		},
		"another case is another field": {
			`{"spec":{"Containers":[],"containers":[{"name":"a","image":"app:v1"}]}}`, "app:v1", []string{"spec.Containers"}, "",
		},
		"a field twice is named": {
			`{"spec":{"containers":[{"name":"a","image":"app:v0","image":"app:v1"}]}}`, "app:v1", []string{"spec.containers[0].image"}, "",
		},
		"another type cannot be read": {`{"spec":{"containers":"a"}}`, "", nil, "containers"},
		"no JSON cannot be read":      {`{"spec":`, "", nil, "unexpected end"},
		"nothing cannot be read":      {``, "", nil, "empty"},
		"null cannot be read":         {`null`, "", nil, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template, unknown, err := appsv1alpha1.DecodePodTemplate([]byte(tc.raw))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) || template != nil {
					t.Fatalf("got %v, error %v, want error %q", template, err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := template.Spec.Containers[0].Image; got != tc.wantImage {
				t.Errorf("image %q, want %q", got, tc.wantImage)
			}
			if diff := cmp.Diff(tc.want, unknown, cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeCloneSetSpec(t *testing.T) {
	t.Parallel()
	spec, unknown, err := appsv1alpha1.DecodeCloneSetSpec(toJSON(t, `
selector: {matchLabels: {app: a}}
newField: 1
updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, newField: 1}}
template: {spec: {containers: [{name: a, image: "app:v1", newField: 1}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"newField", "template.spec.containers[0].newField", "updateStrategy.rollingUpdate.newField"}, slices.Sorted(slices.Values(unknown))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	rollout, err := spec.Rollout()
	if err != nil || rollout.Policy != appsv1alpha1.InPlaceOnlyUpdate {
		t.Errorf("got %v, %v", rollout, err)
	}
	for _, bad := range []string{`{"template":{"spec":{"containers":1}}}`, `{"replicas":"x","template":{}}`, `{}`, ``} {
		if _, _, err := appsv1alpha1.DecodeCloneSetSpec([]byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

// What a typed client reads and writes back is what was written, byte for byte in the raw parts.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		object any
		text   string
	}{
		"CloneSet": {&appsv1alpha1.CloneSet{}, `
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: a}
spec:
  selector: {matchLabels: {app: a}}
  template: {newField: {b: 1, a: null}, spec: {z: 1.50, containers: []}}
  volumeClaimTemplates: [{metadata: {name: data}, newField: 1}, {kind: X}]
  updateStrategy: {partition: "99.99%", maxUnavailable: 1}
status: {replicas: 0, readyReplicas: 0, availableReplicas: 0, updatedReplicas: 0, updatedReadyReplicas: 0}`},
		"UnitedDeployment": {&appsv1alpha1.UnitedDeployment{}, `
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: a}
spec:
  selector: {matchLabels: {app: a}}
  template: {cloneSetTemplate: {metadata: {labels: {app: a}, newField: 1}, spec: {newField: 1, template: {x: y}}}}
  topology: {scheduleStrategy: {}, subsets: [{name: a, cluster: b, patch: {spec: {newField: []}}, replicas: "50%"}]}
  updateStrategy: {manualUpdate: {partitions: {a: 3, b: "10%"}}}
status: {replicas: 0, readyReplicas: 0, updatedReplicas: 0, updatedReadyReplicas: 0}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written := toJSON(t, tc.text)
			if err := json.Unmarshal(written, tc.object); err != nil {
				t.Fatal(err)
			}
			again, err := json.Marshal(tc.object)
			if err != nil {
				t.Fatal(err)
			}
			var want, got any
			if err := json.Unmarshal(written, &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(again, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-written +again):\n%s", diff)
			}
		})
	}
	set := &appsv1alpha1.CloneSet{}
	raw := `{"spec":{"template":{"b":1.50,"a":null},"volumeClaimTemplates":[{"z":1,"a":2}]}}`
	if err := json.Unmarshal([]byte(raw), set); err != nil {
		t.Fatal(err)
	}
	if got := string(set.Spec.Template.Raw); got != `{"b":1.50,"a":null}` {
		t.Errorf("the template was changed: %s", got)
	}
	if got := string(set.Spec.VolumeClaimTemplates[0].Raw); got != `{"z":1,"a":2}` {
		t.Errorf("the claim was changed: %s", got)
	}
	other := set.DeepCopy()
	other.Spec.Template.Raw[1], other.Spec.VolumeClaimTemplates[0].Raw[1] = 'X', 'X'
	if set.Spec.Template.Raw[1] == 'X' || set.Spec.VolumeClaimTemplates[0].Raw[1] == 'X' {
		t.Error("DeepCopy shares the raw bytes")
	}
}

package feedback_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/feedback"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := map[string]any{}
	if err := json.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: obj}
}

const full = `{
	"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
	"metadata": {
		"namespace": "shop", "name": "web-eu", "uid": "u1", "generation": 4,
		"labels": {"apps.kruise.io/subset-name": "eu", "apps.kruise.io/controller-revision-hash": "abc", "fleet.underway.dev/hub": "h"},
		"annotations": {"fleet.underway.dev/intent": "1/o/2/3", "fleet.underway.dev/owner": "shop/web"},
		"managedFields": [
			{"manager": "underway-hub", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
			{"manager": "underway-hub-handover", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
			{"manager": "kube-controller-manager", "operation": "Update", "subresource": "scale", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
			{"manager": "kubectl", "operation": "Update", "subresource": "scale", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
			{"manager": "kubectl-edit", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
			{"manager": "agent", "operation": "Update", "subresource": "status", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}}
		]
	},
	"spec": {"replicas": 5, "updateStrategy": {"partition": "40%", "paused": true}},
	"status": {
		"observedGeneration": 4, "replicas": 5, "readyReplicas": 4, "availableReplicas": 3, "updatedReplicas": 2, "updatedReadyReplicas": 1,
		"updateRevision": "web-eu-2", "currentRevision": "web-eu-1",
		"conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-11-29T00:00:00Z"}],
		"underway": {"updatedInPlace": 2, "recreated": 0}
	}
}`

func TestOfCloneSet(t *testing.T) {
	t.Parallel()
	got, err := feedback.Of(parse(t, full))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Conditions) != 1 || got.Conditions[0].Type != "Ready" || got.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("conditions %v", got.Conditions)
	}
	got.Conditions = nil
	want := feedback.Report{
		Kind: "CloneSet.apps.kruise.io", Namespace: "shop", Name: "web-eu", UID: "u1",
		Generation: 4, ObservedGeneration: 4, Fresh: true,
		Subset: "eu", SubsetRevision: "abc", UpdateRevision: "web-eu-2", CurrentRevision: "web-eu-1",
		SpecReplicas: new(int32(5)), Partition: "40%", Paused: true,
		Replicas: 5, Ready: 4, Available: 3, Updated: 2, UpdatedReady: 1,
		Workload: &appsv1alpha1.WorkloadReport{UpdatedInPlace: 2},
		ScaledBy: []string{"kube-controller-manager"},
		Hub:      "h", Intent: "1/o/2/3", Owner: "shop/web",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestFreshness(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		generation, observed int64
		want                 bool
	}{
		"observed":              {3, 3, true},
		"observed beyond":       {3, 4, true},
		"not observed":          {3, 2, false},
		"no generation is none": {0, 0, false},
		"no status yet":         {1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := parse(t, `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"a"},"spec":{}}`)
			obj.SetGeneration(tc.generation)
			if err := unstructured.SetNestedField(obj.Object, tc.observed, "status", "observedGeneration"); err != nil {
				t.Fatal(err)
			}
			got, err := feedback.Of(obj)
			if err != nil || got.Fresh != tc.want {
				t.Errorf("fresh %v, %v; want %v", got.Fresh, err, tc.want)
			}
		})
	}
}

func TestNestedShapeIsRead(t *testing.T) {
	t.Parallel()
	got, err := feedback.Of(parse(t, `{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"a"},
		"spec":{"updateStrategy":{"rollingUpdate":{"partition":3}}}}`))
	if err != nil || got.Partition != "3" {
		t.Errorf("partition %q, %v", got.Partition, err)
	}
	if got.Workload != nil || got.SpecReplicas != nil {
		t.Errorf("absent fields are reported: %v", got)
	}
}

func TestUnreadableIsAnErrorThatNamesTheField(t *testing.T) {
	t.Parallel()
	for field, body := range map[string]string{
		"status.updatedReplicas":    `"status":{"updatedReplicas":"3"}`,
		"status.observedGeneration": `"status":{"observedGeneration":"x"}`,
		"spec.replicas":             `"spec":{"replicas":"many"}`,
		"status.conditions":         `"status":{"conditions":{}}`,
		"status.underway":           `"status":{"underway":[]}`,
		"update strategy":           `"spec":{"updateStrategy":{"rollingUpdate":3}}`,
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			_, err := feedback.Of(parse(t, `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"a"},`+body+`}`))
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("got %v, want it to name %s", err, field)
			}
		})
	}
}

func TestUnknownKind(t *testing.T) {
	t.Parallel()
	if _, err := feedback.Of(parse(t, `{"apiVersion":"v1","kind":"Pod"}`)); !errors.Is(err, feedback.ErrUnknownKind) {
		t.Errorf("got %v", err)
	}
}

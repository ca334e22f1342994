package feedback_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"

	"github.com/underway-dev/underway/propagation/feedback"
	"github.com/underway-dev/underway/propagation/render"
)

// numbers are what a report says of pods and of the way there.
type numbers struct {
	Replicas, Ready, Available, Updated, UpdatedReady, Unavailable int32
	Fresh, Paused, PodsUnknown                                     bool
	Partition, Update, Current, Condition                          string
}

func TestReportsByKind(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind         render.Kind
		spec, status string
		want         numbers
	}{
		"native StatefulSet in mid-release": {
			render.StatefulSet(),
			`{"replicas": 5, "ordinals": {"start": 4}, "updateStrategy": {"rollingUpdate": {"partition": 6}}}`,
			`{"observedGeneration": 2, "replicas": 5, "readyReplicas": 4, "availableReplicas": 3, "currentReplicas": 3, "updatedReplicas": 2,
			  "currentRevision": "web-1", "updateRevision": "web-2"}`,
			numbers{Replicas: 5, Ready: 4, Available: 3, Updated: 2, UpdatedReady: 1, Fresh: true, PodsUnknown: true, Partition: "2", Update: "web-2", Current: "web-1"},
		},
		"native StatefulSet held": {
			render.StatefulSet(), `{"replicas": 2, "ordinals": {"start": 4}, "updateStrategy": {"rollingUpdate": {"partition": 2147483647}}}`,
			`{"observedGeneration": 1, "replicas": 2, "readyReplicas": 2}`,
			numbers{Replicas: 2, Ready: 2, PodsUnknown: true, Partition: "2147483647"},
		},
		"native StatefulSet whole": {
			render.StatefulSet(), `{"replicas": 2}`,
			`{"observedGeneration": 2, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2, "updateRevision": "a", "currentRevision": "a"}`,
			numbers{Replicas: 2, Ready: 2, Available: 2, Updated: 2, UpdatedReady: 2, Fresh: true, PodsUnknown: true, Update: "a", Current: "a"},
		},
		"Deployment with surge": {
			render.Deployment(), `{"replicas": 4, "paused": true}`,
			`{"observedGeneration": 2, "replicas": 6, "readyReplicas": 5, "availableReplicas": 5, "updatedReplicas": 3, "unavailableReplicas": 1,
			  "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "m",
			    "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}`,
			numbers{
				Replicas: 6, Ready: 5, Available: 5, Updated: 3, UpdatedReady: 2, Unavailable: 1, Fresh: true, Paused: true, PodsUnknown: true,
				Condition: "Progressing False ProgressDeadlineExceeded",
			},
		},
		"advanced StatefulSet": {
			render.AdvancedStatefulSet(),
			`{"replicas": 5, "ordinals": {"start": 4}, "updateStrategy": {"rollingUpdate": {"partition": 3, "paused": true}}}`,
			`{"observedGeneration": 2, "replicas": 5, "readyReplicas": 4, "availableReplicas": 4, "updatedReplicas": 2, "updatedReadyReplicas": 1,
			  "currentRevision": "web-1", "updateRevision": "web-2"}`,
			numbers{Replicas: 5, Ready: 4, Available: 4, Updated: 2, UpdatedReady: 1, Fresh: true, Paused: true, Partition: "3", Update: "web-2", Current: "web-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := feedback.Of(childOf(t, tc.kind, tc.spec, tc.status))
			if err != nil {
				t.Fatal(err)
			}
			got := numbers{
				Replicas: r.Replicas, Ready: r.Ready, Available: r.Available, Updated: r.Updated, UpdatedReady: r.UpdatedReady, Unavailable: r.Unavailable,
				Fresh: r.Fresh, Paused: r.Paused, PodsUnknown: r.PodsUnknown, Partition: r.Partition, Update: r.UpdateRevision, Current: r.CurrentRevision,
			}
			for _, c := range r.Conditions {
				got.Condition += c.Type + " " + string(c.Status) + " " + c.Reason
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if r.Kind != tc.kind.GVK.GroupKind().String() {
				t.Errorf("kind %s", r.Kind)
			}
		})
	}
}

// What is derived is never more than what runs.
func TestDerivedUpdatedReadyIsNeverTooMuch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		updatedReady := rapid.Int64Range(0, 9).Draw(t, "updated and ready")
		updatedNot := rapid.Int64Range(0, 9).Draw(t, "updated, not ready")
		oldReady := rapid.Int64Range(0, 9).Draw(t, "old and ready")
		oldNot := rapid.Int64Range(0, 9).Draw(t, "old, not ready")
		obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"replicas":        updatedReady + updatedNot + oldReady + oldNot,
			"readyReplicas":   updatedReady + oldReady,
			"updatedReplicas": updatedReady + updatedNot,
		}}}
		obj.SetGroupVersionKind(rapid.SampledFrom([]render.Kind{render.StatefulSet(), render.Deployment()}).Draw(t, "kind").GVK)
		r, err := feedback.Of(obj)
		if err != nil {
			t.Fatal(err)
		}
		if got := int64(r.UpdatedReady); got < 0 || got > updatedReady {
			t.Fatalf("said %d of %d", got, updatedReady)
		}
		if oldReady+oldNot == 0 && int64(r.UpdatedReady) != updatedReady {
			t.Fatalf("said %d of %d though all are updated", r.UpdatedReady, updatedReady)
		}
	})
}

func TestReportsRefuseWhatTheyCannotRead(t *testing.T) {
	t.Parallel()
	for spec, k := range map[string]render.Kind{
		`{"updateStrategy": "x"}`:                                   render.AdvancedStatefulSet(),
		`{"updateStrategy": {"rollingUpdate": {"partition": "x"}}}`: render.StatefulSet(),
		`{"ordinals": {"start": "x"}}`:                              render.StatefulSet(),
		`{"paused": "x"}`:                                           render.Deployment(),
		`{"replicas": "x"}`:                                         render.Deployment(),
	} {
		if r, err := feedback.Of(childOf(t, k, spec, `{}`)); err == nil {
			t.Errorf("%s %s: %+v", k.Template, spec, r)
		}
	}
}

func childOf(t *testing.T, k render.Kind, spec, status string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web", "generation": int64(2)}}}
	for field, text := range map[string]string{"spec": spec, "status": status} {
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		obj.Object[field] = v
	}
	obj.SetGroupVersionKind(k.GVK)
	return obj
}

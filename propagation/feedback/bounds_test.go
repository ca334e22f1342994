package feedback_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/underway-dev/underway/propagation/feedback"
)

// TestWhatAMemberSaysIsBounded: a member may tell any number and any text, and both go into the status of the hub's object.
func TestWhatAMemberSaysIsBounded(t *testing.T) {
	t.Parallel()
	problem := fmt.Sprintf(`{"reason": %q, "message": %q, "count": -3, "pods": [%s"p"]}`,
		strings.Repeat("é", 1<<15), strings.Repeat("é", 1<<15), strings.Repeat(fmt.Sprintf("%q, ", strings.Repeat("p", 1000)), 99))
	problems := strings.Repeat(problem+", ", 11) + problem
	obj := parse(t, fmt.Sprintf(`{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "web"},
		"spec": {"replicas": 9223372036854775807},
		"status": {"replicas": 4294967296, "readyReplicas": -1, "underway": {"updatedInPlace": -1, "recreated": -2, "broken": [%s], "refused": [%s]}}}`, problems, problems))
	r, err := feedback.Of(obj)
	if err != nil {
		t.Fatal(err)
	}
	if *r.SpecReplicas != math.MaxInt32 || r.Replicas != math.MaxInt32 || r.Ready != 0 || r.Workload.UpdatedInPlace != 0 || r.Workload.Recreated != 0 {
		t.Errorf("%d wanted, %d there, %d ready, %+v", *r.SpecReplicas, r.Replicas, r.Ready, r.Workload.UpdatedInPlace)
	}
	raw, err := json.Marshal(r.Workload)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 100<<10 {
		t.Errorf("%d bytes are kept", len(raw))
	}
	x := r.Workload.Broken[0]
	if len(r.Workload.Broken) != 10 || len(r.Workload.Refused) != 10 || len(x.Reason) != 64 || !utf8.ValidString(x.Message) || len(x.Pods) != 10 || len(x.Pods[0]) != 253 || x.Count != 0 {
		t.Errorf("%d problems, the first with a reason of %d bytes, %d pods, count %d", len(r.Workload.Broken), len(x.Reason), len(x.Pods), x.Count)
	}
}

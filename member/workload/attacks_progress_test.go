package workload

import (
	"testing"
	"time"

	"github.com/underway-dev/underway/inplace"
)

// R15: an autoscaler (or any edit) that changes the generation more often than the deadline hides a release that is stuck.
func TestR15AnAutoscalerDoesNotHideAStuckRelease(t *testing.T) {
	b := page()
	late := false
	for i := range 12 {
		replicas := int32(5 + i%2)
		s := seenOf(inplace.Intent{Replicas: replicas, Update: inplace.Revision{Name: "web-2"}})
		s.book, s.now = b, noon.Add(time.Duration(i)*time.Minute)
		s.obj.SetGeneration(int64(i + 1))
		s.wanted.ProgressDeadline = 90 * time.Second
		s.progressed(inplace.Summary{Replicas: replicas, Available: replicas - 1, Updated: 1, Asked: 2, ExpectedUpdated: replicas})
		late = late || s.late
	}
	if !late {
		t.Error("12 minutes without progress, deadline 90 s, never late")
	}
}

package plan

import (
	"time"

	"github.com/underway-dev/underway/inplace"
)

// Next decides on all pods of one workload. pods are all that belong to it, terminating and finished ones too.
// in.Population is merged into the Decision: its creates are counted as pods of their revision, its deletes as gone.
func Next(in inplace.Intent, pods []inplace.Pod, now time.Time) inplace.Decision {
	_, _ = pods, now
	return inplace.Decision{Creates: in.Population.Creates, Deletes: in.Population.Deletes}
}

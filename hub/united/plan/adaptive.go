package plan

import (
	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/subset"
)

// adaptive is true where replicas leave a place that cannot place them.
func (p *pass) adaptive() bool {
	return p.United.Spec.Topology.ScheduleStrategy.Type == appsv1alpha1.ScheduleAdaptive
}

// adapt divides the replicas where the schedule strategy is Adaptive; shares are those of the places, in their order.
func (p *pass) adapt(shares []subset.Share) (subset.Allocation, error) {
	return subset.AllocateAdaptive(p.United.Spec.Replicas, shares, false)
}

package plan

import (
	"math"
	"testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestSumsOfWhatMembersSay: a member that says too much makes no sum negative: an autoscaler reads status.replicas.
func TestSumsOfWhatMembersSay(t *testing.T) {
	t.Parallel()
	p := &pass{Observation: Observation{United: &appsv1alpha1.UnitedDeployment{}}, status: &appsv1alpha1.UnitedDeploymentStatus{}}
	for _, n := range []int32{5, math.MaxInt32, 7} {
		p.status.SubsetStatuses = append(p.status.SubsetStatuses, appsv1alpha1.SubsetStatus{
			Replicas: n, ReadyReplicas: n, UpdatedReplicas: n, UpdatedReadyReplicas: n, Report: &appsv1alpha1.WorkloadReport{UpdatedInPlace: n, Recreated: n},
		})
	}
	p.totals()
	s := p.status
	for _, got := range []int32{s.Replicas, s.ReadyReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedInPlace, s.Recreated} {
		if got != math.MaxInt32 {
			t.Errorf("%d", got)
		}
	}
}

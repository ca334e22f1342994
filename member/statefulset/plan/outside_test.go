package plan

import (
	"testing"

	"github.com/underway-dev/underway/inplace"
)

// TestB075RevertUnderAPartition: the template goes back to what was finished last while the partition is in force; the pods
// below it have never left and use up no place of the grant, so the broken one comes back.
func TestB075RevertUnderAPartition(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"OrderedReady", "Parallel"} {
		in := input(t, "{replicas: 5, podManagementPolicy: "+policy+", updateStrategy: {rollingUpdate: {partition: 2, podUpdatePolicy: InPlaceIfPossible}}}",
			append(pods(0, 1, 2, 3), pod(4, "r2", down, func(p *inplace.Pod) { p.Containers[0].Waiting = "ImagePullBackOff" }))...)
		in.Intent.Update, in.Intent.Current = rev("r1"), rev("r1")
		r, d := next(in)
		if got := moving(r, d); got != "4" {
			t.Errorf("%s: moved %q, holds %v", policy, got, d.Holds)
		}
	}
}

// TestBrokenPodBelowThePartitionTakesNoPlace: pod 1 broke in an update before and sorts first; the grant is that of pods 4 and 3.
func TestBrokenPodBelowThePartitionTakesNoPlace(t *testing.T) {
	t.Parallel()
	in := input(t, "{replicas: 5, podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {partition: 3, maxUnavailable: 3, podUpdatePolicy: ReCreate}}}",
		pod(0, "r1"), pod(1, "r0", down, func(p *inplace.Pod) { p.Gate = inplace.GateFalse }), pod(2, "r1"), pod(3, "r1"), pod(4, "r1"))
	in.Intent.Revisions = append(in.Intent.Revisions, rev("r0"))
	r, d := next(in)
	if got := moving(r, d); got != "4 3" {
		t.Errorf("moved %q, holds %v fixed %v", got, d.Holds, r.Fixed)
	}
}

// TestAskedPodWaitsForNoCreation: a pod that was asked to go waits for the budget, and the missing one for nobody.
func TestAskedPodWaitsForNoCreation(t *testing.T) {
	t.Parallel()
	in := input(t, "{replicas: 2, podManagementPolicy: Parallel, scaleStrategy: {maxUnavailable: 1}}",
		pod(0, "r1", func(p *inplace.Pod) { p.SpecifiedDelete = true }))
	r, _ := next(in)
	if len(r.Creates) != 1 || r.Creates[0].Object.GetName() != PodName(in.Owner.Name, 1) {
		t.Errorf("created %d, holds %v", len(r.Creates), r.Holds)
	}
}

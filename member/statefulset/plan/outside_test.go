package plan

import (
	"fmt"
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

// TestCondemnedPodsBlockNobody: pods that are too many run the update revision, and wait for a broken one below them to be
// ready; it waits for none of them, and as long as it can be kept no more pods run that revision than granted.
func TestCondemnedPodsBlockNobody(t *testing.T) {
	t.Parallel()
	broken := func(p *inplace.Pod) { down(p); p.Containers[0].Waiting = "ImagePullBackOff" }
	revert := func(in *Input) { in.Intent.Update, in.Intent.Current = rev("r1"), rev("r1") }
	for name, tc := range map[string]struct {
		partition int
		policy    string
		change    func(*Input)
		pods      []inplace.Pod
		// moved and deleted are what the first pass does.
		moved, deleted string
	}{
		"a template that goes back": {policy: "OrderedReady", change: revert, pods: append(pods(0, 1, 3, 4), pod(2, "r2", broken)), moved: "2"},
		"a template that goes back, under a partition": {
			partition: 2, policy: "OrderedReady", change: revert, pods: append(pods(0, 1, 3, 4, 5), pod(2, "r2", broken)), moved: "2",
		},
		"a release: the highest makes room": {
			policy: "OrderedReady", pods: []inplace.Pod{pod(0, "r1"), pod(1, "r0", broken), pod(2, "r2"), pod(3, "r2"), pod(4, "r2"), pod(5, "r2")},
			deleted: "web-5",
		},
		"a release: there is room after it": {
			policy: "OrderedReady", pods: []inplace.Pod{pod(0, "r1"), pod(1, "r0", broken), pod(2, "r2"), pod(3, "r2"), pod(4, "r2")}, moved: "1",
		},
		"a release under a partition": {
			partition: 2, policy: "OrderedReady", pods: []inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "r0", broken), pod(3, "r2"), pod(4, "r2")},
			deleted: "web-4",
		},
		"the partition holds the broken one, so it is waited for": {
			partition: 3, policy: "OrderedReady", pods: []inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "r1", broken), pod(3, "r2"), pod(4, "r2")},
		},
		"the partition holds the broken one, which goes to the current revision": {
			partition: 3, policy: "OrderedReady", pods: []inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "r0", broken), pod(3, "r2"), pod(4, "r2")},
			moved: "2",
		},
		"a broken pod that the partition holds keeps the budget, so nobody makes room": {
			partition: 1, policy: "OrderedReady", pods: []inplace.Pod{pod(0, "r1", broken), pod(1, "r1", broken), pod(2, "r2"), pod(3, "r2"), pod(4, "r2")},
		},
		"broken pods of a revision in between keep no budget: they go to the current one": {
			partition: 1, policy: "OrderedReady", pods: []inplace.Pod{pod(0, "r0", broken), pod(1, "r0", broken), pod(2, "r2"), pod(3, "r2"), pod(4, "r2")},
			moved: "1 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(t, fmt.Sprintf("{replicas: 4, podManagementPolicy: %s, updateStrategy: {rollingUpdate: {partition: %d, podUpdatePolicy: InPlaceIfPossible}}}",
				tc.policy, tc.partition), tc.pods...)
			in.Intent.Revisions = append(in.Intent.Revisions, rev("r0"))
			if tc.change != nil {
				tc.change(&in)
			}
			r, d := next(in)
			deleted := ""
			for _, x := range r.Deletes {
				deleted += x.Name
			}
			if got := moving(r, d); got != tc.moved || deleted != tc.deleted {
				t.Errorf("moved %q deleted %q, want %q and %q; holds %v", got, deleted, tc.moved, tc.deleted, d.Holds)
			}
		})
	}
}

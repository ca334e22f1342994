package plan_test

import (
	"testing"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/plan"
)

// R16: the partition was raised and partitionRollback is on: while pods are to go back the release is not done.
func TestR16ARollbackUnderWayIsNotDone(t *testing.T) {
	in := intent(5, 3, 1)
	in.PartitionRollback = true
	d := plan.Next(in, pods("NNNNN"), now)
	if len(d.Patches) == 0 {
		t.Fatal("nothing goes back")
	}
	if d.Summary.Done(5) {
		t.Errorf("3 pods are to go back to %s, and the summary is done (Ready, CloneSetAvailable: all pods are updated and available)", in.Current.Name)
	}
}

// R17: maxUnavailable 0, maxSurge 1, scatter: who is chosen must be who was counted for surge, or a pod that serves is deleted
// with the budget of one pod that Strategy.Budget gives to releases in place.
func TestR17SurgeCountsWhoIsChosen(t *testing.T) {
	in := intent(4, 2, 0)
	in.RecreateOnly = map[string]string{"O2": "its claims", "O3": "its claims"}
	in.Scatter = []appsv1alpha1.UpdateScatterTerm{{Key: "zone", Value: "a"}}
	crowd := pods("OOOO")
	for i := range crowd {
		crowd[i].Labels = map[string]string{"zone": "b"}
	}
	crowd[2].Labels["zone"], crowd[3].Labels["zone"] = "a", "a"
	toUpdate, _ := plan.MustRecreate(in, crowd)
	if toUpdate == 0 {
		in.MaxUnavailable = 1 // Strategy.Budget
	}
	for _, d := range plan.Next(in, crowd, now).Deletes {
		t.Errorf("%s serves and is deleted; maxUnavailable is 0 and surge was told that %d are recreated", d.Name, toUpdate)
	}
}

// R18: the same where one of the first pods does not move at all.
func TestR18SurgeCountsPastWhoIsLeftAlone(t *testing.T) {
	in := intent(3, 2, 0)
	in.RecreateOnly = map[string]string{"O1": "its claims"}
	crowd := pods("OOO")
	crowd[0].Labels = map[string]string{appsv1alpha1.LabelLifecycleState: "Strange"}
	toUpdate, _ := plan.MustRecreate(in, crowd)
	if toUpdate == 0 {
		in.MaxUnavailable = 1
	}
	for _, d := range plan.Next(in, crowd, now).Deletes {
		t.Errorf("%s serves and is deleted; maxUnavailable is 0 and surge was told that %d are recreated", d.Name, toUpdate)
	}
}

var _ inplace.Pod

// R19: partitionRollback to a revision that nobody keeps any more (its ControllerRevision was deleted): pods of it cannot be
// created, so none may be deleted for it.
func TestR19NoRollbackToWhatIsNotKept(t *testing.T) {
	for _, policy := range []inplace.Policy{inplace.PolicyInPlaceIfPossible, inplace.PolicyReCreate} {
		in := intent(5, 3, 1)
		in.PartitionRollback, in.Policy = true, policy
		in.Current, in.Revisions = inplace.Revision{Name: "web-1"}, []inplace.Revision{app(2)}
		for _, d := range plan.Next(in, pods("NNNNN"), now).Deletes {
			t.Errorf("%s: %s is deleted (%s), and scaling cannot create a pod of web-1", policy, d.Name, d.Because)
		}
	}
}

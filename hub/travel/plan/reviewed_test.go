package plan_test

import (
	"testing"

	"github.com/underway-dev/underway/hub/travel/plan"
)

// TestHeldAfterRestart: after a restart members are read one after the other; what is not read yet counts, or the hold of
// many that leave at once would be passed one by one.
func TestHeldAfterRestart(t *testing.T) {
	t.Parallel()
	d := plan.Next(plan.Observation{Object: service(), Members: map[string]plan.Member{
		"a": member("eu", there), "b": member("eu", there), "c": member("eu", there),
		"w": member("us", marked), "x": member("us", unknown), "y": member("us", unknown), "z": member("us", unknown),
	}})
	if got := asked(d); got != "a=Applied b=Applied c=Applied" {
		t.Errorf("asked for %q: w is left while x, y and z, which may be left as well, are not read", got)
	}
}

// TestReleasedWhereTheHubHasNoRight: a member that the hub may not look at (joined for other namespaces) must not hold the
// deletion of an object, or of its namespace, for ever.
func TestReleasedWhereTheHubHasNoRight(t *testing.T) {
	t.Parallel()
	refusedThere := func(want plan.Want) func(*plan.Member) {
		return func(m *plan.Member) {
			m.Known, m.NotAllowed = false, "spec.allowedNamespaces of the MemberCluster does not select namespace shop"
			m.Posted, m.Delivery = want, plan.Delivery{Problem: "Refused", Message: "services \"web\" is forbidden"}
		}
	}
	for ending, want := range map[plan.Ending]plan.Want{plan.EndingDelete: plan.WantDeleted, plan.EndingOrphan: plan.WantLetGo} {
		d := plan.Next(plan.Observation{Object: service(deleting), Ending: ending, Members: map[string]plan.Member{
			"east": member("eu", gone), "north": member("eu", refusedThere(want)),
		}})
		if !d.Release {
			t.Errorf("%s: not released: %q, %s", ending, asked(d), d.Summary.Note)
		}
	}
}

// TestAUsedConfirmationGoes: a member that is dead and not selected does not keep it for the next removal.
func TestAUsedConfirmationGoes(t *testing.T) {
	t.Parallel()
	d := plan.Next(plan.Observation{Object: service(annotated("fleet.underway.dev/confirm", "RemovalHeld/max:300")), Members: map[string]plan.Member{
		"a": member("eu", there), "dead": member("us", unknown),
	}})
	if d.Confirm == nil || *d.Confirm != "" {
		t.Errorf("the confirmation stays: %q", asked(d))
	}
}

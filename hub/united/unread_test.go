package united

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
)

// TestAMemberWhoseCacheIsEmptied: a cache that is emptied between two looks, as on a reconnect, takes back nothing but what
// the children say. What the MemberCluster says stands: a pass without it would grant what is not to be granted there.
func TestAMemberWhoseCacheIsEmptied(t *testing.T) {
	t.Parallel()
	b := newBench(t, crd("cluster"), web())
	mc := &fleetv1alpha1.MemberCluster{}
	if err := b.Client.Get(t.Context(), types.NamespacedName{Name: "east"}, mc); err != nil {
		t.Fatal(err)
	}
	mc.Labels = map[string]string{"tier": "web"}
	mc.Spec.Drain, mc.Spec.DuringUpgrade = true, fleetv1alpha1.UpgradeHold
	mc.Spec.AllowedNamespaces = nil
	mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{
		Type: fleetv1alpha1.ConditionUpgrading, Status: metav1.ConditionTrue, Reason: "Upgrading", LastTransitionTime: metav1.NewTime(b.clock.Now()),
	})
	if err := b.Client.Update(t.Context(), mc); err != nil {
		t.Fatal(err)
	}
	look := func() plan.Member {
		seen, err := b.observe(t.Context(), ctrl.Request{NamespacedName: b.name})
		if err != nil {
			t.Fatal(err)
		}
		return seen.Members["east"]
	}
	want := look()
	if !want.Ready || want.NoGrants == "" || want.NotAllowed == "" || !want.Draining {
		t.Fatalf("at first it is %+v", want)
	}
	b.members.emptied = true
	want.Ready, want.Settling = false, true
	if diff := cmp.Diff(want, look()); diff != "" {
		t.Errorf("emptied (-want +got):\n%s", diff)
	}
}

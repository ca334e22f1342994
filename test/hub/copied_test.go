//go:build lab

package hub

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// TestLongCopiedHub: a hub's backup is restored beside it, and both run. The copy is behind, and does nothing; each sees the
// other in the Lease on the member, and both stop. A person who confirms one of the two reasons on the copy lets nothing out;
// when the copy is gone, the original goes on once it is confirmed.
//
// It takes some minutes: another hub is one that renews its Lease twice, which it does every 20 s.
func TestLongCopiedHub(t *testing.T) {
	long(t)
	w := newWorld(t, "east")
	w.startHub("hub-original", "--leader-elect=false")
	u := w.united("{east: 0}", map[string]int{"east": 4})
	backup, err := w.lab.Hub().Backup(t.Context())
	w.must(err)
	u.edit(v2, "{east: 0}")
	u.settled(v2)
	beside, err := w.lab.AddMember(t.Context(), "copy")
	w.must(err)
	w.must(beside.Restore(t.Context(), backup))

	u.mark()
	other := &world{T: t, fleet: &fleet{lab: w.lab, hub: w.client(beside), at: w.at, ways: w.ways, services: map[string]*lab.Service{}}}
	process := other.serve("hub-copy", "underway-hub", "--kubeconfig", beside.Kubeconfig(), "--leader-elect=false", "--v", "2")
	t.Cleanup(process.End)
	copied := &united{world: other, ns: u.ns, replicas: u.replicas, marks: u.marks}
	other.conditioned("east", fleetv1alpha1.ConditionHubBehind, metav1.ConditionTrue, "kubectl underway confirm hub")
	copied.edit("app:of-the-copy", "{east: 0}")
	other.conditioned("east", fleetv1alpha1.ConditionTwoHubs, metav1.ConditionTrue, "kubectl underway confirm hub")
	w.conditioned("east", fleetv1alpha1.ConditionTwoHubs, metav1.ConditionTrue, "kubectl underway confirm hub")
	u.edit(v3, "{east: 0}")
	still := func(what string) {
		t.Helper()
		time.Sleep(10 * time.Second)
		if got := u.writes("east"); len(got) > 0 {
			t.Fatalf("%s: %v", what, got)
		}
		if n := u.running(t.Context(), "east", u.ns, v2); n != 4 {
			t.Fatalf("%s: %d pods run %s", what, n, v2)
		}
	}
	still("two hubs wrote")
	t.Logf("%s", w.kubectlAt(beside, "confirm", "hub", "--yes"))
	still("a copy of which one of two reasons is confirmed wrote")

	process.End()
	w.kubectl("confirm", "hub", "--yes")
	u.settled(v3)
	w.conditioned("east", fleetv1alpha1.ConditionTwoHubs, "absent")
	u.writtenOnce("east", 1)
}

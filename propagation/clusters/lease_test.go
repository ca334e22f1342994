package clusters

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestLeaseMemory(t *testing.T) {
	t.Parallel()
	type look struct {
		holder  string
		version int
		after   time.Duration
		want    leaseStep
	}
	cases := map[string][]look{
		"ours is renewed":                     {{"me", 1, 0, leaseRenew}, {"me", 2, 20 * time.Second, leaseRenew}},
		"nobody's is taken":                   {{"", 1, 0, leaseRenew}},
		"a dead holder is taken after expiry": {{"old", 1, 0, leaseWait}, {"old", 1, 40 * time.Second, leaseWait}, {"old", 1, 60 * time.Second, leaseTake}},
		"one late renewal is no second hub": {
			{"old", 1, 0, leaseWait}, {"old", 2, 20 * time.Second, leaseWait}, {"old", 2, 79 * time.Second, leaseWait}, {"old", 2, 80 * time.Second, leaseTake},
		},
		"two renewals are": {{"clone", 1, 0, leaseWait}, {"clone", 2, 20 * time.Second, leaseWait}, {"clone", 3, 40 * time.Second, leaseTwoHubs}},
		"another holder who renews starts anew": {
			{"a", 1, 0, leaseWait}, {"a", 2, 20 * time.Second, leaseWait}, {"b", 3, 40 * time.Second, leaseWait}, {"b", 4, 60 * time.Second, leaseWait}, {"b", 5, 80 * time.Second, leaseTwoHubs},
		},
		"after it was ours another one starts from nothing": {
			{"clone", 1, 0, leaseWait}, {"clone", 2, 20 * time.Second, leaseWait}, {"me", 3, 40 * time.Second, leaseRenew}, {"clone", 4, 60 * time.Second, leaseWait},
		},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m leaseMemory
			start := time.Unix(1000, 0)
			for i, l := range looks {
				lease := &coordinationv1.Lease{}
				lease.ResourceVersion = fmt.Sprint(l.version)
				lease.Spec.HolderIdentity = &l.holder
				if got := m.observe(lease, "me", start.Add(l.after), time.Minute); got != l.want {
					t.Fatalf("look %d (%+v): %s, want %s", i, l, got, l.want)
				}
			}
		})
	}
}

package peer

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	lease := func(renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("them"), RenewTime: &metav1.MicroTime{Time: renewed},
		}}
	}
	released := lease(now)
	released.Spec.HolderIdentity = new("")
	hour := -time.Hour
	type look struct {
		at    time.Duration
		lease *coordinationv1.Lease
		alive bool
	}
	cases := map[string][]look{
		"no Lease":         {{0, nil, false}},
		"renewed just now": {{0, lease(now.Add(-59 * time.Second)), true}},
		"renewed a while ago": {
			{0, lease(now.Add(-61 * time.Second)), true}, // it may be a clock that is behind
			{10 * time.Second, lease(now.Add(-61 * time.Second)), false},
		},
		"released":                      {{0, released, false}},
		"their clock is ahead":          {{0, lease(now.Add(time.Hour)), true}},
		"their clock is an hour behind": {{0, lease(now.Add(hour)), true}, {10 * time.Second, lease(now.Add(hour + 10*time.Second)), true}},
		"they stop renewing": {
			{0, lease(now.Add(hour)), true},
			{10 * time.Second, lease(now.Add(hour + 10*time.Second)), true},
			{69 * time.Second, lease(now.Add(hour + 10*time.Second)), true},
			{71 * time.Second, lease(now.Add(hour + 10*time.Second)), false},
		},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w Watch
			for i, l := range looks {
				if alive := w.Look(l.lease, now.Add(l.at)) != ""; alive != l.alive {
					t.Errorf("look %d: alive %t, want %t", i, alive, l.alive)
				}
			}
		})
	}
}

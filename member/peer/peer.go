package peer

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// Names of OpenKruise's leader Lease.
const (
	OpenKruiseNamespace = "kruise-system"
	OpenKruiseLease     = "kruise-manager"
)

// Fresh is how long after its last renewal a peer counts as alive.
const Fresh = time.Minute

// Watch remembers what was seen of one Lease. The zero value has seen nothing.
type Watch struct {
	renewed time.Time
	looked  bool
	// changed is when, by our clock, the renewal was seen to change.
	changed time.Time
}

// Look judges the Lease as it is at now and returns who holds it, empty when nobody alive does. A nil Lease is absent.
func (w *Watch) Look(lease *coordinationv1.Lease, now time.Time) (holder string) {
	if lease == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.RenewTime == nil {
		*w = Watch{looked: true}
		return ""
	}
	renewed := lease.Spec.RenewTime.Time
	// At the first look an old renewal may be a clock that is behind: whoever holds the Lease counts as alive until a
	// second look finds it unchanged.
	first := !w.looked
	if w.looked && !w.renewed.IsZero() && !renewed.Equal(w.renewed) {
		w.changed = now
	}
	w.renewed, w.looked = renewed, true
	recent := now.Sub(renewed) < Fresh
	moving := !w.changed.IsZero() && now.Sub(w.changed) < Fresh
	if recent || moving || first {
		return *lease.Spec.HolderIdentity
	}
	return ""
}

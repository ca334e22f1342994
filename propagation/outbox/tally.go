package outbox

import (
	"maps"

	"github.com/underway-dev/underway/propagation/changeset"
)

// Tally counts, for one member, since the process began.
type Tally struct {
	// Writes are the operations that were sent and accepted, by operation.
	Writes map[changeset.Op]int64
	// Refusals are the changes into a state in which the member, or somebody on it, does not take what is wanted: Conflict,
	// Refused, Failed, NamespaceMissing, NamespaceTerminating and KindMissing. What stays refused counts once.
	Refusals map[State]int64
}

func newTally() *Tally {
	return &Tally{Writes: map[changeset.Op]int64{}, Refusals: map[State]int64{}}
}

// Depth is, per member with anything posted, how many objects are not as they are wanted, whatever they wait for; and how
// many objects of all members are in each state.
func (o *Outbox) Depth() (byMember map[string]int, byState map[State]int) {
	byMember, byState = map[string]int{}, map[State]int{}
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, e := range o.entries {
		byState[e.outcome.State]++
		waits := 0
		if e.outcome.State != StateDone {
			waits = 1
		}
		byMember[key.Member] += waits
	}
	return byMember, byState
}

// Tallies are the counts of every member that anything was posted for and that is still known.
func (o *Outbox) Tallies() map[string]Tally {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make(map[string]Tally, len(o.tallies))
	for member, t := range o.tallies {
		out[member] = Tally{Writes: maps.Clone(t.Writes), Refusals: maps.Clone(t.Refusals)}
	}
	return out
}

// countWrite notes an accepted write.
func (o *Outbox) countWrite(member string, op changeset.Op) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.tallies[member]; t != nil {
		t.Writes[op]++
	}
}

// countRefusal needs mu; before and after are the states of one object.
func (o *Outbox) countRefusal(member string, before, after State) {
	if before == after || !after.refuses() {
		return
	}
	if t := o.tallies[member]; t != nil {
		t.Refusals[after]++
	}
}

// refuses is true for the states that Tally.Refusals counts.
func (s State) refuses() bool {
	switch s {
	case StateConflict, StateRefused, StateFailed, StateNamespaceMissing, StateNamespaceTerminating, StateKindMissing:
		return true
	case StatePending, StateDone, StateMemberNotReady, StateFrozen, StateStopped, StateNotLeading, StateReplan, StateMissing,
		StateTerminating, StateUnwantedDelete:
		return false
	}
	return false
}

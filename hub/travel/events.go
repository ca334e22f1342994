package travel

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/underway-dev/underway/hub/travel/plan"
	"github.com/underway-dev/underway/propagation/outbox"
)

// maxNote is what an event's note may hold.
const maxNote = 1000

// stands is how long a result must stay the same before it is told, again how often a trouble that stays is told anew: events
// are kept for an hour.
const (
	stands = 2 * time.Second
	again  = 30 * time.Minute
)

// telling is what was told of an object.
type telling struct {
	// last was told at; seen is the present one, since when.
	last, seen string
	at, since  time.Time
	// took is, by member, the last write whose taken-back fields were told.
	took map[string]time.Time
}

// tell gives out what became of an object when that has changed, and says when to look again.
func (r *Reconciler) tell(seen *observation, s *plan.Summary) time.Duration {
	r.tellTaken(seen)
	t, now := &seen.memory.told, r.Clock.Now()
	if s.Note != t.seen {
		t.seen, t.since = s.Note, now
	}
	settled := now.Sub(r.startedAt()) >= r.SettleTime
	stale := s.Warning && now.Sub(t.at) >= again
	switch {
	case s.Note == "", s.Note == t.last && !stale:
		return r.later(s)
	case s.Moving || now.Sub(t.since) < stands:
		return stands
	case s.Warning && !settled:
		return r.SettleTime
	}
	first := t.last == ""
	t.last, t.at = s.Note, now
	if !first || !s.Quiet || r.wrote(seen) {
		r.event(seen, s.Warning, s.Reason, s.Note)
	}
	return r.later(s)
}

func (r *Reconciler) later(s *plan.Summary) time.Duration {
	if s.Warning {
		return again
	}
	return 0
}

func (r *Reconciler) startedAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started
}

// wrote is true when this process has written anything of the object: what a restart finds in order is not told.
func (r *Reconciler) wrote(seen *observation) bool {
	for member := range seen.memory.posted {
		if o, ok := r.Outbox.Outcome(seen.outboxKey(member)); ok && !o.WrittenAt.IsZero() {
			return true
		}
	}
	return false
}

// tellTaken names who wrote over our fields on a member; each write is told once.
func (r *Reconciler) tellTaken(seen *observation) {
	t := &seen.memory.told
	if t.took == nil {
		t.took = map[string]time.Time{}
	}
	for member := range seen.memory.posted {
		o, ok := r.Outbox.Outcome(seen.outboxKey(member))
		if !ok || len(o.TookBack) == 0 || !o.WrittenAt.After(t.took[member]) {
			continue
		}
		t.took[member] = o.WrittenAt
		r.event(seen, true, "TookBack", "Took back in member "+member+": "+fields(o.TookBack)+"; change it on the hub instead")
	}
}

func fields(taken []outbox.Taken) string {
	out := make([]string, 0, len(taken))
	for _, t := range taken {
		out = append(out, fmt.Sprintf("%s from %s", t.Field, t.Manager))
	}
	return strings.Join(out, ", ")
}

func (r *Reconciler) event(seen *observation, warning bool, reason, note string) {
	if r.Events == nil {
		return
	}
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	if len(note) > maxNote {
		note = note[:maxNote-4] + " ..."
	}
	r.Events.Eventf(seen.meta, nil, kind, reason, reason, "%s", note)
}

// count notes the result for the metric.
func (r *Reconciler) count(seen *observation, s *plan.Summary) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen.memory.counts = s.Counts
}

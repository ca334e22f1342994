package united

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/propagation/outbox"
)

// reasonTookBack is the reason of the event that names who changed a field of ours on a member.
const reasonTookBack = "TookBack"

// maxNote is what an event's note may hold.
const maxNote = 1000

// tell gives out what happened.
func (r *Reconciler) tell(ud *appsv1alpha1.UnitedDeployment, happened []plan.Event) {
	if r.Events == nil {
		return
	}
	for _, e := range happened {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		note := e.Message
		if len(note) > maxNote {
			note = note[:maxNote-4] + " ..."
		}
		r.Events.Eventf(ud, nil, kind, e.Reason, e.Reason, "%s", note)
	}
}

// takenBack are the events about fields that were taken back since the last look. Each write is told once; a restart
// forgets what was told and what was written alike.
func (r *Reconciler) takenBack(m *memory) []plan.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []plan.Event
	keys := slices.AppendSeq(slices.Collect(maps.Keys(m.posted)), maps.Keys(m.travel.posted))
	for _, key := range keys {
		o, ok := r.Outbox.Outcome(key)
		if !ok || len(o.TookBack) == 0 || !o.WrittenAt.After(m.toldAt[key]) {
			continue
		}
		m.toldAt[key] = o.WrittenAt
		out = append(out, plan.Event{Warning: true, Reason: reasonTookBack, Message: takenBack(key, o.TookBack)})
	}
	slices.SortFunc(out, func(a, b plan.Event) int { return strings.Compare(a.Message, b.Message) })
	return out
}

func takenBack(key outbox.Key, taken []outbox.Taken) string {
	var fields []string
	for _, t := range taken {
		fields = append(fields, fmt.Sprintf("%s from %s", t.Field, t.Manager))
	}
	where := "this cluster"
	if key.Member != "" {
		where = "member " + key.Member
	}
	return fmt.Sprintf("Took back in %s, %s %s: %s; change it on the hub instead", where, key.GVK.Kind, key.Name, strings.Join(fields, ", "))
}

package united

import (
	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
)

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

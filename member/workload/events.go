package workload

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/recorder"
)

// maxNote is what the API server takes as an event's note, with room for its words.
const maxNote = 1000

// populationEvents say what became of scaling, one event a pass whatever the number of pods.
func populationEvents(d inplace.Decision, a acted) []inplace.Event {
	var out []inplace.Event
	if a.Created > 0 && len(d.Creates) > 0 {
		out = append(out, inplace.Event{
			Type: corev1.EventTypeNormal, Reason: "Created",
			Message: fmt.Sprintf("Created %s: %s", pods(a.Created), d.Creates[0].Because),
		})
	}
	if a.Deleted > 0 && len(d.Deletes) > 0 {
		out = append(out, inplace.Event{
			Type: corev1.EventTypeNormal, Reason: "Deleted",
			Message: fmt.Sprintf("Deleted %s: %s", pods(a.Deleted), d.Deletes[0].Because),
		})
	}
	if a.ClaimsCreated > 0 {
		out = append(out, inplace.Event{
			Type: corev1.EventTypeNormal, Reason: "ClaimsCreated", Message: fmt.Sprintf("Created claims for new pods: %d", a.ClaimsCreated),
		})
	}
	if a.ClaimsDeleted > 0 {
		because := "with their pods"
		if len(d.ClaimDeletes) > 0 {
			because = d.ClaimDeletes[0].Because
		}
		out = append(out, inplace.Event{
			Type: corev1.EventTypeNormal, Reason: "ClaimsDeleted", Message: fmt.Sprintf("Deleted %d claims: %s", a.ClaimsDeleted, because),
		})
	}
	return out
}

// membershipEvents say who was adopted and who was let go.
func membershipEvents(m members) []inplace.Event {
	var out []inplace.Event
	if len(m.join) > 0 {
		out = append(out, inplace.Event{
			Type: corev1.EventTypeNormal, Reason: "Adopted", Message: "Adopted pods that match the selector: " + some(podNames(m.join)),
		})
	}
	if len(m.leave) > 0 {
		out = append(out, inplace.Event{
			Type: corev1.EventTypeNormal, Reason: "Released", Message: "Released pods that do not match the selector any more: " + some(podNames(m.leave)),
		})
	}
	return out
}

func podNames(all []corev1.Pod) []string {
	out := make([]string, 0, len(all))
	for i := range all {
		out = append(out, all[i].Name)
	}
	slices.Sort(out)
	return out
}

// struckOut says which names were taken out of podsToDelete.
func struckOut(names []string) inplace.Event {
	return inplace.Event{
		Type: corev1.EventTypeNormal, Reason: "PodsToDeleteCleaned",
		Message: "Took pods that do not exist out of spec.scaleStrategy.podsToDelete: " + some(names),
	}
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// conditionEvents are the warnings that were not in the last status: written once, because the status remembers them.
func conditionEvents(before, after []metav1.Condition) []inplace.Event {
	var out []inplace.Event
	for _, kind := range []string{
		appsv1alpha1.ConditionInvalid, appsv1alpha1.ConditionNotActedOn, appsv1alpha1.ConditionUnknownFields,
		appsv1alpha1.ConditionFailedUpdate, appsv1alpha1.ConditionFailedScale,
		appsv1alpha1.ConditionFailedUpdatePod, appsv1alpha1.ConditionFailedCreatePod, appsv1alpha1.ConditionWarning,
	} {
		is, was := meta.FindStatusCondition(after, kind), meta.FindStatusCondition(before, kind)
		if is == nil || (was != nil && was.Message == is.Message) {
			continue
		}
		out = append(out, inplace.Event{Type: corev1.EventTypeWarning, Reason: kind, Message: is.Message})
	}
	is, was := meta.FindStatusCondition(after, appsv1alpha1.ConditionProgressing), meta.FindStatusCondition(before, appsv1alpha1.ConditionProgressing)
	if is != nil && is.Reason == reasonDeadline && (was == nil || was.Reason != is.Reason) {
		out = append(out, inplace.Event{Type: corev1.EventTypeWarning, Reason: is.Reason, Message: is.Message})
	}
	return out
}

// tell writes the events of what was done.
func (r *Reconciler) tell(ctx context.Context, seen *observation, d inplace.Decision, a acted) {
	for _, e := range populationEvents(d, a) {
		r.emit(seen, e)
	}
	if !a.ok || a.Patched == 0 && len(d.Patches) > 0 {
		return
	}
	for _, e := range d.Events {
		// Each is another step, at most one for ten pods: client-go would count the second release of an hour as the first one
		// again, and show its words.
		r.emitAs(seen, e, recorder.Action(e.Reason, e.Message))
		ctrl.LoggerFrom(ctx).V(2).Info("Event", "reason", e.Reason, "message", e.Message)
	}
}

func (r *Reconciler) tellConditions(seen *observation, now []metav1.Condition) {
	for _, e := range conditionEvents(seen.wanted.Status.Conditions, now) {
		r.emit(seen, e)
	}
}

func (r *Reconciler) emit(seen *observation, e inplace.Event) {
	r.emitAs(seen, e, e.Reason)
}

func (r *Reconciler) emitAs(seen *observation, e inplace.Event, action string) {
	if r.Events == nil {
		return
	}
	note := e.Message
	if len(note) > maxNote {
		note = note[:maxNote] + "..."
	}
	r.Events.Eventf(seen.obj, nil, e.Type, e.Reason, action, "%s", note)
}

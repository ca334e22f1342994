package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// GitOps tools read Ready, Reconciling and Stalled (kstatus). Ready True is healthy, and a release that is held at its
// partition is: everything granted is done, and the rest waits for a decision that no tool should time out on. Stalled is
// what only a person moves; anything else that is not Ready is Reconciling. Both are absent where they do not apply.

// stalledAfter is how long what depends on members or their pods may last before it counts as stalled: as long as
// Kubernetes lets a Deployment be without progress.
const stalledAfter = 10 * time.Minute

// kstatus derives Reconciling and Stalled from the other conditions.
func (p *pass) kstatus() {
	if p.status.ObservedGeneration != p.United.Generation || p.unsettled {
		return // nothing is known yet that could change what was said
	}
	ready := meta.FindStatusCondition(p.status.Conditions, appsv1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		p.clear(appsv1alpha1.ConditionReconciling)
		p.clear(appsv1alpha1.ConditionStalled)
		return
	}
	if reason, message := p.stalled(); reason != "" && p.United.DeletionTimestamp == nil {
		p.clear(appsv1alpha1.ConditionReconciling)
		p.set(appsv1alpha1.ConditionStalled, reason, message)
		return
	}
	p.clear(appsv1alpha1.ConditionStalled)
	p.set(appsv1alpha1.ConditionReconciling, ready.Reason, ready.Message)
}

// stalled says what waits for a person: what is wrong with the object itself at once, what is wrong with a member or with
// pods when it lasts.
func (p *pass) stalled() (reason, message string) {
	for _, kind := range []string{
		appsv1alpha1.ConditionInvalid, appsv1alpha1.ConditionTemplateInvalid, appsv1alpha1.ConditionRefused,
		appsv1alpha1.ConditionConflict, appsv1alpha1.ConditionRemovalHeld,
	} {
		if c := meta.FindStatusCondition(p.status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return kind, c.Message
		}
	}
	var out []string
	for i := range p.status.SubsetStatuses {
		e := &p.status.SubsetStatuses[i]
		if word := waitsForMember(e); word != "" && p.lasts(e.Since) {
			out, reason = append(out, e.Name+": "+e.Message), cmp.Or(reason, word)
		} else if len(e.Failing) > 0 && !e.Stale && p.lasts(e.Failing[0].Since) {
			out, reason = append(out, e.Name+": "+suffered(e)), cmp.Or(reason, appsv1alpha1.ConditionPodsFailing)
		}
	}
	return reason, strings.Join(out, "; ")
}

// waitsForMember is the state of a subset that waits for somebody who looks after its member; "" for the others.
func waitsForMember(e *appsv1alpha1.SubsetStatus) string {
	if slices.Contains([]string{stateNamespaceMissing, stateNotServed, stateNotAllowed, stateWaiting, stateStale, stateStuck}, e.State) {
		return e.State
	}
	return ""
}

// lasts is true for what began long enough ago; for the rest there is another look.
func (p *pass) lasts(since *metav1.Time) bool {
	if since == nil {
		return false
	}
	left := since.Add(stalledAfter).Sub(p.now)
	if left > 0 {
		p.lookAgain(left)
	}
	return left <= 0
}

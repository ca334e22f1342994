package plan

import (
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// maxMessage is what a condition's message may hold (the API's own limit is 32768 bytes).
const maxMessage = 4096

func equal(a, b any) bool { return apiequality.Semantic.DeepEqual(a, b) }

// set makes a condition True.
func (p *pass) set(kind, reason, message string) {
	p.condition(kind, metav1.ConditionTrue, reason, message)
}

// setFalse makes a condition False.
func (p *pass) setFalse(kind, reason, message string) {
	p.condition(kind, metav1.ConditionFalse, reason, message)
}

// condition writes a condition; its time moves only when its status does.
func (p *pass) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-4], "") + " ..."
	}
	next := metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: p.United.Generation, LastTransitionTime: *second(p.now),
	}
	list := &p.status.Conditions
	at := slices.IndexFunc(*list, func(c metav1.Condition) bool { return c.Type == kind })
	if at < 0 {
		*list = append(*list, next)
		slices.SortFunc(*list, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
		return
	}
	if (*list)[at].Status == status {
		next.LastTransitionTime = (*list)[at].LastTransitionTime
	}
	(*list)[at] = next
}

// clear takes a condition away: what does not apply is not shown.
func (p *pass) clear(kind string) {
	p.status.Conditions = slices.DeleteFunc(p.status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
}

// setIf sets a condition when there is a message, and clears it otherwise.
func (p *pass) setIf(kind, reason, message string) {
	if message == "" {
		p.clear(kind)
		return
	}
	p.set(kind, reason, message)
}

// sayFields names what is accepted and not acted on, and what this build does not know.
func (p *pass) sayFields() {
	p.setIf(appsv1alpha1.ConditionNotActedOn, "NotActedOnYet", prefixed("accepted and not acted on by this version: ", p.unacted))
	p.setIf(appsv1alpha1.ConditionUnknownFields, "UnknownToThisBuild", prefixed("not known to this build, they travel all the same: ", p.unknown))
	p.setIf(appsv1alpha1.ConditionDeprecatedFields, "Superseded", prefixed("honoured, and superseded by the field in brackets: ", p.United.Spec.Deprecated()))
}

func prefixed(prefix string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	return prefix + strings.Join(list, ", ")
}

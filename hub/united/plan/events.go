package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// reasonChildGone is the reason of the event about a child that somebody deleted on its member.
const reasonChildGone = "ChildGone"

// happened finishes the status with what the other conditions come to, and compares it with the one before.
func (p *pass) happened() {
	p.kstatus()
	was, now := p.was, p.status
	if now.Release != nil && (was.Release == nil || was.Release.Revision != now.Release.Revision) && was.CurrentRevision != "" {
		p.event("ReleaseStarted", "revision %s replaces %s, which was completed", now.UpdatedRevision, now.CurrentRevision)
	}
	p.granted()
	if was.CurrentRevision != "" && was.CurrentRevision != now.CurrentRevision {
		p.event("ReleaseFinished", "revision %s is completed in every subset", now.CurrentRevision)
	}
	for _, kind := range []string{
		appsv1alpha1.ConditionInvalid, appsv1alpha1.ConditionTemplateInvalid, appsv1alpha1.ConditionRefused, appsv1alpha1.ConditionConflict, appsv1alpha1.ConditionUnknownSubsets,
		appsv1alpha1.ConditionNotAllowed, appsv1alpha1.ConditionNamespaceMissing, appsv1alpha1.ConditionRemovalHeld,
		appsv1alpha1.ConditionStale, appsv1alpha1.ConditionNotActedOn, appsv1alpha1.ConditionUnknownFields,
		appsv1alpha1.ConditionDeprecatedFields, appsv1alpha1.ConditionAllocation, appsv1alpha1.ConditionHeld,
		appsv1alpha1.ConditionPodsFailing, appsv1alpha1.ConditionLeftBehind,
	} {
		p.appeared(kind)
	}
	p.leftWithMember()
	p.gone()
	if p.out.DropFinalizer && p.Ending == EndingOrphan {
		p.event("ChildrenLetGo", "the children stay where they are, marked as let go")
	}
}

// leftWithMember names what an entry that is dropped with its MemberCluster leaves behind: nobody else will.
func (p *pass) leftWithMember() {
	if p.United.DeletionTimestamp != nil {
		return
	}
	for i := range p.was.SubsetStatuses {
		e := &p.was.SubsetStatuses[i]
		if _, known := p.Members[e.Cluster]; known || e.Workload == "" {
			continue
		}
		still := slices.ContainsFunc(p.status.SubsetStatuses, func(s appsv1alpha1.SubsetStatus) bool { return s.Name == e.Name && s.Cluster == e.Cluster })
		if still {
			continue
		}
		p.out.Happened = append(p.out.Happened, Event{Warning: true, Reason: appsv1alpha1.ConditionLeftBehind, Message: fmt.Sprintf(
			"subset %s is not listed any more, because MemberCluster %s does not exist; %s %s stays there as it is", e.Name, e.Cluster, e.Kind, e.Workload)})
	}
}

// gone warns of a child that had pods and is not there any more, though nobody here took it away (B159): in the pass that
// finds it missing, and once, because the entry has no pods from then on.
func (p *pass) gone() {
	if p.United.DeletionTimestamp != nil {
		return
	}
	for _, pl := range p.places {
		e := pl.entry
		if e == nil || pl.child != nil || len(pl.others) > 0 || pl.old.Replicas == 0 || e.Replicas > 0 || !p.Members[pl.cluster].Ready {
			continue
		}
		where := "this cluster"
		if pl.cluster != "" {
			where = "member " + pl.cluster
		}
		p.out.Happened = append(p.out.Happened, Event{Warning: true, Reason: reasonChildGone, Message: fmt.Sprintf(
			"subset %s: %s %s with %s is gone from %s, and this hub did not delete it; %s", pl.name, pl.old.Kind, pl.old.Workload, pods(int(pl.old.Replicas)), where, e.Message)})
	}
}

// appeared warns of a condition that was not there before, or says something else.
func (p *pass) appeared(kind string) {
	now := meta.FindStatusCondition(p.status.Conditions, kind)
	was := meta.FindStatusCondition(p.was.Conditions, kind)
	if now == nil || (was != nil && (was.Message == now.Message || slices.Contains(toldOnce(), kind))) {
		return
	}
	p.out.Happened = append(p.out.Happened, Event{Warning: true, Reason: kind, Message: now.Message})
}

// toldOnce are the conditions whose words follow numbers: a warning each time would be one per pod.
func toldOnce() []string {
	return []string{appsv1alpha1.ConditionHeld, appsv1alpha1.ConditionStale, appsv1alpha1.ConditionPodsFailing}
}

// granted names the grants that grew in a release.
func (p *pass) granted() {
	was, now := p.was.Release, p.status.Release
	if was == nil || now == nil || !p.underWay() {
		return
	}
	var parts []string
	for name, n := range now.Grants {
		before := was.Grants[name]
		if was.Revision != now.Revision {
			before = 0
		}
		if n > before {
			parts = append(parts, fmt.Sprintf("%s %d of %d", name, n, p.status.SubsetReplicas[name]))
		}
	}
	if len(parts) > 0 {
		slices.Sort(parts)
		p.event("Granted", "pods that may run %s: %s", now.Revision, strings.Join(parts, ", "))
	}
}

func (p *pass) event(reason, format string, args ...any) {
	p.out.Happened = append(p.out.Happened, Event{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

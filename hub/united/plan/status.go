package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// complete moves the completed revision on: when every subset in the plan has partition 0 and a fresh report of all
// replicas updated. A member that is not heard from has no fresh report; a subset that the revision does not change is
// finished whatever its partition.
func (p *pass) complete() {
	if !p.underWay() || len(p.places) == 0 || p.refused != "" {
		return
	}
	if p.all(func(pl *place) bool { return pl.done && !pl.entry.Stale }) {
		p.status.CurrentRevision = p.target
	}
}

func (p *pass) all(f func(*place) bool) bool {
	return !slices.ContainsFunc(p.places, func(pl *place) bool { return !f(pl) })
}

// where lists the places, sorted as in the spec, for which f says something: as many as a condition's message holds.
func (p *pass) where(f func(*place) string) string {
	var out strings.Builder
	for _, pl := range p.places {
		text := f(pl)
		switch {
		case text == "":
			continue
		case out.Len() > maxMessage:
			return out.String() // what is more is cut off
		case out.Len() > 0:
			out.WriteString("; ")
		}
		out.WriteString(pl.name + ": " + text)
	}
	return out.String()
}

// inState is the message of every place in a state.
func (p *pass) inState(states ...string) string {
	return p.where(func(pl *place) string {
		if slices.Contains(states, pl.entry.State) {
			return pl.entry.Message
		}
		return ""
	})
}

// summarise writes totals and conditions.
func (p *pass) summarise() {
	s := p.status
	s.ObservedGeneration = p.United.Generation
	if selector, err := metav1.LabelSelectorAsSelector(p.United.Spec.Selector); err == nil {
		s.LabelSelector = selector.String()
	}
	p.polish()
	p.totals()
	if p.unsettled && p.was.ObservedGeneration == p.United.Generation {
		s.Conditions = p.was.DeepCopy().Conditions // nothing is known yet that could change what was said
	} else {
		p.conditions()
	}
	p.moveHeard()
}

func (p *pass) totals() {
	s := p.status
	s.Replicas, s.ReadyReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas = 0, 0, 0, 0
	s.UpdatedInPlace, s.Recreated, s.ReservedPods = 0, 0, 0
	s.SubsetReplicas = make(map[string]int32, len(p.places))
	s.UpdateStatus = &appsv1alpha1.UpdateStatus{UpdatedRevision: p.status.UpdatedRevision, CurrentPartitions: make(map[string]int32, len(p.places))}
	for _, pl := range p.places {
		s.SubsetReplicas[pl.name] = pl.replicas
		s.UpdateStatus.CurrentPartitions[pl.name] = pl.entry.Partition
	}
	for _, e := range p.outside() {
		s.SubsetReplicas[e.Name], s.UpdateStatus.CurrentPartitions[e.Name] = e.DesiredReplicas, e.Partition
	}
	for i := range s.SubsetStatuses {
		e := &s.SubsetStatuses[i]
		add(&s.Replicas, e.Replicas-e.ReservedPods) // as upstream: an autoscaler must not count pods that others stand in for
		add(&s.ReservedPods, e.ReservedPods)
		add(&s.ReadyReplicas, e.ReadyReplicas)
		add(&s.UpdatedReplicas, e.UpdatedReplicas)
		add(&s.UpdatedReadyReplicas, e.UpdatedReadyReplicas)
		if e.Report != nil {
			add(&s.UpdatedInPlace, e.Report.UpdatedInPlace)
			add(&s.Recreated, e.Report.Recreated)
		}
	}
	p.countOnce()
}

// add sums what members say. One that says too much must not turn the sum negative, which an autoscaler reads.
func add(sum *int32, n int32) {
	*sum = int32(min(int64(*sum)+int64(max(n, 0)), math.MaxInt32)) //nolint:gosec // just bounded
}

// moveHeard moves the times at which members were heard only when something else has changed: a time alone is no write.
func (p *pass) moveHeard() {
	if sameButHeard(p.status, p.was) {
		for i := range p.status.SubsetStatuses {
			if e := &p.status.SubsetStatuses[i]; i < len(p.was.SubsetStatuses) && p.was.SubsetStatuses[i].HeardAt != nil {
				e.HeardAt = p.was.SubsetStatuses[i].HeardAt
			}
		}
		return
	}
	for i := range p.status.SubsetStatuses {
		e := &p.status.SubsetStatuses[i]
		if m, ok := p.Members[e.Cluster]; ok && m.Ready && !e.Stale {
			if at := second(m.HeardAt); at != nil {
				e.HeardAt = at
			}
		}
	}
}

// sameButHeard compares all but the times at which members were heard. Maps and lists of a large fleet are compared by hand:
// by reflection they were a good part of a pass.
func sameButHeard(a, b *appsv1alpha1.UnitedDeploymentStatus) bool {
	if len(a.SubsetStatuses) != len(b.SubsetStatuses) || !maps.Equal(a.SubsetReplicas, b.SubsetReplicas) ||
		!sameRelease(a.Release, b.Release) || !samePartitions(a.UpdateStatus, b.UpdateStatus) {
		return false
	}
	for i := range a.SubsetStatuses {
		if !sameEntry(&a.SubsetStatuses[i], &b.SubsetStatuses[i]) {
			return false
		}
	}
	rest, other := *a, *b
	for _, s := range []*appsv1alpha1.UnitedDeploymentStatus{&rest, &other} {
		s.SubsetStatuses, s.SubsetReplicas, s.Release, s.UpdateStatus = nil, nil, nil, nil
	}
	return equal(&rest, &other)
}

// sameEntry compares all but HeardAt.
func sameEntry(a, b *appsv1alpha1.SubsetStatus) bool {
	return wordsOf(a) == wordsOf(b) && numbersOf(a) == numbersOf(b) && a.Stale == b.Stale && a.Since.Equal(b.Since) &&
		equal(a.Report, b.Report) && equal(a.Failing, b.Failing) && equal(a.Conditions, b.Conditions)
}

func wordsOf(e *appsv1alpha1.SubsetStatus) [8]string {
	return [...]string{e.Name, e.Cluster, e.SelectedBy, e.Workload, e.Kind, e.Revision, e.State, e.Message}
}

func numbersOf(e *appsv1alpha1.SubsetStatus) [9]int32 {
	return [...]int32{
		e.Replicas, e.DesiredReplicas, e.ReadyReplicas, e.AwaitedReplicas, e.UpdatedReplicas, e.UpdatedReadyReplicas,
		e.Partition, e.Granted, e.ReservedPods,
	}
}

func sameRelease(a, b *appsv1alpha1.ReleaseStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return maps.Equal(a.Replicas, b.Replicas) && maps.Equal(a.Grants, b.Grants) && slices.Equal(a.Order, b.Order) &&
		a.Revision == b.Revision && a.Epoch == b.Epoch && a.StartedAt.Equal(b.StartedAt)
}

func samePartitions(a, b *appsv1alpha1.UpdateStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UpdatedRevision == b.UpdatedRevision && maps.Equal(a.CurrentPartitions, b.CurrentPartitions)
}

func (p *pass) conditions() {
	p.clear(appsv1alpha1.ConditionInvalid)
	p.sayFields()
	p.setIf(appsv1alpha1.ConditionStale, "MemberNotHeardFrom", p.inState(stateStale))
	p.setIf(appsv1alpha1.ConditionPodsFailing, "PodsBroken", p.sufferedMessage())
	p.setIf(appsv1alpha1.ConditionLeftBehind, "MemberClusterDeleted", p.behindMessage())
	p.setIf(appsv1alpha1.ConditionConflict, "NotOurs", p.inState(stateConflict))
	p.setIf(appsv1alpha1.ConditionNotAllowed, "MemberDoesNotAllow", p.inState(stateNotAllowed))
	p.setIf(appsv1alpha1.ConditionNamespaceMissing, "NamespaceMissing", p.inState(stateNamespaceMissing))
	p.setIf(appsv1alpha1.ConditionAllocation, "Corrected", strings.Join(p.notes, "; "))
	p.setIf(appsv1alpha1.ConditionUnknownSubsets, "NoSuchSubset", prefixed("nothing moves for keys of partitions that name no subset: ", p.unknownKeys()))
	switch {
	case len(p.spoilt) > 0:
		p.clear(appsv1alpha1.ConditionRefused) // TemplateInvalid says it
	case p.refused != "":
		p.set(appsv1alpha1.ConditionRefused, p.refusedFor, "nothing moves: "+p.refused)
	default:
		p.setIf(appsv1alpha1.ConditionRefused, "RefusedByMember", p.inState(stateRefused))
	}
	p.setIf(appsv1alpha1.ConditionRemovalHeld, "NotConfirmed", p.removalMessage())
	p.setIf(appsv1alpha1.ConditionUnselected, "NoTemplateMatches", p.asideMessage(false))
	p.setIf(appsv1alpha1.ConditionJoining, "CannotTakeAChild", p.asideMessage(true))
	p.setIf(appsv1alpha1.ConditionHeld, "HeldAtPartition", p.heldMessage())
	p.progress()
	p.ready()
	p.templateInvalid()
}

func (p *pass) removalMessage() string {
	if p.removal == "" {
		return ""
	}
	return fmt.Sprintf("%s leave (%s) and their children stay until that is confirmed: kubectl underway confirm ud %s -n %s (annotation %s: %s/%s)",
		p.removal, p.removalOf, p.United.Name, p.United.Namespace, appsv1alpha1.AnnotationConfirm, ConfirmRemoval, p.removal)
}

// heldMessage names what waits for its partition, unnamed subsets first: nobody decided about those.
func (p *pass) heldMessage() string {
	if !p.underWay() || p.status.CurrentRevision == p.target || p.refused != "" {
		return ""
	}
	var unnamed, parts []string
	length := 0
	for _, pl := range p.places {
		switch {
		case pl.settled || pl.full():
		case pl.unnamed:
			unnamed = append(unnamed, pl.name)
		case length <= maxMessage: // what is more is cut off
			parts = append(parts, fmt.Sprintf("%s: %d of %d granted (%s)", pl.name, pl.grant, pl.replicas, pl.why))
			length += len(parts[len(parts)-1])
		}
	}
	if len(unnamed) > 0 {
		parts = append([]string{fmt.Sprintf("%s: held, because a fleet's subset that partitions does not name does not move; name it, or set manualUpdate.unnamed to Update",
			quoted(unnamed))}, parts...)
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + "; go on with: " + p.patchCommand(`"partitions"`, `{"SUBSET":NUMBER}`)
}

// progress writes upstream's three conditions.
func (p *pass) progress() {
	missing := p.where(func(pl *place) string {
		if pl.serving() == nil && !pl.entry.Stale {
			return pl.entry.State
		}
		return ""
	})
	switch {
	case missing != "":
		p.setFalse(appsv1alpha1.ConditionSubsetProvisioned, "ChildrenMissing", missing)
	default:
		p.set(appsv1alpha1.ConditionSubsetProvisioned, "Provisioned", "")
	}
	behind := p.where(func(pl *place) string {
		if pl.proven && !pl.entry.Stale {
			return ""
		}
		return pl.entry.State
	})
	switch {
	case behind != "":
		p.setFalse(appsv1alpha1.ConditionSubsetUpdated, "Behind", behind)
	default:
		p.set(appsv1alpha1.ConditionSubsetUpdated, "AsGranted", "")
	}
	finished := p.status.CurrentRevision == p.target && p.all(func(pl *place) bool { return pl.done && !pl.entry.Stale })
	switch {
	case finished:
		p.set(appsv1alpha1.ConditionUnitedDeploymentUpdated, "Updated", "")
	case p.underWay():
		p.setFalse(appsv1alpha1.ConditionUnitedDeploymentUpdated, "UnitedDeploymentRevisionUpdating",
			fmt.Sprintf("moving from %s to %s: %d of %d updated", p.completed, p.target, p.status.UpdatedReplicas, p.status.Replicas))
	default:
		p.setFalse(appsv1alpha1.ConditionUnitedDeploymentUpdated, "NotAllUpdated", p.notDone())
	}
}

func (p *pass) notDone() string {
	return p.where(func(pl *place) string {
		if pl.done {
			return ""
		}
		return pl.entry.State
	})
}

// ready is True when everything is as it was asked and granted: a subset held at its partition is healthy.
func (p *pass) ready() {
	problem := p.where(func(pl *place) string {
		e := pl.entry
		switch {
		case e.State == stateCurrent || e.State == stateHeld:
		case e.Message == "":
			return e.State
		default:
			return e.State + ", " + e.Message
		}
		if want := pl.wanted(); e.ReadyReplicas < e.Replicas || e.Replicas < want {
			return fmt.Sprintf("%d of %d pods ready", e.ReadyReplicas, want)
		}
		return ""
	})
	switch {
	case problem != "":
		p.setFalse(appsv1alpha1.ConditionReady, "NotAsGranted", problem)
	case p.removal != "":
		p.setFalse(appsv1alpha1.ConditionReady, "RemovalHeld", p.removalOf+", which is not confirmed: "+p.removal)
	case len(p.leavers) > 0 && len(p.status.SubsetStatuses) > len(p.places)+len(p.asides):
		p.setFalse(appsv1alpha1.ConditionReady, "Leaving", "subsets that were taken out of the list are still there")
	case p.status.CurrentRevision != p.target:
		p.set(appsv1alpha1.ConditionReady, "Held", "everything granted is updated and ready; the rest is held")
	default:
		p.set(appsv1alpha1.ConditionReady, "Current", "")
	}
}

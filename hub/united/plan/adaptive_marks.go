package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/subset"
)

// Reasons of a subset's condition Schedulable; upstream's words.
const (
	reasonCreated    = "created"
	reasonReschedule = "reschedule"
	reasonRecover    = "recover"
)

// renewEvery is the time between two writes of a mark that lasts shorter than that, 0 for instance, and would be renewed in every
// pass: a write that is seen, and so is the cause of the next.
const renewEvery = 10 * time.Second

// Reasons of a subset's condition Reachable while it is False.
const (
	// reasonNotHeard: the member is not heard from, and nothing is moved for it yet.
	reasonNotHeard = "NotHeardFrom"
	// reasonLost: not for so long that others stand in for it.
	reasonLost = "StoodInFor"
	// reasonComingBack: it is heard from again, and others stand in for it until it has been for a while.
	reasonComingBack = "ComingBack"
)

// WaitingEvery is the time between two looks at the pods of a child whose replicas may move.
const WaitingEvery = 5 * time.Second

// Waiting is what is looked at of a pod where replicas may move. The times are of the hub's clock, from when it saw it first.
type Waiting struct {
	// Revision is the subset revision that the pod carries.
	Revision string
	// Unscheduled is since when it has been waiting for a node; zero: it has one.
	Unscheduled time.Time
	// Ready is since when it has been ready; zero: it is not.
	Ready time.Time
}

// Scarce is true for a child whose pods are to be looked at, of an object whose replicas may move: it is short of ready pods,
// or pods of it are reserved.
func Scarce(ud *appsv1alpha1.UnitedDeployment, c *Child) bool {
	if ud.Spec.Topology.ScheduleStrategy.Type != appsv1alpha1.ScheduleAdaptive || c.Unreadable != "" || c.Report.Deleting {
		return false
	}
	for i := range ud.Status.SubsetStatuses {
		if e := &ud.Status.SubsetStatuses[i]; e.Name == c.Report.Subset && e.Cluster == c.Member && e.ReservedPods > 0 {
			return true
		}
	}
	return c.Report.Ready < max(c.Report.Replicas, deref(c.Report.SpecReplicas))
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// lost is true for a place that others stand in for because it is, or was until now, out of reach.
func (p *pass) lost(pl *place) bool {
	c := p.markOf(pl, appsv1alpha1.ConditionReachable)
	return p.unreachableAfter() != nil && c != nil && (c.Reason == reasonLost || c.Reason == reasonComingBack)
}

// mark judges what a place can hold from now on, and writes it down.
func (p *pass) mark(pl *place) {
	e := pl.entry
	e.AwaitedReplicas, e.ReservedPods = pl.awaited, 0
	if !p.adaptive() {
		return
	}
	if p.Members[pl.cluster].Settling {
		e.ReservedPods, e.Conditions = min(pl.old.ReservedPods+pl.born, pl.replicas), pl.old.Conditions
		return
	}
	if after := p.unreachableAfter(); after != nil {
		p.markReach(pl, *after)
	} else if p.markOf(pl, appsv1alpha1.ConditionReachable) != nil {
		e.AwaitedReplicas = e.DesiredReplicas
	}
	if p.reserves() {
		p.markReserved(pl)
	} else {
		p.markRoom(pl)
	}
}

// markReach follows a member that is out of reach: for as long as it may be, then others stand in for it, until it has
// answered for as long as a mark lasts without a break. One that comes and goes moves its replicas once.
func (p *pass) markReach(pl *place, after time.Duration) {
	was := p.markOf(pl, appsv1alpha1.ConditionReachable)
	m, known := p.Members[pl.cluster]
	reason, age := "", time.Duration(0)
	if was != nil {
		reason, age = was.Reason, p.now.Sub(was.LastTransitionTime.Time)
	}
	standsIn := fmt.Sprintf("member %s was not heard from for %s (adaptive.unreachableSeconds); what it runs stays", pl.cluster, after)
	if heard := known && m.Ready; heard {
		back := p.times().Mark
		switch {
		case reason == reasonLost:
			p.unreached(pl, reasonComingBack, fmt.Sprintf("%s, and counts again when it has answered for %s without a break", standsIn, back))
			p.lookAgain(back)
		case reason == reasonComingBack && age < back:
			p.keepCondition(pl, was)
			p.lookAgain(back - age)
		case reason == reasonComingBack:
			pl.entry.AwaitedReplicas = pl.entry.DesiredReplicas // what it has counts as its pods are ready
		}
		return
	}
	waits := fmt.Sprintf("member %s is not heard from; others stand in for its replicas when that has lasted %s (adaptive.unreachableSeconds)",
		pl.cluster, after)
	switch {
	case reason == "":
		p.unreached(pl, reasonNotHeard, waits)
		p.lookAgain(after)
	case reason == reasonNotHeard && age < after:
		p.keepCondition(pl, was)
		p.lookAgain(after - age)
	case reason == reasonNotHeard && p.mostUnheard():
		kept := *was
		kept.Message = waits + ", which it has, but most of the members are not heard from, so it is rather the hub that is cut off"
		p.keepCondition(pl, &kept)
	case reason == reasonLost:
		p.keepCondition(pl, was)
	default:
		p.unreached(pl, reasonLost, standsIn)
		p.lookAgain(time.Millisecond)
	}
}

// mostUnheard is true when more than half of the members are not heard from.
func (p *pass) mostUnheard() bool {
	heard := map[string]bool{}
	silent := 0
	for _, pl := range p.places {
		if _, seen := heard[pl.cluster]; seen {
			continue
		}
		heard[pl.cluster] = p.Members[pl.cluster].Ready
		if !heard[pl.cluster] {
			silent++
		}
	}
	return 2*silent > len(heard)
}

// markOf is a mark as it is stored. One from the future is from now: a hub whose clock was ahead set it, and it would last as
// much longer.
func (p *pass) markOf(pl *place, kind string) *metav1.Condition {
	was := conditionOf(pl, kind)
	if was == nil || !was.LastTransitionTime.After(p.now) {
		return was
	}
	now := *was
	now.LastTransitionTime = *second(p.now)
	return &now
}

// unreached sets condition Reachable to False, for a reason that begins now.
func (p *pass) unreached(pl *place, reason, message string) {
	pl.entry.Conditions = append(pl.entry.Conditions, p.subsetCondition(appsv1alpha1.ConditionReachable, metav1.ConditionFalse, reason, message))
}

func (p *pass) keepCondition(pl *place, c *metav1.Condition) {
	pl.entry.Conditions = append(pl.entry.Conditions, *c)
}

func (p *pass) subsetCondition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: *second(p.now)}
}

// waiting are the pods of a place as looked at; false when they were not.
func (p *pass) waiting(pl *place) ([]Waiting, bool) {
	c := pl.serving()
	if c == nil {
		return nil, false
	}
	pods, ok := p.Waiting[Target{Member: pl.cluster, Kind: c.Report.Kind, Name: c.Report.Name}]
	return pods, ok
}

// counts tells the pods that count: those of one subset revision: the completed one. A pod of a revision that is being released may have no
// node because of the template, and a place must not be drained for that.
func (p *pass) counts(pl *place) func(Waiting) bool {
	done, err := p.book.completed(p.completed, pl.name, pl.old.Revision, pl.present)
	return func(w Waiting) bool { return err == nil && w.Revision == done.revision }
}

// markRoom marks a place that cannot place its pods, and takes the mark off when it has worn off.
func (p *pass) markRoom(pl *place) {
	patience := p.times()
	pods, _ := p.waiting(pl)
	counts := p.counts(pl)
	var waits []time.Duration
	passed, fresh := 0, 0
	for _, w := range pods {
		if w.Unscheduled.IsZero() {
			continue
		}
		waited := p.now.Sub(w.Unscheduled)
		switch {
		case counts(w):
			waits = append(waits, waited)
			if waited >= patience.Pending {
				passed++
			}
		case waited >= patience.Pending:
			fresh++
		}
	}
	was := p.markOf(pl, appsv1alpha1.ConditionSchedulable)
	mark := subset.Mark{}
	if was != nil && was.Status == metav1.ConditionFalse {
		// The stored time is cut to the second, so a mark may look up to a second older than it is.
		mark = subset.Mark{Unschedulable: true, Age: p.now.Sub(was.LastTransitionTime.Time) - time.Second}
	}
	v := patience.Judge(mark, waits)
	if v.Again > 0 {
		p.lookAgain(v.Again)
	}
	switch {
	case v.Renewed && mark.Unschedulable && mark.Age < renewEvery:
		p.keepCondition(pl, was)
	case v.Renewed:
		p.schedulable(pl, metav1.ConditionFalse, reasonReschedule, fmt.Sprintf("%d of its pods found no node for %s; it is given no more pods for %s",
			passed, patience.Pending, patience.Mark))
	case v.Unschedulable:
		p.keepCondition(pl, was)
	case v.Expired:
		pl.entry.AwaitedReplicas = pl.entry.DesiredReplicas
		p.schedulable(pl, metav1.ConditionTrue, reasonRecover, unmoved(fresh))
	case was == nil:
		p.schedulable(pl, metav1.ConditionTrue, reasonCreated, unmoved(fresh))
	default:
		kept := *was
		kept.Message = unmoved(fresh)
		p.keepCondition(pl, &kept)
	}
}

// unmoved says what nothing is moved for.
func unmoved(fresh int) string {
	if fresh == 0 {
		return ""
	}
	return fmt.Sprintf("%d pods of a revision that is not completed find no node; nothing is moved for them, the template may be the reason", fresh)
}

func (p *pass) schedulable(pl *place, status metav1.ConditionStatus, reason, message string) {
	c := p.subsetCondition(appsv1alpha1.ConditionSchedulable, status, reason, message)
	if was := p.markOf(pl, c.Type); was != nil && was.Status == status && reason != reasonReschedule {
		c.LastTransitionTime = was.LastTransitionTime
	}
	meta.SetStatusCondition(&pl.entry.Conditions, c)
}

// markReserved counts the pods of a place that are kept and not counted on: those that have waited for a node too long, those
// that were reserved and have not been ready for as long as a mark lasts, and those born while some were.
func (p *pass) markReserved(pl *place) {
	patience, was := p.times(), p.markOf(pl, appsv1alpha1.ConditionSchedulable)
	marked := was != nil && was.Status == metav1.ConditionFalse
	pods, seen := p.waiting(pl)
	before := pl.old.ReservedPods
	next := before
	if seen || before == 0 {
		stuck, proven := p.reserved(pl, pods)
		recovered := max(min(proven-max(pl.old.DesiredReplicas-before, 0), before), 0)
		next = max(stuck, before-recovered)
	}
	next = max(min(next+pl.born, pl.replicas), 0)
	pl.entry.ReservedPods = next
	switch {
	case next > 0 && !marked:
		p.schedulable(pl, metav1.ConditionFalse, reasonReschedule,
			fmt.Sprintf("pods of it found no node for %s; they are kept, and count when they have been ready for %s", patience.Pending, patience.Mark))
	case next > 0, marked && before > 0: // a pass that divides by it comes before the mark is taken off
		p.keepCondition(pl, was)
	case marked:
		p.schedulable(pl, metav1.ConditionTrue, reasonRecover, "")
	case was == nil:
		p.schedulable(pl, metav1.ConditionTrue, reasonCreated, "")
	default:
		p.keepCondition(pl, was)
	}
}

// reserved are the pods that have waited too long, and those that are proven.
func (p *pass) reserved(pl *place, pods []Waiting) (stuck, proven int32) {
	patience, counts := p.times(), p.counts(pl)
	for _, w := range pods {
		pod := subset.Pod{}
		switch {
		case !w.Unscheduled.IsZero() && counts(w):
			pod.Unscheduled = new(p.now.Sub(w.Unscheduled))
		case !w.Ready.IsZero():
			pod.Ready, pod.Reserved = new(p.now.Sub(w.Ready)), true
		default:
			continue
		}
		held, _, again := patience.Reserve(pod)
		if again > 0 {
			p.lookAgain(again)
		}
		switch {
		case held && pod.Unscheduled != nil:
			stuck++
		case !held && pod.Ready != nil:
			proven++
		}
	}
	return stuck, proven
}

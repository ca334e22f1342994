package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// ConfirmRemoval is the left side of the annotation by which a person confirms that several members are left at once.
const ConfirmRemoval = appsv1alpha1.ConditionRemovalHeld

// confirmMost begins a right side that confirms up to a number of members, for sets too large to name.
const confirmMost = "max:"

// confirmNames is how long the names of the members that leave may be, joined; above that their number is confirmed.
const confirmNames = 300

// Want is what is wanted of one copy.
type Want string

// Values of Want.
const (
	// WantNothing: nothing was asked for.
	WantNothing Want = ""
	// WantApplied: the copy is there, as the object is.
	WantApplied Want = "Applied"
	// WantDeleted: the object's mark is off, and the copy goes with the last mark.
	WantDeleted Want = "Deleted"
	// WantLetGo: the object's mark is off, and the copy stays.
	WantLetGo Want = "LetGo"
)

// Member is one MemberCluster.
type Member struct {
	Labels map[string]string
	// Deleting: the MemberCluster is being deleted; what is there is out of our hands.
	Deleting bool
	// NotAllowed says why the member takes nothing of the object's namespace; empty when it does.
	NotAllowed string
	// Ready is false while it is not heard from; Problem then says why.
	Ready   bool
	Problem string
	// Known is true when the hub sees what is there; Marked then says whether a copy with the object's mark is, and Newer
	// whether that is of a later version than the hub's object.
	Known, Marked, Newer bool
	// Blind is true where the hub will not see it by waiting: it may not watch the kind there, or the member does not serve it.
	Blind bool
	// Left is true for a member that is not selected any more and had a copy, for LeftFor; also a while after the copy is gone.
	Left    bool
	LeftFor time.Duration
	// Posted is what this process has asked for there, Delivery what became of it.
	Posted   Want
	Delivery Delivery
}

// Delivery is what became of what was asked for.
type Delivery struct {
	// Done: the copy is as it was asked for. Gone: no mark of the object is on it, by an answer of the member.
	Done, Gone bool
	// Moving: it was not looked at yet, or is on its way.
	Moving bool
	// Barred: the hub has no right to what it was asked for.
	Barred bool
	// Problem is a word for what is wrong, Message says it in full; both are stable from try to try.
	Problem, Message string
}

// Observation is an object and all MemberClusters.
type Observation struct {
	Object  Object
	Ending  Ending
	Members map[string]Member
}

// Item is what to ask for on one member.
type Item struct {
	Member string
	Want   Want
}

// Decision is what to do.
type Decision struct {
	// Stay is true when nothing of what was asked for before may be changed or taken back: Items is not an answer.
	Stay  bool
	Items []Item
	// Hold puts the finalizer on before anything is sent, Release takes it off.
	Hold, Release bool
	// DropConfirm takes a used confirmation off.
	DropConfirm bool
	// LookAgainIn is when waiting alone changes the decision; 0 is never.
	LookAgainIn time.Duration
	Summary     Summary
}

// LeaveAfter is how long a member is not selected before its copy is taken away: many that are relabelled one after the other
// are many at once.
const LeaveAfter = 30 * time.Second

// pass is one decision being made.
type pass struct {
	Observation

	out      Decision
	results  []Result
	selector labels.Selector
	// places are the members that are selected; others are those that were left a moment ago, and those that are not selected
	// and were not read yet.
	places, others int
}

// Next decides. It is the same for the same observation.
func Next(o Observation) Decision {
	wish, why := WishOf(&o.Object, o.Ending)
	p := &pass{Observation: o, selector: labels.Everything()}
	if selector, err := SelectorOf(o.Object.Annotations); err == nil {
		p.selector = selector
	}
	switch wish {
	case WishKeep:
		p.out.Stay = true
	case WishTravel:
		p.travel()
	case WishRemove:
		p.end(WantDeleted)
	case WishLetGo:
		p.end(WantLetGo)
	}
	p.out.Summary = p.summarize(wish, why)
	return p.out
}

// travel sends copies to the members that are selected, and takes those away that are on others.
func (p *pass) travel() {
	var leaving []string
	for _, name := range slices.Sorted(maps.Keys(p.Members)) {
		m := p.Members[name]
		switch {
		case m.Deleting:
		case !p.selector.Matches(labels.Set(m.Labels)):
			if m.has() {
				leaving = append(leaving, name)
			} else if m.Left || (!m.Known && !m.Blind && !m.done() && p.Object.Finalized) {
				p.others++
			}
		case m.NotAllowed != "":
			p.places++
			p.say(name, StateRefused, "NotAllowed", m.NotAllowed)
		default:
			p.places++
			p.out.Items = append(p.out.Items, Item{name, WantApplied})
			p.deliver(name, StateThere)
		}
	}
	p.leave(leaving)
	if len(p.out.Items) > 0 && !p.Object.Finalized {
		// Nothing is sent before what takes it back is sure to be asked for.
		p.out.Items, p.out.Hold = nil, true
	}
}

// leave takes copies off members that the object does not select any more. More than one at once, when they are a quarter
// of all or more, or all there are, wait for a person: labels that are lost by mistake must not empty a fleet, be it one after
// the other, or found one after the other by a hub that has just started.
func (p *pass) leave(names []string) {
	n := len(names) + p.others
	confirmed := p.confirmed(names)
	held := (p.places == 0 || (n > 1 && 4*n >= n+p.places)) && !confirmed
	for _, name := range names {
		m := p.Members[name]
		switch {
		case m.Newer:
			p.say(name, StateHeld, "HubBehind", behind)
		case held:
			p.say(name, StateHeld, ConfirmRemoval, fmt.Sprintf("it is not selected any more, like %d of %d at once; to take the copies away: kubectl annotate %s -n %s %s --overwrite %s=%s/%s",
				n, n+p.places, resource(p.Object.Kind), p.Object.Namespace, p.Object.Name, appsv1alpha1.AnnotationConfirm, ConfirmRemoval, confirmValue(names)))
		case m.LeftFor < LeaveAfter && !confirmed && m.Posted != WantDeleted:
			p.out.LookAgainIn = max(p.out.LookAgainIn, LeaveAfter-m.LeftFor)
			p.say(name, StateLeaving, "", "")
		default:
			p.out.Items = append(p.out.Items, Item{name, WantDeleted})
			p.deliver(name, StateLeaving)
		}
	}
	// What is not read does not keep a confirmation: it would be one of the next removal.
	p.out.DropConfirm = len(names) == 0 && strings.HasPrefix(p.Object.Annotations[appsv1alpha1.AnnotationConfirm], ConfirmRemoval+"/")
	slices.SortFunc(p.out.Items, func(a, b Item) int { return cmp.Compare(a.Member, b.Member) })
}

// Misses is true for a member that the object does not select any more and that has a copy, or may have one.
func (o *Object) Misses(m *Member) bool {
	selector, err := SelectorOf(o.Annotations)
	return err == nil && m.has() && !selector.Matches(labels.Set(m.Labels))
}

const behind = "the copy is of a later version than the hub's object, as after a restored backup, so it stays"

// resource is what kubectl takes for a kind "<Kind>.<group>".
func resource(kind string) string { return strings.ToLower(kind) }

// confirmValue is what a person writes to let these go.
func confirmValue(names []string) string {
	if all := strings.Join(names, ","); len(all) <= confirmNames {
		return all
	}
	return confirmMost + strconv.Itoa(len(names))
}

// confirmed is true when a person allowed the removal from each of these, or from as many: the first to be gone does not
// revoke it for the rest.
func (p *pass) confirmed(names []string) bool {
	value, ok := strings.CutPrefix(p.Object.Annotations[appsv1alpha1.AnnotationConfirm], ConfirmRemoval+"/")
	if !ok {
		return false
	}
	if most, counted := strings.CutPrefix(value, confirmMost); counted {
		n, err := strconv.Atoi(most)
		return err == nil && len(names) <= n
	}
	allowed := strings.Split(value, ",")
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(allowed, name) })
}

// end takes the object's mark off all copies, and releases the object when none is left.
func (p *pass) end(want Want) {
	open := 0
	for _, name := range slices.Sorted(maps.Keys(p.Members)) {
		m := p.Members[name]
		// One that cannot be looked at may have a copy if it is selected; the others were looked at when they were left.
		mayHave := m.has() || (!m.Known && p.Object.Finalized && p.selector.Matches(labels.Set(m.Labels)))
		switch {
		case m.Deleting, !mayHave, m.done(), m.closed():
		case want == WantLetGo && p.Object.Deleting && !m.Ready:
			// It is not there to be marked; what is left unmarked is not deleted either.
		case want == WantDeleted && m.Newer:
			open++
			p.say(name, StateHeld, "HubBehind", behind+"; delete it there by hand, or let all copies go (annotation "+appsv1alpha1.AnnotationPropagate+`: "false")`)
		default:
			open++
			p.out.Items = append(p.out.Items, Item{name, want})
			p.deliver(name, StateLeaving)
		}
	}
	p.out.Release = open == 0 && p.Object.Finalized
}

// has is true when a copy with the object's mark is there, or may be on its way.
func (m *Member) has() bool {
	return m.Marked || m.Posted == WantApplied || (m.Posted != WantNothing && !m.Delivery.Gone)
}

// closed is true where the hub can neither look nor act, and sees no copy: a member that takes nothing of the namespace, and one
// that has answered that the hub has no right to the kind.
func (m *Member) closed() bool {
	return !m.Marked && m.Posted != WantApplied && (m.NotAllowed != "" || m.Delivery.Barred)
}

// Remembered is what is to be remembered as asked for on a member of which nothing is asked any more: a copy that was, and is
// not proven gone, may be on its way, and the hub's cache need not show it yet.
func (m *Member) Remembered() Want {
	if m.Posted == WantNothing || m.done() {
		return WantNothing
	}
	return WantApplied
}

// done is true when the member has answered that no mark of the object is left: a later word than the cache's.
func (m *Member) done() bool {
	return (m.Posted == WantDeleted || m.Posted == WantLetGo) && m.Delivery.Gone
}

// deliver tells how far what is asked for on a member is.
func (p *pass) deliver(name string, state State) {
	m := p.Members[name]
	d := m.Delivery
	moving := StateMoving
	if state == StateLeaving {
		moving = StateLeaving
	}
	asked := m.Posted != WantNothing && (m.Posted == WantApplied) == (state == StateThere)
	switch {
	case !m.Ready:
		p.say(name, StateWaiting, "MemberNotReady", m.Problem)
	case !asked || d.Moving:
		p.say(name, moving, "", "")
	case d.Problem != "":
		p.say(name, StateWaiting, d.Problem, d.Message)
	case d.Gone && state == StateLeaving:
		// There is nothing more to tell of it.
	case d.Done:
		p.say(name, state, "", "")
	default:
		p.say(name, moving, "", "")
	}
}

func (p *pass) say(member string, state State, reason, message string) {
	p.results = append(p.results, Result{member, state, reason, message})
}

package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

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
	Wish Wish
	// Stay is true when nothing of what was asked for before may be changed or taken back: Items is not an answer.
	Stay  bool
	Items []Item
	// Hold puts the finalizer on before anything is sent, Release takes it off.
	Hold, Release bool
	// Owed: released while copies may be left on members that cannot be looked at now. They are owed to whoever deleted the
	// object, or took its label off: they go when the member can be looked at.
	Owed bool
	// Confirm, where it is set, is what the annotation that confirms a removal is to become; "" takes it off.
	Confirm *string
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
	// places are the members that are selected, recent those that were left a moment ago and have no copy any more.
	places, recent int
	// unread are those that are not selected, were not read yet, and may have a copy; sorted.
	unread []string
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
	p.out.Wish, p.out.Summary = wish, p.summarize(wish, why)
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
			switch {
			case m.Has():
				leaving = append(leaving, name)
			case !m.Known && !m.Blind && !m.Done() && p.Object.Finalized:
				p.unread = append(p.unread, name)
			case m.Left:
				p.recent++
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
// the other, or found one after the other by a hub that has just started. What is not read yet counts until a person has
// accepted it once, by name.
func (p *pass) leave(names []string) {
	allowed := confirmationOf(p.Object.Annotations)
	n := len(names) + p.recent + allowed.missing(p.unread)
	confirmed := allowed.covers(names, p.unread)
	held := len(names) > 0 && (p.places == 0 || (n > 1 && 4*n >= n+p.places)) && !confirmed
	words := ""
	if held {
		words = p.heldWords(n, names)
	}
	for _, name := range names {
		m := p.Members[name]
		switch {
		case m.Newer:
			p.say(name, StateHeld, "HubBehind", behind)
		case held:
			p.say(name, StateHeld, ConfirmRemoval, words)
		case m.LeftFor < LeaveAfter && !confirmed && m.Posted != WantDeleted:
			p.out.LookAgainIn = max(p.out.LookAgainIn, LeaveAfter-m.LeftFor)
			p.say(name, StateLeaving, "", "")
		default:
			p.out.Items = append(p.out.Items, Item{name, WantDeleted})
			p.deliver(name, StateLeaving)
		}
	}
	p.out.Confirm = allowed.next(names, p.unread)
	slices.SortFunc(p.out.Items, func(a, b Item) int { return cmp.Compare(a.Member, b.Member) })
}

const behind = "the copy is of a later version than the hub's object, as after a restored backup, so it stays"

// end takes the object's mark off all copies, and releases the object when none is left.
func (p *pass) end(want Want) {
	open := 0
	for _, name := range slices.Sorted(maps.Keys(p.Members)) {
		m := p.Members[name]
		// One that cannot be looked at may have a copy if it is selected; the others were looked at when they were left.
		mayHave := m.Has() || (!m.Known && p.Object.Finalized && p.selector.Matches(labels.Set(m.Labels)))
		switch {
		case m.Deleting, m.Done():
		case !mayHave, m.closed():
			p.out.Owed = p.out.Owed || (want == WantDeleted && !m.Known && p.Object.Finalized)
		case want == WantLetGo && (m.Delivery.Barred || (!m.Ready && (p.Object.Deleting || p.Object.Retired))):
			// It cannot be marked; what is left unmarked is not deleted either.
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
	p.out.Owed = p.out.Owed && p.out.Release
}

// Has is true when a copy with the object's mark is there, or may be on its way.
func (m *Member) Has() bool {
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
	if m.Posted == WantNothing || m.Done() {
		return WantNothing
	}
	return WantApplied
}

// Done is true when the member has answered that no mark of the object is left: a later word than the cache's.
func (m *Member) Done() bool {
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

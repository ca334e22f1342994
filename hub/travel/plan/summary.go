package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// State is where the copy on one member stands.
type State string

// Values of State.
const (
	// StateThere: the copy is as the hub's object is.
	StateThere State = "There"
	// StateMoving: it was asked for a moment ago.
	StateMoving State = "Moving"
	// StateWaiting: the reason says for what.
	StateWaiting State = "Waiting"
	// StateRefused: the member takes nothing of the namespace.
	StateRefused State = "Refused"
	// StateLeaving: the copy is being taken away.
	StateLeaving State = "Leaving"
	// StateHeld: it stays until a person decides.
	StateHeld State = "Held"
)

// States are all, in the order of their declaration.
func States() []State {
	return []State{StateThere, StateMoving, StateWaiting, StateRefused, StateLeaving, StateHeld}
}

// Result is one member's.
type Result struct {
	Member          string
	State           State
	Reason, Message string
}

// Reasons of events.
const (
	ReasonPropagated = "Propagated"
	ReasonWaits      = "PropagationWaits"
	ReasonRefused    = "PropagationRefused"
	ReasonRemoved    = "PropagationEnded"
)

// Summary is the whole in a few words, however many members there are.
type Summary struct {
	// Reason and Note are an event's; empty when there is nothing to tell.
	Reason, Note string
	Warning      bool
	// Moving is true while the words will be others in a moment.
	Moving bool
	// Quiet is true when all is as it is to be: what nobody did anything for need not be told.
	Quiet bool
	// Counts are the members by state.
	Counts map[State]int
}

// tellMost is how many members a note tells of.
const tellMost = 5

func (p *pass) summarize(wish Wish, why string) Summary {
	out, results := Summary{Counts: map[State]int{}}, p.results
	var troubles []Result
	for _, r := range results {
		out.Counts[r.State]++
		switch r.State {
		case StateWaiting, StateRefused, StateHeld:
			troubles = append(troubles, r)
		case StateMoving, StateLeaving:
			out.Moving = true
		case StateThere:
		}
	}
	switch {
	case wish == WishKeep:
		out.Reason, out.Note, out.Warning = ReasonRefused, "Nothing is changed on any member: "+why, true
	case wish == WishTravel && len(results) == 0:
		out.Reason, out.Note, out.Quiet = ReasonPropagated, "No member is selected", true
	case wish == WishTravel:
		out.Reason, out.Note, out.Quiet = ReasonPropagated, fmt.Sprintf("On %d of %d members", out.Counts[StateThere], p.places), len(troubles) == 0
	case len(results) == 0 && wish == WishLetGo:
		out.Reason, out.Note, out.Quiet = ReasonRemoved, "The copies on members are left as they are: "+why, true
	case len(results) == 0 && p.out.Owed:
		out.Reason, out.Note = ReasonRemoved, "No member that can be looked at has a copy any more; the others lose theirs when they can be: "+why
	case len(results) == 0:
		out.Reason, out.Note, out.Quiet = ReasonRemoved, "No member has a copy any more: "+why, true
	case wish == WishLetGo:
		out.Reason, out.Note = ReasonRemoved, fmt.Sprintf("Copies on %d members are being let go: %s", len(results), why)
	default:
		out.Reason, out.Note = ReasonRemoved, fmt.Sprintf("Copies on %d members are being taken back: %s", len(results), why)
	}
	if len(troubles) > 0 {
		// What waits for a person comes first: an event cuts what is too long.
		slices.SortStableFunc(troubles, func(a, b Result) int { return cmp.Compare(asks(b), asks(a)) })
		out.Reason, out.Warning = ReasonWaits, true
		out.Note += tellOf(troubles)
	}
	return out
}

// asks is 1 for what a person can confirm.
func asks(r Result) int {
	if r.Reason == ConfirmRemoval {
		return 1
	}
	return 0
}

// tellOf names members with the same words together, and not more than a few.
func tellOf(troubles []Result) string {
	var b strings.Builder
	told := map[string]bool{}
	left := 0
	for i, r := range troubles {
		words := r.Reason + ": " + r.Message
		if told[words] {
			continue
		}
		if len(told) == tellMost {
			left++
			continue
		}
		names := []string{}
		for _, other := range troubles[i:] {
			if other.Reason == r.Reason && other.Message == r.Message {
				names = append(names, other.Member)
			}
		}
		told[words] = true
		more := ""
		if len(names) > tellMost {
			more = fmt.Sprintf(" and %d more", len(names)-tellMost)
			names = names[:tellMost]
		}
		fmt.Fprintf(&b, "; %s%s: %s", strings.Join(names, ", "), more, words)
	}
	if left > 0 {
		fmt.Fprintf(&b, "; and %d more that wait", left)
	}
	return b.String()
}

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// ConfirmRemoval is the left side of the annotation by which a person confirms that several members are left at once.
const ConfirmRemoval = appsv1alpha1.ConditionRemovalHeld

// confirmMost begins a right side that confirms up to a number of members, for sets too large to name in an event.
const confirmMost = "max:"

const (
	// confirmNames is how long the names of the members that leave may be, joined; above that their number is confirmed.
	confirmNames = 200
	// pinNames is how long the names may be that the hub writes in place of such a number.
	pinNames = 64 << 10
)

// confirmation is what a person wrote: the members that may be left, by name or up to a number.
type confirmation struct {
	there bool
	names []string
	// most is 0 where members are named.
	most int
}

func confirmationOf(annotations map[string]string) confirmation {
	value, ok := strings.CutPrefix(annotations[appsv1alpha1.AnnotationConfirm], ConfirmRemoval+"/")
	if !ok {
		return confirmation{}
	}
	text, counted := strings.CutPrefix(value, confirmMost)
	if !counted {
		return confirmation{there: true, names: strings.Split(value, ",")}
	}
	most, _ := strconv.Atoi(text) // what is no number confirms nothing
	return confirmation{there: true, most: most}
}

// covers is true when a person allowed the removal from each that leaves, or from as many as leave or may leave: the first to
// be gone does not revoke it for the rest.
func (c confirmation) covers(leaving, unread []string) bool {
	switch {
	case !c.there:
		return false
	case c.names == nil:
		return len(leaving)+len(unread) <= c.most
	}
	return c.missing(leaving) == 0
}

// missing is how many are not confirmed by name.
func (c confirmation) missing(names []string) int {
	n := 0
	for _, name := range names {
		if !slices.Contains(c.names, name) {
			n++
		}
	}
	return n
}

// next is what the annotation is to become; nil when it stays. One that allowed a number becomes the names of the moment, so
// that those that are not read yet are accepted once and for all; when nobody leaves any more, those are what is left of it.
func (c confirmation) next(leaving, unread []string) *string {
	var kept []string
	switch {
	case !c.there:
		return nil
	case c.names == nil && len(leaving) > 0:
		if len(unread) == 0 || !c.covers(leaving, unread) {
			return nil
		}
		kept = slices.Concat(leaving, unread)
	case len(leaving) > 0:
		return nil
	default:
		kept = slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return !slices.Contains(unread, name) })
	}
	slices.Sort(kept)
	value := ""
	if len(kept) > 0 {
		value = ConfirmRemoval + "/" + strings.Join(kept, ",")
	}
	if len(value) > pinNames || (len(kept) == len(c.names) && len(kept) > 0) {
		return nil
	}
	return &value
}

// heldWords say what waits, and what a person does about it. `kubectl underway confirm` finds the value in them.
func (p *pass) heldWords(n int, leaving []string) string {
	unread := ""
	if len(p.unread) > 0 {
		unread = fmt.Sprintf(" (%d are not read yet)", len(p.unread))
	}
	o := &p.Object
	return fmt.Sprintf("it is not selected any more, like %d of %d at once%s; to take the copies away: kubectl underway confirm %s/%s -n %s (annotation %s: %s/%s)",
		n, n+p.places, unread, strings.ToLower(o.Kind), o.Name, o.Namespace, appsv1alpha1.AnnotationConfirm, ConfirmRemoval, confirmValue(slices.Concat(leaving, p.unread)))
}

// confirmValue is what a person writes to let these go.
func confirmValue(names []string) string {
	slices.Sort(names)
	if all := strings.Join(names, ","); len(all) <= confirmNames {
		return all
	}
	return confirmMost + strconv.Itoa(len(names))
}

// HeldValue finds the annotation's value in the words of an event about an object that waits for a person; false when they say
// nothing of it.
func HeldValue(note string) (string, bool) {
	_, rest, found := strings.Cut(note, "(annotation "+appsv1alpha1.AnnotationConfirm+": ")
	value, _, closed := strings.Cut(rest, ")")
	return value, found && closed && strings.HasPrefix(value, ConfirmRemoval+"/") && value != ConfirmRemoval+"/"
}

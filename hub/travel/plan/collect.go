package plan

import (
	"maps"
	"slices"
)

// Collect decides about the copies of an object that was released while some members could not be looked at: whoever has one,
// and can be looked at, loses it. open is true while one may be left. A member that has answered that the hub has no right to
// the kind (Delivery.Barred) is not asked again, and stays open; so does one with a copy of a later version than was released:
// the hub was restored from a backup, and the object was wanted again after it.
func Collect(members map[string]Member) (items []Item, open bool) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		switch {
		case m.Deleting, m.Done():
		case m.Delivery.Barred, m.Newer, !m.Known && !(m.Ready && m.Blind) && m.Posted == WantNothing:
			open = true
		case m.Known && !m.Marked && m.Posted == WantNothing:
		default:
			open = true
			items = append(items, Item{name, WantDeleted})
		}
	}
	return items, open
}

package subset

import "math"

// AllocateAdaptive divides the total as Allocate does with bounds, and looks at what each subset can place besides:
// pods that are ready stay where they are, and a subset that is marked unschedulable is given no more than its minimum and
// what is ready there. With reserve the pods that cannot be scheduled are kept, and later subsets get temporary
// substitutes for them; the sum is then above the total by as much.
//
// A share that is Lost keeps Last, or the total if that is less, and counts for nothing: all of the total is divided over the others.
func AllocateAdaptive(total *int32, shares []Share, reserve bool) (Allocation, error) {
	wishes, err := parseShares(shares)
	if err != nil {
		return Allocation{}, err
	}
	sum, err := resolveTotal(total, wishes)
	if err != nil {
		return Allocation{}, err
	}
	out := result{total: sum, replicas: make([]int64, len(shares))}
	if len(shares) == 0 {
		out.replicas = nil
		return out.allocation(), nil
	}
	out.fill(out.adaptiveRooms(wishes, shares, reserve))
	return out.allocation(), nil
}

// room is what one subset may be given: its minimum, then what is to stay there, then the most; and how much of it counts
// against the total.
type room struct {
	floor, stay, ceiling, capacity int64
	// fixed is true for a subset that gets its floor whatever the total.
	fixed bool
}

func (r *result) adaptiveRooms(wishes []wish, shares []Share, reserve bool) []room {
	rooms := make([]room, len(wishes))
	for i := range wishes {
		floor, ceiling := r.bounds(&wishes[i])
		s := &shares[i]
		switch last := int64(max(s.Last, 0)); {
		case s.Lost:
			rooms[i] = room{floor: min(last, r.total), fixed: true}
		case reserve:
			rooms[i] = reserved(s, floor, ceiling)
		default:
			rooms[i] = pinned(s, floor, ceiling)
		}
	}
	return rooms
}

// pinned is a subset whose ready pods stay; one that is marked is given no more than that, or its minimum.
func pinned(s *Share, floor, ceiling int64) room {
	ready := int64(max(s.Ready, 0))
	if s.Unschedulable {
		return room{floor: floor, stay: ready, ceiling: min(ceiling, ready), capacity: math.MaxInt64}
	}
	return room{floor: floor, stay: min(ready, ceiling), ceiling: ceiling, capacity: math.MaxInt64}
}

// reserved is a subset whose unschedulable pods stay and do not count.
func reserved(s *Share, floor, ceiling int64) room {
	last := int64(max(s.Last, 0))
	out := room{floor: floor, ceiling: ceiling, capacity: math.MaxInt64}
	if s.Reserved > 0 || s.Marked {
		out.capacity = max(last-int64(max(s.Reserved, 0)), 0)
	}
	if s.Reserved > 0 {
		out.ceiling = last
	}
	return out
}

// fill gives, in the order written, each its floor while replicas last, then what is to stay, and then raises each to its
// ceiling. Of what a subset gets only what is within its capacity is taken from what is left.
func (r *result) fill(rooms []room) {
	left := r.total
	give := func(i int, n int64) {
		n = min(n, left)
		if n <= 0 {
			return
		}
		counted := min(rooms[i].capacity, n)
		rooms[i].capacity -= counted
		r.replicas[i] += n
		left -= counted
	}
	for i := range rooms {
		if rooms[i].fixed {
			r.replicas[i] = rooms[i].floor
			continue
		}
		give(i, rooms[i].floor)
	}
	for _, upTo := range []func(room) int64{
		func(at room) int64 { return at.stay },
		func(at room) int64 { return at.ceiling },
	} {
		for i := range rooms {
			if !rooms[i].fixed {
				give(i, upTo(rooms[i])-r.replicas[i])
			}
		}
	}
	if left > 0 {
		r.note("%d of %d replicas have no place: every subset is at its maximum, or cannot place more", left, r.total)
	}
}

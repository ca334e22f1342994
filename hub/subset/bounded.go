package subset

// allocateBounded gives, in the order written, each subset its minimum while replicas last, and then raises each to its
// maximum. A subset that names its replicas has both bounds there.
func (r *result) allocateBounded(wishes []wish) {
	left := r.total
	ceilings := make([]int64, len(wishes))
	for i := range wishes {
		floor, ceiling := r.bounds(&wishes[i])
		ceilings[i] = ceiling
		r.replicas[i] = min(floor, left)
		left -= r.replicas[i]
	}
	for i := range wishes {
		more := min(ceilings[i]-r.replicas[i], left)
		r.replicas[i] += more
		left -= more
	}
	if left > 0 {
		r.note("%d of %d replicas have no place: every subset is at its maximum; leave one subset without maxReplicas", left, r.total)
	}
}

// bounds resolves both bounds; a minimum above the maximum is lowered to it.
func (r *result) bounds(w *wish) (floor, ceiling int64) {
	ceiling = r.total
	if w.max != nil {
		ceiling = w.max.rounded(r.total)
	}
	if w.min != nil {
		floor = w.min.rounded(r.total)
	}
	if w.replicas != nil {
		n := w.replicas.rounded(r.total)
		r.note("subset %q names replicas beside minReplicas and maxReplicas of this object; %d is taken as both bounds", w.name, n)
		return n, n
	}
	if floor > ceiling {
		r.note("minReplicas %d of subset %q is above its maxReplicas; %d is used", floor, w.name, ceiling)
		floor = ceiling
	}
	return floor, ceiling
}

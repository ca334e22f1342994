package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/order"
	"github.com/underway-dev/underway/inplace/step"
)

// choose says which pods may move, as far as the partition goes, and how each would. Afterwards members are in the order
// in which they move.
func (r *round) choose() {
	r.sort()
	if r.standstill() {
		return
	}
	target, quota := r.direction()
	r.scatter(target)
	for _, m := range r.members {
		if !r.candidate(m, target) {
			continue
		}
		w := r.ways.of(m.pod, target)
		home, rescued := r.rescue(m, target, quota)
		switch {
		case rescued:
			// It takes nobody's place: it goes where the partition wants it.
			m.chosen, m.rescued, m.placeless, m.update, m.recreate = true, true, true, home.update, home.recreate
		case r.strange(m, w):
			// Its label is somebody else's: it is left alone, said, and another may take its place.
		case w.refused != "":
			m.refusal = w.refused
			r.refused = append(r.refused, m)
		case m.outside && target.Name == r.in.Update.Name:
			// Its place is below the grant: it takes none of those in it.
			r.held = append(r.held, m)
		case quota > 0 && m.fixed:
			// It keeps its place in the grant, and does not move into it yet.
			quota--
			r.fixed = append(r.fixed, m)
		case quota <= 0 && target.Name != r.in.Update.Name:
			// It is on the update revision and may stay there.
		case quota <= 0:
			// A pod on its way does not come back for what the next pass gives it again.
			m.waits = m.begun() && quota+r.departing() > 0
			quota--
			r.held = append(r.held, m)
		default:
			quota--
			m.chosen, m.update, m.recreate = true, w.update, w.recreate
		}
	}
	r.recreateHopeless()
}

// rescue is the way to the current revision of a pod that the partition holds, that is broken, and that runs neither the current
// nor the update revision: one from a release that was taken back, or overtaken by the next. Holding it there helps nobody, and
// at the current revision it is what the partition asks for. It costs no budget, as it serves nobody, and no place in the grant.
// One that is healthy stays, and one that gets a place in the next pass waits for it.
func (r *round) rescue(m *member, target inplace.Revision, quota int32) (w way, ok bool) {
	home := r.in.Current
	held := m.outside || quota+max(r.departing(), 0) <= 0
	if !held || target.Name != r.in.Update.Name || len(home.Template) == 0 || m.pod.Revision == home.Name || m.fixed || !r.comesNever(m) {
		return way{}, false
	}
	w = r.ways.of(m.pod, home)
	return w, w.refused == "" && !r.strange(m, w)
}

// unreadyFor is how long the containers of a pod must have been not ready before it counts as broken: podview's for down.
const unreadyFor = 10 * time.Second

// comesNever reports whether the pod is down for a reason of its own, which taking it out of service does not change. One that only
// starts, or that we took out of service, is not.
func (r *round) comesNever(m *member) bool {
	p := &m.pod
	t := p.Seen.Trouble
	if t.Reason == "" {
		t = p.TroubleNow()
	}
	unready := !p.Seen.UnreadySince.IsZero() && r.now.Sub(p.Seen.UnreadySince) >= unreadyFor
	return p.Down && !p.InService() && (t.Reason != "" && t.Reason != inplace.TroubleStartup || unready && p.Phase == inplace.PhaseRunning)
}

// scatter spreads the candidates over the release as Intent.Scatter says: who is on the way already stays first, and has
// used up the beginning of the pattern like those that have arrived.
func (r *round) scatter(target inplace.Revision) {
	if len(r.in.Scatter) == 0 {
		return
	}
	byName := make(map[string]*member, len(r.members))
	var first, last []*member
	var moved, candidates []inplace.Pod
	for _, m := range r.members {
		byName[m.pod.Name] = m
		switch {
		case !r.candidate(m, target):
			last = append(last, m)
			if m.active() && m.pod.Revision == target.Name {
				moved = append(moved, m.pod)
			}
		case m.begun() || m.pod.Gate == inplace.GateNone && m.unsettled():
			first, moved = append(first, m), append(moved, m.pod)
		default:
			candidates = append(candidates, m.pod)
		}
	}
	r.members = first
	for _, p := range order.Scatter(r.in.Scatter, candidates, moved) {
		r.members = append(r.members, byName[p.Name])
	}
	r.members = append(r.members, last...)
}

// sort brings the members into the order in which they move.
func (r *round) sort() {
	compare := r.in.Compare
	if compare == nil {
		compare = order.Default
	}
	slices.SortStableFunc(r.members, func(a, b *member) int {
		return cmp.Or(order.DrainedFirst(a.pod, b.pod), inFlightFirst(a, b), askedFirst(a, b), compare(a.pod, b.pod), order.Name(a.pod, b.pod))
	})
}

// candidate reports whether m may be chosen to go to target: back goes only what is on the update revision.
func (r *round) candidate(m *member, target inplace.Revision) bool {
	if !m.stays() || m.written || m.pod.Revision == target.Name {
		return false
	}
	return target.Name == r.in.Update.Name || m.pod.Revision == r.in.Update.Name
}

// strange reports whether the pod's lifecycle state is none that we know, so that it is not moved; it may be deleted while
// no preDelete hook holds it.
func (r *round) strange(m *member, w way) bool {
	if _, known := hooks.Of(m.pod.Labels); known {
		return false
	}
	return w.recreate == "" || !hooks.Delete(r.in.Lifecycle, &m.pod).Ready
}

// inFlightFirst puts pods first that were patched in service and are not proven: others without a gate wait for them.
func inFlightFirst(a, b *member) int {
	return cmp.Compare(one(b.pod.Gate == inplace.GateNone && b.unsettled()), one(a.pod.Gate == inplace.GateNone && a.unsettled()))
}

// askedFirst puts pods first whose inPlaceUpdate hooks were asked already: another order would ask a second set.
func askedFirst(a, b *member) int {
	return cmp.Compare(one(b.begun()), one(a.begun()))
}

// recreateHopeless recreates pods that wait for what will not happen (an infeasible resize), at the revision that scaling
// gives to a pod in their place. InPlaceOnly leaves them and reports them.
func (r *round) recreateHopeless() {
	if r.in.Policy == inplace.PolicyInPlaceOnly {
		return
	}
	for _, m := range r.members {
		if m.stays() && !m.written && !m.chosen && m.proof.Hopeless && !m.fixed {
			why := "cannot be updated in place: " + m.proof.Missing
			if r.strange(m, way{recreate: why}) {
				continue
			}
			m.chosen, m.placeless, m.recreate = true, true, why
		}
	}
	r.held = slices.DeleteFunc(r.held, func(m *member) bool { return m.chosen })
}

// freeBudget ends what could last for ever: the budget is spent by nothing but broken pods, the user's order puts them behind
// pods that serve, and so the partition holds the ones and the budget the others. Then the broken ones take their places,
// which costs nothing (W16).
func (r *round) freeBudget() {
	if len(r.blocked) == 0 || r.tally.absent > 0 {
		return
	}
	broken := 0
	for _, m := range r.members {
		held := m.pod.Down && !m.pod.InService() && !m.fixed && !m.outside && slices.Contains(r.held, m)
		if m.chosen || m.active() && !m.pod.Available && !held {
			// It moves, or may become available.
			return
		}
		broken += int(one(held))
	}
	target, _ := r.direction()
	for i := 0; i < len(r.held) && broken > 0; i++ {
		m := r.held[i]
		w := r.ways.of(m.pod, target)
		if !m.pod.Down || m.pod.InService() || w.refused != "" || m.fixed || m.outside {
			continue
		}
		last := lastPlaced(r.blocked)
		if last < 0 {
			break
		}
		m.chosen, m.update, m.recreate = true, w.update, w.recreate
		r.held = append(r.held, r.blocked[last])
		r.blocked = slices.Delete(r.blocked, last, last+1)
	}
	r.held = slices.DeleteFunc(r.held, func(m *member) bool { return m.chosen })
}

// standstill reports whether no pod may begin to move at all.
func (r *round) standstill() bool {
	return r.in.Invalid != "" || r.in.Paused || r.in.OnDelete || r.in.Update.Name == ""
}

// direction is where pods go and how many: to the update revision up to the grant, pods that are missing and will come
// on it counted, and pods on it that were asked to go or have no slot as long as they are there; or, with PartitionRollback
// and more of them than granted, back.
func (r *round) direction() (inplace.Revision, int32) {
	quota := r.in.Grant() - r.tally.asked - max(r.tally.absentNew, r.tally.leaving+r.tally.going)
	if r.releasing() {
		quota -= r.tally.condemned + r.tally.condemnedGoing
	} else {
		// Those that are kept by their position have never left, and the places beyond the partition are there for the others. Who
		// has no slot uses up none.
		quota += r.tally.askedOutside
	}
	if excess := r.tally.asked - r.in.Grant(); excess > 0 && r.in.PartitionRollback && r.releasing() && len(r.in.Current.Template) > 0 {
		// Of a revision that is not kept none could be created.
		return r.in.Current, excess
	}
	return r.in.Update, quota
}

// departing is how many places in the grant are free once this pass is carried out.
func (r *round) departing() int32 {
	if r.releasing() {
		return r.tally.going + r.tally.condemnedGoing
	}
	return r.tally.going
}

// releasing reports whether the update revision differs from the one that was finished last.
func (r *round) releasing() bool {
	return r.in.Current.Name != "" && r.in.Current.Name != r.in.Update.Name
}

// way is how a pod of one revision gets to another: by update, or by being recreated, or not at all.
type way struct {
	update   step.Update
	recreate string
	refused  string
}

// ways computes each pair of revisions once per round.
type ways struct {
	intent inplace.Intent
	cache  map[[2]string]way
}

// of is the way of one pod.
func (w *ways) of(p inplace.Pod, target inplace.Revision) way {
	if why := w.intent.RecreateOnly[p.Name]; why != "" && w.intent.Policy == inplace.PolicyInPlaceIfPossible {
		return w.impossible(why)
	}
	key := [2]string{p.Revision, target.Name}
	found, ok := w.cache[key]
	if !ok {
		found = w.between(p.Revision, target)
		w.cache[key] = found
	}
	if found.recreate != "" || found.refused != "" {
		return found
	}
	if obstacle := step.Obstacle(p, found.update); obstacle != "" {
		return w.impossible(obstacle)
	}
	return found
}

func (w *ways) between(from string, target inplace.Revision) way {
	if w.intent.Policy != inplace.PolicyInPlaceOnly && w.intent.Policy != inplace.PolicyInPlaceIfPossible {
		return way{recreate: "recreated to get to " + target.Name + ", as the update strategy says"}
	}
	older, ok := w.intent.Find(from)
	if !ok {
		return w.impossible("what it runs is not known: revision \"" + from + "\" is not kept")
	}
	change, err := between(older, target)
	if err != nil {
		return w.impossible(err.Error())
	}
	if len(change.Resources) > 0 && w.intent.NoResize != "" {
		return w.impossible("cpu and memory change: " + w.intent.NoResize)
	}
	return way{update: step.Update{
		To: target, Change: change, Grace: w.intent.GracePeriod, Undrained: w.intent.PatchUndrained, Lifecycle: w.intent.Lifecycle,
	}}
}

// impossible is what the policy makes of a pod that cannot be updated in place.
func (w *ways) impossible(why string) way {
	if w.intent.Policy == inplace.PolicyInPlaceOnly {
		return way{refused: why}
	}
	return way{recreate: "cannot be updated in place: " + why}
}

// lastPlaced is the last of those that have a place in the grant which another can take; -1 without any.
func lastPlaced(members []*member) int {
	for i, m := range slices.Backward(members) {
		if !m.placeless {
			return i
		}
	}
	return -1
}

package plan

import (
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/step"
)

// Next decides on all pods of one workload. pods are all that belong to it, terminating and finished ones too; one that
// occurs twice counts once. in.Population is merged into the Decision: its creates are counted as pods of their
// revision, its deletes as gone.
func Next(in inplace.Intent, pods []inplace.Pod, now time.Time) inplace.Decision {
	r := newRound(in, pods, now)
	r.choose()
	r.spend()
	r.freeBudget()
	r.act()
	return r.decision()
}

// member is one pod with what this round thinks of it.
type member struct {
	pod   inplace.Pod
	proof step.Proof
	// gone is set for pods that scaling deletes in this pass, or whose preDelete hook it asks.
	gone bool
	// leaving is set for pods that were asked to go and are still there: they are not moved, and have no place in the grant.
	leaving bool
	// condemned has no slot, and stands in for no pod that has one.
	condemned bool
	// outside is kept by the partition because of its position; fixed is not moved yet, whatever else would let it.
	outside, fixed bool
	// written is set for pods that scaling writes in this pass: nothing else is written to them.
	written bool
	// update is where it goes; without a target it stays.
	update step.Update
	// recreate says why it is deleted and not patched; empty when it is patched.
	recreate string
	// refusal says why it may not move at all.
	refusal string
	// chosen is set when it is allowed to move, by partition first and by budget then.
	chosen bool
	// placeless is set for a chosen pod that takes no place in the grant: it comes back on the revision it was asked to run.
	placeless bool
	// rescued is set for a chosen pod that goes to the current revision, not to the update revision.
	rescued bool
	// waits is set when it would move but for pods that go in this very pass: it is left as it is until the next.
	waits   bool
	outcome step.Outcome
}

// takesDown reports whether the pod serves and its outcome drains it.
func (r *round) takesDown(m *member) bool {
	return m.outcome.Patch != nil && m.outcome.Patch.Kind == inplace.PatchDrain && m.pod.InService()
}

// unsettled reports whether a container of the pod may be started anew at any moment, because of a patch.
func (m *member) unsettled() bool {
	patched := m.pod.State != nil || m.pod.StateProblem != ""
	return patched && !m.proof.Done && !m.proof.Settled
}

// active reports whether the pod counts as one of the workload's.
func (m *member) active() bool {
	return m.pod.Active() && !m.gone
}

// stays reports whether it has a place in the grant.
func (m *member) stays() bool {
	return m.active() && !m.leaving
}

// state is that of its lifecycle hooks.
func (m *member) state() hooks.State {
	state, _ := hooks.Of(m.pod.Labels)
	return state
}

// begun reports whether it is on its way to another revision, or was: out of service because of us, or let go by its hook
// or about to be.
func (m *member) begun() bool {
	state := m.state()
	return m.pod.Gate == inplace.GateFalse || state == hooks.PreparingUpdate || state == hooks.Updating
}

// round is one run of Next.
type round struct {
	in      inplace.Intent
	now     time.Time
	members []*member
	ways    ways
	tally   tally
	room    int32
	// bare is room where a pod without a gate that is on its way counts as it is: what it pays from itself, or one that can
	// never be proven would block itself.
	bare int32
	// serving is room where pods that wait in PreparingUpdate, and serve, count as available: they go down when their hook
	// lets them go, within it.
	serving int32

	// What the candidates wait for.
	refused []*member
	held    []*member
	blocked []*member
	// fixed have a place in the grant and are not moved yet, as Intent.Fixed says.
	fixed []*member
	// ungated is the pod without a gate that was patched in service and is not proven; queued are those that wait for it.
	ungated  *member
	queued   []*member
	deletes  []inplace.Delete
	patches  []inplace.Patch
	warnings []string
	// undrained are the names of pods patched in service.
	undrained []string
	look      time.Duration
}

// tally counts pods as they are, pods being created and deleted in this pass included where said so.
type tally struct {
	// staying are active pods that were not asked to go; available counts those too that were.
	staying, available int32
	// asked are staying pods on the update revision, created ones of this pass included; older are the others. leaving are
	// pods on the update revision that were asked to go and are still there, going those that scaling deletes in this pass.
	asked, older, leaving, going int32
	// condemned are pods on the update revision that have no slot and are still there, condemnedGoing those that scaling deletes
	// in this pass; they are in neither leaving nor going.
	condemned, condemnedGoing int32
	// askedOutside are those of asked that the partition keeps by their position.
	askedOutside int32
	// moving are those of older that are on their way to the update revision.
	moving int32
	// absent pods are wanted and neither there nor being created; absentNew of them will come at the update revision.
	absent, absentNew int32
	// begun are pods of other revisions that were taken out of service or whose hooks were asked.
	begun int32
	// held are pods that wait in PreparingUpdate and serve.
	held int32
	// restarting are available pods without a gate, patched in service and not proven: they do not count for the budget.
	restarting int32
}

func newRound(in inplace.Intent, pods []inplace.Pod, now time.Time) *round {
	r := &round{in: in, now: now, ways: ways{intent: in, cache: map[[2]string]way{}}}
	population := readPopulation(&in.Population)
	seen, outside := map[string]bool{}, namesOf(in.Outside)
	for _, p := range pods {
		if seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		m := &member{pod: p, proof: step.Prove(p, step.Update{Undrained: in.PatchUndrained}, now)}
		population.mark(m)
		m.outside, m.fixed = outside[p.Name], in.Fixed[p.Name] != ""
		r.members = append(r.members, m)
	}
	r.count()
	r.later(in.Population.LookAgainIn)
	return r
}

func namesOf(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, name := range list {
		out[name] = true
	}
	return out
}

// population says of names what scaling does.
type population struct {
	gone, leaving, written, condemned map[string]bool
}

func readPopulation(p *inplace.Population) population {
	out := population{gone: map[string]bool{}, leaving: map[string]bool{}, written: map[string]bool{}, condemned: map[string]bool{}}
	for i := range p.Deletes {
		out.gone[p.Deletes[i].Name] = true
	}
	for i := range p.Patches {
		x := &p.Patches[i]
		out.written[x.Name] = true
		if to := x.Metadata.Labels[appsv1alpha1.LabelLifecycleState]; to != nil && hooks.State(*to) == hooks.PreparingDelete {
			out.leaving[x.Name] = true
		}
	}
	for _, name := range p.Condemned {
		out.condemned[name] = true
	}
	for _, name := range p.Leaving {
		out.leaving[name] = true
	}
	return out
}

// mark notes what scaling does with one pod.
func (p *population) mark(m *member) {
	name := m.pod.Name
	m.gone, m.written, m.condemned = p.gone[name], p.written[name], p.condemned[name]
	m.leaving = p.leaving[name] || m.state() == hooks.PreparingDelete && !m.written
}

func (r *round) count() {
	t := &r.tally
	for _, m := range r.members {
		if m.active() {
			r.countOne(m)
		}
		// What scaling deletes in this pass is there until it is: a delete that fails must not leave one too many.
		going := one(m.gone && m.pod.Active() && m.pod.Revision == r.in.Update.Name)
		if m.condemned {
			t.condemnedGoing += going
		} else {
			t.going += going
		}
	}
	there := t.staying
	for _, c := range r.in.Population.Creates {
		there++
		if c.Revision == r.in.Update.Name {
			t.asked++
		} else {
			t.older++
		}
	}
	// Scaling counts pods that are about to be moved as new, as far as the grant has room: what replaces a lost pod then
	// comes at the current revision, and leaves them their place (B063).
	transit := int32(0)
	if !r.standstill() {
		transit = min(t.moving, max(r.in.Grant()-t.asked, 0))
	}
	t.absent = max(r.in.Replicas-there, 0)
	t.absentNew = max(t.absent-max(r.in.Partition-(t.older-transit), 0), 0)
	if told := r.in.Population.AbsentNew; told != nil {
		t.absentNew = min(max(*told, 0), t.absent)
	}
	r.bare = t.available - (r.in.Replicas - r.in.MaxUnavailable)
	r.room = r.bare - t.restarting
	r.serving = r.room + t.held
}

func (r *round) countOne(m *member) {
	t := &r.tally
	updated := m.pod.Revision == r.in.Update.Name
	// One that is brought into PreparingDelete counts as down from now on.
	t.available += one(m.pod.Available && !m.condemned && !(m.leaving && m.written))
	t.begun += one(!updated && (m.begun() || m.state() == hooks.PreparingDelete))
	t.leaving += one(updated && m.leaving && !m.condemned)
	t.condemned += one(updated && m.condemned)
	if m.stays() {
		t.staying++
		t.asked += one(updated)
		t.askedOutside += one(updated && m.outside)
		t.older += one(!updated)
		t.moving += one(!updated && m.begun())
		t.held += one(r.heldInService(m))
	}
	if m.pod.Gate == inplace.GateNone && m.unsettled() {
		// Its containers may go down at any moment, and nothing says when.
		t.restarting += one(m.pod.Available && !m.condemned)
		if r.ungated == nil || m.pod.Name < r.ungated.pod.Name {
			r.ungated = m
		}
	}
	if m.pod.Ready && !m.pod.Available {
		r.later(m.pod.AvailableIn)
	}
	r.later(m.pod.DownIn)
}

// heldInService reports whether the pod counts as unavailable only because its hook was asked.
func (r *round) heldInService(m *member) bool {
	return m.state() == hooks.PreparingUpdate && m.pod.Ready && m.pod.Gate != inplace.GateFalse
}

// later keeps the shortest time after which to look again.
func (r *round) later(d time.Duration) {
	if d > 0 && (r.look == 0 || d < r.look) {
		r.look = d
	}
}

// spend lets the chosen pods go as far as the budget allows. What restarts nothing, and a pod that does not serve, costs
// nothing; so the walk goes on after the budget is spent. A pod in PreparingUpdate whose hook has let it go, and that the
// budget does not, goes back to Normal: waiting would cost its capacity for as long as others are down.
func (r *round) spend() {
	for _, m := range r.members {
		if m.chosen && r.outOfTurn(m) {
			m.chosen = false
			r.queued = append(r.queued, m)
			continue
		}
		if m.chosen && r.serves(m) && !r.pay(m) {
			m.chosen = false
			r.blocked = append(r.blocked, m)
			continue
		}
		if m.chosen && r.patchedInService(m) {
			r.ungated = m
		}
	}
}

// pay takes one serving pod off the budget. One that is counted as unavailable already makes no more pods unavailable.
func (r *round) pay(m *member) bool {
	switch {
	case m.pod.Gate == inplace.GateNone && m.unsettled():
		if r.bare < one(m.pod.Available) {
			return false
		}
		r.bare -= one(m.pod.Available)
		return true
	case r.heldInService(m):
		if r.serving < 1 {
			return false
		}
		r.serving--
		return true
	case m.pod.Available && r.room >= 1:
		r.room--
		r.bare--
		r.serving--
		return true
	default:
		return !m.pod.Available && r.room >= 0
	}
}

// patchedInService reports whether the pod has no gate and would be patched while it serves.
func (r *round) patchedInService(m *member) bool {
	return m.pod.Gate == inplace.GateNone && m.pod.InService() && m.recreate == "" && step.Restarts(m.pod, m.update)
}

// outOfTurn reports whether another pod without a gate has been patched and is not proven: there is one at a time.
func (r *round) outOfTurn(m *member) bool {
	return r.ungated != nil && r.ungated != m && r.patchedInService(m)
}

// serves reports whether the pod serves and its target takes it down. A pod without a gate that is on its way counts as
// down already, unless it is deleted.
func (r *round) serves(m *member) bool {
	if m.recreate != "" {
		return m.pod.InService()
	}
	if m.pod.Gate == inplace.GateNone && m.unsettled() {
		return false
	}
	return step.Serves(m.pod, m.update)
}

// act turns every pod's target into a write or a wait.
func (r *round) act() {
	for _, m := range r.members {
		switch {
		case !m.active() || m.written || m.waits:
			continue
		case m.chosen && m.recreate != "":
			r.replace(m)
			continue
		case !m.chosen:
			m.update = step.Update{
				Undrained: r.in.PatchUndrained && (m == r.ungated || !m.pod.InService()),
				Lifecycle: r.in.Lifecycle, HooksUnread: r.in.Invalid != "",
			}
		}
		m.outcome = step.Next(m.pod, m.update, r.now)
		if !m.chosen && r.takesDown(m) && !r.pay(m) {
			// What somebody else began, or a resize that was given up, is finished when the budget allows it.
			m.outcome = step.Outcome{}
			r.blocked = append(r.blocked, m)
			continue
		}
		r.later(m.outcome.LookAgainIn)
		if m.outcome.Patch != nil {
			r.patches = append(r.patches, *m.outcome.Patch)
		}
		if m.outcome.Undrained {
			r.undrained = append(r.undrained, m.pod.Name)
		}
		if m.outcome.Warning != "" {
			r.warnings = append(r.warnings, m.outcome.Warning)
		}
	}
}

// replace deletes a pod that is recreated, or asks its preDelete hook.
func (r *round) replace(m *member) {
	answer, patch := hooks.Replace(r.in.Lifecycle, &m.pod, r.now)
	if answer.Ready {
		r.deletes = append(r.deletes, inplace.Delete{Ref: m.pod.Ref, Because: m.recreate})
		return
	}
	m.outcome = step.Outcome{Wait: inplace.HoldHook, Because: answer.Because}
	if patch != nil {
		patch.Because = m.recreate + "; " + answer.Because
		r.patches = append(r.patches, *patch)
	}
}

func one(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

// decision puts together what was found.
func (r *round) decision() inplace.Decision {
	d := inplace.Decision{
		Creates:      r.in.Population.Creates,
		Deletes:      slices.Concat(r.in.Population.Deletes, r.deletes),
		Patches:      slices.Concat(r.in.Population.Patches, r.patches),
		ClaimDeletes: r.in.Population.ClaimDeletes,
		ClaimPatches: r.in.Population.ClaimPatches,
		Summary:      r.summary(),
		Events:       r.events(),
	}
	d.Holds = r.holds()
	d.LookAgainIn = r.look
	return d
}

// olderMembers are the pods that stay and are not on the update revision.
func (r *round) olderMembers() []*member {
	var out []*member
	for _, m := range r.members {
		if m.stays() && m.pod.Revision != r.in.Update.Name {
			out = append(out, m)
		}
	}
	return out
}

// holds say why pods that could move do not.
func (r *round) holds() []inplace.Hold {
	var out []inplace.Hold
	add := func(kind inplace.HoldKind, pods int, because string) {
		out = append(out, inplace.Hold{Kind: kind, Pods: int32(pods), Because: because}) //nolint:gosec // a number of pods
	}
	older := r.olderMembers()
	oldName, _ := r.called(older)
	switch {
	case r.in.Invalid != "":
		add(inplace.HoldInvalid, len(older), "the spec cannot be read, so nothing moves: "+r.in.Invalid)
	case r.in.Paused && len(older) > 0:
		add(inplace.HoldPaused, len(older), fmt.Sprintf("the release is paused: %s on %s", pods(len(older), "stays", "stay"), oldName))
	case r.in.OnDelete && len(older) > 0:
		add(inplace.HoldOnDelete, len(older), fmt.Sprintf("the update type is OnDelete: %s on %s until deleted", pods(len(older), "stays", "stay"), oldName))
	}
	if len(r.refused) > 0 {
		add(inplace.HoldRefused, len(r.refused), fmt.Sprintf("%s not moved, the update strategy being %s: %s",
			pods(len(r.refused), "is", "are"), inplace.PolicyInPlaceOnly, r.refused[0].refusal))
	}
	// Somebody has to do something about these, and what follows often waits for them.
	hookWaits, told := r.hookWaits()
	out = append(out, hookWaits...)
	if len(r.held) > 0 {
		add(inplace.HoldPartition, len(r.held), r.partitionSentence())
	}
	if len(r.blocked) > 0 {
		add(inplace.HoldBudget, len(r.blocked), r.budgetSentence())
	}
	if len(r.queued) > 0 {
		add(inplace.HoldBudget, len(r.queued), fmt.Sprintf("%s: without the readiness gate InPlaceUpdateReady pods are patched in service, one at a time",
			pods(len(r.queued), "waits", "wait")))
	}
	if len(r.fixed) > 0 {
		add(inplace.HoldClaim, len(r.fixed), fmt.Sprintf("%s not moved yet; %s: %s",
			pods(len(r.fixed), "is", "are"), r.fixed[0].pod.Name, r.in.Fixed[r.fixed[0].pod.Name]))
	}
	out = append(out, r.waits()...)
	return append(out, slices.DeleteFunc(slices.Clone(r.in.Population.Holds), func(h inplace.Hold) bool {
		return h.Kind == inplace.HoldHook && told[h.Because]
	})...)
}

// hookWaits are the pods that wait for somebody else's label or finalizer, those that wait for the same one together; told
// are their reasons. What scaling says of the same pods without their names need not be said again.
func (r *round) hookWaits() (out []inplace.Hold, told map[string]bool) {
	names := map[string][]string{}
	for _, m := range r.members {
		if because := r.hookWait(m); because != "" {
			names[because] = append(names[because], m.pod.Name)
		}
	}
	told = map[string]bool{}
	for _, because := range slices.Sorted(maps.Keys(names)) {
		told[because] = true
		who := names[because]
		slices.Sort(who)
		out = append(out, inplace.Hold{
			Kind: inplace.HoldHook, Pods: int32(len(who)), //nolint:gosec // a number of pods
			Because: fmt.Sprintf("%s for a lifecycle hook; %s: %s", pods(len(who), "waits", "wait"), few(who), because),
		})
	}
	return out, told
}

// hookWait says for which hook a pod waits; empty when for none.
func (r *round) hookWait(m *member) string {
	switch {
	case m.outcome.Wait == inplace.HoldHook:
		return m.outcome.Because
	case m.active() && m.leaving && (m.written || m.state() == hooks.PreparingDelete):
		return hooks.Delete(r.in.Lifecycle, &m.pod).Because
	default:
		return ""
	}
}

// few names the first three.
func few(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// partitionSentence explains the pods beyond the grant; more than the partition are held when pods are surplus, or when
// missing ones will come on the update revision.
func (r *round) partitionSentence() string {
	oldName, newName := r.called(r.held)
	held, of := len(r.held), max(r.in.Replicas, r.tally.staying)
	if int32(held) <= r.in.Partition { //nolint:gosec // a number of pods
		return fmt.Sprintf("%d of %d pods stay on %s (partition %d)", held, of, oldName, r.in.Partition)
	}
	return fmt.Sprintf("%d of %d pods stay on %s: %d may be on %s, and they are there or on their way", held, of, oldName, r.in.Grant(), newName)
}

func (r *round) budgetSentence() string {
	if r.in.MaxUnavailable == 0 {
		return fmt.Sprintf("%s: maxUnavailable is 0, so no pod that serves may be taken down before another is there in its place; "+
			"without maxSurge none comes, raise maxUnavailable then", pods(len(r.blocked), "waits", "wait"))
	}
	return fmt.Sprintf("%s: %d of %d pods are unavailable or about to be, and maxUnavailable is %d",
		pods(len(r.blocked), "waits", "wait"), r.in.MaxUnavailable-r.room, r.in.Replicas, r.in.MaxUnavailable)
}

// waits are the steps that pods are in, with the reason of the first by name.
func (r *round) waits() []inplace.Hold {
	texts := map[inplace.HoldKind][2]string{
		inplace.HoldDrain:  {"is being taken out of service", "are being taken out of service"},
		inplace.HoldGrace:  {"waits for the grace period", "wait for the grace period"},
		inplace.HoldProof:  {"is not proven to run what it was asked to", "are not proven to run what they were asked to"},
		inplace.HoldResize: {"waits for its new cpu or memory", "wait for their new cpu or memory"},
	}
	var out []inplace.Hold
	for _, kind := range []inplace.HoldKind{inplace.HoldDrain, inplace.HoldGrace, inplace.HoldProof, inplace.HoldResize} {
		var first *member
		n := 0
		for _, m := range r.members {
			if m.outcome.Wait != kind || m.outcome.Patch != nil {
				continue
			}
			n++
			if first == nil || cmp.Compare(m.pod.Name, first.pod.Name) < 0 {
				first = m
			}
		}
		if n == 0 {
			continue
		}
		out = append(out, inplace.Hold{
			Kind: kind, Pods: int32(n),
			Because: fmt.Sprintf("%s; %s: %s", pods(n, texts[kind][0], texts[kind][1]), first.pod.Name, first.outcome.Because),
		})
	}
	return out
}

// events tells the beginning of a release, each ten pods that got there in place, and the last.
func (r *round) events() []inplace.Event {
	var out []inplace.Event
	if e, ok := r.started(); ok {
		out = append(out, e)
	}
	if e, ok := r.arrived(); ok {
		out = append(out, e)
	}
	if e, ok := r.back(); ok {
		out = append(out, e)
	}
	if e, ok := r.recreating(); ok {
		out = append(out, e)
	}
	if len(r.undrained) > 0 {
		out = append(out, inplace.Event{
			Type: corev1.EventTypeWarning, Reason: "PatchedUndrained",
			Message: several(r.undrained) + ": without the readiness gate InPlaceUpdateReady, so patched while in service",
		})
	}
	if len(r.warnings) > 0 {
		out = append(out, inplace.Event{Type: corev1.EventTypeWarning, Reason: "EndpointsNotDrained", Message: several(r.warnings)})
	}
	return out
}

// several is the first of some texts, with how many more there are.
func several(texts []string) string {
	slices.Sort(texts)
	if more := len(texts) - 1; more > 0 {
		return fmt.Sprintf("%s (and %d more)", texts[0], more)
	}
	return texts[0]
}

// recreating tells which field forces pods to be recreated where they might have been updated in place: with the first
// pods, and at every tenth.
func (r *round) recreating() (inplace.Event, bool) {
	if len(r.deletes) == 0 || r.in.Policy != inplace.PolicyInPlaceIfPossible {
		return inplace.Event{}, false
	}
	before := 0
	for _, m := range r.members {
		again := m.pod.Revision == r.in.Update.Name && m.pod.State == nil && m.pod.Replaces != ""
		if m.pod.Phase == inplace.PhaseTerminating || (m.active() && again) {
			before++
		}
	}
	if before > 0 && before/10 == (before+len(r.deletes))/10 {
		return inplace.Event{}, false
	}
	return inplace.Event{
		Type: corev1.EventTypeNormal, Reason: "Recreating",
		Message: fmt.Sprintf("%s deleted to be recreated: %s", pods(len(r.deletes), "was", "were"), r.deletes[0].Because),
	}, true
}

// started is told with the first write of a release.
func (r *round) started() (inplace.Event, bool) {
	moving := 0
	for _, m := range r.members {
		if m.chosen && !m.rescued && m.pod.Revision != r.in.Update.Name && (m.recreate != "" || m.outcome.Patch != nil) {
			moving++
		}
	}
	if moving == 0 || r.tally.asked > 0 || r.tally.begun > 0 {
		return inplace.Event{}, false
	}
	oldName, newName := r.called(r.olderMembers())
	return inplace.Event{
		Type: corev1.EventTypeNormal, Reason: "UpdateStarted",
		Message: fmt.Sprintf("Began to move %d of %d pods from %s to %s", r.in.Grant(), r.in.Replicas, oldName, newName),
	}, true
}

// arrived is told at every tenth pod that got to the update revision in place, and at the last; back is the same of pods that
// went back to the current one.
func (r *round) arrived() (inplace.Event, bool) {
	of := r.in.Grant()
	names, after, due := r.returned(r.in.Update.Name, int(of))
	return inplace.Event{
		Type: corev1.EventTypeNormal, Reason: "UpdatedInPlace",
		Message: fmt.Sprintf("%d of %d pods were updated in place to %s, among them %s", after, of, spoken(r.in.Update), names),
	}, due
}

func (r *round) back() (inplace.Event, bool) {
	if !r.in.PartitionRollback || !r.releasing() {
		return inplace.Event{}, false
	}
	most := 0
	for _, m := range r.members {
		most += int(one(m.stays() && m.pod.State != nil && m.pod.State.Revision == r.in.Current.Name))
	}
	if r.tally.asked > r.in.Grant() {
		// More are to come.
		most = len(r.members)
	}
	names, after, due := r.returned(r.in.Current.Name, most)
	return inplace.Event{
		Type: corev1.EventTypeNormal, Reason: "RolledBackInPlace",
		Message: fmt.Sprintf("%s moved back in place to %s, as the partition is %d; among them %s",
			pods(after, "was", "were"), spoken(r.in.Current), r.in.Partition, names),
	}, due
}

// returned are the names of a few pods that come back into service now, proven to run a revision that they were patched to,
// and how many have with them; due at every tenth, and when they are most.
func (r *round) returned(revision string, most int) (names string, after int, due bool) {
	var back []string
	for _, m := range r.members {
		if !m.active() || m.pod.State == nil || m.pod.Revision != revision || m.pod.State.Revision != revision || !m.proof.Done {
			continue
		}
		after++
		if m.outcome.Patch != nil && m.outcome.Patch.Kind == inplace.PatchReturn {
			back = append(back, m.pod.Name)
		}
	}
	before := after - len(back)
	if len(back) == 0 || (after/10 == before/10 && after < most) {
		return "", after, false
	}
	slices.Sort(back)
	return strings.Join(back[:min(len(back), 3)], ", "), after, true
}

package step

import (
	"maps"
	"slices"
	"time"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

// held writes the state of a pod that is to move and that its hook holds, takes it out of service where the hook says so,
// and lets it serve meanwhile where it does not.
func held(p *inplace.Pod, u *Update, a *hooks.Answer, now time.Time) Outcome {
	o := Outcome{Wait: inplace.HoldHook, Because: a.Because}
	drains := a.Out && p.Gate == inplace.GateTrue
	returns := !a.Out && (p.Gate == inplace.GateFalse || p.Gate == inplace.GateUnset) && mayServe(p, u, now)
	if !drains && !returns && a.Write == hooks.None {
		return o
	}
	o.Patch = &inplace.Patch{Ref: p.Ref, Kind: inplace.PatchState, At: now, To: p.Revision, Because: a.Because}
	if a.Write != hooks.None {
		o.Patch.Metadata = hooks.Change(a.Write, now)
	}
	switch {
	case drains:
		o.Patch.Kind = inplace.PatchDrain
	case returns:
		o.Patch.Kind, o.Patch.Kruise = inplace.PatchReturn, p.Kruise
	}
	return o
}

// mayServe reports whether nothing that is under way keeps the pod out of service: of one that was never patched nothing is,
// even if it has not started.
func mayServe(p *inplace.Pod, u *Update, now time.Time) bool {
	if p.State == nil && p.Parked == nil && p.StateProblem == "" {
		return true
	}
	if p.StateProblem != "" || parkedHere(p) && blocked(p, u) == "" {
		return false
	}
	proof := prove(p, u, now)
	return (proof.Done || proof.Settled) && !proof.batchDue && !proof.resizeDue
}

// hooked lets the hooks of a pod that stays where it is have their say about o.
func hooked(p *inplace.Pod, u *Update, o Outcome, now time.Time) Outcome {
	state, _ := hooks.Of(p.Labels)
	if state == hooks.None || state == hooks.Normal {
		return o
	}
	returns := o.Patch != nil && o.Patch.Kind == inplace.PatchReturn
	if u.HooksUnread {
		if returns && state == hooks.PreparingDelete {
			return Outcome{}
		}
		return o
	}
	a := hooks.After(u.Lifecycle, p, mayServe(p, u, now))
	switch {
	case !a.Ready && returns:
		return Outcome{}
	case !a.Ready:
		return o
	}
	if a.Because != "" && o.Wait == "" {
		o.Wait, o.Because = inplace.HoldHook, a.Because
	}
	switch {
	case a.Write == hooks.None:
	case returns:
		o.Patch.Metadata = hooks.Change(a.Write, now)
	case o.Patch == nil:
		o.Patch = &inplace.Patch{
			Ref: p.Ref, Kind: inplace.PatchState, At: now, To: p.Revision, Metadata: hooks.Change(a.Write, now),
			Because: "its lifecycle state is " + string(a.Write) + " now",
		}
	}
	return o
}

// unheld takes back what OpenKruise's hooks left behind on a pod that serves as far as we are concerned.
func unheld(p *inplace.Pod, u *Update, o Outcome, now time.Time) Outcome {
	state, _ := hooks.Of(p.Labels)
	held := p.Gate == inplace.GateFalse || p.Gate == inplace.GateUnset || state == hooks.PreparingUpdate || state == hooks.PreparingDelete
	if p.Kruise == nil || o.Patch != nil || held || !mayServe(p, u, now) {
		return o
	}
	o.Patch = giveBack(p, now, "a lifecycle hook of OpenKruise still held it, and does not any more")
	return o
}

// merged lays one change over another; neither is changed.
func merged(under, over inplace.MetadataChange) inplace.MetadataChange {
	out := under
	out.Labels, out.Annotations = maps.Clone(under.Labels), maps.Clone(under.Annotations)
	for k, v := range over.Labels {
		out.Labels = put(out.Labels, k, v)
	}
	for k, v := range over.Annotations {
		out.Annotations = put(out.Annotations, k, v)
	}
	out.AddFinalizers = slices.Concat(under.AddFinalizers, over.AddFinalizers)
	out.RemoveFinalizers = slices.Concat(under.RemoveFinalizers, over.RemoveFinalizers)
	return out
}

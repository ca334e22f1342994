package plan_test

import (
	"fmt"
	"slices"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

// numbered is a workload whose pods have names of their own, like a StatefulSet's: a pod without a slot stands in for none that
// has one, and in order the partition keeps the lowest positions. nil where pods stand in for each other.
type numbered struct {
	// start is the first ordinal wanted.
	start int
	// ordered: the partition has positions.
	ordered bool
	// waits: pods without a slot do not go yet.
	waits bool
}

// numbered draws how a workload of numbered pods scales.
func (s *story) numbered() {
	if s.a.slots == nil {
		return
	}
	s.a.slots.waits = s.rng.IntN(2) == 0
	if s.rng.IntN(3) == 0 {
		s.a.slots.start = s.rng.IntN(3)
	}
}

// scale is who should exist, and fills in what of the intent depends on the pods.
func (a *agent) scale(in *inplace.Intent, pods []inplace.Pod) inplace.Population {
	if a.slots == nil {
		return scale(*in, pods)
	}
	c := crowdOf(*in, pods)
	var out inplace.Population
	if a.faults {
		out.ClaimPatches = []inplace.ClaimPatch{{Because: "passed on"}}
	}
	in.Outside = nil
	staying := slotted{numbered: a.slots, in: in}
	for _, p := range slices.Concat(c.preparing, c.newer, c.older) {
		at, wanted := staying.position(p.Name)
		state, _ := hooks.Of(p.Labels)
		switch {
		case !wanted:
			out.Condemned, out.Leaving = append(out.Condemned, p.Name), append(out.Leaving, p.Name)
			if !a.slots.waits {
				leave(&out, *in, &p, "no slot")
			}
		case state == hooks.PreparingDelete:
			leave(&out, *in, &p, "let go")
			out.Leaving = append(out.Leaving, p.Name)
		case a.slots.ordered && at < int(in.Partition):
			in.Outside = append(in.Outside, p.Name)
		}
		staying.going = len(out.Deletes)
		if p.Revision == in.Update.Name {
			// Whoever is there runs it, until he is gone.
			staying.fresh++
		} else if wanted && state != hooks.PreparingDelete {
			staying.old++
		}
	}
	if !(in.Invalid != "" || in.Paused || in.OnDelete) {
		for i := range c.older {
			_, wanted := staying.position(c.older[i].Name)
			state, _ := hooks.Of(c.older[i].Labels)
			begun := c.older[i].Gate == inplace.GateFalse || state == hooks.PreparingUpdate || state == hooks.Updating
			if wanted && begun && staying.fresh < int(in.Grant()) {
				staying.fresh++
				staying.old--
			}
		}
	}
	taken, late := map[string]bool{}, []int(nil)
	for _, p := range slices.Concat(c.newer, c.older) {
		taken[p.Name] = true
	}
	out.AbsentNew = new(int32)
	for at := range int(in.Replicas) {
		name := fmt.Sprintf("p-%d", a.slots.start+at)
		switch {
		case !c.used[name] && staying.soon(at):
			// Made now it would be of the revision before, and move at once.
			*out.AbsentNew++
		case !c.used[name]:
			out.Creates = append(out.Creates, staying.create(name, at))
		case !taken[name]:
			// Its name is that of a pod on its way out.
			late = append(late, at)
		}
	}
	for _, at := range late {
		if staying.updates(at) {
			staying.fresh++
			*out.AbsentNew++
		} else {
			staying.old++
		}
	}
	slices.Sort(out.Condemned)
	slices.Sort(out.Leaving)
	slices.Sort(in.Outside)
	return out
}

// slotted counts the pods that keep their slots.
type slotted struct {
	*numbered

	in         *inplace.Intent
	old, fresh int
	// going are pods that this pass deletes.
	going int
}

func (s *slotted) position(name string) (at int, wanted bool) {
	var ordinal int
	if _, err := fmt.Sscanf(name, "p-%d", &ordinal); err != nil {
		return 0, false
	}
	at = ordinal - s.start
	return at, at >= 0 && at < int(s.in.Replicas)
}

// updates reports whether the pod of a slot would come at the update revision.
func (s *slotted) updates(at int) bool {
	beyond := s.ordered && at >= int(s.in.Partition) || !s.ordered && s.old >= int(s.in.Partition)
	return s.in.Invalid == "" && s.fresh < int(s.in.Grant()) && beyond
}

// soon reports whether the pod of a slot would come at the update revision once those are gone that this pass deletes.
func (s *slotted) soon(at int) bool {
	after := *s
	after.fresh -= s.going
	return s.going > 0 && !s.updates(at) && after.updates(at)
}

// create makes the pod of a slot, at the update revision as far as the partition and the grant allow it.
func (s *slotted) create(name string, at int) inplace.Create {
	rev := s.in.Current
	if s.updates(at) {
		rev = s.in.Update
		s.fresh++
	} else {
		s.old++
	}
	return inplace.Create{Object: newborn(s.in.Lifecycle, name), Revision: rev.Name}
}

// told: what scaling decided is passed on.
func told(in inplace.Intent, d inplace.Decision) error {
	if len(d.ClaimPatches) != len(in.Population.ClaimPatches) || len(d.Creates) != len(in.Population.Creates) {
		return fmt.Errorf("passed on: %d patches of claims and %d creates of %d and %d", len(d.ClaimPatches), len(d.Creates),
			len(in.Population.ClaimPatches), len(in.Population.Creates))
	}
	return nil
}

// kept: no pod that has no slot is moved, and none that the partition keeps by its position comes to the update revision.
func kept(in inplace.Intent, pods []inplace.Pod, d inplace.Decision) error {
	there := func(name string) bool {
		return slices.ContainsFunc(pods, func(p inplace.Pod) bool { return p.Name == name && p.Revision == in.Update.Name })
	}
	releasing := in.Current.Name != "" && in.Current.Name != in.Update.Name
	for _, x := range d.Patches {
		// A further batch of an update that it has is none.
		moves := x.Kind == inplace.PatchUpdate && x.To == in.Update.Name && !there(x.Name)
		if moves && slices.Contains(in.Population.Condemned, x.Name) {
			return fmt.Errorf("kept: %s moves and has no slot: %s", x.Name, x.Because)
		}
		if moves && releasing && slices.Contains(in.Outside, x.Name) {
			return fmt.Errorf("kept: %s moves, and the partition keeps it: %s", x.Name, x.Because)
		}
	}
	return nil
}

// placed: pods that move take no place of a pod that is missing and will come at the update revision.
func placed(in inplace.Intent, pods []inplace.Pod, d inplace.Decision) error {
	if in.Population.AbsentNew == nil || in.Current.Name == in.Update.Name {
		return nil
	}
	moves, there, seen := 0, int(*in.Population.AbsentNew), map[string]string{}
	for _, p := range pods {
		if p.Active() && seen[p.Name] == "" {
			seen[p.Name] = p.Revision
			there += count(p.Revision == in.Update.Name && !slices.Contains(in.Population.Leaving, p.Name))
		}
	}
	for _, c := range in.Population.Creates {
		there += count(c.Revision == in.Update.Name)
	}
	for _, x := range d.Patches {
		moves += count(x.Kind == inplace.PatchUpdate && x.To == in.Update.Name && seen[x.Name] != in.Update.Name)
	}
	if moves > 0 && there+moves > int(in.Grant()) {
		return fmt.Errorf("placed: %d pods move beside %d that are there or will be, and %d are granted", moves, there, in.Grant())
	}
	return nil
}

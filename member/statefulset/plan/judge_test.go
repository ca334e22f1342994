package plan

import (
	"fmt"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

// view is one decision beside what was seen, counted anew and by other means than the planner's.
type view struct {
	in   Input
	r    Result
	d    inplace.Decision
	pods map[string]*inplace.Pod
	// slots are the wanted ordinals, counted one by one.
	slots []int64
	// down are the pods that are taken down in this pass.
	down map[string]bool
	// scaled are those of them that scaling deletes.
	scaled map[string]bool
}

func newView(in Input, r Result, d inplace.Decision) *view {
	v := &view{in: in, r: r, d: d, pods: map[string]*inplace.Pod{}, down: map[string]bool{}, scaled: map[string]bool{}}
	for i := range in.Pods {
		v.pods[in.Pods[i].Name] = &in.Pods[i]
	}
	for n := in.Strategy.Ordinals.Start; len(v.slots) < int(in.Intent.Replicas); n++ {
		reserved := false
		for _, s := range in.Strategy.Ordinals.reserved {
			reserved = reserved || s.from <= n && n <= s.to
		}
		if !reserved {
			v.slots = append(v.slots, n)
		}
	}
	for _, x := range d.Deletes {
		v.down[x.Name] = true
	}
	for _, x := range r.Deletes {
		v.scaled[x.Name] = true
	}
	for _, x := range d.Patches {
		if x.Kind == inplace.PatchDrain {
			v.down[x.Name] = true
		}
	}
	return v
}

func (v *view) pod(ordinal int64) *inplace.Pod { return v.pods[PodName("web", ordinal)] }

func (v *view) wanted(name string) bool {
	for _, n := range v.slots {
		if PodName("web", n) == name {
			return true
		}
	}
	return false
}

// creates: only slots without a pod, with the claims of the ordinal; in order only when all before it are available.
func (v *view) creates() error {
	for _, c := range v.d.Creates {
		name := c.Object.GetName()
		if !v.wanted(name) || v.pods[name] != nil {
			return fmt.Errorf("%s is created, which is no free slot", name)
		}
		n, _ := OrdinalOf("web", name)
		for _, made := range c.Claims {
			if made.GetName() != "data-"+name {
				return fmt.Errorf("claim %s for %s", made.GetName(), name)
			}
		}
		for _, before := range v.slots {
			if p := v.pod(before); !v.in.Strategy.Parallel && before < n && (p == nil || !p.Available || !p.Active()) {
				return fmt.Errorf("%s is created although web-%d before it is not available", name, before)
			}
		}
	}
	return nil
}

// grant: what this pass brings to the update revision, on top of what is there and is not asked to go by it, is never more
// than was ever granted. A delete that was asked for counts as gone, as in inplace/plan.
func (v *view) grant(granted int) error {
	update, there, more := v.in.Intent.Update.Name, 0, 0
	goes := map[string]bool{}
	for _, x := range v.d.Deletes {
		goes[x.Name] = true
	}
	for name, p := range v.pods {
		there += one(p.Active() && p.Revision == update && !goes[name])
	}
	for _, c := range v.d.Creates {
		more += one(c.Revision == update)
	}
	for _, x := range v.d.Patches {
		more += one(x.Kind == inplace.PatchUpdate && x.To == update && v.pods[x.Name].Revision != update)
	}
	if more > 0 && there+more > granted {
		return fmt.Errorf("%d pods of %s and %d more, the grant was at most %d", there, update, more, granted)
	}
	return nil
}

// budget: of the wanted pods as many stay available as must; with the condemned ones as many serve.
func (v *view) budget() error {
	floor := int(v.in.Intent.Replicas - v.in.Intent.MaxUnavailable)
	available, taken, serving, lost := 0, 0, 0, 0
	for name, p := range v.pods {
		if state, _ := hooks.Of(p.Labels); !p.Active() || state == hooks.PreparingDelete {
			continue
		}
		available += one(p.Available && v.wanted(name))
		serving += one(p.Ready)
		taken += one(p.Available && v.wanted(name) && v.down[name])
		lost += one(p.Ready && v.down[name])
	}
	if taken > 0 && available-taken < floor {
		return fmt.Errorf("budget: %d of %d available pods are taken down, %d must stay", taken, available, floor)
	}
	if lost > 0 && serving-lost < floor && lost > taken {
		return fmt.Errorf("budget: %d of %d serving pods are taken down, %d must stay", lost, serving, floor)
	}
	return nil
}

// order: a pod that serves moves only when every old one above it moves too, or has begun, or is kept from it.
func (v *view) order() error {
	if v.in.Strategy.Unordered {
		return nil
	}
	for i, n := range v.slots {
		name := PodName("web", n)
		p := v.pods[name]
		// One that is down on a revision in between goes to the current one, which is what the partition asks for.
		home := p != nil && p.Down && p.Revision != v.in.Intent.Current.Name
		if p != nil && i < int(v.in.Intent.Partition) && p.Revision != v.in.Intent.Update.Name && v.moves(name) && !home {
			return fmt.Errorf("order: %s moves, which the partition keeps", name)
		}
		if p == nil || !v.down[name] || v.scaled[name] || !p.InService() || p.Revision == v.in.Intent.Update.Name || begun(p) || v.leaving(p) {
			continue
		}
		for _, above := range v.slots[i+1:] {
			q := v.pod(above)
			if q == nil || !q.Active() || q.Revision == v.in.Intent.Update.Name || begun(q) || v.down[q.Name] || v.leaving(q) || !q.InService() {
				continue
			}
			return fmt.Errorf("order: %s moves before %s", name, q.Name)
		}
	}
	return nil
}

// moves: the engine drains, patches or recreates it.
func (v *view) moves(name string) bool {
	for _, x := range v.d.Patches {
		if x.Name == name && (x.Kind == inplace.PatchDrain && hooks.State(v.state(x)) != hooks.PreparingDelete || x.Kind == inplace.PatchUpdate) {
			return true
		}
	}
	for _, x := range v.d.Deletes {
		if x.Name == name && !v.scaled[name] {
			return true
		}
	}
	return false
}

// state is the one that a patch writes.
func (v *view) state(x inplace.Patch) string {
	if to := x.Metadata.Labels[appsv1alpha1.LabelLifecycleState]; to != nil {
		return *to
	}
	return ""
}

// leaving: it is asked to go, or on its way, or a write of scaling is due first.
func (v *view) leaving(p *inplace.Pod) bool {
	state, _ := hooks.Of(p.Labels)
	for _, x := range v.r.Patches {
		if x.Name == p.Name {
			return true
		}
	}
	return p.SpecifiedDelete || state == hooks.PreparingDelete || v.r.Fixed[p.Name] != ""
}

// condemned: in order the highest goes first, alone, and none of the wanted ones below it is down.
func (v *view) condemned() error {
	for name := range v.down {
		n, _ := OrdinalOf("web", name)
		p := v.pods[name]
		if v.wanted(name) || p == nil || v.in.Strategy.Parallel {
			continue
		}
		for other := range v.pods {
			if m, ok := OrdinalOf("web", other); ok && m > n && !v.wanted(other) {
				return fmt.Errorf("%s goes and %s above it is still there", name, other)
			}
		}
	}
	return nil
}

// claims: given to a pod only with a slot gone and the policy Delete, never made smaller, and no pod goes with which one would
// go that is to stay. A pod that serves moves only on volumes as large as their templates.
func (v *view) claims() error {
	seen := map[string]*Claim{}
	for i := range v.in.Claims {
		seen[v.in.Claims[i].Name] = &v.in.Claims[i]
	}
	for _, x := range v.r.ClaimPatches {
		for _, o := range x.Owners {
			if o.Kind == "Pod" && (v.wanted(o.Name) || !v.in.Strategy.DeleteScaled) {
				return fmt.Errorf("claim %s is given to %s", x.Name, o.Name)
			}
		}
		if x.Request != nil && x.Request.Cmp(seen[x.Name].Request) <= 0 {
			return fmt.Errorf("claim %s would shrink", x.Name)
		}
	}
	for name := range v.down {
		c, p := seen["data-"+name], v.pods[name]
		if c == nil || p == nil || len(v.in.Templates) == 0 {
			continue
		}
		deleted := false
		for _, x := range v.d.Deletes {
			deleted = deleted || x.Name == name
		}
		if deleted && (v.wanted(name) || !v.in.Strategy.DeleteScaled) && podOwner(c, name) == p.UID {
			return fmt.Errorf("%s is deleted and claim %s goes with it", name, c.Name)
		}
		moves := !v.scaled[name] && v.wanted(name) && p.InService() && p.Revision != v.in.Intent.Update.Name && !v.leaving(p)
		volumes := v.in.volumes()
		if want := volumes.wants[0]; moves && v.in.Strategy.ResizeClaims && c.Capacity.Cmp(want) < 0 {
			return fmt.Errorf("%s moves on a volume of %s, not %s", name, c.Capacity.String(), want.String())
		}
		if moves && v.r.Fixed[name] != "" {
			return fmt.Errorf("%s moves before its volume is resized", name)
		}
	}
	return nil
}

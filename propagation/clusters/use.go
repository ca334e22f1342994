package clusters

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Use makes every member list and watch the children of these kinds, named "<kind>.<group>" as in
// "CloneSet.apps.kruise.io", from now on: a kind that no UnitedDeployment has is not watched anywhere. Names that are not
// among Options.Kinds are passed over. It returns at once; KindView.Synced, Child and Children say "not read" until a
// member's list has arrived whole. A kind stays in use until the process ends, or until leadership is lost.
func (f *Fleet) Use(kinds ...string) {
	used := f.inUse()
	if !slices.ContainsFunc(kinds, func(name string) bool { return !used[schema.ParseGroupKind(name)] }) {
		return
	}
	f.mu.Lock()
	var added bool
	used = map[schema.GroupKind]bool{}
	maps.Copy(used, f.used)
	for _, k := range f.kinds {
		if gk := k.GVK.GroupKind(); slices.Contains(kinds, gk.String()) && !used[gk] {
			used[gk], added = true, true
		}
	}
	f.used = used
	members := slices.Collect(maps.Values(f.members))
	f.mu.Unlock()
	if !added {
		return
	}
	for _, m := range members {
		m.mu.Lock()
		m.rediscover = true
		m.mu.Unlock()
		m.settle()
		m.nudge()
	}
}

// inUse are the kinds whose children are watched. Read only.
func (f *Fleet) inUse() map[schema.GroupKind]bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.used
}

package plan

import (
	"slices"

	"github.com/underway-dev/underway/inplace"
)

// MustRecreate is how many pods would be recreated, and not changed in place, when they move: toUpdate of the pods of other
// revisions beyond the partition, toCurrent of those of the update revision beyond Replicas-Partition, which go back with
// PartitionRollback. They are what surge is for (W6, N6). Those count that are first in the order of moving, pods in
// PreparingDelete too, which may be wanted again; pods that are asked to go (specified-delete) do not. Both are 0 while
// nothing may move, and toCurrent outside a release and without PartitionRollback.
//
// It is counted without in.Population, which is decided knowing it.
func MustRecreate(in inplace.Intent, pods []inplace.Pod) (toUpdate, toCurrent int32) {
	in.Population = inplace.Population{}
	r := &round{in: in, ways: ways{intent: in, cache: map[[2]string]way{}}}
	if r.standstill() {
		return 0, 0
	}
	for i := range pods {
		r.members = append(r.members, &member{
			pod: pods[i], fixed: in.Fixed[pods[i].Name] != "", outside: slices.Contains(in.Outside, pods[i].Name),
		})
	}
	older := r.inTurn(in.Update, func(m *member) bool { return m.pod.Revision != in.Update.Name })
	toUpdate = r.recreates(older, in.Update, int32(len(older))-in.Partition) //nolint:gosec // a number of pods
	if in.PartitionRollback && r.releasing() {
		updated := r.inTurn(in.Current, func(m *member) bool { return m.pod.Revision == in.Update.Name })
		toCurrent = r.recreates(updated, in.Current, int32(len(updated))-in.Grant()) //nolint:gosec // a number of pods
	}
	return toUpdate, toCurrent
}

// inTurn are the members that may move, in the order in which choose takes them.
func (r *round) inTurn(target inplace.Revision, of func(*member) bool) []*member {
	r.sort()
	r.scatter(target)
	var out []*member
	for _, m := range r.members {
		if m.active() && !m.pod.SpecifiedDelete && of(m) {
			out = append(out, m)
		}
	}
	return out
}

// recreates is how many of the first n members that move get to target by being recreated. As in choose, who is left alone
// takes nobody's place.
func (r *round) recreates(members []*member, target inplace.Revision, n int32) int32 {
	var out int32
	for _, m := range members {
		if n <= 0 {
			break
		}
		w := r.ways.of(m.pod, target)
		if w.refused != "" || r.strange(m, w) || m.outside && target.Name == r.in.Update.Name {
			continue
		}
		n--
		out += one(w.recreate != "" && !m.fixed)
	}
	return out
}

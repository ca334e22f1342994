package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/crowd"
)

// own gives the claims of pods that exist the owners that the retention policy asks for, as Kubernetes does; the garbage
// collector then does the rest:
//
//	whenDeleted, whenScaled   pod has a slot     pod is condemned
//	Retain, Retain            nobody             also nobody
//	Delete, Retain            the StatefulSet    the StatefulSet
//	Retain, Delete            nobody             the pod
//	both Delete               the StatefulSet    the pod
//
// Owners of others stay. A claim whose pod is gone is given none; the StatefulSet is taken off it where it is not to go with it.
func (s *scaling) own() {
	if s.volumes.Empty() {
		return
	}
	for _, m := range append(s.sortedSlots(), s.condemned...) {
		toPod := !m.wanted && s.Strategy.DeleteScaled
		for _, c := range s.volumes.of(m.ordinal) {
			if c == nil || c.Terminating || !s.volumes.ours(c) {
				continue
			}
			s.ownOne(m, c, toPod)
		}
		if m.tied && m.pod.Active() {
			s.fixed(m, tiedText)
		}
	}
	s.disown()
	s.tellRetained()
}

// disown takes the StatefulSet off claims that have no pod, when it does not take its claims with it (any more): they would
// go with it. Nothing is deleted by that. Those of templates that are gone count, too.
func (s *scaling) disown() {
	if s.Strategy.DeleteDeleted {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.volumes.seen)) {
		c := s.volumes.seen[name]
		if c.Terminating || !s.volumes.ours(c) || len(s.out.ClaimPatches) >= crowd.PerPass {
			continue
		}
		patched := slices.ContainsFunc(s.out.ClaimPatches, func(p ClaimPatch) bool { return p.Name == name })
		owners := slices.DeleteFunc(slices.Clone(c.Owners), func(o metav1.OwnerReference) bool { return o.UID == s.Owner.UID })
		if patched || len(owners) == len(c.Owners) {
			continue
		}
		if owners == nil {
			owners = []metav1.OwnerReference{}
		}
		s.patchClaim(c, "whenDeleted is Retain, and without a pod it would go with the StatefulSet").Owners = owners
	}
}

func (s *scaling) ownOne(m *member, c *Claim, toPod bool) {
	pod := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: m.pod.Name, UID: m.pod.UID}
	m.tied = m.tied || !toPod && slices.ContainsFunc(c.Owners, func(o metav1.OwnerReference) bool { return o.UID == pod.UID })
	// Others' references stay, and of ours the one that is wanted, as it is.
	var wanted types.UID
	switch {
	case toPod:
		wanted = pod.UID
	case s.Strategy.DeleteDeleted:
		wanted = s.Owner.UID
	}
	owners, has := []metav1.OwnerReference{}, wanted == ""
	for _, o := range c.Owners {
		ours := o.UID == s.Owner.UID || o.Kind == pod.Kind && o.Name == pod.Name
		if !ours || o.UID == wanted {
			owners = append(owners, o)
		}
		has = has || o.UID == wanted
	}
	if has && len(owners) == len(c.Owners) || len(s.out.ClaimPatches) >= crowd.PerPass {
		return
	}
	because := "persistentVolumeClaimRetentionPolicy says who it goes with"
	switch {
	case has:
	case toPod:
		owners = append(owners, pod)
		because = fmt.Sprintf("its ordinal is not wanted, and whenScaled is Delete: it goes with pod %s", m.pod.Name)
	default:
		owners = append(owners, s.Owner)
	}
	s.patchClaim(c, because).Owners = owners
}

// patchClaim is the patch of a claim in this pass.
func (s *scaling) patchClaim(c *Claim, because string) *ClaimPatch {
	i := slices.IndexFunc(s.out.ClaimPatches, func(p ClaimPatch) bool { return p.Name == c.Name })
	if i < 0 {
		i = len(s.out.ClaimPatches)
		s.out.ClaimPatches = append(s.out.ClaimPatches, ClaimPatch{Ref: c.Ref, Because: because})
	}
	return &s.out.ClaimPatches[i]
}

// tiedText says why a pod that was condemned and is wanted again is not deleted at once.
const tiedText = "a claim names it as owner, and would go with it; that is taken back first"

// untied reports whether the pod may be deleted as far as claims go that are to outlive it.
func (s *scaling) untied(m *member) bool {
	if m.tied {
		s.waits.Add(inplace.HoldClaim, 1, "pods are not deleted yet: "+tiedText)
	}
	return !m.tied
}

// fixed keeps a pod from moving.
func (s *scaling) fixed(m *member, why string) {
	if s.out.Fixed == nil {
		s.out.Fixed = map[string]string{}
	}
	s.out.Fixed[m.pod.Name] = cmp.Or(s.out.Fixed[m.pod.Name], why)
}

// marked reports whether the claims of a condemned pod are seen to go with it, where they are to.
func (s *scaling) marked(m *member) bool {
	if !s.untied(m) {
		return false
	}
	if !s.Strategy.DeleteScaled || s.volumes.Empty() {
		return true
	}
	for _, c := range s.volumes.of(m.ordinal) {
		if c == nil || c.Terminating || !s.volumes.ours(c) {
			continue
		}
		if podOwner(c, m.pod.Name) != m.pod.UID {
			s.waits.Add(inplace.HoldClaim, 1, "pods that are too many wait until their claims say that they go with them")
			return false
		}
	}
	return true
}

// tellRetained names claims of ordinals that are scaled away and have no pod any more: they were kept on purpose, by another
// policy, or by a crash; nobody can tell, so nobody deletes them.
func (s *scaling) tellRetained() {
	if !s.Strategy.DeleteScaled {
		return
	}
	there := map[int64]bool{}
	for _, m := range s.condemned {
		there[m.ordinal] = true
	}
	var names []string
	for name, c := range s.volumes.seen {
		ordinal, ok := s.volumes.ordinalOf(name)
		if !ok || c.Terminating || !s.volumes.ours(c) || there[ordinal] || podOwner(c, PodName(s.Owner.Name, ordinal)) != types.UID("") {
			continue
		}
		if position, free := s.Strategy.Ordinals.Position(ordinal); !free || position >= int64(s.Intent.Replicas) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		s.warn("claims of ordinals that are not wanted have no pod any more and are kept, because no pod went with them: " +
			crowd.Few(names) + "; delete those whose data is not needed")
	}
}

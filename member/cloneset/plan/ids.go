package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/crowd"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/revision"
)

const (
	// idLength is the length of an instance id.
	idLength = 5
	// maxBase is how much of the CloneSet's name a pod's name keeps: with the id it is then a host name (63).
	maxBase = 63 - 1 - idLength
)

// ids says which ids and names are in use.
type ids struct {
	// pods and claims are names in use, byID the claims of this CloneSet.
	pods, claims map[string]bool
	byID         map[string][]inplace.Claim
	// holders are the pods of an id, whatever their phase.
	holders map[string][]*inplace.Pod
	// used are ids that were given away in this pass.
	used map[string]bool
	// next is the smallest number that may be free: all below it are in use.
	next int
}

func (s *scaling) readIDs() ids {
	out := ids{
		pods: make(map[string]bool, len(s.Pods)), claims: make(map[string]bool, len(s.Claims)), used: map[string]bool{},
		byID: make(map[string][]inplace.Claim, len(s.Claims)), holders: make(map[string][]*inplace.Pod, len(s.Pods)),
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		out.pods[p.Name] = true
		if id := idOf(p); id != "" {
			out.holders[id] = append(out.holders[id], p)
		}
	}
	for id := range s.Others {
		out.holders[id] = append(out.holders[id], &inplace.Pod{Phase: inplace.PhaseRunning})
	}
	for i := range s.Claims {
		c := &s.Claims[i]
		out.claims[c.Name] = true
		if c.ID != "" && s.set.Ours(c) {
			out.byID[c.ID] = append(out.byID[c.ID], *c)
		}
	}
	return out
}

func idOf(p *inplace.Pod) string {
	return p.Labels[appsv1alpha1.LabelCloneSetInstanceID]
}

// freshID derives the first id that no pod and no claim uses, and nobody else's name stands in the way of.
func (s *scaling) freshID() string {
	for n := s.ids.next; ; n++ {
		id := ID(string(s.Owner.UID), n)
		if s.isFree(id) {
			s.ids.next = n + 1
			return id
		}
	}
}

func (s *scaling) isFree(id string) bool {
	name := PodName(s.Owner.Name, id)
	if s.ids.used[id] || s.ids.pods[name] || s.barred(name) || len(s.ids.byID[id]) > 0 || len(s.ids.holders[id]) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.set.Names(id), func(claim string) bool { return s.ids.claims[claim] || s.Taken[claim] })
}

// barred reports whether no pod may be created by that name: somebody else has it, or it is asked to go, so that the pod
// would go as soon as it is there.
func (s *scaling) barred(name string) bool {
	return s.Taken[name] || slices.Contains(s.Strategy.PodsToDelete, name)
}

// waiting are the ids whose claims can be used again: free ones whose pods are gone, and pending ones whose pods are on
// their way out and not late. Without reuse, and without claims, there are none.
func (s *scaling) waiting() (free, pending []string) {
	if !s.Strategy.ReuseClaims || s.set.Empty() {
		return nil, nil
	}
	for id, claims := range s.ids.byID {
		name := PodName(s.Owner.Name, id)
		// A name that is asked to go is taken out of the list when its pod is gone; its claims wait for that.
		asked := slices.Contains(s.Strategy.PodsToDelete, name)
		if s.Taken[name] || asked && slices.Contains(s.Stays, name) || s.set.Usable(claims) != "" || s.foreign(id) {
			continue
		}
		holders := s.ids.holders[id]
		switch {
		case len(holders) == 0 && asked:
			pending = append(pending, id)
		case len(holders) == 0 && !s.ids.pods[name]:
			free = append(free, id)
		case len(holders) == 1 && s.leaves(holders[0]):
			pending = append(pending, id)
		}
	}
	slices.Sort(free)
	slices.Sort(pending)
	return free, pending
}

// foreign reports whether a claim that the id still needs has a name that somebody else uses.
func (s *scaling) foreign(id string) bool {
	return slices.ContainsFunc(s.set.Names(id), func(claim string) bool {
		ours := slices.ContainsFunc(s.ids.byID[id], func(c inplace.Claim) bool { return c.Name == claim })
		return !ours && (s.ids.claims[claim] || s.Taken[claim])
	})
}

// leaves reports whether a pod will be gone: it is terminating and not late, or it has finished and is deleted now, or as soon as
// its hook lets it go.
func (s *scaling) leaves(p *inplace.Pod) bool {
	if p.Phase == inplace.PhaseTerminating {
		return crowd.Late(p, s.Now) > 0
	}
	return p.Phase == inplace.PhaseTerminal && (s.asksHook(p) && !hooks.Delete(s.Intent.Lifecycle, p).Ready ||
		slices.ContainsFunc(s.population.Deletes, func(d inplace.Delete) bool { return d.Name == p.Name }))
}

// ID is the n-th instance id of a CloneSet: 5 characters that anybody derives alike from its UID.
func ID(uid string, n int) string {
	return revision.Short(uid+"/"+strconv.Itoa(n), idLength)
}

// PodName is the name of the pod with that id. A long CloneSet name is cut, so that the pod's name is a host name; the
// id tells pods of CloneSets apart that begin alike, and a name in use by another is passed over.
func PodName(cloneSet, id string) string {
	if len(cloneSet) > maxBase {
		cloneSet = strings.TrimRight(cloneSet[:maxBase], "-.")
	}
	return cloneSet + "-" + id
}

// orphanAge is how old a claim is before it is deleted for having no pod: a create that an earlier process of ours sent
// may still be on its way. It compares the API server's clock with ours, so a skewed clock only changes the wait.
const orphanAge = 2 * time.Minute

// dropOrphans deletes claims whose pods are gone, where they are not used again. Claims of other templates are kept where
// claims are used again: nobody asked for their data to go.
func (s *scaling) dropOrphans() {
	var outdated []string
	for id, claims := range s.ids.byID {
		if len(s.ids.holders[id]) > 0 || s.ids.used[id] {
			continue
		}
		if !s.Strategy.ReuseClaims {
			s.dropClaims(claims)
			continue
		}
		for i := range claims {
			if !claims[i].Terminating && s.set.Usable(claims[i:i+1]) != "" {
				outdated = append(outdated, claims[i].Name)
			}
		}
	}
	slices.SortFunc(s.population.ClaimDeletes, func(a, b inplace.ClaimDelete) int { return strings.Compare(a.Name, b.Name) })
	if len(outdated) == 0 {
		return
	}
	slices.Sort(outdated)
	s.population.Warnings = append(s.population.Warnings, fmt.Sprintf("%d claims of other volumeClaimTemplates have no pod any more "+
		"and are kept: %s; delete those whose data is not needed", len(outdated), crowd.Few(outdated)))
}

func (s *scaling) dropClaims(claims []inplace.Claim) {
	for i := range claims {
		c := &claims[i]
		if c.Terminating {
			continue
		}
		if left := c.Created.Add(orphanAge).Sub(s.Now); left > 0 {
			s.later(left)
			continue
		}
		s.population.ClaimDeletes = append(s.population.ClaimDeletes, inplace.ClaimDelete{
			Ref: c.Ref, Because: "its pod is gone and the scale strategy does not use claims again",
		})
	}
}

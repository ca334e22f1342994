package plan

import (
	"fmt"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/crowd"
	"github.com/underway-dev/underway/inplace/podseed"
)

// grow creates missing pods: first what the partition wants old, the rest new. Old pods still missing plus new pods
// still granted are never fewer than the missing ones, so the rest is inside the grant:
// (partition-old) + (replicas-partition-new) = replicas-old-new.
func (s *scaling) grow(d Diff) {
	if d.ScaleUp <= 0 || s.putOff(d.ScaleUp) {
		return
	}
	if s.ClaimsProblem != "" {
		s.hold(inplace.HoldScale, d.ScaleUp, "pods cannot be created: "+s.ClaimsProblem)
		return
	}
	if left := d.ScaleUp - d.ScaleUpLimit; left > 0 {
		s.hold(inplace.HoldBudget, left, fmt.Sprintf(
			"pods to create wait: scaleStrategy.maxUnavailable is %d and as many are not available, or will be", *s.Strategy.CreateMaxUnavailable))
	}
	free, pending := s.waiting()
	now := d.ScaleUpLimit
	if wait := min(max(now-len(free), 0), len(pending)); wait > 0 {
		now -= wait
		s.hold(inplace.HoldClaim, wait, fmt.Sprintf("new pods wait for %s to be gone, whose claims they are to have",
			PodName(s.Owner.Name, pending[0])))
		s.awaken(pending)
	}
	for i := range min(now, crowd.PerPass) {
		rev := s.Intent.Update
		if i < d.ScaleUpOld {
			rev = s.Intent.Current
		}
		if len(rev.Template) == 0 {
			s.hold(inplace.HoldScale, now-i, fmt.Sprintf("revision %s is not kept any more, so its pods cannot be created: set the partition "+
				"to 0 to create them at the update revision, or bring its ControllerRevision back", rev.Name))
			return
		}
		if !s.create(rev, s.pickID(free, i)) {
			return
		}
	}
}

// pickID is the id of the i-th pod to create: those whose claims are used again first.
func (s *scaling) pickID(free []string, i int) string {
	if i < len(free) {
		return free[i]
	}
	return s.freshID()
}

// awaken looks again when the first of the pods that are waited for is late.
func (s *scaling) awaken(pending []string) {
	for _, id := range pending {
		for i := range s.ids.holders[id] {
			s.later(crowd.Late(s.ids.holders[id][i], s.Now))
		}
	}
}

// putOff reports whether creates wait: nodes refuse pods, or the API server refused the last create.
func (s *scaling) putOff(missing int) bool {
	if wait := s.backoff(); wait > 0 {
		s.hold(inplace.HoldScale, missing, "pods were refused by their nodes, the next try waits")
		s.later(wait)
		return true
	}
	if s.Refused == nil {
		return false
	}
	s.hold(inplace.HoldScale, missing, "pods cannot be created, which is tried again: "+s.Refused.Message)
	left := s.Refused.Wait(s.Now)
	s.later(left)
	return left > 0
}

// create adds one pod.
func (s *scaling) create(rev inplace.Revision, id string) bool {
	name := PodName(s.Owner.Name, id)
	seed := podseed.Seed{
		Namespace: s.Namespace, Name: name, Owner: s.Owner, Revision: rev,
		Labels: map[string]string{appsv1alpha1.LabelCloneSetInstanceID: id},
	}
	i := len(s.population.Creates)
	because := fmt.Sprintf("%d of %d pods exist", len(s.marks)+i, s.Intent.Replicas)
	if i < len(s.Lost) {
		seed.Replaces = s.Lost[i]
		because += ", this one replaces one that went away"
	}
	if len(s.ids.byID[id]) > 0 {
		because += ", it has the claims of one that is gone"
	}
	object, err := podseed.Object(seed)
	if err == nil {
		err = s.set.Mount(object, id)
	}
	if err != nil {
		s.hold(inplace.HoldScale, 1, err.Error())
		return false
	}
	object.SetLabels(crowd.NewLabels(object.GetLabels(), s.Intent.Lifecycle))
	s.ids.used[id] = true
	s.population.Creates = append(s.population.Creates, inplace.Create{
		Object: object, Revision: rev.Name, Claims: s.set.Missing(id, s.ids.claims), DropClaims: !s.Strategy.ReuseClaims, Because: because,
	})
	return true
}

package plan

import (
	"fmt"
	"maps"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/podseed"
)

// perPass bounds the pods of one plan: what is left over is planned anew when these exist, so that a mistyped number of
// replicas costs neither a long plan nor its memory.
const perPass = 250

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
	for i := range min(now, perPass) {
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
			s.later(s.late(s.ids.holders[id][i]))
		}
	}
}

const (
	// firstRetry and lastRetry bound the wait after a create that the API server refused; it doubles from one to the other.
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

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
	wait := lastRetry
	if doublings := max(s.Refused.Times-1, 0); doublings < 6 { //nolint:mnd // 5 s doubled six times is above five minutes
		wait = firstRetry << doublings
	}
	left := s.Refused.Last.Add(wait).Sub(s.Now)
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
	object.SetLabels(s.stateLabels(object.GetLabels()))
	s.ids.used[id] = true
	s.population.Creates = append(s.population.Creates, inplace.Create{
		Object: object, Revision: rev.Name, Claims: s.set.Missing(id, s.ids.claims), DropClaims: !s.Strategy.ReuseClaims, Because: because,
	})
	return true
}

// stateLabels are a new pod's labels: in a template, the label of a lifecycle state or a request to delete would make every
// pod end as soon as it begins.
func (s *scaling) stateLabels(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	delete(out, appsv1alpha1.LabelSpecifiedDelete)
	delete(out, appsv1alpha1.LabelLifecycleState)
	if state := hooks.New(s.Intent.Lifecycle); state != hooks.None {
		out[appsv1alpha1.LabelLifecycleState] = string(state)
	}
	return out
}

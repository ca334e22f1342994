package statefulset

import (
	"slices"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
	"github.com/underway-dev/underway/inplace/crowd"
	"github.com/underway-dev/underway/member/statefulset/plan"
	"github.com/underway-dev/underway/member/workload"
)

// resizeAgain is when to look again at claims that are not as large as they should be: no watch tells of a storage class
// that has come to allow it.
const resizeAgain = time.Minute

// Scale says who should exist, what becomes of claims, and which pods cannot be changed in place because of theirs.
func (Kind) Scale(c workload.Crowd) workload.Scaled {
	in := c.Intent
	set, ok := c.Object.(*appsv1alpha1.StatefulSet)
	if !ok {
		return workload.Scaled{Intent: in}
	}
	strategy := plan.Read(&set.Spec).Strategy
	input := plan.Input{
		Intent: in, Strategy: strategy, Pods: c.Pods, Owner: c.Owner, Namespace: c.Namespace, Taken: c.Taken, Lost: c.LostBy, Now: c.Now,
		Expandable: c.Expandable, Refused: c.Refused,
	}
	if set.Spec.Selector != nil {
		input.ClaimLabels = set.Spec.Selector.MatchLabels
	}
	templates, err := claims.Read(set.Spec.VolumeClaimTemplates)
	if err != nil {
		input.ClaimsProblem = err.Error()
	} else {
		input.Templates = templates
		in.RecreateOnly = plan.Outdated(templates, c.Pods)
	}
	for i := range c.Volumes {
		input.Claims = append(input.Claims, plan.ReadClaim(&c.Volumes[i]))
	}
	result := plan.Scale(input)
	in.Population = result.Population
	in.Population.Condemned, in.Population.AbsentNew, in.Population.ClaimPatches = result.Condemned, &result.AbsentNew, result.ClaimPatches
	in.Fixed, in.Outside = result.Fixed, result.Outside
	if strategy.ResizeClaims && waitsFor(result.Holds, inplace.HoldClaim) {
		in.Population.LookAgainIn = crowd.Soonest(in.Population.LookAgainIn, resizeAgain)
	}
	return workload.Scaled{Intent: in, Volumes: result.Volumes}
}

func waitsFor(holds []inplace.Hold, kind inplace.HoldKind) bool {
	return slices.ContainsFunc(holds, func(h inplace.Hold) bool { return h.Kind == kind })
}

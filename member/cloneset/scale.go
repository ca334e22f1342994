package cloneset

import (
	"slices"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
	"github.com/underway-dev/underway/inplace/hooks"
	moves "github.com/underway-dev/underway/inplace/plan"
	"github.com/underway-dev/underway/member/cloneset/plan"
	"github.com/underway-dev/underway/member/workload"
)

// Scale says who should exist, and completes the intent by what depends on the pods that do: which of them cannot be changed
// in place because of their claims, and how many may be unavailable where surge makes room.
func (Kind) Scale(c workload.Crowd) workload.Scaled {
	in := c.Intent
	cs, ok := c.Object.(*appsv1alpha1.CloneSet)
	if !ok {
		return workload.Scaled{Intent: in}
	}
	// A problem of the strategy is the intent's Invalid already; what can be read beside it is used.
	strategy, _ := plan.ReadStrategy(&cs.Spec, cs.Labels)
	set := claims.Set{Namespace: c.Namespace, Owner: c.Owner, Labels: claimLabels(cs)}
	var problem string
	templates, err := claims.Read(cs.Spec.VolumeClaimTemplates)
	if err != nil {
		problem = err.Error()
	} else {
		set.Templates = templates
		in.RecreateOnly = set.Outdated(c.Pods)
	}
	var recreates plan.Recreates
	if strategy.MaxSurge > 0 || cs.Spec.Lifecycle != nil || slices.ContainsFunc(c.Pods, preparingDelete) {
		recreates.ToUpdate, recreates.ToCurrent = moves.MustRecreate(in, c.Pods)
	}
	in.MaxUnavailable = strategy.Budget(in.MaxUnavailable, recreates)
	in.Population = plan.Scale(plan.Input{
		Intent: in, Pods: c.Pods, Owner: c.Owner, Namespace: c.Namespace, Taken: c.Taken, Others: c.Others, Stays: c.Stays, Lost: c.Lost, Now: c.Now,
		Strategy: strategy, MustRecreate: recreates, Nodes: c.Nodes,
		Templates: set.Templates, ClaimLabels: set.Labels, ClaimsProblem: problem, Claims: c.Claims,
		Refused: c.Refused,
	})
	return workload.Scaled{Intent: in}
}

// preparingDelete reports whether the pod may be taken back: then it matters whether it would be recreated. Its hook may be
// gone from the spec by now.
func preparingDelete(p inplace.Pod) bool {
	state, _ := hooks.Of(p.Labels)
	return state == hooks.PreparingDelete
}

// claimLabels are what every claim carries beside its id, as OpenKruise does it.
func claimLabels(cs *appsv1alpha1.CloneSet) map[string]string {
	if cs.Spec.Selector == nil {
		return nil
	}
	return cs.Spec.Selector.MatchLabels
}

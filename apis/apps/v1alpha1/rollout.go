package v1alpha1

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Rollout is the update strategy of a CloneSet with its two shapes read into one. Numbers and percents are as written;
// nil means unset, and whoever computes with them applies the default (partition 0, maxUnavailable 20%, maxSurge 0).
type Rollout struct {
	// Nested is true when the strategy is written in the nested (v1beta1) shape. A strategy that shows no shape counts
	// as flat.
	Nested bool
	// OnDelete is true when a pod moves only when somebody deletes it. Policy is then without effect.
	OnDelete bool
	// Policy is ReCreate, InPlaceIfPossible or InPlaceOnly, with the default (ReCreate) applied.
	Policy CloneSetUpdateStrategyType
	// Partition is how many pods stay on the old revision.
	Partition *intstr.IntOrString
	// MaxUnavailable is how many pods may be unavailable during an update.
	MaxUnavailable *intstr.IntOrString
	// MaxSurge is how many pods more than replicas may exist during an update.
	MaxSurge *intstr.IntOrString
	// Paused stops updates, not scaling.
	Paused bool
	// GracePeriodSeconds is how long, in seconds, a drained pod waits before it is patched.
	GracePeriodSeconds int32
	// PartitionRollback moves updated pods back when the partition is raised.
	PartitionRollback bool
	// Priority orders the pods to update, Scatter spreads them; nil: neither.
	Priority *UpdatePriorityStrategy
	Scatter  []UpdateScatterTerm
}

// Rollout reads the two shapes of the update strategy into one. The error names the field when both shapes are used or
// when a word is none that is known: such an object came through a CRD without our rules, and nothing of it may move.
// Rollout does not parse the numbers; Problems does.
func (s *CloneSetSpec) Rollout() (Rollout, error) {
	if problems := shapeProblems(&s.UpdateStrategy); len(problems) > 0 {
		return Rollout{}, fmt.Errorf("reading the update strategy: %s", problems[0])
	}
	strategy := &s.UpdateStrategy
	rollout := Rollout{
		Nested:            strategy.nested(),
		OnDelete:          strategy.Type == OnDeleteUpdate,
		Policy:            ReCreateUpdate,
		PartitionRollback: strategy.PartitionRollback != nil && *strategy.PartitionRollback,
	}
	common, policy := &strategy.CloneSetRollout, strategy.Type
	if rollout.Nested {
		common, policy = &CloneSetRollout{}, ""
		if strategy.RollingUpdate != nil {
			common, policy = &strategy.RollingUpdate.CloneSetRollout, strategy.RollingUpdate.PodUpdatePolicy
		}
	}
	if policy != "" {
		rollout.Policy = policy
	}
	rollout.Partition, rollout.MaxUnavailable, rollout.MaxSurge = common.Partition, common.MaxUnavailable, common.MaxSurge
	rollout.Paused, rollout.Priority, rollout.Scatter = common.Paused, common.PriorityStrategy, common.ScatterStrategy
	if common.InPlaceUpdateStrategy != nil {
		rollout.GracePeriodSeconds = common.InPlaceUpdateStrategy.GracePeriodSeconds
	}
	return rollout, nil
}

// nested tells whether the strategy shows the nested shape.
func (s *CloneSetUpdateStrategy) nested() bool {
	return s.RollingUpdate != nil || s.Type == RollingUpdate || s.Type == OnDeleteUpdate
}

// shapeProblems says what keeps the two shapes from being read as one.
func shapeProblems(s *CloneSetUpdateStrategy) []string {
	const at = "spec.updateStrategy"
	var problems []string
	flatTypes := []CloneSetUpdateStrategyType{"", ReCreateUpdate, InPlaceIfPossibleUpdate, InPlaceOnlyUpdate}
	switch {
	case s.nested() && !slices.Contains([]CloneSetUpdateStrategyType{"", RollingUpdate, OnDeleteUpdate}, s.Type):
		problems = append(problems, fmt.Sprintf("%s: type %s and rollingUpdate are two shapes of one strategy; "+
			"write type RollingUpdate and rollingUpdate.podUpdatePolicy %s, or leave rollingUpdate out", at, s.Type, s.Type))
	case !s.nested() && !slices.Contains(flatTypes, s.Type):
		problems = append(problems, fmt.Sprintf("%s.type: %q is no strategy; write ReCreate, InPlaceIfPossible, "+
			"InPlaceOnly, RollingUpdate or OnDelete", at, s.Type))
	}
	if s.nested() {
		for _, field := range s.set() {
			problems = append(problems, fmt.Sprintf("%s.%s: stands beside the nested shape; move it under "+
				"rollingUpdate", at, field))
		}
	}
	if s.RollingUpdate != nil && !slices.Contains(flatTypes, s.RollingUpdate.PodUpdatePolicy) {
		problems = append(problems, fmt.Sprintf("%s.rollingUpdate.podUpdatePolicy: %q is no policy; write ReCreate, "+
			"InPlaceIfPossible or InPlaceOnly", at, s.RollingUpdate.PodUpdatePolicy))
	}
	return problems
}

// set names the fields that are set, in the order of the type.
func (r *CloneSetRollout) set() []string {
	var fields []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"partition", r.Partition != nil},
		{"maxUnavailable", r.MaxUnavailable != nil},
		{"maxSurge", r.MaxSurge != nil},
		{"paused", r.Paused},
		{"priorityStrategy", r.PriorityStrategy != nil},
		{"scatterStrategy", len(r.ScatterStrategy) > 0},
		{"inPlaceUpdateStrategy", r.InPlaceUpdateStrategy != nil},
	} {
		if f.set {
			fields = append(fields, f.name)
		}
	}
	return fields
}

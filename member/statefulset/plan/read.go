package plan

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/order"
	"github.com/underway-dev/underway/inplace/partition"
)

// Strategy is what a StatefulSet's spec says about who should exist, beside replicas and partition.
type Strategy struct {
	// Ordinals are the ordinals that pods may have.
	Ordinals Ordinals
	// Unknown says why the ordinals cannot be read; then nobody is created or deleted.
	Unknown string
	// Parallel creates and deletes pods together, and not one after the other.
	Parallel bool
	// Unordered: pods move by priority, so the partition is a number without positions.
	Unordered bool
	// CreateMaxUnavailable is scaleStrategy.maxUnavailable, a percent rounded down, at least 1; nil: no bound. Without
	// Parallel it has no effect.
	CreateMaxUnavailable *int32
	// DeleteScaled deletes the claims of ordinals that are scaled away, DeleteDeleted those of a StatefulSet that is deleted.
	DeleteScaled, DeleteDeleted bool
	// ResizeClaims: a claim that asks for less than its template is resized when its pod's turn has come.
	ResizeClaims bool
	// ServiceName is the subdomain of the pods.
	ServiceName string
}

// Reading is a spec with every number resolved.
type Reading struct {
	// Intent has what the spec says about who moves. With Invalid set nothing moves, and lost pods come back on the current
	// revision: the partition is all replicas then. Templates and revisions are the caller's.
	Intent   inplace.Intent
	Strategy Strategy
	// MinReadySeconds is how long, in seconds, a pod must have been Ready to count as available.
	MinReadySeconds int32
	// Held is true while the spec holds pods back whatever their number.
	Held bool
}

// Read reads a spec. What cannot be read is Intent.Invalid, never a default; the strategy is then as far as it can be read.
func Read(spec *appsv1alpha1.StatefulSetSpec) Reading {
	r := Reading{Strategy: Strategy{Parallel: spec.Parallel(), ServiceName: spec.ServiceName}}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil {
		// Read for itself: pods come back in order whatever else cannot be read. What is no time is never over.
		if r.MinReadySeconds = ptr.Deref(rolling.MinReadySeconds, 0); r.MinReadySeconds < 0 {
			r.MinReadySeconds = math.MaxInt32
		}
	}
	replicas := max(ptr.Deref(spec.Replicas, 1), 0)
	problems := spec.Problems()
	r.readOrdinals(spec)
	problem := cmp.Or(first(problems), r.Strategy.Unknown)
	if problem == "" {
		problem = r.read(spec, replicas)
	}
	if problem != "" {
		r.Intent = inplace.Intent{Invalid: problem, Replicas: replicas, Partition: replicas, Lifecycle: spec.Lifecycle}
		r.Held = true
	}
	return r
}

func first(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

func (r *Reading) readOrdinals(spec *appsv1alpha1.StatefulSetSpec) {
	ranges := make([]appsv1alpha1.OrdinalRange, 0, len(spec.ReserveOrdinals))
	for i, v := range spec.ReserveOrdinals {
		one, err := appsv1alpha1.ReadOrdinals(v)
		if err != nil {
			r.Strategy.Unknown = fmt.Sprintf("spec.reserveOrdinals[%d]: %v", i, err)
			return
		}
		ranges = append(ranges, one)
	}
	var start int32
	if spec.Ordinals != nil {
		start = spec.Ordinals.Start
	}
	if start < 0 {
		r.Strategy.Unknown = fmt.Sprintf("spec.ordinals.start: %d is less than 0; write 0 or more", start)
		return
	}
	r.Strategy.Ordinals = NewOrdinals(start, ranges)
}

func (r *Reading) read(spec *appsv1alpha1.StatefulSetSpec, replicas int32) (problem string) {
	rollout, err := spec.Rollout()
	if err != nil {
		return err.Error()
	}
	const at = "spec.updateStrategy.rollingUpdate"
	in := inplace.Intent{
		Replicas: replicas, Partition: min(rollout.Partition, replicas), Policy: inplace.Policy(rollout.Policy),
		OnDelete: rollout.OnDelete, Paused: rollout.Paused, GracePeriod: time.Duration(rollout.GracePeriodSeconds) * time.Second,
		Lifecycle: spec.Lifecycle,
	}
	if in.MaxUnavailable, err = atLeastOne(rollout.MaxUnavailable, replicas); err != nil {
		return fmt.Sprintf("%s.maxUnavailable: %v", at, err)
	}
	if in.Compare, err = compare(rollout); err != nil {
		return fmt.Sprintf("%s.unorderedUpdate.priorityStrategy.%v", at, err)
	}
	if scale := spec.ScaleStrategy; scale != nil && scale.MaxUnavailable != nil {
		limit, err := atLeastOne(scale.MaxUnavailable, replicas)
		if err != nil {
			return fmt.Sprintf("spec.scaleStrategy.maxUnavailable: %v", err)
		}
		r.Strategy.CreateMaxUnavailable = &limit
	}
	if keep := spec.PersistentVolumeClaimRetentionPolicy; keep != nil {
		r.Strategy.DeleteScaled = keep.WhenScaled == appsv1alpha1.DeleteClaims
		r.Strategy.DeleteDeleted = keep.WhenDeleted == appsv1alpha1.DeleteClaims
	}
	r.Strategy.ResizeClaims = spec.VolumeClaimUpdateStrategy.Type == appsv1alpha1.ClaimsOnPodRollingUpdate
	r.Strategy.Unordered = rollout.Unordered
	r.Intent, r.Held = in, rollout.Partition > 0
	return ""
}

// atLeastOne is a bound of unavailable pods: 1 where it is not written, a percent rounded down, and never less than 1.
func atLeastOne(v *intstr.IntOrString, replicas int32) (int32, error) {
	if v == nil {
		return 1, nil
	}
	// With surge a percent is rounded down.
	n, err := partition.MaxUnavailable(v, 1, replicas)
	return max(n, 1), err
}

// compare is the order in which pods move: by priority in an unordered update, then from the highest ordinal down. The engine
// puts those first that have begun.
func compare(rollout appsv1alpha1.StatefulSetRollout) (func(a, b inplace.Pod) int, error) {
	if rollout.Priority == nil {
		return order.OrdinalDescending, nil
	}
	byPriority, err := order.Priority(rollout.Priority)
	if err != nil {
		return nil, err
	}
	return func(a, b inplace.Pod) int {
		// Of pods that have nothing but labels order.Priority sees no difference beside the priority.
		return cmp.Or(byPriority(inplace.Pod{Labels: a.Labels}, inplace.Pod{Labels: b.Labels}), order.OrdinalDescending(a, b))
	}, nil
}

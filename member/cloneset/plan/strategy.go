package plan

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/partition"
)

// Strategy is what a CloneSet's spec says about who should exist, beside replicas and partition.
type Strategy struct {
	// MaxUnavailable and MaxSurge are those of the update strategy, rounded: percents of maxSurge up, of maxUnavailable down
	// with surge and up without. MaxUnavailable counts only with surge; without it Intent.MaxUnavailable is the same number.
	MaxUnavailable, MaxSurge int32
	// CreateMaxUnavailable is scaleStrategy.maxUnavailable, a percent rounded up; nil: no bound.
	CreateMaxUnavailable *int32
	// PodsToDelete is scaleStrategy.podsToDelete.
	PodsToDelete []string
	// ExcludePreparingDelete leaves pods in PreparingDelete out of the replicas.
	ExcludePreparingDelete bool
	// ReuseClaims: a new pod takes the claims that a pod left behind.
	ReuseClaims bool
	// Spread are the topology keys of the template's topologySpreadConstraints.
	Spread []string
}

// ReadStrategy reads a spec whose labels are the CloneSet's. The problem names the field; it is empty when there is none.
// What can be read beside a problem is read all the same: a pod that is lost meanwhile comes back with its claims.
func ReadStrategy(spec *appsv1alpha1.CloneSetSpec, labels map[string]string) (s Strategy, problem string) {
	scale := spec.ScaleStrategy
	if scale == nil {
		scale = &appsv1alpha1.CloneSetScaleStrategy{}
	}
	rollout, err := spec.Rollout()
	nested := rollout.Nested || spec.UpdateStrategy.RollingUpdate != nil
	s = Strategy{
		PodsToDelete: scale.PodsToDelete, ReuseClaims: reuse(scale, nested), Spread: spread(spec.Template.Raw),
		ExcludePreparingDelete: labels[appsv1alpha1.LabelExcludePreparingDelete] == "true" || ptr.Deref(scale.ExcludePreparingDelete, false),
	}
	if err != nil {
		return s, err.Error()
	}
	at := "spec.updateStrategy"
	if nested {
		at = "spec.updateStrategy.rollingUpdate"
	}
	replicas := max(ptr.Deref(spec.Replicas, 1), 0)
	if s.MaxSurge, err = partition.MaxSurge(rollout.MaxSurge, replicas); err != nil {
		return s, fmt.Sprintf("%s.maxSurge: %v", at, err)
	}
	if s.MaxUnavailable, err = partition.MaxUnavailable(rollout.MaxUnavailable, s.MaxSurge, replicas); err != nil {
		return s, fmt.Sprintf("%s.maxUnavailable: %v", at, err)
	}
	if scale.MaxUnavailable != nil {
		limit, err := partition.Limit(scale.MaxUnavailable, replicas)
		if err != nil {
			return s, fmt.Sprintf("spec.scaleStrategy.maxUnavailable: %v", err)
		}
		s.CreateMaxUnavailable = &limit
	}
	return s, ""
}

// reuse reads the two spellings of one choice. Where neither is written the default is that of the shape which the update
// strategy shows: v1alpha1's (claims are used again) for the flat one and where nothing shows it, v1beta1's (they are not)
// for the nested one.
func reuse(scale *appsv1alpha1.CloneSetScaleStrategy, nested bool) bool {
	switch {
	case scale.DisablePVCReuse != nil:
		return !*scale.DisablePVCReuse
	case scale.EnablePVCReuse != nil:
		return *scale.EnablePVCReuse
	default:
		return !nested
	}
}

// spread reads the keys of the template's constraints; what cannot be read ranks nothing, and is held elsewhere.
func spread(template []byte) []string {
	var t struct {
		Spec struct {
			TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(template, &t); err != nil {
		return nil
	}
	var keys []string
	for i := range t.Spec.TopologySpreadConstraints {
		keys = append(keys, t.Spec.TopologySpreadConstraints[i].TopologyKey)
	}
	return keys
}

// Budget is the Intent's MaxUnavailable. Where maxUnavailable is 0 and surge makes room, but nothing is recreated that surge
// could make room for, one pod at a time is changed in place: it would otherwise wait for ever (B119, W6).
func (s Strategy) Budget(unbounded int32, recreates Recreates) int32 {
	if s.MaxSurge <= 0 {
		return unbounded
	}
	if s.MaxUnavailable == 0 && recreates == (Recreates{}) {
		return 1
	}
	return s.MaxUnavailable
}

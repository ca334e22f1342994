package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxMinReadySeconds is upstream's bound of rollingUpdate.minReadySeconds.
const maxMinReadySeconds = 300

// StatefulSetRollout is the update strategy of a StatefulSet with its defaults applied. A strategy without a
// rollingUpdate block, v1alpha1's or v1beta1's, is RollingUpdate with all defaults.
type StatefulSetRollout struct {
	// OnDelete is true when a pod moves only when somebody deletes it. The rest is then without effect.
	OnDelete bool
	// Policy is ReCreate, InPlaceIfPossible or InPlaceOnly.
	Policy CloneSetUpdateStrategyType
	// Partition is how many pods stay on the old revision, as written: it may exceed the replicas.
	Partition int32
	// MaxUnavailable is how many pods may be unavailable during an update, as written; nil means 1.
	MaxUnavailable *intstr.IntOrString
	// Paused stops updates, not scaling.
	Paused bool
	// Unordered is true when pods move by Priority and not by ordinal.
	Unordered bool
	// Priority orders the pods of an unordered update; nil: no priority.
	Priority *UpdatePriorityStrategy
	// GracePeriodSeconds is how long, in seconds, a drained pod waits before it is patched.
	GracePeriodSeconds int32
	// MinReadySeconds is how long, in seconds, a pod must have been Ready to count as available.
	MinReadySeconds int32
}

// Rollout reads the update strategy. The error names a word that is none that is known: such an object came through a CRD
// without our rules, and nothing of it may move. Rollout does not parse the numbers; Problems does.
func (s *StatefulSetSpec) Rollout() (StatefulSetRollout, error) {
	p := &problems{}
	p.statefulWords(s)
	if len(p.lines) > 0 {
		return StatefulSetRollout{}, fmt.Errorf("reading the update strategy: %s", p.lines[0])
	}
	out := StatefulSetRollout{OnDelete: s.UpdateStrategy.Type == OnDeleteUpdate, Policy: ReCreateUpdate}
	rolling := s.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return out, nil
	}
	if rolling.PodUpdatePolicy != "" {
		out.Policy = rolling.PodUpdatePolicy
	}
	out.Partition, out.MinReadySeconds = deref(rolling.Partition), deref(rolling.MinReadySeconds)
	out.MaxUnavailable, out.Paused = rolling.MaxUnavailable, rolling.Paused
	if rolling.UnorderedUpdate != nil {
		out.Unordered, out.Priority = true, rolling.UnorderedUpdate.PriorityStrategy
	}
	if rolling.InPlaceUpdateStrategy != nil {
		out.GracePeriodSeconds = rolling.InPlaceUpdateStrategy.GracePeriodSeconds
	}
	return out, nil
}

// Parallel reports whether pods are created and deleted together.
func (s *StatefulSetSpec) Parallel() bool {
	return s.PodManagementPolicy == ParallelPods
}

// OrdinalRange are ordinals From..To, both of them included.
type OrdinalRange struct {
	From, To int32
}

// ReadOrdinals reads one entry of reserveOrdinals: a number, or a range such as "3-5". The error names the remedy.
func ReadOrdinals(v intstr.IntOrString) (OrdinalRange, error) {
	const remedy = `must be an ordinal >= 0 or a range such as "3-5", its lower end first`
	if v.Type == intstr.Int {
		if v.IntVal < 0 {
			return OrdinalRange{}, fmt.Errorf("%s, got %d", remedy, v.IntVal)
		}
		return OrdinalRange{From: v.IntVal, To: v.IntVal}, nil
	}
	lower, upper, isRange := strings.Cut(v.StrVal, "-")
	if !isRange {
		upper = lower
	}
	from, ok := ordinal(lower)
	to, okToo := ordinal(upper)
	if !ok || !okToo || from > to {
		return OrdinalRange{}, fmt.Errorf("%s, got %q", remedy, v.StrVal)
	}
	return OrdinalRange{From: from, To: to}, nil
}

// ordinal reads digits, at most 10 of them.
func ordinal(text string) (int32, bool) {
	const digits = 10
	if !isDigits(text) || len(text) > digits {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil
}

// Problems lists what our CRD's rules refuse in s, by path in the order of the type; nil when there is nothing. It does
// not look into the pod template and the claim templates.
func (s *StatefulSetSpec) Problems() []string {
	p := &problems{}
	p.notNegative("spec.replicas", deref(s.Replicas))
	if s.Selector == nil || (len(s.Selector.MatchLabels) == 0 && len(s.Selector.MatchExpressions) == 0) {
		p.add("spec.selector", "an empty selector selects every pod; write matchLabels with the labels of the pod template")
	} else {
		p.operators("spec.selector", s.Selector)
	}
	p.claims("spec.volumeClaimTemplates", s.VolumeClaimTemplates)
	p.statefulWords(s)
	if rolling := s.UpdateStrategy.RollingUpdate; rolling != nil {
		p.statefulRolling(s, rolling)
	}
	p.notNegative("spec.revisionHistoryLimit", deref(s.RevisionHistoryLimit))
	for i := range s.ReserveOrdinals {
		if _, err := ReadOrdinals(s.ReserveOrdinals[i]); err != nil {
			p.add(fmt.Sprintf("spec.reserveOrdinals[%d]", i), err.Error())
		}
	}
	if scale := s.ScaleStrategy; scale != nil {
		p.count("spec.scaleStrategy.maxUnavailable", scale.MaxUnavailable)
	}
	p.lifecycle("spec.lifecycle", s.Lifecycle)
	if s.Ordinals != nil {
		p.notNegative("spec.ordinals.start", s.Ordinals.Start)
	}
	return p.lines
}

// statefulWords checks the words, and that OnDelete stands alone.
func (p *problems) statefulWords(s *StatefulSetSpec) {
	p.word("spec.volumeClaimUpdateStrategy.type", s.VolumeClaimUpdateStrategy.Type, ClaimsOnDelete, ClaimsOnPodRollingUpdate)
	p.word("spec.podManagementPolicy", string(s.PodManagementPolicy), string(OrderedReady), string(ParallelPods))
	update := &s.UpdateStrategy
	p.word("spec.updateStrategy.type", string(update.Type), string(RollingUpdate), string(OnDeleteUpdate))
	if update.Type == OnDeleteUpdate && update.RollingUpdate != nil {
		p.add("spec.updateStrategy.rollingUpdate", "has no meaning with type OnDelete; remove it, or write type RollingUpdate")
	}
	if rolling := update.RollingUpdate; rolling != nil {
		p.word("spec.updateStrategy.rollingUpdate.podUpdatePolicy", string(rolling.PodUpdatePolicy),
			string(ReCreateUpdate), string(InPlaceIfPossibleUpdate), string(InPlaceOnlyUpdate))
	}
	if keep := s.PersistentVolumeClaimRetentionPolicy; keep != nil {
		p.word("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", keep.WhenDeleted, RetainClaims, DeleteClaims)
		p.word("spec.persistentVolumeClaimRetentionPolicy.whenScaled", keep.WhenScaled, RetainClaims, DeleteClaims)
	}
}

// statefulRolling checks the numbers of a rolling update, and what OrderedReady allows.
func (p *problems) statefulRolling(s *StatefulSetSpec, r *StatefulSetRollingUpdate) {
	const at = "spec.updateStrategy.rollingUpdate"
	p.notNegative(at+".partition", deref(r.Partition))
	p.count(at+".maxUnavailable", r.MaxUnavailable)
	pods := s.Replicas == nil || *s.Replicas > 0
	if pods && r.MaxUnavailable != nil && isZero(r.MaxUnavailable) {
		p.add(at+".maxUnavailable", "0 leaves no pod that may be moved; raise it, or hold the update with partition or paused")
	}
	if many := r.MaxUnavailable; !s.Parallel() && many != nil && (many.Type == intstr.String || many.IntVal > 1) {
		p.add(at+".maxUnavailable", "podManagementPolicy OrderedReady moves one pod at a time; write 1, or podManagementPolicy Parallel")
	}
	if !s.Parallel() && r.UnorderedUpdate != nil {
		p.add(at+".unorderedUpdate", "podManagementPolicy OrderedReady moves pods in the order of their ordinals; remove it, or write "+
			"podManagementPolicy Parallel")
	}
	if unordered := r.UnorderedUpdate; unordered != nil {
		p.ordering(at+".unorderedUpdate", &CloneSetRollout{PriorityStrategy: unordered.PriorityStrategy})
	}
	if r.InPlaceUpdateStrategy != nil {
		p.notNegative(at+".inPlaceUpdateStrategy.gracePeriodSeconds", r.InPlaceUpdateStrategy.GracePeriodSeconds)
	}
	p.notNegative(at+".minReadySeconds", deref(r.MinReadySeconds))
	if deref(r.MinReadySeconds) > maxMinReadySeconds {
		p.add(at+".minReadySeconds", fmt.Sprintf("%d is more than %d; write less", *r.MinReadySeconds, maxMinReadySeconds))
	}
}

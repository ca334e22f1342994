package v1alpha1

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// The rules of our CRDs once more, for objects that came through a CRD without them (OpenKruise's own, an older one):
// what admission refuses there is held here. Each problem is "<JSON path>: <what is wrong>; <remedy>"; while there is
// one, nothing of the object may move. The tests of config hold both sets of rules to the same answers.

// Remedies of the int-or-string fields. The messages of the CRDs say the same.
const (
	remedyPercent = `must be a number >= 0 or a percent such as "25%"; write 50 instead of "50"`
	remedyShare   = `must be a number >= 0 or a whole percent from "0%" to "100%"; write 50 instead of "50"`
)

// Problems lists what our CRD's rules refuse in s, by path in the order of the type; nil when there is nothing. It does
// not look into the pod template.
func (s *CloneSetSpec) Problems() []string {
	p := &problems{}
	p.notNegative("spec.replicas", deref(s.Replicas))
	if s.Selector == nil || (len(s.Selector.MatchLabels) == 0 && len(s.Selector.MatchExpressions) == 0) {
		p.add("spec.selector", "an empty selector selects every pod; write matchLabels with the labels of the pod template")
	} else {
		p.operators("spec.selector", s.Selector)
	}
	p.claims("spec.volumeClaimTemplates", s.VolumeClaimTemplates)
	if scale := s.ScaleStrategy; scale != nil {
		p.count("spec.scaleStrategy.maxUnavailable", scale.MaxUnavailable)
		if scale.DisablePVCReuse != nil && scale.EnablePVCReuse != nil {
			p.add("spec.scaleStrategy", "disablePVCReuse and enablePVCReuse are two spellings of one choice; keep one of them")
		}
	}
	p.lines = append(p.lines, shapeProblems(&s.UpdateStrategy)...)
	pods := s.Replicas == nil || *s.Replicas > 0
	p.rollout("spec.updateStrategy", s.UpdateStrategy.Type, &s.UpdateStrategy.CloneSetRollout)
	if pods {
		p.budget("spec.updateStrategy", &s.UpdateStrategy.CloneSetRollout)
	}
	if nested := s.UpdateStrategy.RollingUpdate; nested != nil {
		p.rollout("spec.updateStrategy.rollingUpdate", nested.PodUpdatePolicy, &nested.CloneSetRollout)
		if pods && s.UpdateStrategy.Type != OnDeleteUpdate {
			p.budget("spec.updateStrategy.rollingUpdate", &nested.CloneSetRollout)
		}
	}
	p.notNegative("spec.revisionHistoryLimit", deref(s.RevisionHistoryLimit))
	p.notNegative("spec.minReadySeconds", s.MinReadySeconds)
	if s.ProgressDeadlineSeconds != nil && *s.ProgressDeadlineSeconds <= s.MinReadySeconds {
		p.add("spec.progressDeadlineSeconds", "must be greater than minReadySeconds; raise it or remove it")
	}
	p.lifecycle("spec.lifecycle", s.Lifecycle)
	return p.lines
}

// Problems lists what our CRD's rules refuse in s, by path in the order of the type; nil when there is nothing. It does
// not look into the embedded workload spec: DecodeCloneSetSpec and CloneSetSpec.Problems do.
func (s *UnitedDeploymentSpec) Problems() []string {
	p := &problems{}
	p.notNegative("spec.replicas", deref(s.Replicas))
	if s.Selector == nil || (len(s.Selector.MatchLabels) == 0 && len(s.Selector.MatchExpressions) == 0) {
		p.add("spec.selector", "an empty selector selects every pod; write matchLabels with the labels of the pod template")
	}
	if n := s.Template.count(); n != 1 {
		p.add("spec.template", fmt.Sprintf("exactly one template must be set and %d are; keep the one you want", n))
	}
	p.topology(&s.Topology)
	p.updateStrategy(&s.UpdateStrategy)
	p.notNegative("spec.revisionHistoryLimit", deref(s.RevisionHistoryLimit))
	p.word("spec.adopt", string(s.Adopt), string(AdoptNever), string(AdoptOrphaned), string(AdoptAny))
	return p.lines
}

func (t *SubsetTemplate) count() int {
	n := 0
	for _, one := range []*WorkloadTemplate{
		t.StatefulSetTemplate, t.AdvancedStatefulSetTemplate, t.DeploymentTemplate, t.CloneSetTemplate,
	} {
		if one != nil {
			n++
		}
	}
	return n
}

// problems collects lines.
type problems struct {
	lines []string
}

func (p *problems) add(path, text string) {
	p.lines = append(p.lines, path+": "+text)
}

// rollout checks what both shapes have in common. policy may be a type without meaning here.
func (p *problems) rollout(at string, policy CloneSetUpdateStrategyType, r *CloneSetRollout) {
	p.percent(at+".partition", r.Partition)
	p.count(at+".maxUnavailable", r.MaxUnavailable)
	p.count(at+".maxSurge", r.MaxSurge)
	if policy == InPlaceOnlyUpdate && !isZero(r.MaxSurge) {
		p.add(at+".maxSurge", "InPlaceOnly creates no pod to replace another; remove maxSurge or write InPlaceIfPossible")
	}
	p.ordering(at, r)
	if r.InPlaceUpdateStrategy != nil {
		p.notNegative(at+".inPlaceUpdateStrategy.gracePeriodSeconds", r.InPlaceUpdateStrategy.GracePeriodSeconds)
	}
}

// budget checks that there is one, where there are pods to move.
func (p *problems) budget(at string, r *CloneSetRollout) {
	if r.MaxUnavailable != nil && isZero(r.MaxUnavailable) && isZero(r.MaxSurge) {
		p.add(at+".maxUnavailable", "0 without maxSurge leaves no pod that may be moved; raise one of them")
	}
}

func (p *problems) topology(t *Topology) {
	const at = "spec.topology"
	seen := map[string]bool{}
	fixed, bounded, open := false, false, len(t.Subsets)+len(t.SubsetTemplates) == 0
	place := func(path string, s *SubsetPlace) {
		p.place(path, s)
		fixed = fixed || s.Replicas != nil
		bounded = bounded || s.MinReplicas != nil || s.MaxReplicas != nil
		open = open || s.MaxReplicas == nil
	}
	for i := range t.Subsets {
		s, path := &t.Subsets[i], fmt.Sprintf("%s.subsets[%d]", at, i)
		if !isLabel(s.Name) {
			p.add(path+".name", fmt.Sprintf("%q is no DNS label of at most 63 characters", s.Name))
		}
		if seen[s.Name] {
			p.add(path+".name", fmt.Sprintf("%q stands twice; give every subset its own name", s.Name))
		}
		seen[s.Name] = true
		place(path, &s.SubsetPlace)
	}
	for i := range t.SubsetTemplates {
		s, path := &t.SubsetTemplates[i], fmt.Sprintf("%s.subsetTemplates[%d]", at, i)
		p.word(path+".whenUnselected", s.WhenUnselected, UnselectedKeep, UnselectedDrain)
		place(path, &s.SubsetPlace)
	}
	p.word(at+".scheduleStrategy.type", t.ScheduleStrategy.Type, ScheduleFixed, ScheduleAdaptive)
	if fixed && t.ScheduleStrategy.Type == ScheduleAdaptive {
		p.add(at, "type Adaptive moves replicas itself; write minReplicas and maxReplicas instead of replicas, or type Fixed")
	}
	if fixed && bounded {
		p.add(at, "replicas and minReplicas/maxReplicas cannot be mixed in one object; keep one of them in all subsets")
	}
	if !open {
		p.add(at, "at least one subset must leave maxReplicas out; remove it from the last one")
	}
}

func (p *problems) place(at string, s *SubsetPlace) {
	if s.Cluster != "" && !isLabel(s.Cluster) {
		p.add(at+".cluster", fmt.Sprintf("%q is no name of a MemberCluster, a DNS label", s.Cluster))
	}
	p.share(at+".replicas", s.Replicas)
	p.share(at+".minReplicas", s.MinReplicas)
	p.share(at+".maxReplicas", s.MaxReplicas)
	if exceeds(s.MinReplicas, s.MaxReplicas) {
		p.add(at, "minReplicas must not exceed maxReplicas; raise maxReplicas or lower minReplicas")
	}
}

func (p *problems) updateStrategy(s *UnitedUpdateStrategy) {
	const at = "spec.updateStrategy"
	p.word(at+".type", s.Type, ManualUpdateType, StagedUpdateType)
	if s.Type == StagedUpdateType && s.Staged == nil {
		p.add(at+".staged", "type Staged needs staged.policyRef.name; add it, or write type Manual")
	}
	manual := s.ManualUpdate
	if manual == nil {
		return
	}
	names := make([]string, 0, len(manual.Partitions))
	for name := range manual.Partitions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := manual.Partitions[name]
		p.percent(fmt.Sprintf("%s.manualUpdate.partitions[%s]", at, name), &value)
	}
	p.percent(at+".manualUpdate.partition", manual.Partition)
	p.word(at+".manualUpdate.unnamed", manual.Unnamed, UnnamedHold, UnnamedUpdate)
}

func (p *problems) notNegative(path string, value int32) {
	if value < 0 {
		p.add(path, fmt.Sprintf("%d is less than 0; write 0 or more", value))
	}
}

func (p *problems) word(path, value string, words ...string) {
	if value != "" && !slices.Contains(words, value) {
		p.add(path, fmt.Sprintf("%q is not known; write %s", value, strings.Join(words, " or ")))
	}
}

// percent accepts a number or a percent with or without a fraction.
func (p *problems) percent(path string, v *intstr.IntOrString) {
	p.intOrString(path, v, remedyPercent, isPercent)
}

// count accepts a number or a whole percent.
func (p *problems) count(path string, v *intstr.IntOrString) {
	p.intOrString(path, v, remedyPercent, func(s string) bool { return isPercent(s) && !strings.Contains(s, ".") })
}

// share accepts a number or a whole percent of at most 100.
func (p *problems) share(path string, v *intstr.IntOrString) {
	p.intOrString(path, v, remedyShare, func(s string) bool { _, ok := wholePercent(s); return ok })
}

func (p *problems) intOrString(path string, v *intstr.IntOrString, remedy string, good func(string) bool) {
	switch {
	case v == nil:
	case v.Type == intstr.Int && v.IntVal < 0, v.Type == intstr.String && !good(v.StrVal):
		p.add(path, fmt.Sprintf("%s, got %s", remedy, quoted(v)))
	}
}

func quoted(v *intstr.IntOrString) string {
	if v.Type == intstr.String {
		return strconv.Quote(v.StrVal)
	}
	return v.String()
}

// exceeds compares two bounds of one kind; two kinds cannot be compared without the total.
func exceeds(lower, upper *intstr.IntOrString) bool {
	if lower == nil || upper == nil || lower.Type != upper.Type {
		return false
	}
	if lower.Type == intstr.Int {
		return lower.IntVal > upper.IntVal
	}
	from, ok := wholePercent(lower.StrVal)
	to, okToo := wholePercent(upper.StrVal)
	return ok && okToo && from > to
}

// isPercent tells whether s is digits, an optional fraction and "%", at most 16 characters together.
func isPercent(s string) bool {
	number, ok := strings.CutSuffix(s, "%")
	if !ok || len(s) > 16 {
		return false
	}
	whole, rest, dot := strings.Cut(number, ".")
	if dot && !isDigits(rest) {
		return false
	}
	return isDigits(whole)
}

// wholePercent reads "0%" to "100%", without leading zeros.
func wholePercent(s string) (int, bool) {
	number, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 100 || strconv.Itoa(n) != number {
		return 0, false
	}
	return n, true
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// trimZeros leaves what makes a percent other than nothing.
func trimZeros(s string) string {
	return strings.Trim(strings.TrimSuffix(s, "%"), "0.")
}

func isLabel(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	if s == "" || len(s) > 63 || strings.Trim(s, letters+"-") != "" {
		return false
	}
	return s[0] != '-' && s[len(s)-1] != '-'
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

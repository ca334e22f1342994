package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// What this version accepts and does not act on yet, one table per kind. A field leaves its table in the change that
// makes it work. A field is reported only where it would change something: maxSurge 0 is what happens anyway.

// notActedOn is one row: a field that is accepted, and whether it asks for something.
type notActedOn struct {
	path string
	asks bool
}

// NotActedOn lists the JSON paths of the fields that are set and not acted on yet, in the order of the type.
func (s *CloneSetSpec) NotActedOn() []string {
	scale, life := s.ScaleStrategy, s.Lifecycle
	if scale == nil {
		scale = &CloneSetScaleStrategy{}
	}
	if life == nil {
		life = &Lifecycle{}
	}
	rows := []notActedOn{
		{"spec.volumeClaimTemplates", len(s.VolumeClaimTemplates) > 0},
		{"spec.scaleStrategy.podsToDelete", len(scale.PodsToDelete) > 0},
		{"spec.scaleStrategy.maxUnavailable", scale.MaxUnavailable != nil},
		{"spec.scaleStrategy.disablePVCReuse", isTrue(scale.DisablePVCReuse)},
		{"spec.scaleStrategy.enablePVCReuse", isTrue(scale.EnablePVCReuse)},
		{"spec.scaleStrategy.excludePreparingDelete", isTrue(scale.ExcludePreparingDelete)},
		{"spec.updateStrategy.partitionRollback", isTrue(s.UpdateStrategy.PartitionRollback)},
	}
	rows = append(rows, s.UpdateStrategy.notActedOn("spec.updateStrategy")...)
	if nested := s.UpdateStrategy.RollingUpdate; nested != nil {
		rows = append(rows, nested.notActedOn("spec.updateStrategy.rollingUpdate")...)
	}
	rows = append(
		rows,
		notActedOn{"spec.progressDeadlineSeconds", s.ProgressDeadlineSeconds != nil},
		notActedOn{"spec.lifecycle.preDelete", life.PreDelete.asks()},
		notActedOn{"spec.lifecycle.inPlaceUpdate", life.InPlaceUpdate.asks()},
		notActedOn{"spec.lifecycle.preNormal", life.PreNormal.asks()},
	)
	return paths(rows)
}

func (r *CloneSetRollout) notActedOn(at string) []notActedOn {
	inPlace := r.InPlaceUpdateStrategy
	if inPlace == nil {
		inPlace = &InPlaceUpdateStrategy{}
	}
	return []notActedOn{
		{at + ".maxSurge", !isZero(r.MaxSurge)},
		{at + ".priorityStrategy", r.PriorityStrategy != nil},
		{at + ".scatterStrategy", len(r.ScatterStrategy) > 0},
		{at + ".inPlaceUpdateStrategy.imagePreDownloadParallelism", inPlace.ImagePreDownloadParallelism != nil},
		{at + ".inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds", inPlace.ImagePreDownloadTimeoutSeconds != nil},
		{
			at + ".inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods",
			inPlace.ImagePreDownloadMinUpdatedReadyPods != nil,
		},
	}
}

// NotActedOn lists the JSON paths of the fields that are set and not acted on yet, in the order of the type. What the
// embedded workload spec asks for is not looked at: the member that runs it says so itself.
func (s *UnitedDeploymentSpec) NotActedOn() []string {
	rows := make([]notActedOn, 0, len(s.Topology.Subsets)+6)
	rows = append(
		rows,
		notActedOn{"spec.template.statefulSetTemplate", s.Template.StatefulSetTemplate != nil},
		notActedOn{"spec.template.advancedStatefulSetTemplate", s.Template.AdvancedStatefulSetTemplate != nil},
		notActedOn{"spec.template.deploymentTemplate", s.Template.DeploymentTemplate != nil},
	)
	for i := range s.Topology.Subsets {
		rows = append(rows, notActedOn{
			fmt.Sprintf("spec.topology.subsets[%d].nodeSelector", i), s.Topology.Subsets[i].NodeSelector != nil,
		})
	}
	rows = append(
		rows,
		notActedOn{"spec.topology.subsetTemplates", len(s.Topology.SubsetTemplates) > 0},
		notActedOn{"spec.topology.scheduleStrategy.type", s.Topology.ScheduleStrategy.Type == ScheduleAdaptive},
		notActedOn{"spec.updateStrategy.type", s.UpdateStrategy.Type == StagedUpdateType},
	)
	return paths(rows)
}

func paths(rows []notActedOn) []string {
	var out []string
	for _, row := range rows {
		if row.asks {
			out = append(out, row.path)
		}
	}
	return out
}

func (h *LifecycleHook) asks() bool {
	return h != nil && (len(h.LabelsHandler) > 0 || len(h.FinalizersHandler) > 0)
}

func isTrue(b *bool) bool { return b != nil && *b }

// isZero is true for nothing, 0 and every spelling of 0%.
func isZero(v *intstr.IntOrString) bool {
	if v == nil {
		return true
	}
	if v.Type == intstr.Int {
		return v.IntVal == 0
	}
	return isPercent(v.StrVal) && trimZeros(v.StrVal) == ""
}

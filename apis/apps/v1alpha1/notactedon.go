package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// What this version accepts and does not act on yet, one table per kind. A field leaves its table in the change that
// makes it work. A field is reported only where it asks for something.

// notActedOn is one row: a field that is accepted, and whether it asks for something.
type notActedOn struct {
	path string
	asks bool
}

// NotActedOn lists the JSON paths of the fields that are set and not acted on yet, in the order of the type.
func (s *CloneSetSpec) NotActedOn() []string {
	rows := s.UpdateStrategy.notActedOn("spec.updateStrategy")
	if nested := s.UpdateStrategy.RollingUpdate; nested != nil {
		rows = append(rows, nested.notActedOn("spec.updateStrategy.rollingUpdate")...)
	}
	return paths(append(rows, s.Lifecycle.notActedOn()...))
}

// NotActedOn lists the JSON paths of the fields that are set and not acted on yet, in the order of the type.
func (s *StatefulSetSpec) NotActedOn() []string {
	var rows []notActedOn
	if rolling := s.UpdateStrategy.RollingUpdate; rolling != nil {
		rows = rolling.InPlaceUpdateStrategy.notActedOn("spec.updateStrategy.rollingUpdate")
	}
	rows = append(rows, s.Lifecycle.notActedOn()...)
	// With OrderedReady pods are created one at a time whatever it says.
	return paths(append(rows, notActedOn{
		"spec.scaleStrategy.maxUnavailable", s.ScaleStrategy != nil && s.ScaleStrategy.MaxUnavailable != nil && !s.Parallel(),
	}))
}

func (life *Lifecycle) notActedOn() []notActedOn {
	if life == nil {
		return nil
	}
	return []notActedOn{
		{"spec.lifecycle.preDelete.markPodNotReady", life.PreDelete.marksInVain()},
		{"spec.lifecycle.inPlaceUpdate.markPodNotReady", life.InPlaceUpdate.marksInVain()},
		{"spec.lifecycle.preNormal.markPodNotReady", life.PreNormal != nil && life.PreNormal.MarkPodNotReady},
	}
}

func (r *CloneSetRollout) notActedOn(at string) []notActedOn {
	return r.InPlaceUpdateStrategy.notActedOn(at)
}

// Pulling images ahead of an update needs an agent on the nodes. It is a hint: without it the pull is part of the update.
func (inPlace *InPlaceUpdateStrategy) notActedOn(at string) []notActedOn {
	if inPlace == nil {
		inPlace = &InPlaceUpdateStrategy{}
	}
	return []notActedOn{
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
	return paths([]notActedOn{
		{"spec.updateStrategy.type", s.UpdateStrategy.Type == StagedUpdateType},
	})
}

// Deprecated lists the JSON paths of the fields that are set, honoured, and have a successor, which follows in brackets.
func (s *UnitedDeploymentSpec) Deprecated() []string {
	var out []string
	for i := range s.Topology.Subsets {
		if s.Topology.Subsets[i].NodeSelector != nil {
			out = append(out, fmt.Sprintf("spec.topology.subsets[%d].nodeSelector (nodeSelectorTerm)", i))
		}
	}
	return out
}

// marksInVain reports whether the hook takes pods out of service and never waits for anything.
func (h *LifecycleHook) marksInVain() bool {
	return h != nil && h.MarkPodNotReady && len(h.LabelsHandler)+len(h.FinalizersHandler) == 0
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

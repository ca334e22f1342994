package united

import (
	"encoding/json"
	"fmt"
	"strings"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/revision"
)

// revisionNotes are the annotations of a ControllerRevision: why the change was made, as the object says when the revision
// becomes the spec's, and which subsets it is about. Neither is part of its content, so neither makes a release.
func revisionNotes(ud *appsv1alpha1.UnitedDeployment) map[string]string {
	names := make([]string, 0, len(ud.Spec.Topology.Subsets))
	for i := range ud.Spec.Topology.Subsets {
		names = append(names, ud.Spec.Topology.Subsets[i].Name)
	}
	out := map[string]string{appsv1alpha1.AnnotationSubsets: strings.Join(names, ",")}
	if cause := ud.Annotations[appsv1alpha1.AnnotationChangeCause]; cause != "" {
		out[appsv1alpha1.AnnotationChangeCause] = cause
	}
	return out
}

// renumbering is the patch of a revision that is the spec's again. A cause that nobody gave this time is taken off.
func renumbering(ud *appsv1alpha1.UnitedDeployment, s *revision.Stored) ([]byte, error) {
	notes := map[string]any{appsv1alpha1.AnnotationChangeCause: nil}
	for key, value := range revisionNotes(ud) {
		notes[key] = value
	}
	patch, err := json.Marshal(map[string]any{"revision": s.Number, "metadata": map[string]any{"annotations": notes}})
	if err != nil {
		return nil, fmt.Errorf("writing the patch of revision %s: %w", s.Name, err)
	}
	return patch, nil
}

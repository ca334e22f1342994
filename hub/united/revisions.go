package united

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/inplace/revision"
)

// revisionNotes are the annotations of a ControllerRevision: why the change was made, as the object says when the revision
// becomes the spec's, and which subsets and templates of subsets it is about. None is part of its content, so none makes a
// release.
func revisionNotes(ud *appsv1alpha1.UnitedDeployment) map[string]string {
	names := make([]string, 0, len(ud.Spec.Topology.Subsets))
	for i := range ud.Spec.Topology.Subsets {
		names = append(names, ud.Spec.Topology.Subsets[i].Name)
	}
	out := map[string]string{
		appsv1alpha1.AnnotationSubsets:         strings.Join(names, ","),
		appsv1alpha1.AnnotationSubsetTemplates: strings.Join(plan.TemplateKeys(ud), ","),
	}
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

// note keeps the notes of the spec's revision true: a subset, or a template of subsets, that joins while a revision is the
// spec's is not newer than it. The cause stays what it was when the revision became the spec's.
func (r *Reconciler) note(ctx context.Context, seen *observation) error {
	c, changed := seen.last, map[string]string{}
	if c == nil {
		return nil
	}
	for key, value := range revisionNotes(seen.United) {
		if there, has := c.Annotations[key]; key != appsv1alpha1.AnnotationChangeCause && (!has || there != value) {
			changed[key] = value
		}
	}
	if len(changed) == 0 || !plan.IsSpec(seen.United, c.Data.Raw) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": changed}})
	if err != nil {
		return fmt.Errorf("writing the patch of revision %s: %w", c.Name, err)
	}
	err = r.Client.Patch(ctx, c.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsForbidden(err) {
		// Refused for good. Only undo reads these notes, and says what it does not know: no release waits for them.
		klog.FromContext(ctx).Info("The notes of a revision are refused", "revision", c.Name, "reason", err.Error())
		return nil
	}
	if err != nil {
		return fmt.Errorf("noting the subsets of revision %s: %w", c.Name, err)
	}
	return nil
}

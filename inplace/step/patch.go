package step

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

func drain(p *inplace.Pod, u Update, now time.Time) *inplace.Patch {
	return &inplace.Patch{
		Ref: p.Ref, Kind: inplace.PatchDrain, At: now, To: p.Revision,
		Because: fmt.Sprintf("taken out of service to be updated in place to %s", u.To.Name),
	}
}

// update is the one patch that moves the pod, or its next batch of containers: images, the template's metadata, the
// revision labels and the state; and the resources, which the writer sends in a second request.
func update(p *inplace.Pod, u Update, all *work, now time.Time) *inplace.Patch {
	r := newRecord(p, now)
	w, next := all.split(p, r.unproven)
	state := r.state(u.To.Name, w, next)
	meta := metadataOf(p, u, w)
	meta.Labels[appsv1alpha1.LabelPodRevision] = new(u.To.Name)
	if u.To.Hash != "" {
		meta.Labels[appsv1alpha1.LabelPodTemplateHash] = new(u.To.Hash)
	}
	meta.Annotations[appsv1alpha1.AnnotationInPlaceState] = new(text(state))
	if p.Parked != nil {
		meta.Annotations[appsv1alpha1.AnnotationInPlaceGrace] = nil
	}
	patch := &inplace.Patch{Ref: p.Ref, Kind: inplace.PatchUpdate, At: now, To: u.To.Name, Images: map[string]string{}, Metadata: meta}
	for name, image := range w.images {
		if c := p.Container(name); c.Kind == inplace.KindApp {
			patch.Images[name] = image
			continue
		}
		if patch.InitImages == nil {
			patch.InitImages = map[string]string{}
		}
		patch.InitImages[name] = image
	}
	patch.Resources, patch.InitResources = w.unshown(p)
	patch.Order = orderOf(p, patch)
	patch.Because = describe(p, u, patch, next)
	return patch
}

// resize is the second request of an update patch alone.
func resize(p *inplace.Pod, now time.Time) *inplace.Patch {
	var w work
	for name, r := range p.State.Resources {
		if standingOf(p, name) == untouched {
			w.resources = put(w.resources, name, r)
		}
	}
	patch := &inplace.Patch{Ref: p.Ref, Kind: inplace.PatchResize, At: now, To: p.Revision}
	patch.Resources, patch.InitResources = w.unshown(p)
	patch.Order = orderOf(p, patch)
	patch.Because = "resized as its update asks: " + strings.Join(sizes(patch), ", ")
	return patch
}

// orderOf is the order of the pod's containers, for a patch that names some.
func orderOf(p *inplace.Pod, patch *inplace.Patch) []string {
	if len(patch.Images)+len(patch.InitImages)+len(patch.Resources)+len(patch.InitResources) == 0 {
		return nil
	}
	names := make([]string, 0, len(p.Containers))
	for i := range p.Containers {
		names = append(names, p.Containers[i].Name)
	}
	return names
}

// describe names what changes, sorted.
func describe(p *inplace.Pod, u Update, patch *inplace.Patch, next work) string {
	var parts []string
	for _, name := range sorted(patch.Images) {
		parts = append(parts, name+" to "+patch.Images[name])
	}
	for _, name := range sorted(patch.InitImages) {
		part := name + " to " + patch.InitImages[name]
		if p.Container(name).Kind == inplace.KindInit {
			part += " (an init container: recorded, it ran already)"
		}
		parts = append(parts, part)
	}
	parts = append(parts, sizes(patch)...)
	what := strings.Join(parts, ", ")
	if what == "" {
		what = "labels and annotations only"
	}
	if len(u.Change.EnvFrom) > 0 {
		what += "; the environment of " + strings.Join(u.Change.EnvFrom, ", ") + " reads changed metadata and is renewed with it"
	}
	if later := next.names(); len(later) > 0 {
		what += "; then, by launch priority, " + strings.Join(later, ", ")
	}
	return fmt.Sprintf("updated in place to %s: %s", u.To.Name, what)
}

// sizes are the resources of a patch as text.
func sizes(patch *inplace.Patch) []string {
	var out []string
	for _, resources := range []map[string]corev1.ResourceRequirements{patch.Resources, patch.InitResources} {
		for _, name := range sorted(resources) {
			out = append(out, name+" to "+size(resources[name]))
		}
	}
	return out
}

// size is "limits.cpu 2 requests.cpu 1".
func size(r corev1.ResourceRequirements) string {
	var out []string
	for _, list := range []struct {
		name   string
		values corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(list.values)) {
			q := list.values[name]
			out = append(out, fmt.Sprintf("%s.%s %s", list.name, name, q.String()))
		}
	}
	return strings.Join(out, " ")
}

// metadataOf is the metadata to write: what was parked, what was held back for the containers that restart now, then what
// changes. The maps are always there, and new.
func metadataOf(p *inplace.Pod, u Update, w work) inplace.MetadataChange {
	m := inplace.MetadataChange{Labels: map[string]*string{}, Annotations: map[string]*string{}}
	if parkedHere(p) {
		var parked struct {
			Metadata struct {
				Labels      map[string]*string `json:"labels"`
				Annotations map[string]*string `json:"annotations"`
				Add         []string           `json:"finalizers"`
				Remove      []string           `json:"$deleteFromPrimitiveList/finalizers"`
			} `json:"metadata"`
		}
		// A parked patch that does not parse has nothing we could carry out; its images still are.
		if err := json.Unmarshal(p.Parked.MetaDataPatch, &parked); err == nil {
			maps.Copy(m.Labels, parked.Metadata.Labels)
			maps.Copy(m.Annotations, parked.Metadata.Annotations)
			m.AddFinalizers, m.RemoveFinalizers = parked.Metadata.Add, parked.Metadata.Remove
		}
	}
	for _, name := range sorted(w.metadata) {
		for k, v := range w.metadata[name].Labels {
			m.Labels[k] = new(v)
		}
		for k, v := range w.metadata[name].Annotations {
			m.Annotations[k] = new(v)
		}
	}
	maps.Copy(m.Labels, u.Change.Metadata.Labels)
	maps.Copy(m.Annotations, u.Change.Metadata.Annotations)
	// A template cannot make a pod go, or be another one, or look half updated; new pods do not get these from it either.
	for _, key := range []string{appsv1alpha1.LabelSpecifiedDelete, appsv1alpha1.LabelLifecycleState, appsv1alpha1.LabelCloneSetInstanceID} {
		delete(m.Labels, key)
	}
	for _, key := range []string{
		appsv1alpha1.AnnotationInPlaceGrace, appsv1alpha1.AnnotationReplaces, appsv1alpha1.AnnotationClaimTemplate, appsv1alpha1.AnnotationLifecycleTimestamp,
	} {
		delete(m.Annotations, key)
	}
	add, remove := u.Change.Metadata.AddFinalizers, u.Change.Metadata.RemoveFinalizers
	m.AddFinalizers = append(minus(m.AddFinalizers, remove), add...)
	m.RemoveFinalizers = append(minus(m.RemoveFinalizers, add), remove...)
	return m
}

func minus(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// repair writes a state that can be read in place of one that cannot: the proof then starts from what runs now.
func repair(p *inplace.Pod, now time.Time) *inplace.Patch {
	r := newRecord(p, now)
	return &inplace.Patch{
		Ref: p.Ref, Kind: inplace.PatchRepair, At: now, To: p.Revision,
		Metadata: inplace.MetadataChange{Annotations: map[string]*string{
			appsv1alpha1.AnnotationInPlaceState: new(text(r.state(p.Revision, work{}, work{}))),
		}},
		Because: "its state cannot be read and is recorded anew: " + p.StateProblem,
	}
}

// dropParked removes a parked update of another revision than the pod's.
func dropParked(p *inplace.Pod, now time.Time) *inplace.Patch {
	return &inplace.Patch{
		Ref: p.Ref, Kind: inplace.PatchRepair, At: now, To: p.Revision,
		Metadata: inplace.MetadataChange{Annotations: map[string]*string{appsv1alpha1.AnnotationInPlaceGrace: nil}},
		Because:  fmt.Sprintf("the update parked on it is of revision %s and void", p.Parked.Revision),
	}
}

// text is the annotation. A State has no value that JSON cannot write.
func text(s inplace.State) string {
	b, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return string(b)
}

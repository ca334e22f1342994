package step

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/imagediff"
)

func drain(p inplace.Pod, u Update, now time.Time) *inplace.Patch {
	return &inplace.Patch{
		Ref: p.Ref, Kind: inplace.PatchDrain, At: now, To: p.Revision,
		Because: fmt.Sprintf("taken out of service to be updated in place to %s", u.To.Name),
	}
}

// update is the one patch that moves the pod: images, the template's metadata, the revision labels and the state.
func update(p inplace.Pod, u Update, now time.Time) *inplace.Patch {
	images := wanted(p, u)
	meta := metadataOf(p, u)
	meta.Labels[appsv1alpha1.LabelPodRevision] = new(u.To.Name)
	if u.To.Hash != "" {
		meta.Labels[appsv1alpha1.LabelPodTemplateHash] = new(u.To.Hash)
	}
	meta.Annotations[appsv1alpha1.AnnotationInPlaceState] = new(text(record(p, u.To.Name, images, now)))
	if p.Parked != nil {
		meta.Annotations[appsv1alpha1.AnnotationInPlaceGrace] = nil
	}
	return &inplace.Patch{
		Ref: p.Ref, Kind: inplace.PatchUpdate, At: now, To: u.To.Name,
		Images: images, Metadata: meta, Because: describe(u.To.Name, images),
	}
}

// describe names what changes, sorted.
func describe(to string, images map[string]string) string {
	if len(images) == 0 {
		return fmt.Sprintf("updated in place to %s: labels and annotations only", to)
	}
	parts := make([]string, 0, len(images))
	for _, name := range slices.Sorted(maps.Keys(images)) {
		parts = append(parts, name+" to "+images[name])
	}
	return fmt.Sprintf("updated in place to %s: %s", to, strings.Join(parts, ", "))
}

// parkedHere reports whether an update to the pod's own revision is parked on it, of a kind that we can carry out.
func parkedHere(p inplace.Pod) bool {
	return p.Parked != nil && p.Parked.Problem == "" && p.Parked.Revision == p.Revision
}

// leftover are images that another controller meant to patch and has not: parked for a grace period, or of a later batch.
func leftover(p inplace.Pod) map[string]string {
	switch {
	case parkedHere(p):
		return p.Parked.ContainerImages
	case p.State != nil:
		return p.State.NextContainerImages
	default:
		return nil
	}
}

// wanted are the images to patch: what was left over, then what changes from the pod's revision to the new one.
func wanted(p inplace.Pod, u Update) map[string]string {
	images := map[string]string{}
	maps.Copy(images, leftover(p))
	maps.Copy(images, u.Change.Images)
	return images
}

// metadataOf is the metadata to write: what was parked, then what changes. The maps are always there, and new.
func metadataOf(p inplace.Pod, u Update) inplace.MetadataChange {
	m := inplace.MetadataChange{Labels: map[string]*string{}, Annotations: map[string]*string{}}
	if parkedHere(p) {
		var parked struct {
			Metadata struct {
				Labels      map[string]*string `json:"labels"`
				Annotations map[string]*string `json:"annotations"`
			} `json:"metadata"`
		}
		// A parked patch that does not parse has nothing we could carry out; its images still are.
		if err := json.Unmarshal(p.Parked.MetaDataPatch, &parked); err == nil {
			maps.Copy(m.Labels, parked.Metadata.Labels)
			maps.Copy(m.Annotations, parked.Metadata.Annotations)
		}
	}
	maps.Copy(m.Labels, u.Change.Metadata.Labels)
	maps.Copy(m.Annotations, u.Change.Metadata.Annotations)
	m.AddFinalizers = u.Change.Metadata.AddFinalizers
	m.RemoveFinalizers = u.Change.Metadata.RemoveFinalizers
	return m
}

// record is the state annotation: what runs now in every container that is patched, and, while an earlier update is not
// proven, what ran before that one.
func record(p inplace.Pod, revision string, images map[string]string, now time.Time) inplace.State {
	s := inplace.State{
		Revision:              revision,
		UpdateTimestamp:       metav1.NewTime(now.UTC().Truncate(time.Second)),
		LastContainerStatuses: unprovenRecords(p, now),
		UpdateImages:          len(images) > 0,
		Generation:            p.Generation,
	}
	bump := int64(0)
	for name, image := range images {
		c := p.Container(name)
		if c == nil {
			continue
		}
		if c.Image != image && p.Generation > 0 {
			bump = 1
		}
		earlier, unsure := s.LastContainerStatuses[name]
		was := recordOf(c, earlier, unsure)
		// A runtime names an image by any of its tags. Where it shows the wanted name already, a container that crashes
		// before the kubelet acts shows it too: the name proves nothing then.
		was.Unsure = was.Unsure || imagediff.SameImage(c.RunningImage, image)
		s.LastContainerStatuses[name] = was
	}
	s.Generation += bump
	return s
}

// unprovenRecords are the records of an update that is under way; none when there is none.
func unprovenRecords(p inplace.Pod, now time.Time) map[string]inplace.ContainerState {
	records := map[string]inplace.ContainerState{}
	switch {
	case p.StateProblem != "":
		for i := range p.Containers {
			c := &p.Containers[i]
			records[c.Name] = recordOf(c, inplace.ContainerState{ImageID: c.ImageID, Image: c.RunningImage}, true)
		}
	case p.State != nil && p.Parked == nil && !Prove(p, now).Done:
		maps.Copy(records, p.State.LastContainerStatuses)
	}
	return records
}

// recordOf records what runs in c. When an earlier update is not proven, a container that still shows the imageID
// recorded then may have been started from the image of that time.
func recordOf(c *inplace.Container, earlier inplace.ContainerState, unsure bool) inplace.ContainerState {
	r := inplace.ContainerState{ImageID: c.ImageID, ContainerID: new(c.ContainerID), Image: c.Image, Unsure: unsure}
	if !unsure || c.ImageID != earlier.ImageID {
		return r
	}
	r.Image = earlier.Image
	if r.Image == "" {
		r.Image = c.RunningImage
	}
	return r
}

// repair writes a state that can be read in place of one that cannot: the proof then starts from what runs now.
func repair(p inplace.Pod, now time.Time) *inplace.Patch {
	s := record(p, p.Revision, nil, now)
	return &inplace.Patch{
		Ref: p.Ref, Kind: inplace.PatchRepair, At: now, To: p.Revision,
		Metadata: inplace.MetadataChange{Annotations: map[string]*string{
			appsv1alpha1.AnnotationInPlaceState: new(text(s)),
		}},
		Because: "its state cannot be read and is recorded anew: " + p.StateProblem,
	}
}

// dropParked removes a parked update of another revision than the pod's.
func dropParked(p inplace.Pod, now time.Time) *inplace.Patch {
	return &inplace.Patch{
		Ref: p.Ref, Kind: inplace.PatchRepair, At: now, To: p.Revision,
		Metadata: inplace.MetadataChange{Annotations: map[string]*string{appsv1alpha1.AnnotationInPlaceGrace: nil}},
		Because:  fmt.Sprintf("the update parked on it is of revision %s and void", p.Parked.Revision),
	}
}

// text is the annotation. A State has no value that JSON cannot write: its raw fields are not carried over.
func text(s inplace.State) string {
	b, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return string(b)
}

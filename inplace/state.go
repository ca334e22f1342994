package inplace

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is the JSON of the annotation apps.kruise.io/inplace-update-state: OpenKruise's fields, and ours added. It is
// written in the same patch as the images. Whoever reads it by OpenKruise's rules comes to the same end: what those rules
// cannot judge is recorded in fields of ours.
type State struct {
	// Revision is the full name of the revision the pod was patched to.
	Revision string `json:"revision"`
	// UpdateTimestamp is when the patch was decided.
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`
	// LastContainerStatuses is what ran, before the patch, in each of spec.containers whose image was patched.
	LastContainerStatuses map[string]ContainerState `json:"lastContainerStatuses"`

	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool `json:"updateResources,omitempty"`
	UpdateImages          bool `json:"updateImages,omitempty"`

	// The next four are the batches of containers with launch priorities: what is patched when this batch is proven and
	// the containers named in PreCheckBeforeNext are ready, and which were patched when.
	NextContainerImages      map[string]string                      `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata map[string]RefMetadata                 `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   map[string]corev1.ResourceRequirements `json:"nextContainerResources,omitempty"`
	PreCheckBeforeNext       *PreCheck                              `json:"preCheckBeforeNext,omitempty"`
	ContainerBatchesRecord   []Batch                                `json:"containerBatchesRecord,omitempty"`

	// OtherContainerStatuses records containers that OpenKruise's rules must not judge: native sidecars, which it looks
	// for in the wrong list, and containers that are resized and keep their image. Ours.
	OtherContainerStatuses map[string]ContainerState `json:"otherContainerStatuses,omitempty"`
	// Resources are the cpu and memory that the update asks for through pods/resize. Written with the patch, before the
	// resize, so that what a crash leaves undone is known. Ours.
	Resources map[string]corev1.ResourceRequirements `json:"resources,omitempty"`
	// Generation is the pod's metadata.generation as it is after the patch, and before the resize. Ours.
	Generation int64 `json:"generation,omitempty"`
}

// Next reports whether a further batch of containers is to be patched.
func (s *State) Next() bool {
	return len(s.NextContainerImages) > 0 || len(s.NextContainerRefMetadata) > 0 || len(s.NextContainerResources) > 0
}

// PreCheck is what must hold before the next batch of containers is patched.
type PreCheck struct {
	ContainersRequiredReady []string `json:"containersRequiredReady,omitempty"`
}

// Batch is one batch of containers that was patched.
type Batch struct {
	Timestamp  metav1.Time `json:"timestamp"`
	Containers []string    `json:"containers"`
}

// RefMetadata is metadata that one container's environment reads, held back by OpenKruise until the container's turn.
type RefMetadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ContainerState is what ran in a container before the patch.
type ContainerState struct {
	ImageID string `json:"imageID,omitempty"`
	// ContainerID is nil in a state that OpenKruise wrote, and empty when nothing had started yet. Ours.
	ContainerID *string `json:"containerID,omitempty"`
	// Image is the name that the recorded container was started from; empty when that is not known. Ours.
	Image string `json:"image,omitempty"`
	// Unsure is set when it was recorded while an earlier update of the container was not proven: what the kubelet was
	// about to start then may show up after the patch, so another container or imageID alone proves nothing. Ours.
	Unsure bool `json:"unsure,omitempty"`
	// Resources are the spec's cpu and memory before the patch, of a container that is resized. Ours.
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// Parked is the JSON of the annotation apps.kruise.io/inplace-update-grace. We never write it.
type Parked struct {
	Revision             string                                 `json:"revision"`
	ContainerImages      map[string]string                      `json:"containerImages,omitempty"`
	ContainerResources   map[string]corev1.ResourceRequirements `json:"containerResources,omitempty"`
	ContainerRefMetadata map[string]RefMetadata                 `json:"containerRefMetadata,omitempty"`
	// MetaDataPatch is a strategic merge patch of the pod.
	MetaDataPatch json.RawMessage `json:"metaDataPatch,omitempty"`
	GraceSeconds  int32           `json:"graceSeconds,omitempty"`
	// Problem says why the annotation cannot be read; then only its removal is possible.
	Problem string `json:"-"`
}

// MetadataChange is a change of a pod's metadata. A nil value removes the key.
type MetadataChange struct {
	Labels           map[string]*string
	Annotations      map[string]*string
	AddFinalizers    []string
	RemoveFinalizers []string
}

// Empty reports whether nothing changes.
func (m MetadataChange) Empty() bool {
	return len(m.Labels) == 0 && len(m.Annotations) == 0 && len(m.AddFinalizers) == 0 && len(m.RemoveFinalizers) == 0
}

// Change is what is to be changed in place to get from one template to another.
type Change struct {
	// Images is container name to new image, of containers and native sidecars.
	Images map[string]string
	// InitImages is the same of ordinary init containers: recorded in the pod, nothing restarts. It is never the only
	// change of what the pod runs (imagediff has the decision).
	InitImages map[string]string
	// Resources is container name to the cpu and memory that change, with their new values.
	Resources map[string]corev1.ResourceRequirements
	// EnvFrom names, sorted, the containers whose environment reads a label or annotation that changes; each has its
	// image changed too, so that it starts anew and reads them.
	EnvFrom []string
	// Metadata rides along.
	Metadata MetadataChange
}

// Empty reports whether the two templates are equal as far as pods go.
func (c Change) Empty() bool {
	return len(c.Images) == 0 && len(c.InitImages) == 0 && len(c.Resources) == 0 && c.Metadata.Empty()
}

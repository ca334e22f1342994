package inplace

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is the JSON of the annotation apps.kruise.io/inplace-update-state: OpenKruise's fields, and ours added
// (generation, and containerID and image per container). It is written in the same patch as the images.
type State struct {
	// Revision is the full name of the revision the pod was patched to.
	Revision string `json:"revision"`
	// UpdateTimestamp is when the patch was decided.
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`
	// LastContainerStatuses is what ran in each patched container before the patch.
	LastContainerStatuses map[string]ContainerState `json:"lastContainerStatuses"`

	UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata,omitempty"`
	UpdateResources       bool `json:"updateResources,omitempty"`
	UpdateImages          bool `json:"updateImages,omitempty"`

	// The fields of OpenKruise's batches are carried, not interpreted: while one is set the update is not complete.
	NextContainerImages      map[string]string `json:"nextContainerImages,omitempty"`
	NextContainerRefMetadata json.RawMessage   `json:"nextContainerRefMetadata,omitempty"`
	NextContainerResources   json.RawMessage   `json:"nextContainerResources,omitempty"`
	PreCheckBeforeNext       json.RawMessage   `json:"preCheckBeforeNext,omitempty"`
	ContainerBatchesRecord   json.RawMessage   `json:"containerBatchesRecord,omitempty"`

	// Resources are the cpu and memory that the update asks for through pods/resize. Written with the patch, before the
	// resize, so that what a crash leaves undone is known. Ours.
	Resources map[string]corev1.ResourceRequirements `json:"resources,omitempty"`
	// Generation is the pod's metadata.generation as it is after the patch. Ours.
	Generation int64 `json:"generation,omitempty"`
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
}

// Parked is the JSON of the annotation apps.kruise.io/inplace-update-grace. We never write it.
type Parked struct {
	Revision        string            `json:"revision"`
	ContainerImages map[string]string `json:"containerImages,omitempty"`
	// MetaDataPatch is a strategic merge patch of the pod.
	MetaDataPatch json.RawMessage `json:"metaDataPatch,omitempty"`
	GraceSeconds  int32           `json:"graceSeconds,omitempty"`
	// Problem says why the annotation cannot be read or carried out by us; then only its removal is possible.
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

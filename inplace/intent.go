package inplace

import (
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Policy says how a pod gets to another revision.
type Policy string

// Values of Policy.
const (
	// PolicyReCreate deletes the pod; its workload creates another.
	PolicyReCreate Policy = "ReCreate"
	// PolicyInPlaceIfPossible changes the pod in place where that can be done and recreates it otherwise.
	PolicyInPlaceIfPossible Policy = "InPlaceIfPossible"
	// PolicyInPlaceOnly changes the pod in place or leaves it alone and says which field forbids it.
	PolicyInPlaceOnly Policy = "InPlaceOnly"
)

// Revision is one kept revision of a pod template.
type Revision struct {
	// Name is the name of the ControllerRevision and the value of the pods' label controller-revision-hash.
	Name string
	// Hash is the short hash, the value of the pods' label pod-template-hash.
	Hash string
	// Number orders revisions; the larger is the newer.
	Number int64
	// Template is the pod template as raw JSON ({"metadata":...,"spec":...}).
	Template []byte
}

// Intent is what a workload wants, with every number resolved. A spec that could not be read is an Intent with Invalid
// set: then nothing moves and only Update or Current are created.
type Intent struct {
	// Invalid says why the spec cannot be read, naming the field and the remedy. Empty: it was read.
	Invalid string
	// Where names the workload in sentences ("default/web"). May be empty.
	Where string
	// Replicas is the number of pods wanted.
	Replicas int32
	// Partition is the number of pods that stay off the update revision, 0..Replicas (partition.Old).
	Partition int32
	// MaxUnavailable is how many of Replicas may be unavailable because of us (partition.MaxUnavailable).
	MaxUnavailable int32
	// Policy says how pods get to the update revision. Empty means ReCreate.
	Policy Policy
	// OnDelete leaves running pods alone; who is deleted comes back on the update revision.
	OnDelete bool
	// Paused stops moves. Pods already patched are still proven and returned; drained ones are returned unpatched.
	Paused bool
	// PartitionRollback moves pods beyond Replicas-Partition back to Current.
	PartitionRollback bool
	// PatchUndrained allows pods that lack the readiness gate to be patched while they serve, one at a time. Default:
	// they are recreated, or refused under InPlaceOnly.
	PatchUndrained bool
	// NoResize says why cpu and memory cannot be changed in place in this cluster (its API server serves no pods/resize).
	// Empty: they can.
	NoResize string
	// GracePeriod is how long a drained pod waits before it is patched.
	GracePeriod time.Duration
	// Update is the revision of the template as it is now.
	Update Revision
	// Current is the revision whose release was finished last; equal to Update outside a release.
	Current Revision
	// Revisions are all kept revisions, Update and Current among them. A pod whose revision is not here cannot be
	// changed in place: what it runs is not known.
	Revisions []Revision
	// Lifecycle are the hooks that hold pods (inplace/hooks); nil: none.
	Lifecycle *appsv1alpha1.Lifecycle
	// RecreateOnly is pod name to why this pod cannot be changed in place whatever its template says: its claims were made
	// from other templates (claims.Outdated). Without effect under InPlaceOnly.
	RecreateOnly map[string]string
	// Fixed is pod name to why the pod is not moved yet: it is neither patched nor recreated, spends no budget, and keeps its
	// place in the grant. What it has begun it finishes.
	Fixed map[string]string
	// Outside names the pods that the partition keeps where they are by their position; nil: only the number counts. They take
	// nobody's place in the grant, and while nothing is being released they use up none of it.
	Outside []string
	// Compare orders the candidates; the smaller moves first. Nil means order.Default. Ties end at the name.
	Compare func(a, b Pod) int
	// Scatter spreads pods with these labels over the release (order.Scatter): applied to the candidates after Compare, those
	// out of service because of us stay first.
	Scatter []appsv1alpha1.UpdateScatterTerm
	// Population is what scaling does in this very pass. Next counts it, so that both together keep the limits, and
	// hands it on in its Decision.
	Population Population
}

// Grant is how many pods may be on the update revision.
func (in Intent) Grant() int32 {
	return max(in.Replicas-in.Partition, 0)
}

// Find returns the kept revision of that name.
func (in Intent) Find(name string) (Revision, bool) {
	if name == "" {
		return Revision{}, false
	}
	for _, r := range append([]Revision{in.Update, in.Current}, in.Revisions...) {
		if r.Name == name {
			return r, true
		}
	}
	return Revision{}, false
}

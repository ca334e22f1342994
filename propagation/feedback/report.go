package feedback

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// ErrUnknownKind is returned for a kind without an entry in the table.
var ErrUnknownKind = errors.New("kind has no report")

// Report is what a child says of itself.
type Report struct {
	// Kind is "<kind>.<group>".
	Kind      string
	Namespace string
	Name      string
	UID       types.UID

	Generation         int64
	ObservedGeneration int64
	// Fresh is true when the status answers the spec as it is: observedGeneration has reached generation.
	Fresh bool
	// Deleting is true once the child has a deletionTimestamp.
	Deleting bool

	// Subset is label apps.kruise.io/subset-name; SubsetRevision label apps.kruise.io/controller-revision-hash.
	Subset         string
	SubsetRevision string
	// UpdateRevision and CurrentRevision are the member's own names of revisions; empty for a Deployment, which has none.
	UpdateRevision  string
	CurrentRevision string

	// SpecReplicas is spec.replicas; nil where it is not set.
	SpecReplicas *int32
	// Partition is the child's partition as text ("3", "100%"), a number of pods: of Kubernetes' StatefulSet, whose field is
	// an ordinal, how many pods are below it. Empty where it is not set.
	Partition string
	Paused    bool

	// Replicas exist; Ready, Available are subsets of them; Updated run the update revision, proven.
	Replicas     int32
	Ready        int32
	Available    int32
	Updated      int32
	UpdatedReady int32
	// PodsUnknown is true where the kind does not tell UpdatedReady (Kubernetes' own kinds): it is then the least that
	// Ready and Updated leave possible, exact once all replicas are updated.
	PodsUnknown bool
	// Unavailable is how many pods a Deployment says it lacks to its desired number and surge; 0 for other kinds.
	Unavailable int32

	// Workload says how pods got to their revision; nil: the member does not say.
	Workload *appsv1alpha1.WorkloadReport
	// Conditions of the child.
	Conditions []metav1.Condition

	// ScaledBy names, sorted, the field managers beside the hub that own spec.replicas through the scale subresource, as
	// autoscalers do. A person's kubectl is not among them: what it writes is drift.
	ScaledBy []string
	// Hub is label fleet.underway.dev/hub, Intent and Owner the annotations as written.
	Hub    string
	Intent string
	Owner  string
	// Orphaned is true when a hub let the child go.
	Orphaned bool
}

// Of reads a child. It returns ErrUnknownKind for a kind without an entry, and an error that names the field when one
// has a type it should not have.
func Of(obj *unstructured.Unstructured) (Report, error) {
	return of(obj)
}

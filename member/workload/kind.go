package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/crowd"
)

// Kind adapts one workload API to the engine. Every method is a pure function of its arguments; a Kind holds no client.
type Kind interface {
	// New returns an empty object of the kind.
	New() client.Object
	// Selector says which pods belong to obj; an error where that cannot be read.
	Selector(obj client.Object) (labels.Selector, error)
	// Read reads the object. What cannot be read is Wanted.Intent.Invalid, never a default.
	Read(obj client.Object) Wanted
	// Scale returns the crowd's intent with its Population: who should exist. It also fills in what of the intent depends
	// on the pods.
	Scale(c Crowd) Scaled
	// Report writes what was seen into obj's status and says whether that changed it.
	Report(obj client.Object, r Report) (changed bool)
}

// Named is a Kind whose pods and claims have names that follow from the object's, so that a name says whose it is. A pod of
// another name is none of the object's, and a lost one is replaced under its name.
type Named interface {
	// Gives reports whether obj gives pods that name, whatever the number of replicas.
	Gives(obj client.Object, pod string) bool
	// Uses reports whether a pod of obj may use a claim of that name, whatever the claim templates are now.
	Uses(obj client.Object, claim string) bool
	// Relabel are the patches that give pods of obj the labels of their identity; wrote is when each was last given some.
	Relabel(obj client.Object, pods []corev1.Pod, wrote map[types.UID]time.Time, now time.Time) []inplace.Patch
}

// Resource says how the API server names a kind.
type Resource struct {
	schema.GroupVersionKind
	// Plural is the resource's name in URLs and in the name of its CRD.
	Plural string
	// PodLabel is a label that every claim of the kind's pods carries: the cache of claims is limited to it. Empty: none does.
	PodLabel string
	// FailedScale and FailedUpdate are the conditions that are True while pods cannot be created or deleted, and updated.
	FailedScale, FailedUpdate string
}

// CRD is the name of the CustomResourceDefinition.
func (r Resource) CRD() string {
	return r.Plural + "." + r.Group
}

// Wanted is what an object asks for.
type Wanted struct {
	// Intent has every number resolved. The reconciler fills in Where, Update, Current, Revisions and Population.
	Intent inplace.Intent
	// Template is the pod template, raw.
	Template []byte
	// Unfit is true when pods must not be made of the template at all, whatever it can be read as: then a lost pod comes
	// back only on another revision that is kept.
	Unfit bool
	// Held is true while the spec holds pods back whatever their number, so that a release cannot be finished: a
	// partition other than zero. It matters at 0 replicas, where "all pods are updated" is true and means nothing.
	Held bool
	// NodeLabels is true when pods are ranked by labels of their nodes.
	NodeLabels bool
	// Claims is true when the object's pods have claims.
	Claims bool
	// Classes is true when claims may have to be resized, for which their storage classes are read.
	Classes bool
	// ProgressDeadline is how long a release may get nowhere before it is told; 0: for ever.
	ProgressDeadline time.Duration
	// MinReadySeconds is how long a pod must have been Ready to be available.
	MinReadySeconds int32
	// HistoryLimit is how many unused revisions are kept.
	HistoryLimit int32
	// Labels go on ControllerRevisions.
	Labels map[string]string
	// Selector is the text of the scale subresource's selector.
	Selector string
	// Status are the values of the last status that decide something.
	Status Stored
	// NotActedOn names fields that are accepted and not acted on yet, UnknownFields those this build does not know.
	NotActedOn, UnknownFields []string
}

// Stored is what the last status says.
type Stored struct {
	CurrentRevision string
	UpdateRevision  string
	CollisionCount  int32
	// Replicas is how many pods there were, Updated how many of them were proven to run UpdateRevision.
	Replicas, Updated  int32
	Conditions         []metav1.Condition
	ObservedGeneration int64
	// Underway is nil before the first report, and where the CRD drops it.
	Underway *appsv1alpha1.WorkloadReport
}

// Crowd is what scaling decides on.
type Crowd struct {
	// Object is what Read read.
	Object client.Object
	Intent inplace.Intent
	// Pods are all that the object controls, terminating and finished ones too.
	Pods []inplace.Pod
	// Owner is the controller reference of a new pod; Namespace where it goes.
	Owner     metav1.OwnerReference
	Namespace string
	// Taken are names that are known, by a live read, to be used by something else. Those of a Named kind are looked at again
	// every half minute: it has no others.
	Taken map[string]bool
	// Others are the instance ids that pods without a controller carry: their claims are in use.
	Others map[string]bool
	// Stays are the names to be struck out of the spec that somebody applies, so that they stay.
	Stays []string
	// Lost are the revisions that pods replace which went away and are not replaced yet: their own, or of one that a release had
	// recreated the revision that it came from.
	Lost []string
	// LostBy are the same of a Named kind, by the pods' names.
	LostBy map[string]string
	// Claims are the claims that the object controls; nil for a Named kind.
	Claims []inplace.Claim
	// Volumes are, for a Named kind whose object has claims, those of the namespace that it may use, whoever owns them. Of their
	// spec and status is kept what resizing reads.
	Volumes []corev1.PersistentVolumeClaim
	// Expandable is storage class to allowVolumeExpansion; nil where Wanted.Classes is false, or they cannot be read.
	Expandable map[string]bool
	// Nodes are the labels of the nodes that Pods are on, by name; nil where nobody asked for them or they are not known.
	Nodes map[string]map[string]string
	// Refused is the API server's answer to the last create, nil when it was accepted.
	Refused *Refusal
	Now     time.Time
}

// Refusal is a create that the API server refused: a quota, an admission policy.
type Refusal = crowd.Refusal

// Scaled is what a Kind makes of a crowd.
type Scaled struct {
	inplace.Intent

	// Volumes are the status of each claim template, for a kind that reports it.
	Volumes []appsv1alpha1.VolumeClaimStatus
}

// Report is what goes into a status.
type Report struct {
	ObservedGeneration int64
	Summary            inplace.Summary
	// UpdateRevision and CurrentRevision are names of stored revisions; empty keeps what the status says.
	UpdateRevision  string
	CurrentRevision string
	CollisionCount  int32
	Selector        string
	Conditions      []metav1.Condition
	// Volumes are Scaled's.
	Volumes []appsv1alpha1.VolumeClaimStatus
	// Extended is false where the CRD is not ours and would drop status.underway.
	Extended bool
}

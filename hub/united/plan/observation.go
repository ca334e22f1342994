package plan

import (
	"crypto/sha256"
	"time"

	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/check"
	"github.com/underway-dev/underway/inplace/revision"
	"github.com/underway-dev/underway/propagation/feedback"
	"github.com/underway-dev/underway/propagation/render"
)

// Observation is everything that one pass saw.
type Observation struct {
	// United is the object; it is not changed.
	United *appsv1alpha1.UnitedDeployment
	// HubID is 16 hex digits, Term the hub's counter of confirmations.
	HubID string
	Term  int64
	// Revisions are the object's ControllerRevisions, from a complete read; TakenNames are names that others have.
	Revisions  []revision.Stored
	TakenNames []string
	// Unkept is a revision that the hub's API server refused to store a moment ago.
	Unkept Unkept
	// Members by name of the MemberCluster; "" is the hub's own cluster. One that is not in the map does not exist.
	Members map[string]Member
	// Children are all children of the object that the members' caches hold.
	Children []Child
	// Checker is true where templates are looked at by members' API servers before a release opens; Checks is what is
	// known of the target's.
	Checker bool
	Checks  []check.Result
	// Pods are those of children that have been short of ready pods for a while with nothing moving; see Short.
	Pods map[Target][]Pod
	// Waiting are the pods of children whose replicas may move; see Scarce. A child whose pods were not read is not in it.
	Waiting map[Target][]Waiting
	// Deliveries say what became of what was posted.
	Deliveries map[Target]Delivery
	// Travel is what is known of the objects that travel along.
	Travel Travel
	// Ending says what a deletion means; it is looked at only when the object is being deleted.
	Ending Ending
	// GenerationSeenAt is when this process first saw the present generation.
	GenerationSeenAt time.Time
}

// Unkept is a revision that cannot be stored; see UnkeptOf.
type Unkept struct {
	// Message is the API server's; empty: none was refused. It is tried again at Until.
	Message string
	Until   time.Time

	sum [sha256.Size]byte
}

// Target is one child on one member. Kind is "<kind>.<group>": a CloneSet and a StatefulSet may share a name.
type Target struct {
	Member, Kind, Name string
}

// Member is a cluster as last seen.
type Member struct {
	// Ready is true while the member answers and the caches of the kinds that the object has or had are complete.
	Ready bool
	// Settling is true for a short time after the hub's start, while nothing is known yet and nothing has failed. What
	// the status says is then kept as it is.
	Settling bool
	// Problem says why the member is not ready.
	Problem string
	// NotServed are the kinds, "<kind>.<group>", that the member answers not to know: there are no children of them on it.
	NotServed []string
	// Nobody are the kinds that it serves and that nobody there reconciles.
	Nobody []string
	// HeardAt is the last answer; zero: none since the hub's start.
	HeardAt time.Time
	// NotAllowed says why the member does not take workloads of this namespace; empty: it does.
	NotAllowed string
	// Labels are the MemberCluster's: what selectors of subsetTemplates look at.
	Labels map[string]string
	// Deleting is true once the MemberCluster has a deletionTimestamp.
	Deleting bool
	// Draining is true for a member that a person empties: it keeps what it has until as much is ready elsewhere, and is given
	// nothing that it did not have. What a subset of the list says is to be there stays, and is told.
	Draining bool
	// NoGrants says why nothing new may be granted there: the member is being upgraded. Empty: it may.
	NoGrants string
}

// Standing is what is known of a MemberCluster where subsets are selected.
type Standing struct {
	// Labels are what selectors look at.
	Labels map[string]string
	// Draining as Member has it.
	Draining bool
}

// Child is one object as a member reports it.
type Child struct {
	Member string
	Report feedback.Report
	// ScalerGone is true when the autoscaler that its fields name was seen to be gone: ScaledBy is then empty, and its replicas
	// are taken back.
	ScalerGone bool
	// Unreadable says what could not be read of it; the report has then its identity only.
	Unreadable string
}

// Problem is why what was posted is not done.
type Problem string

// Values of Problem.
const (
	// NoProblem: done, or still on its way.
	NoProblem Problem = ""
	// ProblemConflict: an object that is not ours has the name.
	ProblemConflict Problem = "Conflict"
	// ProblemNamespaceMissing: the member lacks the namespace and the hub may not create it.
	ProblemNamespaceMissing Problem = "NamespaceMissing"
	// ProblemRefused: the member's API server refuses the object.
	ProblemRefused Problem = "Refused"
	// ProblemOther: anything else; the message says it.
	ProblemOther Problem = "Waiting"
)

// Delivery is what became of one push.
type Delivery struct {
	Problem Problem
	Message string
	// Gone is true when a delete or a letting go was carried out and proven.
	Gone bool
}

// Ending is what the deletion of a UnitedDeployment means for its children.
type Ending string

// Values of Ending.
const (
	// EndingDelete: the children go with it.
	EndingDelete Ending = "Delete"
	// EndingOrphan: the children stay and are let go: its CRD or its namespace is being deleted, or a person asked for
	// --cascade=orphan.
	EndingOrphan Ending = "Orphan"
)

// Want is what is pushed.
type Want string

// Values of Want.
const (
	// WantApplied: the child exists as rendered.
	WantApplied Want = "Applied"
	// WantDeleted: the child goes.
	WantDeleted Want = "Deleted"
	// WantOrphaned: the child stays and is let go.
	WantOrphaned Want = "Orphaned"
)

// Push is what is wanted of one child.
type Push struct {
	Want   Want
	Member string
	Subset string
	// Name of the child.
	Name string
	// Kind of the child.
	Kind render.Kind
	// After is set for the delete of a child whose kind the spec changed: it must be whole when the delete is sent.
	After *Successor
	// Input makes the child, for WantApplied.
	Input render.Input
	// Judged is the UID of the child this was planned for; empty: there was none.
	Judged types.UID
	// Carried is the subset revision that the child had then.
	Carried string
	// TakeReplicas takes replicas back from an autoscaler that is gone.
	TakeReplicas bool
	// Because says why, for the log.
	Because string
}

// Successor is a child that has taken over from one of another kind.
type Successor struct {
	Target
	// Revision is the subset revision it carries, Replicas the least number of its pods.
	Revision string
	Replicas int32
}

// Decision is what one pass decided.
type Decision struct {
	// Status to write; with StoreFirst before anything else, and nothing is pushed in this pass.
	Status     appsv1alpha1.UnitedDeploymentStatus
	StoreFirst bool
	// AddFinalizer and DropFinalizer change the object's finalizers; nothing is pushed in a pass that adds it.
	AddFinalizer, DropFinalizer bool
	// DropConfirm takes the confirmation of a removal off the object: it was used.
	DropConfirm bool
	// Revisions to create, renumber and delete; created ones come before the status that names them.
	Create, Renumber *revision.Stored
	Trim             []string
	// Pushes are all that is wanted; what was wanted before and is not here is withdrawn, unless Keep is set.
	Pushes []Push
	// Contents are all that is wanted of objects that travel along; what was wanted before and is not here is withdrawn.
	Contents []Content
	// Keep leaves what was posted as it is: the spec's template is not decided about yet, or is refused.
	Keep bool
	// Ask is what is to be known of the target's templates before its release opens; nil: nothing.
	Ask *check.Ask
	// Happened are the events of this pass, given out after it was carried out.
	Happened []Event
	// LookAgainIn is set for time that passes by itself.
	LookAgainIn time.Duration
}

// Event is something that happened, in the past tense.
type Event struct {
	Warning         bool
	Reason, Message string
}

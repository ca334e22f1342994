package changeset

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// Want is what the hub wants of an object.
type Want string

// Values of Want.
const (
	// WantApplied: the object exists and has our fields.
	WantApplied Want = "Applied"
	// WantDeleted: the object is gone.
	WantDeleted Want = "Deleted"
	// WantOrphaned: the object stays, marked as let go.
	WantOrphaned Want = "Orphaned"
	// WantPresent: an object of that name exists, whoever's it is; it is not touched. For shared objects only.
	WantPresent Want = "Present"
)

// Op is what is done.
type Op string

// Values of Op.
const (
	// OpNothing: nothing is due, or nothing may be done; the reason says which.
	OpNothing Op = "Nothing"
	// OpCreate is an unforced apply without UID: a foreign object of that name conflicts.
	OpCreate Op = "Create"
	// OpApply is a forced apply with UID and resourceVersion.
	OpApply Op = "Apply"
	// OpHandover applies the live replicas with the second field manager, so that OpApply can stop naming them.
	OpHandover Op = "Handover"
	// OpDelete deletes with UID and resourceVersion as preconditions.
	OpDelete Op = "Delete"
	// OpOrphan marks the object and takes our owner reference off it.
	OpOrphan Op = "Orphan"
	// OpConflict: an object that is not ours has the name; it is not touched.
	OpConflict Op = "Conflict"
	// OpHubBehind: the live object carries a newer intent; the caller asks the fence.
	OpHubBehind Op = "HubBehind"
)

// Reason says why.
type Reason string

// Values of Reason.
const (
	// ReasonUpToDate: everything we own is as wanted.
	ReasonUpToDate Reason = "UpToDate"
	// ReasonRewritten: the member's admission rewrites what we send; sending it again would change nothing.
	ReasonRewritten Reason = "RewrittenByMember"
	// ReasonAbsent: the object does not exist.
	ReasonAbsent Reason = "Absent"
	// ReasonChanged: we want something else than what we applied.
	ReasonChanged Reason = "Changed"
	// ReasonDrifted: somebody changed a field of ours; it is taken back.
	ReasonDrifted Reason = "Drifted"
	// ReasonOwnershipLost: the values are right, but some are no longer owned by us.
	ReasonOwnershipLost Reason = "OwnershipLost"
	// ReasonAdopted: an object that was not ours is taken over, as the owner's adopt policy says.
	ReasonAdopted Reason = "Adopted"
	// ReasonReplicasGivenUp: somebody else scales the object from now on.
	ReasonReplicasGivenUp Reason = "ReplicasGivenUp"
	// ReasonTerminating: the object is being deleted; what is wanted waits until it is gone.
	ReasonTerminating Reason = "Terminating"
	// ReasonUnwanted: the owner wants it gone.
	ReasonUnwanted Reason = "Unwanted"
	// ReasonLetGo: the owner lets it go.
	ReasonLetGo Reason = "LetGo"
	// ReasonGone: it is gone, or let go already.
	ReasonGone Reason = "Gone"
	// ReasonNotOurs: it is not ours, so it is not touched.
	ReasonNotOurs Reason = "NotOurs"
	// ReasonOtherHub: another hub's.
	ReasonOtherHub Reason = "OtherHub"
	// ReasonOtherOwner: ours, of another owner.
	ReasonOtherOwner Reason = "OtherOwner"
	// ReasonManagedElsewhere: marked fleet.underway.dev/propagate: "false".
	ReasonManagedElsewhere Reason = "ManagedElsewhere"
	// ReasonIntentUnreadable: it has our hub id and an intent that cannot be read.
	ReasonIntentUnreadable Reason = "IntentUnreadable"
	// ReasonSelectorDiffers: it could be adopted, but its selector cannot be changed.
	ReasonSelectorDiffers Reason = "SelectorDiffers"
	// ReasonNewerIntent: the live object carries a newer intent than ours.
	ReasonNewerIntent Reason = "NewerIntent"
)

// Memory is what is remembered of an object between two looks. It may be lost at any time.
type Memory struct {
	UID types.UID
	// Applied is the hash of what was applied last.
	Applied string
	// Managed is the digest of our own managedFields entry after it.
	Managed string
	// Rewritten is the digest of the differences that the answer to our apply already had; empty for none.
	Rewritten string
}

// Input is one object as wanted and as it is.
type Input struct {
	Want Want
	// Desired is the object as rendered; for WantDeleted and WantOrphaned only its identity is used.
	Desired *unstructured.Unstructured
	// Live is the object on the member, nil when a synced view has none.
	Live *unstructured.Unstructured
	// Memory is nil after a restart.
	Memory *Memory
	// HubID of this hub.
	HubID string
	// Intent of this write.
	Intent render.Intent
	// Adopt is the owner's policy; empty is Never.
	Adopt appsv1alpha1.AdoptPolicy
	// TakeReplicas sends replicas although an autoscaler's entry owns them: the caller has seen that the autoscaler is gone.
	TakeReplicas bool
}

// Decision is what is to be done to one object.
type Decision struct {
	Op     Op
	Reason Reason
	// Message says it to a person.
	Message string
	// UID and ResourceVersion are what was judged; empty for OpCreate.
	UID             types.UID
	ResourceVersion string
	// Object is what to apply (OpCreate, OpApply), without UID and resourceVersion: Desired, or Desired without replicas
	// while an autoscaler owns them. It is what Remember is to be told.
	Object *unstructured.Unstructured
	// Replicas is the live number that OpHandover applies.
	Replicas int64
	// ClearOrphaned is true when OpApply must first take the orphaned mark off.
	ClearOrphaned bool
	// Unmark are annotations that OpOrphan takes off beside.
	Unmark []string
	// Fields are the paths that differ or are not owned, sorted, at most 10.
	Fields []string
}

// Decide says what is to be done.
func Decide(in Input) Decision {
	return decide(in)
}

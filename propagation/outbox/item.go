package outbox

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/render"
)

// Key is one object of one member.
type Key struct {
	Member    string
	GVK       schema.GroupVersionKind
	Namespace string
	Name      string
}

// Item is what is wanted of one object.
type Item struct {
	// Member, clusters.Local for the hub's own cluster.
	Member string
	Want   changeset.Want
	// Object is the child as rendered; for WantDeleted and WantOrphaned its apiVersion, kind, namespace and name.
	// The outbox does not change it and the caller must not either.
	Object *unstructured.Unstructured
	// Owner is the UnitedDeployment; its UID is in Intent.
	Owner  types.NamespacedName
	Intent render.Intent
	Adopt  appsv1alpha1.AdoptPolicy
	// Judged is the UID of the child that a WantApplied was planned for. When it is set, a child that is gone or another
	// one is not written: StateReplan (a plan that grants must never create the object it grants to). Empty: the plan
	// saw no child, and an object of ours that turns out to exist is not written either but planned for anew.
	Judged types.UID
	// Carried is the subset revision that the child carried when it was judged. One that carries neither that nor the one that
	// is wanted got another template meanwhile, from a plan of ours that this one had not seen: StateReplan. Looked at where
	// Judged is set.
	Carried string
	// TakeReplicas takes replicas back from an autoscaler that is gone, whose entry the object still has.
	TakeReplicas bool
	// EnsureNamespace creates the namespace on the member if it is absent and the hub may.
	EnsureNamespace bool
	// Shared is true for an object that belongs to a set of owners, as content that travels along. Object is then what
	// content.Prepare returns; the marks of the owners and the other stamps are put on here. Want is what this owner wants of
	// it: WantDeleted takes its own mark off, and the object goes with the last one; WantOrphaned lets it stay then; WantPresent
	// only asks for it. Adopt counts where every owner that wants the object says the same. Judged and Intent's order do not
	// count, Intent.OwnerUID is the owner.
	Shared bool
	// Kind of a shared object.
	Kind render.Kind
	// Source orders the contents of a shared object: the hub's term, the UID of its object, its resourceVersion as
	// generation. The newest of all owners' is sent.
	Source render.Intent
	// Hold keeps the content of a shared object that is there, for all owners: a release has not come to this one yet.
	Hold bool
	// CurrentSource is a fresh (quorum) read of Source; false when the hub's object is gone. For shared objects.
	CurrentSource func(ctx context.Context) (render.Intent, bool, error)
	// Gone names those of the owners, by UID, that do not exist on the hub any more, by a fresh (quorum) read. For shared
	// objects: a mark of an owner that has not posted here counts until it is proven gone.
	Gone func(ctx context.Context, owners []string) ([]string, error)
	// StillWanted is a fresh (quorum) read of the owner just before a delete; it must be set for WantDeleted.
	StillWanted func(ctx context.Context) (bool, error)
}

// Key of the item.
func (i Item) Key() Key {
	return Key{
		Member:    i.Member,
		GVK:       i.Object.GroupVersionKind(),
		Namespace: i.Object.GetNamespace(),
		Name:      i.Object.GetName(),
	}
}

// equal compares what is wanted.
func (i Item) equal(other Item) bool {
	return other.Object != nil && i.Want == other.Want && i.Source == other.Source && i.Hold == other.Hold && i.Intent == other.Intent && i.Judged == other.Judged && i.TakeReplicas == other.TakeReplicas &&
		i.Adopt == other.Adopt && i.EnsureNamespace == other.EnsureNamespace && reflect.DeepEqual(i.Object.Object, other.Object.Object)
}

// State is where an item stands.
type State string

// Values of State.
const (
	// StatePending: what is wanted changed and was not looked at yet.
	StatePending State = "Pending"
	// StateDone: nothing more is due.
	StateDone State = "Done"
	// StateMemberNotReady: it waits for the member.
	StateMemberNotReady State = "MemberNotReady"
	// StateFrozen: a freeze is in force, or cannot be ruled out.
	StateFrozen State = "Frozen"
	// StateStopped: every write is stopped until a person confirms.
	StateStopped State = "Stopped"
	// StateNotLeading: this process does not lead; the item is dropped.
	StateNotLeading State = "NotLeading"
	// StateReplan: the plan is older than the owner, or than the child; the owner is notified.
	StateReplan State = "Replan"
	// StateConflict: an object that is not ours has the name.
	StateConflict State = "Conflict"
	// StateNamespaceMissing: the member lacks the namespace and the hub may not create it.
	StateNamespaceMissing State = "NamespaceMissing"
	// StateNamespaceTerminating: the namespace is being deleted on the member.
	StateNamespaceTerminating State = "NamespaceTerminating"
	// StateKindMissing: the member does not serve the kind.
	StateKindMissing State = "KindMissing"
	// StateMissing: what must be there, and is not ours to make, is not there.
	StateMissing State = "Missing"
	// StateTerminating: the object is being deleted.
	StateTerminating State = "Terminating"
	// StateUnwantedDelete: the owner no longer wants the delete.
	StateUnwantedDelete State = "DeleteNotWanted"
	// StateRefused: the member's API server refuses the object as invalid or forbidden; Err has its words.
	StateRefused State = "Refused"
	// StateFailed: it is tried again.
	StateFailed State = "Failed"
)

// Taken is a field that was taken back, and the manager that had written it.
type Taken = changeset.Taken

// Outcome is the last result of an item.
type Outcome struct {
	State State
	// Op, Reason and Message are the last decision's; while nothing more is due they stay those of the last write, so that
	// nobody who looks late misses why something was written.
	Op      changeset.Op
	Reason  changeset.Reason
	Message string
	Err     error
	// At is when this outcome was reached.
	At time.Time
	// Intent of the item that was carried out last.
	Intent render.Intent
	// UID and Generation are the object's after our last apply, or, when nothing was due since the start, as seen then.
	// In StateReplan UID is that of the object found.
	UID        types.UID
	Generation int64
	// WrittenAt is when something was last sent; zero: nothing since the start.
	WrittenAt time.Time
	// Marked are the owners, by UID, that a shared object is marked for as we last saw or wrote it, sorted.
	Marked []string
	// HeldBy names, sorted, who keeps the content of a shared object as it is while another owner has a newer one; empty when
	// nothing is held back.
	HeldBy []string
	// TookBack are the fields the last apply took back from other managers.
	TookBack []Taken
}

// Values of StopReason.Condition.
const (
	StopHubBehind = "HubBehind"
	StopTwoHubs   = "TwoHubs"
)

// StopReason says why all writes are stopped.
type StopReason struct {
	// Condition is HubBehind or TwoHubs.
	Condition string
	// Member, Owner and Seen say where it was seen and what: the newer intent, or the other holder.
	Member string
	Owner  types.NamespacedName
	Seen   string
}

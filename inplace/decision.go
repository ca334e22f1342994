package inplace

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// PatchKind is the step of an update that a patch is.
type PatchKind string

// Values of PatchKind.
const (
	// PatchDrain sets the gate to False (pods/status).
	PatchDrain PatchKind = "Drain"
	// PatchUpdate changes images, labels, annotations and the state in one patch (pods). With Resources a second request
	// follows on the version that the first returned (pods/resize); the state names them, so that a crash in between is
	// finished by a PatchResize.
	PatchUpdate PatchKind = "Update"
	// PatchResize sends Resources only (pods/resize): the state asks for them and the spec does not show them yet.
	PatchResize PatchKind = "Resize"
	// PatchReturn sets the gate to True (pods/status): an update is proven or given up, or the pod is new.
	PatchReturn PatchKind = "Return"
	// PatchRepair writes annotations only (pods): a state that cannot be read, or a parked update that is void.
	PatchRepair PatchKind = "Repair"
	// PatchState writes labels and annotations only (pods): the state of a pod's lifecycle hooks, where no other patch is due
	// that it could ride on. On a Drain and a Return it is their Metadata (pods/status takes labels too).
	PatchState PatchKind = "State"
)

// Patch is one write to one pod, valid for exactly the version that Ref names.
type Patch struct {
	Ref
	Kind PatchKind
	// At is when it was decided; the condition's transition time of Drain and Return.
	At time.Time
	// To is the revision the pod is moved to (Update), or keeps (the others).
	To string
	// Images is container name to image, of spec.containers; InitImages the same of spec.initContainers, native sidecars
	// and ordinary ones. Update only.
	Images     map[string]string
	InitImages map[string]string
	// Resources is container name to the cpu and memory wanted, of spec.containers; InitResources the same of native
	// sidecars. Only what is named changes. Update and Resize only.
	Resources     map[string]corev1.ResourceRequirements
	InitResources map[string]corev1.ResourceRequirements
	// Order names the pod's containers in spec order (spec.containers, then spec.initContainers). A strategic merge patch
	// puts the entries of a list into the order in which it names them, and the API server refuses another order: a patch
	// that names two containers of one list needs it.
	Order []string
	// Kruise is what KruisePodReady becomes in the same request; nil: it stays. Return only.
	Kruise *KruiseReady
	// Metadata carries labels, annotations and finalizers, the revision labels and the state annotation among them.
	Metadata MetadataChange
	// Because is one sentence.
	Because string
}

// Create is a pod to create.
type Create struct {
	// Object is the whole pod (podseed.Object). Its name is derived, so a second create collides instead of doubling.
	Object *unstructured.Unstructured
	// Revision is the revision it is created at.
	Revision string
	// Claims are created before the pod, those that are not there yet. One whose name is taken stops the pod's creation: the
	// next observation says whether it is ours.
	Claims []*unstructured.Unstructured
	// DropClaims deletes those that were made for it when the pod is refused: where claims are not used again.
	DropClaims bool
	Because    string
}

// Delete is a pod to delete, with its UID and resourceVersion as preconditions.
type Delete struct {
	Ref
	// Claims are deleted after the pod's own deletion was accepted, never without it.
	Claims  []Ref
	Because string
}

// ClaimDelete is a claim to delete, with its UID and resourceVersion as preconditions. No pod of its id exists.
type ClaimDelete struct {
	Ref
	Because string
}

// ClaimPatch is a change of one claim that exists, with its UID and resourceVersion as preconditions.
type ClaimPatch struct {
	Ref
	// Owners are all owner references that it should have; nil leaves them as they are, an empty list takes them away.
	Owners []metav1.OwnerReference
	// Request is the storage that it should ask for; nil leaves it.
	Request *resource.Quantity
	// Because is one sentence.
	Because string
}

// Population is what scaling decided: who should exist. It says nothing about who moves.
type Population struct {
	Creates []Create
	Deletes []Delete
	// Patches bring pods that are to be deleted into the state PreparingDelete, or back out of it. Nothing else is written
	// to these pods in the same pass; those in PreparingDelete count as leaving.
	Patches []Patch
	// ClaimDeletes are claims that no pod has and none will have.
	ClaimDeletes []ClaimDelete
	// Leaving names, sorted, the pods that are asked to go, or in PreparingDelete, and are still there: they are not moved,
	// and have no place in the grant; another pod replaces each.
	Leaving []string
	// ClaimPatches change claims that exist, before anything is created or deleted.
	ClaimPatches []ClaimPatch
	// Condemned names, sorted, the pods that have no slot: they are in Leaving, too, and do not stand in for a pod that has
	// one, so an available one does not count for the budget.
	Condemned []string
	// AbsentNew is how many of the pods that are wanted, and neither there nor created now, will come at the update revision;
	// nil: it is told from the numbers.
	AbsentNew *int32
	// Holds say why pods that should be created or deleted are not.
	Holds []Hold
	// NoSuchPods are names in podsToDelete that no pod has, sorted: they are dropped from the spec, or told.
	NoSuchPods []string
	// Warnings are sentences about what is asked for and cannot be done; nothing waits for them.
	Warnings []string
	// LookAgainIn is when time alone changes the answer; 0: never.
	LookAgainIn time.Duration
}

// HoldKind says what pods wait for.
type HoldKind string

// Values of HoldKind, in the order in which a Decision lists them.
const (
	// HoldInvalid: the spec cannot be read.
	HoldInvalid HoldKind = "Invalid"
	// HoldRefused: the change cannot be made as the policy demands.
	HoldRefused HoldKind = "Refused"
	// HoldPaused: the release is paused.
	HoldPaused HoldKind = "Paused"
	// HoldOnDelete: pods move when somebody deletes them.
	HoldOnDelete HoldKind = "OnDelete"
	// HoldHook: pods wait for somebody else's label or finalizer (spec.lifecycle).
	HoldHook HoldKind = "Hook"
	// HoldPartition: the partition keeps pods where they are.
	HoldPartition HoldKind = "Partition"
	// HoldBudget: as many pods are unavailable as may be.
	HoldBudget HoldKind = "Budget"
	// HoldDrain: pods are being taken out of service.
	HoldDrain HoldKind = "Drain"
	// HoldGrace: drained pods wait for the grace period.
	HoldGrace HoldKind = "Grace"
	// HoldProof: patched pods are not proven to run the new image yet.
	HoldProof HoldKind = "Proof"
	// HoldResize: the node has no room for the new cpu or memory yet (Deferred), or the resize is not finished.
	HoldResize HoldKind = "Resize"
	// HoldClaim: new pods wait for the claims of pods that are not gone yet.
	HoldClaim HoldKind = "Claim"
	// HoldScale: pods to create or delete cannot be, and somebody should look at it.
	HoldScale HoldKind = "Scale"
)

// Hold is a pause with its reason.
type Hold struct {
	Kind HoldKind
	// Pods is how many pods wait for this.
	Pods int32
	// Because is one sentence, equal for equal situations.
	Because string
}

// Event is one aggregated event, to be emitted after the act succeeded.
type Event struct {
	// Type is corev1.EventTypeNormal or EventTypeWarning.
	Type    string
	Reason  string
	Message string
}

// Decision is what to do now, and what was seen.
type Decision struct {
	Creates []Create
	Deletes []Delete
	Patches []Patch
	// ClaimDeletes are claims that no pod has and none will have.
	ClaimDeletes []ClaimDelete
	// ClaimPatches change claims that exist, before anything is created or deleted.
	ClaimPatches []ClaimPatch
	// Holds say why pods that could move do not, most important first. Empty when nothing waits.
	Holds []Hold
	// Events are aggregated: at most one per kind and ten pods.
	Events  []Event
	Summary Summary
	// LookAgainIn is when time alone changes the answer; 0: never, a watch wakes us.
	LookAgainIn time.Duration
}

// Quiet reports whether there is nothing to write.
func (d Decision) Quiet() bool {
	return len(d.Creates) == 0 && len(d.Deletes) == 0 && len(d.Patches) == 0 && len(d.ClaimDeletes) == 0 &&
		len(d.ClaimPatches) == 0
}

// Because is the sentence of the most important hold, empty when nothing waits.
func (d Decision) Because() string {
	if len(d.Holds) == 0 {
		return ""
	}
	return d.Holds[0].Because
}

// Summary is what was seen, ready to be written into a status.
type Summary struct {
	// Replicas counts active pods; Ready and Available those of them.
	Replicas  int32
	Ready     int32
	Available int32
	// Updated counts pods proven to run the update revision; the next two those of them.
	Updated          int32
	UpdatedReady     int32
	UpdatedAvailable int32
	// Current counts pods proven to run the current revision.
	Current int32
	// ExpectedUpdated is replicas minus partition; -1 when the spec cannot be read.
	ExpectedUpdated int32
	// Asked counts pods asked to run the update revision, proven or not.
	Asked int32
	// GoBack counts pods beyond ExpectedUpdated that are to go back to the current revision (PartitionRollback).
	GoBack int32
	// InPlace counts the Updated that got there by a patch, Recreated those that replaced a pod of another revision.
	InPlace   int32
	Recreated int32
	// Refused and Broken have at most 10 entries each.
	Refused []appsv1alpha1.PodProblem
	Broken  []appsv1alpha1.PodProblem
}

// Done reports whether every pod that should be updated is updated and available, and all wanted pods are there.
func (s Summary) Done(replicas int32) bool {
	return s.ExpectedUpdated >= 0 && s.GoBack == 0 && s.Replicas == replicas && s.Available >= replicas && s.Updated >= s.ExpectedUpdated
}

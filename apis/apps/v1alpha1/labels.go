package v1alpha1

// Every label, annotation, finalizer, condition and field-manager name that lands on other people's clusters. The hub
// and the members run at different versions, so these are an API: never repurposed, never renamed.

// Names of OpenKruise, kept for compatibility.
const (
	// LabelPodRevision is the revision a pod runs or is being moved to: the full ControllerRevision name.
	LabelPodRevision = "controller-revision-hash"
	// LabelPodTemplateHash is the short hash of a CloneSet pod's revision.
	LabelPodTemplateHash = "pod-template-hash"
	// LabelSubsetRevision is the subset revision on a UnitedDeployment's child and on its pods.
	LabelSubsetRevision = "apps.kruise.io/controller-revision-hash"
	// LabelSubsetName names the subset a child and its pods belong to.
	LabelSubsetName = "apps.kruise.io/subset-name"
	// LabelCloneSetInstanceID is the instance id of a CloneSet pod and of its claims.
	LabelCloneSetInstanceID = "apps.kruise.io/cloneset-instance-id"
	// LabelPodName is the name of a StatefulSet pod, LabelPodIndex its ordinal.
	LabelPodName  = "statefulset.kubernetes.io/pod-name"
	LabelPodIndex = "apps.kubernetes.io/pod-index"
	// LabelSpecifiedDelete on a pod asks its workload to delete it, whatever the value.
	LabelSpecifiedDelete = "apps.kruise.io/specified-delete"
	// LabelLifecycleState is the state of a pod's lifecycle hooks.
	LabelLifecycleState = "lifecycle.apps.kruise.io/state"
	// LabelExcludePreparingDelete with the value "true" on a CloneSet is the v1alpha1 spelling of
	// spec.scaleStrategy.excludePreparingDelete.
	LabelExcludePreparingDelete = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"
	// AnnotationLifecycleTimestamp is the RFC3339 time of the last change of LabelLifecycleState.
	AnnotationLifecycleTimestamp = "lifecycle.apps.kruise.io/timestamp"
	// AnnotationSubsetPatch is the raw subset patch last applied to a child.
	AnnotationSubsetPatch = "apps.kruise.io/subset-patch"
	// AnnotationInPlaceState is the JSON state of an in-place update, OpenKruise's with our fields added.
	AnnotationInPlaceState = "apps.kruise.io/inplace-update-state"
	// AnnotationInPlaceGrace is the JSON of an in-place update parked for its grace period.
	AnnotationInPlaceGrace = "apps.kruise.io/inplace-update-grace"
	// ConditionInPlaceUpdateReady is the pod condition and readiness gate that drains a pod while it is updated in place.
	ConditionInPlaceUpdateReady = "InPlaceUpdateReady"
	// ReasonStartInPlaceUpdate is the reason of InPlaceUpdateReady=False.
	ReasonStartInPlaceUpdate = "StartInPlaceUpdate"
	// ConditionKruisePodReady is OpenKruise's pod condition and readiness gate whose message is a JSON list of who holds the
	// pod; it is False while the list is not empty. We never put it on; pods of OpenKruise may have it.
	ConditionKruisePodReady = "KruisePodReady"
	// EnvContainerBarrier is the environment variable that holds a container's start back until its turn comes: it reads the
	// key p_<priority> of a ConfigMap.
	EnvContainerBarrier = "KRUISE_CONTAINER_BARRIER"
	// AnnotationDeletionCost ranks pods for scale-in; lower goes first.
	AnnotationDeletionCost = "controller.kubernetes.io/pod-deletion-cost"
)

// Names of Underway.
const (
	// AnnotationPatchUndrained with the value "true" on a workload lets pods that lack the readiness gate
	// InPlaceUpdateReady be patched in place while they serve, one at a time. Without it they are recreated.
	AnnotationPatchUndrained = "apps.underway.dev/patch-undrained"
	// AnnotationReplaces on a pod is the revision of the pod it was created to replace; absent on pods of a scale-up. Where that one
	// was recreated by the same release and then lost, it is the revision that it had replaced.
	AnnotationReplaces = "apps.underway.dev/replaces"
	// AnnotationClaimTemplate on a claim is the hash of the claim template it was made from, on a pod that of all of them: a
	// pod whose claims were made from other templates is not updated in place.
	AnnotationClaimTemplate = "apps.underway.dev/claim-template"
	// LabelHub is on everything a hub puts on a member: 16 hex digits of the hub's id.
	LabelHub = "fleet.underway.dev/hub"
	// AnnotationIntent orders the hub's writes to one child: "<term>/<owner UID>/<owner generation>/<grant epoch>".
	AnnotationIntent = "fleet.underway.dev/intent"
	// AnnotationOwner is "<namespace>/<name>" of the UnitedDeployment on the hub.
	AnnotationOwner = "fleet.underway.dev/owner"
	// AnnotationOrphaned is the RFC3339 time a child was let go by its hub.
	AnnotationOrphaned = "fleet.underway.dev/orphaned"
	// AnnotationPeerActive on the agent's leader Lease names the reconciler that is alive beside it; while it is there the
	// agent leaves the kinds of that reconciler alone.
	AnnotationPeerActive = "fleet.underway.dev/peer-active"
	// AnnotationConfirm is "<condition>/<value seen>", written by `kubectl underway confirm`.
	AnnotationConfirm = "fleet.underway.dev/confirm"
	// AnnotationPropagate with the value "false" marks an object as managed elsewhere: never touched.
	AnnotationPropagate = "fleet.underway.dev/propagate"
	// LabelPropagate with the value "true" on an object of the hub sends it to the members that AnnotationClusters selects.
	LabelPropagate = "fleet.underway.dev/propagate"
	// AnnotationClusters on such an object is a selector over the labels of MemberClusters; absent: every member.
	AnnotationClusters = "fleet.underway.dev/clusters"
	// AnnotationAdopt on such an object is an AdoptPolicy: whether objects of that name that the hub did not make are taken over.
	AnnotationAdopt = "fleet.underway.dev/adopt"
	// FinalizerCopies holds such an object until its copies are gone or let go.
	FinalizerCopies = "fleet.underway.dev/copies"
	// AnnotationOwnerPrefix and the UID of an owner on the hub are an annotation on content that travels along, one per
	// owner: the content goes with the last of them.
	AnnotationOwnerPrefix = "owner.fleet.underway.dev/"
	// AnnotationPropagateContent with the value "false" on a UnitedDeployment lets nothing travel along with it: its members
	// have what its template names from elsewhere.
	AnnotationPropagateContent = "fleet.underway.dev/propagate-content"
	// LabelOwnerUID is on the hub's own ControllerRevisions: the UID of their UnitedDeployment. One that has the label and
	// no owner reference was let go by the garbage collector: somebody deleted the owner with --cascade=orphan.
	LabelOwnerUID = "fleet.underway.dev/owner-uid"
	// AnnotationSubsets is on the hub's own ControllerRevisions: the names of the subsets that the spec had then, joined by
	// commas. `kubectl underway undo` leaves the overrides of a newer subset alone.
	AnnotationSubsets = "fleet.underway.dev/subsets"
	// AnnotationSubsetTemplates is beside it: the keys of the selectors of spec.topology.subsetTemplates that the spec had
	// then, joined by commas.
	AnnotationSubsetTemplates = "fleet.underway.dev/subset-templates"
	// AnnotationChangeCause is Kubernetes' own: why a change was made. It is copied to the revision that the change makes.
	AnnotationChangeCause = "kubernetes.io/change-cause"
	// FinalizerChildren holds a UnitedDeployment until its children are gone or let go.
	FinalizerChildren = "fleet.underway.dev/children"
	// LabelPartOf with the value PartOf is on the CRDs we installed; others' CRDs are never written.
	LabelPartOf = "app.kubernetes.io/part-of"
	// PartOf is the value of LabelPartOf.
	PartOf = "underway"
	// LabelVersion is on the leader Leases of hub and agent: the version of who leads.
	LabelVersion = "app.kubernetes.io/version"

	// SystemNamespace is the install namespace on the hub and on members.
	SystemNamespace = "underway-system"
	// SecretHubID holds the nonce of the hub's id in SystemNamespace; backups leave it out.
	SecretHubID = "underway-hub-id" //nolint:gosec // a name, not a credential
	// SecretPropagation in SystemNamespace is what the hub remembers of objects that travel by label, beside their finalizers.
	SecretPropagation = "underway-propagation"
	// ConfigMapFreeze in SystemNamespace stops every write to members while it exists.
	ConfigMapFreeze = "underway-freeze"
	// LeaseHubPrefix and the hub's id name the Lease a hub keeps in each member.
	LeaseHubPrefix = "underway-hub-"

	// FieldManagerHub owns what the hub writes.
	FieldManagerHub = "underway-hub"
	// FieldManagerHubHandover holds values the hub is about to give up.
	FieldManagerHubHandover = "underway-hub-handover"
	// FieldManagerMember owns what the agent writes.
	FieldManagerMember = "underway-member"
)

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UnitedDeployment is one workload in several places: clusters of the fleet, or node pools of one cluster.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=ud,categories=underway
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=".spec.replicas",description="The total of replicas; empty: the sum of the subsets, or 1."
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=".status.replicas",description="Pods that exist."
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=".status.updatedReplicas",description="Pods that run the revision of the spec."
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=".status.readyReplicas",description="Pods that are Ready."
// +kubebuilder:printcolumn:name="STATE",type=string,priority=1,JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",description="Why it is or is not ready."
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type UnitedDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec UnitedDeploymentSpec `json:"spec,omitempty"`
	// +optional
	Status UnitedDeploymentStatus `json:"status,omitempty"`
}

// UnitedDeploymentList is a list of UnitedDeployments.
// +kubebuilder:object:root=true
type UnitedDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []UnitedDeployment `json:"items"`
}

// UnitedDeploymentSpec is what a UnitedDeployment should be.
// +kubebuilder:validation:XValidation:rule="!has(self.updateStrategy) || !has(self.updateStrategy.type) || self.updateStrategy.type != 'Staged' || has(self.updateStrategy.staged)",fieldPath=".updateStrategy.staged",message="type Staged needs staged.policyRef.name, the RolloutPolicy to follow; add it, or write type Manual"
type UnitedDeploymentSpec struct {
	// Replicas is the total over all subsets. Unset: the sum of the subsets' own numbers, or 1.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector must match the template's pod labels and cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="an empty selector selects every pod; write matchLabels with the labels of the pod template"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the selector cannot be changed, running pods would be lost; create another object with the new selector and delete this one"
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is the workload; exactly one of its fields is set.
	// +required
	Template SubsetTemplate `json:"template,omitempty"`
	// Topology lists the places.
	// +optional
	Topology Topology `json:"topology,omitempty"`
	// UpdateStrategy says how a template change reaches the subsets.
	// +optional
	UpdateStrategy UnitedUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of old revisions kept. Default 10.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=10
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// Adopt says which existing objects may become children. Default Never.
	// +kubebuilder:validation:Enum=Never;Orphaned;Any
	// +optional
	Adopt AdoptPolicy `json:"adopt,omitempty"`
}

// AdoptPolicy says which existing objects may become children.
type AdoptPolicy string

// Values of AdoptPolicy.
const (
	// AdoptNever leaves every object alone that is not ours.
	AdoptNever AdoptPolicy = "Never"
	// AdoptOrphaned takes back objects that a hub let go.
	AdoptOrphaned AdoptPolicy = "Orphaned"
	// AdoptAny takes any object of the child's name.
	AdoptAny AdoptPolicy = "Any"
)

// SubsetTemplate is one of four workloads.
// +kubebuilder:validation:XValidation:rule="[has(self.statefulSetTemplate), has(self.advancedStatefulSetTemplate), has(self.deploymentTemplate), has(self.cloneSetTemplate)].filter(t, t).size() == 1",message="exactly one of statefulSetTemplate, advancedStatefulSetTemplate, deploymentTemplate and cloneSetTemplate must be set; keep the one you want and remove the others"
type SubsetTemplate struct {
	StatefulSetTemplate         *WorkloadTemplate `json:"statefulSetTemplate,omitempty"`
	AdvancedStatefulSetTemplate *WorkloadTemplate `json:"advancedStatefulSetTemplate,omitempty"`
	DeploymentTemplate          *WorkloadTemplate `json:"deploymentTemplate,omitempty"`
	CloneSetTemplate            *WorkloadTemplate `json:"cloneSetTemplate,omitempty"`
}

// WorkloadTemplate is a workload without identity; metadata and spec are kept as raw JSON.
type WorkloadTemplate struct {
	// Metadata holds the labels and annotations of each child.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Metadata *runtime.RawExtension `json:"metadata,omitempty"`
	// Spec is the workload's spec; replicas, partition and what the subset adds are filled in.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Spec runtime.RawExtension `json:"spec"`
}

// Topology lists the places and how replicas are divided over them.
// +kubebuilder:validation:XValidation:rule="!has(self.scheduleStrategy) || !has(self.scheduleStrategy.type) || self.scheduleStrategy.type != 'Adaptive' || ((!has(self.subsets) || self.subsets.all(s, !has(s.replicas))) && (!has(self.subsetTemplates) || self.subsetTemplates.all(s, !has(s.replicas))))",message="type Adaptive moves replicas itself, so no subset may fix its replicas; write minReplicas and maxReplicas instead, or type Fixed"
// +kubebuilder:validation:XValidation:rule="!((has(self.subsets) && self.subsets.exists(s, has(s.replicas))) || (has(self.subsetTemplates) && self.subsetTemplates.exists(s, has(s.replicas)))) || !((has(self.subsets) && self.subsets.exists(s, has(s.minReplicas) || has(s.maxReplicas))) || (has(self.subsetTemplates) && self.subsetTemplates.exists(s, has(s.minReplicas) || has(s.maxReplicas))))",message="replicas and minReplicas/maxReplicas are two ways to divide and cannot be mixed in one object; keep one of them in all subsets"
// +kubebuilder:validation:XValidation:rule="!((has(self.subsets) && size(self.subsets) > 0) || (has(self.subsetTemplates) && size(self.subsetTemplates) > 0)) || !((!has(self.subsets) || self.subsets.all(s, has(s.maxReplicas))) && (!has(self.subsetTemplates) || self.subsetTemplates.all(s, has(s.maxReplicas))))",message="at least one subset must leave maxReplicas out, to take what the others may not; remove it from the last one"
type Topology struct {
	// Subsets are the places, in the order in which they are filled.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Subsets []Subset `json:"subsets,omitempty"`
	// SubsetTemplates make a subset of every member that matches. Ours.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	SubsetTemplates []SubsetSelector `json:"subsetTemplates,omitempty"`
	// ScheduleStrategy is Fixed (default) or Adaptive.
	// +optional
	ScheduleStrategy ScheduleStrategy `json:"scheduleStrategy,omitempty"`
}

// Subset is one place.
type Subset struct {
	// Name is unique in the UnitedDeployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",message="must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends, at most 63 characters"
	Name string `json:"name"`

	SubsetPlace `json:",inline"`
}

// SubsetPlace is where and how many.
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || (type(self.minReplicas) == int ? (type(self.maxReplicas) != int || self.minReplicas <= self.maxReplicas) : (type(self.maxReplicas) == int || size(self.minReplicas) < size(self.maxReplicas) || (size(self.minReplicas) == size(self.maxReplicas) && self.minReplicas <= self.maxReplicas)))",message="minReplicas must not exceed maxReplicas; raise maxReplicas or lower minReplicas"
type SubsetPlace struct {
	// Cluster is the MemberCluster the subset lives in; empty: the hub's own cluster. Ours.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([a-z0-9-]*[a-z0-9])?)?$')",message="must be the name of a MemberCluster, a DNS label; see kubectl get memberclusters"
	Cluster string `json:"cluster,omitempty"`
	// NodeSelectorTerm is added to every node affinity term of the pods.
	// +optional
	NodeSelectorTerm *corev1.NodeSelectorTerm `json:"nodeSelectorTerm,omitempty"`
	// NodeSelector is the field of early releases, still shown in articles: its terms are alternatives. Deprecated: use
	// NodeSelectorTerm.
	// +optional
	NodeSelector *corev1.NodeSelector `json:"nodeSelector,omitempty"`
	// Tolerations are added to the pods'.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Replicas is a number or a whole percent of the total, rounded half up.
	// +optional
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`
	// MinReplicas is given first; a number or a whole percent of the total.
	// +optional
	MinReplicas *intstr.IntOrString `json:"minReplicas,omitempty"`
	// MaxReplicas bounds the share; a number or a whole percent of the total. Default: no bound.
	// +optional
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`
	// Patch is a strategic merge patch on the pod template, kept as raw JSON.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Patch *runtime.RawExtension `json:"patch,omitempty"`
}

// SubsetSelector makes a subset of every MemberCluster that matches.
type SubsetSelector struct {
	// ClusterSelector selects MemberClusters by label.
	// +required
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector"`
	// WhenUnselected says what happens to the child of a member that stops matching. Default Keep.
	// +optional
	// +kubebuilder:validation:Enum=Keep;Drain
	WhenUnselected string `json:"whenUnselected,omitempty"`

	SubsetPlace `json:",inline"`
}

// ScheduleStrategy says whether replicas leave a subset that cannot place them.
type ScheduleStrategy struct {
	// Type is Fixed (default) or Adaptive.
	// +optional
	// +kubebuilder:validation:Enum=Fixed;Adaptive
	Type string `json:"type,omitempty"`
	// Adaptive are the settings of type Adaptive.
	// +optional
	Adaptive *AdaptiveStrategy `json:"adaptive,omitempty"`
}

// AdaptiveStrategy are the settings of type Adaptive.
type AdaptiveStrategy struct {
	// RescheduleCriticalSeconds is how long, in seconds, a pod may be pending. Default 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=30
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`
	// UnschedulableDuration is how long, in seconds, the mark lasts. Default 300.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=300
	UnschedulableDuration *int32 `json:"unschedulableDuration,omitempty"`
	// ReserveUnschedulablePods keeps the pending pods. Default false.
	// +optional
	ReserveUnschedulablePods bool `json:"reserveUnschedulablePods,omitempty"`
	// UnreachableSeconds is how long, in seconds, a member may be out of reach before others stand in for its replicas; they
	// are given back when it has answered for UnschedulableDuration without a break. Default: for ever, nothing is moved. Ours.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnreachableSeconds *int32 `json:"unreachableSeconds,omitempty"`
}

// UnitedUpdateStrategy says how a template change reaches the subsets.
type UnitedUpdateStrategy struct {
	// Type is Manual (default) or Staged.
	// +optional
	// +kubebuilder:validation:Enum=Manual;Staged
	Type string `json:"type,omitempty"`
	// ManualUpdate are the partitions of type Manual.
	// +optional
	ManualUpdate *ManualUpdate `json:"manualUpdate,omitempty"`
	// Staged names the policy of type Staged. Ours.
	// +optional
	Staged *StagedUpdate `json:"staged,omitempty"`
}

// ManualUpdate are the partitions set by hand.
type ManualUpdate struct {
	// Partitions is, per subset, how many pods stay on the old revision: a number, or a percent as CloneSet rounds.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	Partitions map[string]intstr.IntOrString `json:"partitions,omitempty"`
	// Partition is divided over the subsets that Partitions does not name: a number, or a percent of their replicas. Ours.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// Unnamed says what a subset named by neither does: Hold (default in a fleet) or Update (upstream's). Ours.
	// +optional
	// +kubebuilder:validation:Enum=Hold;Update
	Unnamed string `json:"unnamed,omitempty"`
}

// StagedUpdate names the RolloutPolicy.
type StagedUpdate struct {
	// PolicyRef names the RolloutPolicy to follow.
	// +required
	PolicyRef PolicyReference `json:"policyRef"`
}

// PolicyReference names a RolloutPolicy of the same namespace.
type PolicyReference struct {
	// Name of the RolloutPolicy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// UnitedDeploymentStatus is what was seen.
type UnitedDeploymentStatus struct {
	ObservedGeneration   int64 `json:"observedGeneration,omitempty"`
	Replicas             int32 `json:"replicas"`
	ReadyReplicas        int32 `json:"readyReplicas"`
	UpdatedReplicas      int32 `json:"updatedReplicas"`
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// UpdatedInPlace and Recreated are sums over the members that report them.
	UpdatedInPlace int32  `json:"updatedInPlace,omitempty"`
	Recreated      int32  `json:"recreated,omitempty"`
	ReservedPods   int32  `json:"reservedPods,omitempty"`
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// CurrentRevision is the completed revision: the one whose release was finished last.
	CurrentRevision string `json:"currentRevision,omitempty"`
	// UpdatedRevision is the revision of the spec.
	UpdatedRevision string `json:"updatedRevision,omitempty"`
	// SubsetReplicas is, per subset, the replicas allotted.
	SubsetReplicas map[string]int32 `json:"subsetReplicas,omitempty"`
	// SubsetStatuses is one entry per subset, in spec order, then those that leave.
	// +listType=atomic
	SubsetStatuses []SubsetStatus `json:"subsetStatuses,omitempty"`
	// UpdateStatus is upstream's (v1alpha1).
	UpdateStatus *UpdateStatus `json:"updateStatus,omitempty"`
	// Release is the hub's own memory of the release under way.
	Release *ReleaseStatus `json:"release,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
	LabelSelector string             `json:"labelSelector,omitempty"`
}

// UpdateStatus is the revision and the partitions in force.
type UpdateStatus struct {
	UpdatedRevision   string           `json:"updatedRevision,omitempty"`
	CurrentPartitions map[string]int32 `json:"currentPartitions,omitempty"`
}

// ReleaseStatus is stored before anything is pushed, so that a restarted hub goes on where it was.
type ReleaseStatus struct {
	// Revision is the UnitedDeployment revision this release moves to.
	Revision string `json:"revision"`
	// Epoch counts every change of grants; it is part of each child's intent.
	Epoch int64 `json:"epoch"`
	// Replicas, per subset, frozen at the start of the release, by which a total partition is divided.
	Replicas map[string]int32 `json:"replicas,omitempty"`
	// Order are the subsets over which a total partition is divided, as of the start of the release: later ones take no part.
	// +listType=atomic
	Order []string `json:"order,omitempty"`
	// Grants, per subset, is the most pods that may run the new revision.
	Grants map[string]int32 `json:"grants,omitempty"`
	// StartedAt is when the release began.
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
}

// SubsetStatus is one subset as last heard.
type SubsetStatus struct {
	Name string `json:"name"`
	// Cluster is the member it lives in.
	Cluster string `json:"cluster,omitempty"`
	// SelectedBy is set for a subset that a template of topology.subsetTemplates made: a hash of its selector.
	SelectedBy string `json:"selectedBy,omitempty"`
	// Workload is the name of the child.
	Workload string `json:"workload,omitempty"`
	// Kind is the kind of the child, as "<kind>.<group>": "CloneSet.apps.kruise.io", "StatefulSet.apps". Empty in a status
	// that an older hub wrote: CloneSet.
	Kind string `json:"kind,omitempty"`
	// Replicas is the number of pods that exist, DesiredReplicas the number allotted.
	Replicas        int32 `json:"replicas,omitempty"`
	DesiredReplicas int32 `json:"desiredReplicas,omitempty"`
	ReadyReplicas   int32 `json:"readyReplicas,omitempty"`
	// AwaitedReplicas are those that were moved here from other subsets and are not ready yet: as many stay where they were.
	AwaitedReplicas int32 `json:"awaitedReplicas,omitempty"`
	// UpdatedReplicas run the revision of the spec, proven; UpdatedReadyReplicas are Ready besides.
	UpdatedReplicas      int32 `json:"updatedReplicas,omitempty"`
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`
	// Partition is the number of pods that stay on the old revision, Granted the number that may leave it.
	Partition int32 `json:"partition,omitempty"`
	Granted   int32 `json:"granted,omitempty"`
	// Report says how the pods got there; absent: the member does not say.
	Report *WorkloadReport `json:"report,omitempty"`
	// Failing are the pods that do not come up: how many, why and since when, by the member's agent, or as the hub sees the
	// pods where no agent tells; at most 3 entries, and fewer words the more subsets there are.
	// +listType=atomic
	Failing      []PodProblem `json:"failing,omitempty"`
	ReservedPods int32        `json:"reservedPods,omitempty"`
	// Revision is the subset revision the child carries.
	Revision string `json:"revision,omitempty"`
	// State is one word: Current, Updating, Held, Waiting, Stale, Conflict, Refused, Leaving and others.
	State string `json:"state,omitempty"`
	// Message says on what it waits and the command that moves it.
	Message string `json:"message,omitempty"`
	// Since is when the present State began, by the hub's clock. It stays while only numbers in Message change.
	Since *metav1.Time `json:"since,omitempty"`
	// Stale is true while the member is not heard from; the numbers are the last known, HeardAt says of when.
	Stale   bool         `json:"stale,omitempty"`
	HeardAt *metav1.Time `json:"heardAt,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Condition types of a subset.
const (
	// ConditionSchedulable is False while a subset is given no more pods because it could not place some (type Adaptive).
	ConditionSchedulable = "Schedulable"
	// ConditionReachable is False while a subset's member is not heard from, or comes back, and others may stand in for it
	// (type Adaptive with unreachableSeconds). Ours.
	ConditionReachable = "Reachable"
	// ConditionVolumesStayBehind is True of a subset that leaves, keeps its claims, and was renamed or moved: the pods of the
	// subset in its place start with empty volumes. Ours.
	ConditionVolumesStayBehind = "VolumesStayBehind"
	// ConditionScaledInRelease is True while a StatefulSet that is held by positions (Kubernetes' own, or OpenKruise's manager
	// reconciles it) is held whole because it was scaled in mid-release while a part of it was granted. Ours.
	ConditionScaledInRelease = "ScaledInRelease"
)

// Words of the enumerations above. The empty word means the first of each.
const (
	// ScheduleFixed keeps replicas where they are.
	ScheduleFixed = "Fixed"
	// ScheduleAdaptive moves replicas away from a subset that cannot place them.
	ScheduleAdaptive = "Adaptive"
	// ManualUpdateType is updateStrategy.type Manual: partitions are set by hand.
	ManualUpdateType = "Manual"
	// StagedUpdateType is updateStrategy.type Staged: a RolloutPolicy sets the grants.
	StagedUpdateType = "Staged"
	// UnnamedHold holds a subset that neither partitions nor partition names.
	UnnamedHold = "Hold"
	// UnnamedUpdate updates such a subset at once, as upstream does.
	UnnamedUpdate = "Update"
	// UnselectedKeep leaves the child of a member that stops matching as it is.
	UnselectedKeep = "Keep"
	// UnselectedDrain takes it away when the others have taken over.
	UnselectedDrain = "Drain"
)

// Condition types of a UnitedDeployment beside those of CloneSet.
const (
	// ConditionSubsetProvisioned is True when every subset's child exists and is seen.
	ConditionSubsetProvisioned = "SubsetProvisioned"
	// ConditionSubsetUpdated is True when every child carries what it was granted.
	ConditionSubsetUpdated = "SubsetUpdated"
	// ConditionUnitedDeploymentUpdated is True when the release is finished.
	ConditionUnitedDeploymentUpdated = "UnitedDeploymentUpdated"
	// ConditionHeld is True while a subset waits for its partition; it names them and the command.
	ConditionHeld = "Held"
	// ConditionAllocation is True when replicas could not be divided as written; it says what was done instead.
	ConditionAllocation = "AllocationCorrected"
	// ConditionUnknownSubsets is True while partitions names subsets that do not exist.
	ConditionUnknownSubsets = "UnknownSubsets"
	// ConditionStale is True while a member is not heard from.
	ConditionStale = "Stale"
	// ConditionConflict is True while an object that is not ours has a child's name.
	ConditionConflict = "Conflict"
	// ConditionNotAllowed is True while a member does not take workloads of this namespace.
	ConditionNotAllowed = "NotAllowed"
	// ConditionNamespaceMissing is True while a member lacks the namespace and the hub may not create it.
	ConditionNamespaceMissing = "NamespaceMissing"
	// ConditionDeleting is True while children are being deleted; it says which members it waits for.
	ConditionDeleting = "Deleting"
	// ConditionRefused is True while the template cannot be updated as the strategy demands; it names the field.
	ConditionRefused = "Refused"
	// ConditionTemplateInvalid is True while API servers of members refuse the pod template of the spec: nothing of it is
	// sent anywhere, and what runs goes on. The message names field, version and member.
	ConditionTemplateInvalid = "TemplateInvalid"
	// ConditionReconciling is True while the hub or a member has something to do that nobody has to be asked for, as kstatus
	// wants it: a release held at its partition is not reconciling. Absent otherwise.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while nothing goes on until a person changes something: the spec, a member, or a name. Absent
	// otherwise; a release held at its partition is not stalled.
	ConditionStalled = "Stalled"
	// ConditionPodsFailing is True while members report pods that do not come up: how many, why and since when.
	ConditionPodsFailing = "PodsFailing"
	// ConditionLeftBehind is True while a subset's MemberCluster does not exist any more and what ran there was left as it
	// is; it names what is left.
	ConditionLeftBehind = "LeftBehind"
	// ConditionUnselected is True while a member that no template of topology.subsetTemplates matches any more has a child: it
	// stays as it is and its replicas count as placed. It stands on the object, naming them, and on the subset.
	ConditionUnselected = "Unselected"
	// ConditionJoining is True while a member that a template matches cannot take a child yet; it says why.
	ConditionJoining = "Joining"
	// ConditionRemovalHeld is True while several subsets leave at once, or one whose claims go with it, and nobody has
	// confirmed it.
	ConditionRemovalHeld = "RemovalHeld"
)

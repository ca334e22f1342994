package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// CloneSetUpdateStrategyType says how pods move to a new revision. The first three are the flat (v1alpha1) shape, the
// last two the nested (v1beta1) one.
type CloneSetUpdateStrategyType string

// Values of CloneSetUpdateStrategyType and of PodUpdatePolicy.
const (
	// ReCreateUpdate deletes the pod and creates a new one.
	ReCreateUpdate CloneSetUpdateStrategyType = "ReCreate"
	// InPlaceIfPossibleUpdate changes the pod in place where it can, and recreates it otherwise.
	InPlaceIfPossibleUpdate CloneSetUpdateStrategyType = "InPlaceIfPossible"
	// InPlaceOnlyUpdate changes the pod in place or refuses the template.
	InPlaceOnlyUpdate CloneSetUpdateStrategyType = "InPlaceOnly"
	// RollingUpdate is the nested shape; PodUpdatePolicy says how.
	RollingUpdate CloneSetUpdateStrategyType = "RollingUpdate"
	// OnDeleteUpdate moves a pod only when somebody deletes it.
	OnDeleteUpdate CloneSetUpdateStrategyType = "OnDelete"
)

// CloneSet runs replicas of one pod template without identity.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=clone,categories=underway
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=".spec.replicas",description="Pods that should exist."
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=".status.updatedReplicas",description="Pods that run the update revision."
// +kubebuilder:printcolumn:name="UPDATED_READY",type=integer,JSONPath=".status.updatedReadyReplicas",description="Those of them that are Ready."
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=".status.readyReplicas",description="Pods that are Ready."
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=".status.replicas",description="Pods that exist."
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="STATE",type=string,priority=1,JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",description="Why it is or is not ready."
// +kubebuilder:printcolumn:name="IN_PLACE",type=integer,priority=1,JSONPath=".status.underway.updatedInPlace",description="Pods that were updated in place to the update revision."
// +kubebuilder:printcolumn:name="RECREATED",type=integer,priority=1,JSONPath=".status.underway.recreated",description="Pods of the update revision that replaced one of an older revision."
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=".spec.template.spec.containers[*].name",description="Containers of the template."
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=".spec.template.spec.containers[*].image",description="Images of the template."
// +kubebuilder:printcolumn:name="SELECTOR",type=string,priority=1,JSONPath=".status.labelSelector",description="The selector as text."
type CloneSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec CloneSetSpec `json:"spec,omitempty"`
	// +optional
	Status CloneSetStatus `json:"status,omitempty"`
}

// CloneSetList is a list of CloneSets.
// +kubebuilder:object:root=true
type CloneSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CloneSet `json:"items"`
}

// CloneSetSpec is what a CloneSet should be.
// +kubebuilder:validation:XValidation:rule="(has(self.replicas) && self.replicas == 0) || !has(self.updateStrategy) || !has(self.updateStrategy.maxUnavailable) || !(type(self.updateStrategy.maxUnavailable) == int ? self.updateStrategy.maxUnavailable == 0 : self.updateStrategy.maxUnavailable.matches('^0+%$')) || (has(self.updateStrategy.maxSurge) && !(type(self.updateStrategy.maxSurge) == int ? self.updateStrategy.maxSurge == 0 : self.updateStrategy.maxSurge.matches('^0+%$')))",fieldPath=".updateStrategy.maxUnavailable",message="maxUnavailable 0 without maxSurge leaves no pod that may be moved; raise one of them, or hold the update with partition 100% or paused true"
// +kubebuilder:validation:XValidation:rule="(has(self.replicas) && self.replicas == 0) || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || (has(self.updateStrategy.type) && self.updateStrategy.type == 'OnDelete') || !has(self.updateStrategy.rollingUpdate.maxUnavailable) || !(type(self.updateStrategy.rollingUpdate.maxUnavailable) == int ? self.updateStrategy.rollingUpdate.maxUnavailable == 0 : self.updateStrategy.rollingUpdate.maxUnavailable.matches('^0+%$')) || (has(self.updateStrategy.rollingUpdate.maxSurge) && !(type(self.updateStrategy.rollingUpdate.maxSurge) == int ? self.updateStrategy.rollingUpdate.maxSurge == 0 : self.updateStrategy.rollingUpdate.maxSurge.matches('^0+%$')))",fieldPath=".updateStrategy.rollingUpdate.maxUnavailable",message="maxUnavailable 0 without maxSurge leaves no pod that may be moved; raise one of them, or hold the update with partition 100% or paused true"
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadlineSeconds) || self.progressDeadlineSeconds > (has(self.minReadySeconds) ? self.minReadySeconds : 0)",fieldPath=".progressDeadlineSeconds",message="must be greater than minReadySeconds, or every release would be late; raise it or remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, has(self.template.metadata) && has(self.template.metadata.labels) && k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",fieldPath=".selector",message="does not match the labels of the pod template, so no pod would ever be found; write the same labels in spec.template.metadata.labels"
type CloneSetSpec struct {
	// Replicas is the number of pods. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	Replicas *int32 `json:"replicas,omitempty"`
	// Selector finds the pods; it must match the template's labels and cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="an empty selector selects every pod; write matchLabels with the labels of the pod template"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the selector cannot be changed, running pods would be lost; create another object with the new selector and delete this one"
	Selector *metav1.LabelSelector `json:"selector"`
	// Template is the pod template, kept as raw JSON.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Template runtime.RawExtension `json:"template"`
	// VolumeClaimTemplates are claims of which each pod gets its own, named <template>-<cloneset>-<id> and mounted as the
	// volume that the template is named after. Kept as raw JSON. A change touches no pod and no claim by itself; together
	// with a change of the pod template pods are recreated, with new claims.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	VolumeClaimTemplates []RawObject `json:"volumeClaimTemplates,omitempty"`
	// ScaleStrategy says how pods are created and deleted.
	// +optional
	ScaleStrategy *CloneSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// UpdateStrategy says how pods move to a new revision.
	// +optional
	UpdateStrategy CloneSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of old revisions kept. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=10
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// MinReadySeconds is how long, in seconds, a pod must have been Ready to count as available. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// ProgressDeadlineSeconds is how long, in seconds, a release may make no progress before the condition Progressing says
	// so, counted from the last progress. It must be more than minReadySeconds. Default: no deadline.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// Lifecycle are the hooks that hold a pod before it is deleted, around an update in place, and before it counts as new.
	// +optional
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
}

// RawObject is one JSON object kept as it was written.
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:Type=object
type RawObject struct {
	runtime.RawExtension `json:",inline"`
}

// CloneSetScaleStrategy says how pods are created and deleted.
// +kubebuilder:validation:XValidation:rule="!has(self.disablePVCReuse) || !has(self.enablePVCReuse)",message="disablePVCReuse (v1alpha1) and enablePVCReuse (v1beta1) are two spellings of one choice; keep one of them"
type CloneSetScaleStrategy struct {
	// PodsToDelete names pods that are to go: the first ones of a scale-in, and replaced where replicas do not shrink. A
	// name that is no pod of this CloneSet is told and taken out of the list, and so is one that is gone.
	// +optional
	// +listType=set
	PodsToDelete []string `json:"podsToDelete,omitempty"`
	// MaxUnavailable bounds how many pods may be unavailable while more are created: a number or a percent of replicas,
	// rounded up. 0 creates none. Default: no bound.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// DisablePVCReuse (v1alpha1) stops claims of gone pods from being used again. Default false: they are used again. Where
	// neither this nor enablePVCReuse is written, the shape of updateStrategy decides: nested means no reuse.
	// +optional
	DisablePVCReuse *bool `json:"disablePVCReuse,omitempty"`
	// EnablePVCReuse (v1beta1) lets claims of gone pods be used again. Default false where updateStrategy is nested.
	// +optional
	EnablePVCReuse *bool `json:"enablePVCReuse,omitempty"`
	// ExcludePreparingDelete (v1beta1) leaves pods in PreparingDelete out of the replicas, so that they are replaced at once.
	// Default false. The label apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true" says the same.
	// +optional
	ExcludePreparingDelete *bool `json:"excludePreparingDelete,omitempty"`
}

// CloneSetUpdateStrategy says how pods move to a new revision, in one of two shapes: flat (v1alpha1), or nested in
// rollingUpdate (v1beta1). Both in one object are refused.
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.type) || !(self.type in ['ReCreate', 'InPlaceIfPossible', 'InPlaceOnly'])",message="type ReCreate, InPlaceIfPossible or InPlaceOnly and rollingUpdate are two shapes of one strategy; write type RollingUpdate and rollingUpdate.podUpdatePolicy, or leave rollingUpdate out"
// +kubebuilder:validation:XValidation:rule="!(has(self.rollingUpdate) || (has(self.type) && self.type in ['RollingUpdate', 'OnDelete'])) || !(has(self.partition) || has(self.maxUnavailable) || has(self.maxSurge) || (has(self.paused) && self.paused) || has(self.priorityStrategy) || (has(self.scatterStrategy) && size(self.scatterStrategy) > 0) || has(self.inPlaceUpdateStrategy))",message="with rollingUpdate, or type RollingUpdate or OnDelete, everything but type and partitionRollback is written under rollingUpdate; move it there"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'InPlaceOnly' || !has(self.maxSurge) || (type(self.maxSurge) == int ? self.maxSurge == 0 : self.maxSurge.matches('^0+%$'))",fieldPath=".maxSurge",message="InPlaceOnly never creates a pod to replace another, so maxSurge has no meaning; remove maxSurge or write InPlaceIfPossible"
type CloneSetUpdateStrategy struct {
	// Type of the strategy. Default ReCreate (flat) or RollingUpdate (nested).
	// +optional
	// +kubebuilder:validation:Enum=ReCreate;InPlaceIfPossible;InPlaceOnly;RollingUpdate;OnDelete
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate is the nested shape.
	// +optional
	RollingUpdate *CloneSetRollingUpdate `json:"rollingUpdate,omitempty"`
	// PartitionRollback moves updated pods back, in place, when the partition is raised. Default false. Ours.
	// +optional
	PartitionRollback *bool `json:"partitionRollback,omitempty"`

	CloneSetRollout `json:",inline"`
}

// CloneSetRollingUpdate is the nested (v1beta1) shape.
// +kubebuilder:validation:XValidation:rule="!has(self.podUpdatePolicy) || self.podUpdatePolicy != 'InPlaceOnly' || !has(self.maxSurge) || (type(self.maxSurge) == int ? self.maxSurge == 0 : self.maxSurge.matches('^0+%$'))",fieldPath=".maxSurge",message="InPlaceOnly never creates a pod to replace another, so maxSurge has no meaning; remove maxSurge or write InPlaceIfPossible"
type CloneSetRollingUpdate struct {
	// PodUpdatePolicy is ReCreate, InPlaceIfPossible or InPlaceOnly. Default ReCreate.
	// +optional
	// +kubebuilder:validation:Enum=ReCreate;InPlaceIfPossible;InPlaceOnly
	PodUpdatePolicy CloneSetUpdateStrategyType `json:"podUpdatePolicy,omitempty"`

	CloneSetRollout `json:",inline"`
}

// CloneSetRollout is what the two shapes have in common.
type CloneSetRollout struct {
	// Partition is how many pods stay on the old revision: a number, or a percent of replicas rounded up, at most
	// replicas-1 when below 100%. Default 0.
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	// MaxUnavailable is how many pods may be unavailable during an update: a number, or a percent of replicas, rounded
	// up without surge and down with it. Default 20%.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many pods more than replicas may exist during an update: a number, or a percent rounded up. Pods that
	// are changed in place need none and get none. Default 0.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// Paused stops updates, not scaling.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// PriorityStrategy orders the pods to update. Pods that are out of service already go first.
	// +optional
	PriorityStrategy *UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
	// ScatterStrategy spreads the pods that carry a label over the release. Default: no spreading.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.key == b.key && a.value == b.value))",message="names the same label and value twice; keep it once"
	ScatterStrategy []UpdateScatterTerm `json:"scatterStrategy,omitempty"`
	// InPlaceUpdateStrategy are the settings of in-place updates.
	// +optional
	InPlaceUpdateStrategy *InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
}

// UpdatePriorityStrategy orders the pods to update. With both lists the weight decides, and the ordered key breaks ties.
// (OpenKruise's webhook refuses the two together; widely read articles show them so.)
type UpdatePriorityStrategy struct {
	// WeightPriority adds up the weights of the terms a pod matches; more goes first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	WeightPriority []UpdatePriorityWeightTerm `json:"weightPriority,omitempty"`
	// OrderPriority orders by the first of these labels that a pod has: the earlier in the list, then the larger number at
	// the end of its value goes first. A pod with none of them goes before all others, as in OpenKruise.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	OrderPriority []UpdatePriorityOrderTerm `json:"orderPriority,omitempty"`
}

// UpdatePriorityWeightTerm is one weighted selector.
type UpdatePriorityWeightTerm struct {
	// Weight from 0 to 100.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`
	// MatchSelector selects pods by label.
	MatchSelector metav1.LabelSelector `json:"matchSelector"`
}

// UpdatePriorityOrderTerm is one label key.
type UpdatePriorityOrderTerm struct {
	// OrderedKey is the label whose value ends in a number.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="is no label key, so no pod can have it; write one such as example.com/order"
	OrderedKey string `json:"orderedKey"`
}

// UpdateScatterTerm is a label to spread over.
type UpdateScatterTerm struct {
	// Key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="is no label key, so no pod can have it; write one such as example.com/zone"
	Key string `json:"key"`
	// Value of the label.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$')",message="is no label value, so no pod can have it; correct it"
	Value string `json:"value"`
}

// InPlaceUpdateStrategy are the settings of in-place updates.
type InPlaceUpdateStrategy struct {
	// GracePeriodSeconds is how long, in seconds, a drained pod waits before it is patched. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`
	// ImagePreDownloadParallelism is how many nodes pull a new image at once, ahead of the update.
	// +optional
	ImagePreDownloadParallelism *int32 `json:"imagePreDownloadParallelism,omitempty"`
	// ImagePreDownloadTimeoutSeconds bounds one such pull, in seconds.
	// +optional
	ImagePreDownloadTimeoutSeconds *int32 `json:"imagePreDownloadTimeoutSeconds,omitempty"`
	// ImagePreDownloadMinUpdatedReadyPods is how many updated pods must be ready before the pulls begin.
	// +optional
	ImagePreDownloadMinUpdatedReadyPods *int32 `json:"imagePreDownloadMinUpdatedReadyPods,omitempty"`
}

// Lifecycle are the hooks around a pod's states.
type Lifecycle struct {
	// PreDelete holds a pod that the controller is about to delete.
	// +optional
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`
	// InPlaceUpdate holds a pod before and after an in-place update.
	// +optional
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`
	// PreNormal holds a new pod.
	// +optional
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook holds a pod in a state by labels and finalizers that somebody else puts on and takes off. preDelete and
// the beginning of inPlaceUpdate wait while one of them is there; the end of inPlaceUpdate, and preNormal, until all are.
type LifecycleHook struct {
	// LabelsHandler are labels, each with the value that counts.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches(r'^[\\w./-]+$'))",message="has a key that no label can have, so the hook could never hold or let go of a pod; write one such as example.com/registered"
	LabelsHandler map[string]string `json:"labelsHandler,omitempty"`
	// FinalizersHandler are finalizers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="is no finalizer that a pod can have; write it as domain/name, such as example.com/unregister"
	FinalizersHandler []string `json:"finalizersHandler,omitempty"`
	// MarkPodNotReady takes the pod out of service while the hook waits, before an update and before a deletion. A pod that
	// is taken out of service for its deletion is not taken back. No effect on preNormal. Default false.
	// +optional
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}

// CloneSetStatus is what was seen.
type CloneSetStatus struct {
	// ObservedGeneration is the generation that the rest of the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of pods that exist, those that are being deleted or have finished left out.
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of pods that are Ready.
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is the number of pods Ready for minReadySeconds.
	AvailableReplicas int32 `json:"availableReplicas"`
	// UpdatedReplicas is the number of pods that run the update revision, proven.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is the number of those that are Ready.
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
	// UpdatedAvailableReplicas is the number of those that are available.
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// ExpectedUpdatedReplicas is how many pods should run the update revision: replicas minus partition.
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas,omitempty"`
	// UpdateRevision is the revision of the template.
	UpdateRevision string `json:"updateRevision,omitempty"`
	// CurrentRevision is the revision whose release was finished last.
	CurrentRevision string `json:"currentRevision,omitempty"`
	// CollisionCount is how often the name of a revision was taken by another template.
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// LabelSelector is the selector as text, for the scale subresource.
	LabelSelector string `json:"labelSelector,omitempty"`
	// Conditions: Ready, Progressing, FailedScale, FailedUpdate, Unsupported and others of this package.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Underway says how each pod got to its revision. Absent where another reconciler writes the status.
	Underway *WorkloadReport `json:"underway,omitempty"`
}

// WorkloadReport says how the pods of a workload got to the update revision, and which could not.
type WorkloadReport struct {
	// UpdatedInPlace is the number of pods updated in place to the update revision.
	UpdatedInPlace int32 `json:"updatedInPlace"`
	// Recreated is the number of pods of the update revision that replaced a pod of an older one.
	Recreated int32 `json:"recreated"`
	// Refused lists why pods are not moved, at most 10 entries.
	// +listType=atomic
	Refused []PodProblem `json:"refused,omitempty"`
	// Broken lists pods that do not come up on their revision, at most 10 entries.
	// +listType=atomic
	Broken []PodProblem `json:"broken,omitempty"`
}

// PodProblem is one problem shared by one or more pods.
type PodProblem struct {
	// Reason is a CamelCase word.
	Reason string `json:"reason"`
	// Message names the field or container and the remedy.
	Message string `json:"message,omitempty"`
	// Pods names the pods, at most 10.
	// +listType=atomic
	Pods []string `json:"pods,omitempty"`
	// Count is the number of pods.
	Count int32 `json:"count,omitempty"`
	// Since is when it was first seen.
	Since *metav1.Time `json:"since,omitempty"`
}

// Condition types of a CloneSet and their reasons.
const (
	// ConditionReady is True when every pod that should be updated is updated and available.
	ConditionReady = "Ready"
	// ConditionProgressing is upstream's.
	ConditionProgressing = "Progressing"
	// ConditionFailedScale is True while pods cannot be created or deleted.
	ConditionFailedScale = "FailedScale"
	// ConditionFailedUpdate is True while pods cannot be updated.
	ConditionFailedUpdate = "FailedUpdate"
	// ConditionNotActedOn is True while the spec has fields that are accepted and not acted on yet; the message names them.
	ConditionNotActedOn = "FieldsNotActedOn"
	// ConditionWarning is True while something is asked for that cannot be done, or left that somebody should look at. Nothing
	// waits for it; the message names it.
	ConditionWarning = "Warning"
	// ConditionInvalid is True while the spec cannot be read; nothing moves.
	ConditionInvalid = "Invalid"
	// ConditionPeerActive is True while another reconciler owns the kind; nothing is written by us.
	ConditionPeerActive = "PeerActive"
	// ConditionUnknownFields is True while the template has fields this build does not know; they travel all the same.
	ConditionUnknownFields = "UnknownFields"
	// ConditionDeprecatedFields is True while the spec has fields that are honoured and have a successor; it names both.
	ConditionDeprecatedFields = "DeprecatedFields"
)

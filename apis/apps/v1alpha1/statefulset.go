package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PodManagementPolicy says in which order pods are created and deleted.
type PodManagementPolicy string

// Values of PodManagementPolicy.
const (
	// OrderedReady creates pods one after the other, each when those before it are available, and deletes them in the
	// opposite order. The default.
	OrderedReady PodManagementPolicy = "OrderedReady"
	// ParallelPods creates and deletes them together.
	ParallelPods PodManagementPolicy = "Parallel"
)

// StatefulSet (Advanced StatefulSet) runs replicas of one pod template, each with a name, a host name and claims of its
// own, by ordinal.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=sts;asts,categories=underway
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.labelSelector
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=".spec.replicas",description="Pods that should exist."
// +kubebuilder:printcolumn:name="CURRENT",type=integer,JSONPath=".status.replicas",description="Pods that exist."
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=".status.updatedReplicas",description="Pods that run the update revision."
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=".status.readyReplicas",description="Pods that are Ready."
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="STATE",type=string,priority=1,JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",description="Why it is or is not ready."
// +kubebuilder:printcolumn:name="IN_PLACE",type=integer,priority=1,JSONPath=".status.underway.updatedInPlace",description="Pods that were updated in place to the update revision."
// +kubebuilder:printcolumn:name="RECREATED",type=integer,priority=1,JSONPath=".status.underway.recreated",description="Pods of the update revision that replaced one of an older revision."
// +kubebuilder:printcolumn:name="CONTAINERS",type=string,priority=1,JSONPath=".spec.template.spec.containers[*].name",description="Containers of the template."
// +kubebuilder:printcolumn:name="IMAGES",type=string,priority=1,JSONPath=".spec.template.spec.containers[*].image",description="Images of the template."
type StatefulSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec StatefulSetSpec `json:"spec,omitempty"`
	// +optional
	Status StatefulSetStatus `json:"status,omitempty"`
}

// StatefulSetList is a list of StatefulSets.
// +kubebuilder:object:root=true
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []StatefulSet `json:"items"`
}

// StatefulSetSpec is what a StatefulSet should be. v1beta1's fields are a superset of v1alpha1's; both versions carry all.
// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.maxUnavailable) || (type(self.updateStrategy.rollingUpdate.maxUnavailable) == int && self.updateStrategy.rollingUpdate.maxUnavailable <= 1)",fieldPath=".updateStrategy.rollingUpdate.maxUnavailable",message="podManagementPolicy OrderedReady moves one pod at a time; write maxUnavailable 1, or podManagementPolicy Parallel"
// +kubebuilder:validation:XValidation:rule="(has(self.podManagementPolicy) && self.podManagementPolicy == 'Parallel') || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.unorderedUpdate)",fieldPath=".updateStrategy.rollingUpdate.unorderedUpdate",message="podManagementPolicy OrderedReady moves pods in the order of their ordinals; remove unorderedUpdate, or write podManagementPolicy Parallel"
// +kubebuilder:validation:XValidation:rule="(has(self.replicas) && self.replicas == 0) || !has(self.updateStrategy) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.maxUnavailable) || !(type(self.updateStrategy.rollingUpdate.maxUnavailable) == int ? self.updateStrategy.rollingUpdate.maxUnavailable == 0 : self.updateStrategy.rollingUpdate.maxUnavailable.matches('^0+%$'))",fieldPath=".updateStrategy.rollingUpdate.maxUnavailable",message="maxUnavailable 0 leaves no pod that may be moved; raise it, or hold the update with partition 2147483647 or paused true"
// +kubebuilder:validation:XValidation:rule="!has(self.serviceName) || size(self.serviceName) == 0 ? !has(oldSelf.serviceName) || size(oldSelf.serviceName) == 0 : has(oldSelf.serviceName) && self.serviceName == oldSelf.serviceName",fieldPath=".serviceName",message="serviceName is part of the DNS name of every pod and cannot be changed; create another object with the new name and delete this one"
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, has(self.template.metadata) && has(self.template.metadata.labels) && k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",fieldPath=".selector",message="does not match the labels of the pod template, so no pod would ever be found; write the same labels in spec.template.metadata.labels"
type StatefulSetSpec struct {
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
	// VolumeClaimTemplates are claims of which each ordinal has its own, named <template>-<set>-<ordinal> and mounted as the
	// volume that the template is named after. Kept as raw JSON. A claim outlives its pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	VolumeClaimTemplates []RawObject `json:"volumeClaimTemplates,omitempty"`
	// VolumeClaimUpdateStrategy says what becomes of claims that exist when their template changes.
	// +optional
	VolumeClaimUpdateStrategy StatefulSetClaimUpdateStrategy `json:"volumeClaimUpdateStrategy,omitempty"`
	// ServiceName is the headless Service that gives the pods their DNS names; it cannot be changed.
	// +optional
	ServiceName string `json:"serviceName,omitempty"`
	// PodManagementPolicy is OrderedReady or Parallel. Default OrderedReady.
	// +optional
	// +kubebuilder:validation:Enum=OrderedReady;Parallel
	PodManagementPolicy PodManagementPolicy `json:"podManagementPolicy,omitempty"`
	// UpdateStrategy says how pods move to a new revision.
	// +optional
	UpdateStrategy StatefulSetUpdateStrategy `json:"updateStrategy,omitempty"`
	// RevisionHistoryLimit is the number of old revisions kept. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=10
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// ReserveOrdinals are ordinals that no pod has: numbers, or ranges such as "3-5" with both ends. A pod on one is deleted
	// and the next free ordinal has one instead.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	ReserveOrdinals []intstr.IntOrString `json:"reserveOrdinals,omitempty"`
	// Lifecycle are the hooks around a pod's states.
	// +optional
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
	// ScaleStrategy says how pods are created.
	// +optional
	ScaleStrategy *StatefulSetScaleStrategy `json:"scaleStrategy,omitempty"`
	// PersistentVolumeClaimRetentionPolicy says what becomes of claims whose pods are gone for good.
	// +optional
	PersistentVolumeClaimRetentionPolicy *StatefulSetClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
	// Ordinals says where the ordinals begin.
	// +optional
	Ordinals *StatefulSetOrdinals `json:"ordinals,omitempty"`
}

// Values of StatefulSetClaimUpdateStrategy.Type.
const (
	// ClaimsOnDelete: claims that exist stay as they are; the default.
	ClaimsOnDelete = "OnDelete"
	// ClaimsOnPodRollingUpdate: a claim that asks for less than its template is resized when the pod's turn has come.
	ClaimsOnPodRollingUpdate = "OnPodRollingUpdate"
)

// StatefulSetClaimUpdateStrategy says what becomes of claims that exist when their template changes.
type StatefulSetClaimUpdateStrategy struct {
	// Type is OnDelete or OnPodRollingUpdate. Default OnDelete.
	// +optional
	// +kubebuilder:validation:Enum=OnDelete;OnPodRollingUpdate
	Type string `json:"type,omitempty"`
}

// StatefulSetUpdateStrategy says how pods move to a new revision.
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'OnDelete' || !has(self.rollingUpdate)",fieldPath=".rollingUpdate",message="with type OnDelete pods move when somebody deletes them, so rollingUpdate has no meaning; remove it, or write type RollingUpdate"
type StatefulSetUpdateStrategy struct {
	// Type is RollingUpdate or OnDelete. Default RollingUpdate.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
	Type CloneSetUpdateStrategyType `json:"type,omitempty"`
	// RollingUpdate are the settings of RollingUpdate.
	// +optional
	RollingUpdate *StatefulSetRollingUpdate `json:"rollingUpdate,omitempty"`
}

// StatefulSetRollingUpdate are the settings of RollingUpdate.
type StatefulSetRollingUpdate struct {
	// Partition is how many pods stay on the old revision, the lowest ordinals; it is no ordinal. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Partition *int32 `json:"partition,omitempty"`
	// MaxUnavailable is how many pods may be unavailable during an update: a number, or a percent of replicas rounded down,
	// at least 1. Anything but 1 needs podManagementPolicy Parallel. Default 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// PodUpdatePolicy is ReCreate, InPlaceIfPossible or InPlaceOnly. Default ReCreate.
	// +optional
	// +kubebuilder:validation:Enum=ReCreate;InPlaceIfPossible;InPlaceOnly
	PodUpdatePolicy CloneSetUpdateStrategyType `json:"podUpdatePolicy,omitempty"`
	// Paused stops updates, not scaling.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// UnorderedUpdate moves pods by priority and not by ordinal. It needs podManagementPolicy Parallel.
	// +optional
	UnorderedUpdate *UnorderedUpdate `json:"unorderedUpdate,omitempty"`
	// InPlaceUpdateStrategy are the settings of in-place updates.
	// +optional
	InPlaceUpdateStrategy *InPlaceUpdateStrategy `json:"inPlaceUpdateStrategy,omitempty"`
	// MinReadySeconds is how long, in seconds, a pod must have been Ready to count as available. Default 0, at most 300.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// UnorderedUpdate moves pods by priority.
type UnorderedUpdate struct {
	// PriorityStrategy orders the pods to update.
	// +optional
	PriorityStrategy *UpdatePriorityStrategy `json:"priorityStrategy,omitempty"`
}

// StatefulSetScaleStrategy says how pods are created.
type StatefulSetScaleStrategy struct {
	// MaxUnavailable bounds how many pods may be unavailable while more are created: a number, or a percent of replicas
	// rounded down, at least 1. It has an effect with podManagementPolicy Parallel only. Default: no bound.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Values of StatefulSetClaimRetentionPolicy.
const (
	// RetainClaims keeps claims; the default.
	RetainClaims = "Retain"
	// DeleteClaims deletes them.
	DeleteClaims = "Delete"
)

// StatefulSetClaimRetentionPolicy says what becomes of claims whose pods are gone for good.
type StatefulSetClaimRetentionPolicy struct {
	// WhenDeleted is Retain or Delete, for the claims of a StatefulSet that is deleted. Default Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	WhenDeleted string `json:"whenDeleted,omitempty"`
	// WhenScaled is Retain or Delete, for the claims of an ordinal that is scaled away or reserved. Default Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	WhenScaled string `json:"whenScaled,omitempty"`
}

// StatefulSetOrdinals says where the ordinals begin.
type StatefulSetOrdinals struct {
	// Start is the first ordinal. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Start int32 `json:"start,omitempty"`
}

// StatefulSetStatus is what was seen.
type StatefulSetStatus struct {
	// ObservedGeneration is the generation that the rest of the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of pods that exist.
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of pods that are Ready.
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is the number of pods Ready for minReadySeconds.
	AvailableReplicas int32 `json:"availableReplicas"`
	// CurrentReplicas is the number of pods that run the current revision, proven.
	CurrentReplicas int32 `json:"currentReplicas"`
	// UpdatedReplicas is the number of pods that run the update revision, proven.
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is the number of those that are Ready.
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas,omitempty"`
	// UpdatedAvailableReplicas is the number of those that are available.
	UpdatedAvailableReplicas int32 `json:"updatedAvailableReplicas,omitempty"`
	// CurrentRevision is the revision whose release was finished last.
	CurrentRevision string `json:"currentRevision,omitempty"`
	// UpdateRevision is the revision of the template.
	UpdateRevision string `json:"updateRevision,omitempty"`
	// CollisionCount is how often the name of a revision was taken by another template.
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// LabelSelector is the selector as text, for the scale subresource.
	LabelSelector string `json:"labelSelector,omitempty"`
	// Conditions: Ready, FailedCreatePod, FailedUpdatePod, Invalid and others of this package.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// VolumeClaims say how far the claims that exist have come to their templates.
	// +listType=map
	// +listMapKey=volumeClaimName
	VolumeClaims []VolumeClaimStatus `json:"volumeClaims,omitempty"`
	// Underway says how each pod got to its revision. Absent where another reconciler writes the status.
	Underway *WorkloadReport `json:"underway,omitempty"`
}

// VolumeClaimStatus is one claim template with the claims made from it.
type VolumeClaimStatus struct {
	// VolumeClaimName is the name of the template.
	VolumeClaimName string `json:"volumeClaimName"`
	// CompatibleReplicas is the number of pods whose claim asks for as much as the template.
	CompatibleReplicas int32 `json:"compatibleReplicas"`
	// CompatibleReadyReplicas is the number of those whose claim has as much, too.
	CompatibleReadyReplicas int32 `json:"compatibleReadyReplicas"`
}

// Condition types of a StatefulSet, beside those of a CloneSet.
const (
	// ConditionFailedCreatePod is True while pods cannot be created or deleted.
	ConditionFailedCreatePod = "FailedCreatePod"
	// ConditionFailedUpdatePod is True while pods cannot be updated.
	ConditionFailedUpdatePod = "FailedUpdatePod"
)

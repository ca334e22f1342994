package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemberCluster is a cluster that the hub pushes to.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName=mc;member,categories=underway
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether the hub pushes to and hears from the member."
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=".status.conditions[?(@.type==\"Ready\")].reason",description="Why it is or is not ready."
// +kubebuilder:printcolumn:name="VERSION",type=string,JSONPath=".status.kubernetesVersion",description="Version of the member's API server."
// +kubebuilder:printcolumn:name="AGENT",type=string,JSONPath=".status.agentVersion",description="Version of underway-member there."
// +kubebuilder:printcolumn:name="HEARD",type=date,JSONPath=".status.lastHeardAt",description="When the member last answered, as of the last change."
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="SERVER",type=string,priority=1,JSONPath=".status.server",description="The address the hub talks to."
// +kubebuilder:printcolumn:name="IDENTITY",type=string,priority=1,JSONPath=".status.identity",description="UID of the member's kube-system namespace."
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && self.metadata.name.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')",message="the name of a MemberCluster must be a DNS label: lower-case letters, digits and '-', at most 63 characters; choose another name"
type MemberCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec MemberClusterSpec `json:"spec,omitempty"`
	// +optional
	Status MemberClusterStatus `json:"status,omitempty"`
}

// MemberClusterList is a list of MemberClusters.
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MemberCluster `json:"items"`
}

// MemberClusterSpec says how to reach a member and who may use it.
// +kubebuilder:validation:XValidation:rule="has(self.kubeconfigSecretRef) != has(self.clusterRef)",message="exactly one of kubeconfigSecretRef and clusterRef must be set; kubectl underway join writes the first"
type MemberClusterSpec struct {
	// KubeconfigSecretRef names a Secret in the install namespace with key "kubeconfig".
	// +optional
	KubeconfigSecretRef *SecretReference `json:"kubeconfigSecretRef,omitempty"`
	// ClusterRef names a Cluster API Cluster (cluster.x-k8s.io v1beta2). The hub writes it for Clusters that carry the label
	// chosen at install; a Cluster without that label is not acted on.
	// +optional
	ClusterRef *ClusterReference `json:"clusterRef,omitempty"`
	// InsecureSkipTLSVerify allows a kubeconfig that skips verification. Default false.
	// +optional
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty"`
	// DuringUpgrade says whether the member gets new grants while condition Upgrading is True. Hold: what is granted stays as
	// it is until the upgrade is over. Release, and empty: an upgrade changes nothing.
	// +optional
	DuringUpgrade DuringUpgrade `json:"duringUpgrade,omitempty"`
	// Drain asks that the member be emptied: it gets nothing new, subsets that a subsetTemplate makes of it leave once the others
	// have taken over, whatever whenUnselected says, and a subset that the list of a UnitedDeployment names stays until a person
	// takes it out. `kubectl underway unjoin NAME --drain` writes it. Default false; taken back, the member is used again.
	// +optional
	Drain bool `json:"drain,omitempty"`
	// AllowedNamespaces selects the hub's Namespaces whose UnitedDeployments reach this member. Nil: none; {}: all.
	// +optional
	AllowedNamespaces *metav1.LabelSelector `json:"allowedNamespaces,omitempty"`
}

// DuringUpgrade says what a member gets while its control plane or its machines are being upgraded.
// +kubebuilder:validation:Enum=Hold;Release
type DuringUpgrade string

// Values of DuringUpgrade.
const (
	// UpgradeHold gives no new grants.
	UpgradeHold DuringUpgrade = "Hold"
	// UpgradeRelease goes on as if there were no upgrade. The default.
	UpgradeRelease DuringUpgrade = "Release"
)

// SecretReference names a Secret in the install namespace.
type SecretReference struct {
	// Name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ClusterReference names a Cluster API Cluster.
type ClusterReference struct {
	// Namespace of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// MemberClusterStatus is what was seen of the member.
type MemberClusterStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Identity is the UID of the member's kube-system namespace, stored at first contact.
	Identity string `json:"identity,omitempty"`
	// SeenIdentity is the UID seen last, when it differs from Identity.
	SeenIdentity string `json:"seenIdentity,omitempty"`
	// Server is the address the hub talks to.
	Server string `json:"server,omitempty"`
	// KubernetesVersion of the member's API server.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// LastHeardAt is when the member last answered; written when something else changes.
	LastHeardAt *metav1.Time `json:"lastHeardAt,omitempty"`
	// WorkloadKinds the member serves, and who reconciles them.
	// +listType=map
	// +listMapKey=kind
	WorkloadKinds []WorkloadKind `json:"workloadKinds,omitempty"`
	// CredentialExpiresAt is when the credential that the hub uses ends, as it says itself; nil: it does not say.
	CredentialExpiresAt *metav1.Time `json:"credentialExpiresAt,omitempty"`
	// AgentVersion is the version of the member's agent (underway-member), as its leader Lease says; empty where it does not say,
	// or where no agent of ours is alive.
	AgentVersion string `json:"agentVersion,omitempty"`
	// ClusterUID is the UID of the Cluster of spec.clusterRef, stored when it was seen first.
	ClusterUID string `json:"clusterUID,omitempty"`
	// HubID is the id of this hub as written on the member's objects.
	HubID string `json:"hubID,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadKind is one kind that the member serves.
type WorkloadKind struct {
	// Kind is "<kind>.<group>", for example CloneSet.apps.kruise.io.
	Kind string `json:"kind"`
	// Reconciler is Underway, OpenKruise, Kubernetes, Nobody or Unknown.
	Reconciler string `json:"reconciler,omitempty"`
	// Version of the reconciler, where it says so.
	Version string `json:"version,omitempty"`
}

// Condition types of a MemberCluster.
const (
	// ConditionReady is True when the hub pushes to and hears from the member.
	ConditionReady = "Ready"
	// ConditionReachable is True while the member's API server answers.
	ConditionReachable = "Reachable"
	// ConditionIdentityChanged is True when another cluster answers; nothing is written until it is confirmed.
	ConditionIdentityChanged = "IdentityChanged"
	// ConditionCredentialRefused is True when the kubeconfig has fields that are not allowed.
	ConditionCredentialRefused = "CredentialRefused" //nolint:gosec // a name, not a credential
	// ConditionCredentialsValid is True while the credential is accepted and not about to end unrenewed; False names what is
	// wrong with it and the command that mends it.
	ConditionCredentialsValid = "CredentialsValid"
	// ConditionAgentReady is True while somebody (our agent, OpenKruise) reconciles the workload kinds the member serves.
	ConditionAgentReady = "AgentReady"
	// ConditionUpgrading is True while the member's control plane or machines are being upgraded, as Cluster API says. Absent
	// on members that are no Cluster API Clusters.
	ConditionUpgrading = "Upgrading"
	// ConditionClusterFollowed is True while the hub follows the Cluster API Cluster of spec.clusterRef; its reasons are below.
	// Absent on members without a clusterRef.
	ConditionClusterFollowed = "ClusterFollowed"
	// ConditionHubBehind is True when members carry a newer intent than this hub remembers.
	ConditionHubBehind = "HubBehind"
	// ConditionTwoHubs is True when another hub with the same id writes to the member.
	ConditionTwoHubs = "TwoHubs"
)

// Reasons of ConditionClusterFollowed.
const (
	// ReasonFollowed: True.
	ReasonFollowed = "Followed"
	// ReasonClusterPaused: spec.paused; the membership is left as it is.
	ReasonClusterPaused = "ClusterPaused"
	// ReasonDeselected: the Cluster lost the label chosen at install; the membership is left as it is.
	ReasonDeselected = "Deselected"
	// ReasonClusterDeleting: the Cluster is being deleted; the member gets no new grants.
	ReasonClusterDeleting = "ClusterDeleting"
	// ReasonClusterNotFound: there is no such Cluster, and nobody saw it being deleted; nothing is removed.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonNotInitialized: its control plane is not initialised yet.
	ReasonNotInitialized = "ControlPlaneNotInitialized"
	// ReasonNotInstalled: the hub's account could not be made there.
	ReasonNotInstalled = "NotInstalled"
)

// NoNewGrants says why the member gets no new grants; empty: it may. What is granted already stays granted.
func (m *MemberCluster) NoNewGrants() string {
	for i := range m.Status.Conditions {
		c := &m.Status.Conditions[i]
		switch {
		case c.Type == ConditionUpgrading && c.Status == metav1.ConditionTrue && m.Spec.DuringUpgrade == UpgradeHold:
			return "the member is being upgraded, and its duringUpgrade is Hold"
		case c.Type == ConditionClusterFollowed && c.Status == metav1.ConditionFalse && c.Reason == ReasonClusterDeleting:
			return "the Cluster of the member is being deleted"
		}
	}
	return ""
}

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemberCluster is a cluster that the hub pushes to.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=mc;member
type MemberCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MemberClusterSpec   `json:"spec,omitempty"`
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
type MemberClusterSpec struct {
	// KubeconfigSecretRef names a Secret in the install namespace with key "kubeconfig".
	KubeconfigSecretRef *SecretReference `json:"kubeconfigSecretRef,omitempty"`
	// ClusterRef names a Cluster API Cluster. Accepted, not acted on yet.
	ClusterRef *ClusterReference `json:"clusterRef,omitempty"`
	// InsecureSkipTLSVerify allows a kubeconfig that skips verification. Default false.
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty"`
	// AllowedNamespaces selects the hub's Namespaces whose UnitedDeployments reach this member. Nil: none; {}: all.
	AllowedNamespaces *metav1.LabelSelector `json:"allowedNamespaces,omitempty"`
}

// SecretReference names a Secret in the install namespace.
type SecretReference struct {
	Name string `json:"name"`
}

// ClusterReference names a Cluster API Cluster.
type ClusterReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
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
	ConditionCredentialRefused = "CredentialRefused"
	// ConditionHubBehind is True when members carry a newer intent than this hub remembers.
	ConditionHubBehind = "HubBehind"
	// ConditionTwoHubs is True when another hub with the same id writes to the member.
	ConditionTwoHubs = "TwoHubs"
)

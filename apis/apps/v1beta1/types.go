package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// CloneSet is v1alpha1's under the newer version.
// +kubebuilder:object:root=true
type CloneSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   appsv1alpha1.CloneSetSpec   `json:"spec,omitempty"`
	Status appsv1alpha1.CloneSetStatus `json:"status,omitempty"`
}

// CloneSetList is a list of CloneSets.
// +kubebuilder:object:root=true
type CloneSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CloneSet `json:"items"`
}

// UnitedDeployment is v1alpha1's under the newer version.
// +kubebuilder:object:root=true
type UnitedDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   appsv1alpha1.UnitedDeploymentSpec   `json:"spec,omitempty"`
	Status appsv1alpha1.UnitedDeploymentStatus `json:"status,omitempty"`
}

// UnitedDeploymentList is a list of UnitedDeployments.
// +kubebuilder:object:root=true
type UnitedDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []UnitedDeployment `json:"items"`
}

// StatefulSet is v1alpha1's under the newer version.
// +kubebuilder:object:root=true
type StatefulSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   appsv1alpha1.StatefulSetSpec   `json:"spec,omitempty"`
	Status appsv1alpha1.StatefulSetStatus `json:"status,omitempty"`
}

// StatefulSetList is a list of StatefulSets.
// +kubebuilder:object:root=true
type StatefulSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []StatefulSet `json:"items"`
}

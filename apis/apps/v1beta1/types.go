package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "apps.kruise.io", Version: "v1beta1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &CloneSet{}, &CloneSetList{}, &UnitedDeployment{}, &UnitedDeploymentList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

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

// Package v1alpha1 holds the kinds of group fleet.underway.dev, which live on the hub.
//
// +kubebuilder:object:generate=true
// +groupName=fleet.underway.dev
package v1alpha1

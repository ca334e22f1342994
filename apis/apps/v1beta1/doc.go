// Package v1beta1 serves the kinds of v1alpha1 under their newer version. Both carry one schema, the union of the two
// shapes, and no conversion: a conversion webhook that is down would stop every read.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1beta1

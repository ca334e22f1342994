// Package v1alpha1 holds the kinds of group apps.kruise.io that Underway serves, wire-compatible with OpenKruise: same
// names, fields, defaults and label keys.
//
// Pod templates and embedded workload specs are raw JSON here, never Go types: a field newer than this build must
// survive the way through us, be compared and be hashed (design: "Schemas").
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1

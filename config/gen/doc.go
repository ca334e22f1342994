// Command gen writes the generated manifests under config: the CRDs from the API types and the roles from the RBAC
// markers, both by controller-gen, and then what controller-gen cannot say:
//
//   - int-or-string fields get a length, without which the API server refuses rules on them, and the rule and remedy
//     of their kind. A field that has no kind here is an error: none is forgotten.
//   - v1alpha1 of the apps.kruise.io kinds is copied to v1beta1: one schema for both, no conversion.
//   - Everything gets the label that says it is ours.
//
// Run from the root of the repository:
//
//	go run ./config/gen -controller-gen bin/controller-gen
//
// The output depends on the sources only: running it twice changes nothing.
package main

// Package crd holds what our CRDs must accept and refuse, once, for two tests: a quick one beside the manifests, which
// runs the API server's own validation code, and one on a real API server (build tag lab).
package crd

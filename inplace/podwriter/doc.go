// Package podwriter is the only place that creates, patches and deletes pods (and, later, their claims).
//
// It reads nothing. Every patch and delete carries the UID and the resourceVersion that the decision was judged on, so
// a decision made on an old view is answered with a conflict and changes nothing. Conflicts are not errors: they are
// counted, and the pod is decided on anew when the watch shows it.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch
package podwriter

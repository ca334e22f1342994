// Package podwriter is the only place that creates, patches and deletes pods, and creates and deletes their claims.
//
// It reads nothing. Every patch and delete carries the UID and the resourceVersion that the decision was judged on, so
// a decision made on an old view is answered with a conflict and changes nothing. Conflicts are not errors: they are
// counted, and the pod is decided on anew when the watch shows it.
//
// One patch is one request; an update that changes cpu or memory too is two: the patch, whose state names the resources,
// then pods/resize on the version that it made. What a crash or a refusal leaves undone is seen in that state.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=create;delete
// +kubebuilder:rbac:groups="",resources=pods/status;pods/resize,verbs=patch
package podwriter

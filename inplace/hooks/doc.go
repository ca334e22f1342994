// Package hooks is the state machine of a pod's lifecycle hooks (spec.lifecycle): somebody else's labels and finalizers
// hold a pod before it is deleted, before and after it is updated in place, and before it counts as new. The state is a
// label of the pod, OpenKruise's (lifecycle.apps.kruise.io/state); no label counts as Normal.
//
//	                  preNormal: all there                 inPlaceUpdate: any there
//	PreparingNormal --------------------> Normal -------------------------------> PreparingUpdate
//	      ^                               ^  ^  ^                                  |   |
//	      | preNormal asks                |  |  |     no target any more, all there|   | none there
//	      |                               |  |  +----------------------------------+   v
//	PreparingDelete ----------------------+  +---- Updated <----------------------- Updating
//	      |   wanted after all             all there  ^        proven                  |
//	      | none there                                +-- no target, not all there ----+ (from PreparingUpdate too)
//	      v
//	   deleted          Updated goes to PreparingUpdate when a further template arrives.
//
// "Any there" and "all there" are about the labels (key and value) and finalizers that the hook names. A hook that names
// none, or that was taken out of the spec, holds nothing, so every state can be left again.
//
// Invariants:
//   - a label value that is none of the six is somebody else's: it is never overwritten, and the pod is not moved; deleting
//     it waits only while its preDelete hook holds it;
//   - with the same pod and hooks the answer is the same, and what it writes is followed by another answer: no loop;
//   - a pod that has not become Normal may be updated in place without asking its inPlaceUpdate hook: a release that is
//     broken so that nobody can put the label on would otherwise hold it for ever.
//
// markPodNotReady acts before an update and before a deletion, as in OpenKruise, through the gate InPlaceUpdateReady; on
// preNormal it has no effect.
package hooks

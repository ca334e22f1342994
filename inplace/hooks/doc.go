// Package hooks is the state machine of a pod's lifecycle hooks (spec.lifecycle): somebody else's labels and finalizers
// hold a pod before it is deleted, before and after it is updated in place, and before it counts as new. The state is a
// label of the pod, OpenKruise's (lifecycle.apps.kruise.io/state); no label counts as Normal.
//
//	from                          to               when                                            who writes it
//	PreparingNormal               Normal           it has a node, and preNormal's are all there    After
//	Normal, Updated               PreparingUpdate  it has a target, and inPlaceUpdate's any there  Before
//	Normal, PreparingUpdate,      Updating         it has a target, and none of them is there      Before, on the patch
//	Updated
//	Updating                      PreparingUpdate  a further target, and any of them is there      Before
//	PreparingUpdate, Updating     Updated          no target, proven, and not all of them there    After
//	PreparingUpdate, Updating,    Normal           no target, proven, and all of them there        After
//	Updated
//	any                           PreparingDelete  it is to go, and preDelete's any there          Delete
//	PreparingDelete               (deleted)        none of them is there                           Delete
//	PreparingDelete               Normal, or       it is wanted again, and was not taken out of    Restore
//	                              PreparingNormal  service for it
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

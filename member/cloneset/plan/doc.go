// Package plan decides which pods of a CloneSet should exist: which are missing and at which revision they come, which
// are too many and which of those go first, which are asked to go, and what becomes of their claims. It moves nobody to
// another revision; that is inplace/plan.
//
// Numbers is OpenKruise's arithmetic over counted pods; Scale counts them, acts by it and keeps the budget. One pass, in
// this order: finished pods are deleted; pods in PreparingDelete come back if they are wanted again, or are deleted if their
// hook has let them go; pods that were asked to go are deleted; surplus pods are; missing ones are created.
//
// Invariants, checked by scale_test.go and, with inplace/plan, by invariants_test.go:
//   - a pod that is created never makes the pods of the update revision more than replicas-partition, but for the surge pod
//     that replaces one which is asked to go;
//   - active pods are never made more than replicas+maxSurge;
//   - at a hold (partition = replicas) whatever the scaling, only pods of the current revision are created;
//   - a scale-in takes old pods only down to the partition, and never serving pods below replicas-maxUnavailable; a pod that
//     is asked to go, never available ones below it;
//   - names are derived, and no id is used again while a pod or a claim of it exists, its own next pod's claims excepted;
//   - claims are deleted with a pod of a scale-in, and where they are not used again when their pod is gone, else never;
//   - what one pass does the next does not undo;
//   - a spec that cannot be read deletes nothing.
//
// Worked example, replicas 10, partition 7, four new and five old pods there, one missing: new 4 is beyond the grant of
// 3 already (the partition was raised), so the missing pod comes at the current revision.
package plan

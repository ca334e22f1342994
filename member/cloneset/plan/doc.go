// Package plan decides which pods of a CloneSet should exist: which are missing and at which revision they come, which
// are too many and which of those go first. It moves nobody to another revision; that is inplace/plan.
//
// Invariants, checked by scale_test.go:
//   - a pod that is created never makes the pods of the update revision more than replicas-partition;
//   - at a hold (partition = replicas) whatever the scaling, only pods of the current revision are created;
//   - a scale-in takes old pods only down to the partition, and never serving pods below replicas-maxUnavailable;
//   - names are derived, and none is used again while a pod of that name exists;
//   - a spec that cannot be read deletes nothing.
//
// Worked example, replicas 10, partition 7, four new and five old pods there, one missing: new 4 is beyond the grant of
// 3 already (the partition was raised), so the missing pod comes at the current revision.
package plan

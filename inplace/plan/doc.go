// Package plan decides which pods of a workload move to another revision now, and why the others do not.
//
// Assumptions: the observation includes our own earlier writes (podwriter returns their resourceVersions); otherwise it
// may be late, repeated or out of order, because every write names the version it was judged on.
//
// Invariants, checked after every step of the random releases in invariants_test.go:
//   - no pod that serves is taken down while what was seen shows the budget spent: at least Replicas-MaxUnavailable
//     pods stay available, counting missing, terminating, drained and not-ready pods alike as unavailable;
//   - pods asked to run the update revision are never moved beyond Replicas-Partition, pods being created counted, and those
//     that were asked to go as long as they are there;
//   - no pod is moved or recreated while a lifecycle hook holds it, and in the end none is left in a state of its hooks;
//   - what one pass begins the next does not take back, as long as nothing else changes;
//   - when nothing changes any more, nothing is written any more.
//
// A pod that is not Ready may be moved without spending budget, so that a broken release can always be fixed forward.
package plan

// Package workload is the one reconciler of every member kind. A kind is an adapter of pure functions (Kind); what kinds
// share is here: lean caches, the history of revisions, the order of writes, the status.
//
// One pass:
//
//	observe  object, pods, claims, revisions, endpoints; or "our own write is not seen yet": wait
//	members  who joins or leaves, if anybody: a pass of its own   (pure: memberships)
//	history  inplace/revision.Plan: which ControllerRevisions to create, renumber, trim
//	scale    Kind.Scale: who should exist                         (pure)
//	plan     inplace/plan.Next: who moves, and why others do not  (pure)
//	act      revisions, then pods and claims (inplace/podwriter), then events
//	strike   names of pods that are gone are taken out of the spec
//	report   status, written once and only when it changed
//
// Invariants:
//   - nothing is decided on a view of the pods, or of the claims, that is older than our own last write to them (own.go);
//   - memory only makes us wait longer or read more: a restart loses nothing that is needed;
//   - a create has a derived name, so that it collides instead of doubling; a name that is taken is looked at before
//     another one is used;
//   - a revision exists before any pod names it;
//   - what cannot be read moves nothing, and stands in the status.
package workload

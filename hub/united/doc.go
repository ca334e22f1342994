// Package united reconciles UnitedDeployments: it reads the object, its revisions and what the members say (observe),
// asks package plan, and does what that decided (act): revisions, finalizer, status, pushes to the outbox.
//
// Invariants:
//   - All decisions are in package plan; here are reads and writes.
//   - Nothing is posted before the status that grants it is stored.
//   - The status is written at most once a second per object, and not at all when nothing changed.
//   - A delete is answered for by a fresh read of the owner, its CRD and its namespace.
//   - While the CRD lacks our fields, or OpenKruise's manager is alive on the hub, nothing is written.
package united

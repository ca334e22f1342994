// Package travel sends objects of the hub to members that ask for it by their label fleet.underway.dev/propagate, Services
// and the kinds that the hub was started with: it reads the object, the MemberClusters and what the members have (observe),
// asks package plan, and hands the wishes to the outbox (act), as one owner of a shared object.
//
// Invariants:
//   - All decisions are in package plan; here are reads and writes.
//   - The object on the hub is held by a finalizer before anything is sent.
//   - A mark is taken off only after a fresh read of the object and of the MemberCluster that still wants it off.
//   - Nothing but the finalizer and a used confirmation is written to the hub's object; what became of it is told by events
//     and by a metric, and only when it changes.
package travel

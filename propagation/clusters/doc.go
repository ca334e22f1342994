// Package clusters keeps one connection per member: its health, its identity, a lean cache of the hub's children on it
// and the Lease by which a second hub is noticed. It is the only package that builds REST clients to members.
//
//	          +-------------- identity or credential refused -------------+
//	          |                                                           v
//	Connecting --> Syncing --> Ready <--> Degraded                     Blocked
//	     ^                       |            |                           |
//	     +------ Ensure with another configuration, or a restored etcd ---+---> Gone (Remove)
//
// Invariants:
//   - One member engages in its own goroutine; it never holds up another.
//   - Nothing read is believed before the member's identity is proven after the read; so a cluster that was replaced
//     under the same address never looks like an empty one.
//   - Only kinds that somebody asked for are watched; asking for one that is not read yet says "not read".
//   - Nobody waits for a member that is down, and for one that is up no longer than a bound.
//   - A failed look that fails as the last one did tells nobody.
//   - Absence of data is not "none": every answer from the cache says whether it is synced.
//   - Nothing is written but the hub's Lease.
package clusters

// Package peer tells from a leader Lease whether another reconciler is alive. It is pure: the Lease and the time come in,
// the answer goes out.
//
// The clock of the peer and ours are compared only in one direction: a renewal that is recent by our clock means alive.
// One that is old by our clock may be a peer whose clock is behind, so a renewal that changes while we look means alive
// too. What cannot be read is not "no peer": the caller keeps its last answer.
package peer

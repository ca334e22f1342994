// Package step is the state machine of one pod: given the pod as it is and where it should go, Next says what to write
// now or what it waits for. It remembers nothing, so a newer target, a rollback or a cancel at any point is decided anew
// from the pod; there is no state from which a pod cannot come back.
//
//	                    target                  Ready=False seen, no EndpointSlice
//	in service --------------------> draining ------------------------------------+
//	(gate True)   gate := False     (gate False)      lists it, grace period over |
//	     ^              ^               |                                         v
//	     |              |               | no target any more                   patched
//	     |              |               | (paused, partition)        (images, labels, state)
//	     |              |               v                                         |
//	     +--------------+------------ return <------------------------------------+
//	        gate := True                        proven: runs what it was asked to
//
// Invariants:
//   - a pod that serves is not patched, unless it cannot be drained and its workload says so;
//   - the gate turns True only on the very version on which the proof was judged;
//   - no proof is assumed because of time; time only adds a quiet period to evidence;
//   - the condition Ready is never written;
//   - lifecycle hooks (inplace/hooks) are asked before a pod begins to move, their states ride on the requests above, and a
//     pod that stays is brought out of whichever state it is in.
package step

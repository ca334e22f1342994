// Package member is the agent of a member cluster: the list of the kinds it reconciles, and the supervisor that starts
// and stops them.
//
//	          CRD served, no peer alive
//	off  ------------------------------------>  on (a session: caches, one controller a kind)
//	     <------------------------------------
//	     CRD gone, peer alive, session failed
//
// Invariants:
//   - a kind runs only while its CRD is served and no other reconciler of it is alive; what cannot be read keeps the last
//     answer, and before the first answer nothing runs;
//   - a session ends as a whole: its caches are dropped, so that nothing old is believed by the next;
//   - the agent says on its own leader Lease who keeps it from a kind (annotation PeerActive), never on objects of that
//     kind: there it writes nothing.
package member

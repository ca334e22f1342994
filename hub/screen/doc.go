// Package screen draws what a person sees of a fleet: the tree of one UnitedDeployment, the list of them, and the list
// of members. kubectl-underway and the demo share it, so that what the demo shows is what a user gets.
//
// It is pure: objects and the time in, text out. It reads only what the hub wrote into the objects' status and invents
// no number; what a member does not say is shown as "?".
//
// Everything that came from a cluster is stripped of control characters before it is drawn, because a terminal would
// obey them.
//
//	shop/web   rev 7f3c9 -> 9c1e2   Held   4m
//	PODS       16 of 16, 16 ready, 2 granted, 2 updated, 2 in place
//	WHY        Held: eu and us wait for their partition (3m)
//	SUBSET   MEMBER   GRANTED   UPDATED   READY   IN PLACE   STATE   SINCE   WHY
//	├─ eu    eu-1     2/8       2         8/8     2          Held    3m      6 pods stay (partition 6)
//	└─ us    us-1     0/8       0         8/8     0          Held    3m      8 pods stay (partition 8)
//	NEXT       kubectl -n shop patch ud web --type merge -p '{"spec":...}'
package screen

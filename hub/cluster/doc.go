// Package cluster reconciles MemberClusters: it hands the fleet each member's credential and stored identity, and writes
// down what the fleet sees.
//
//	Secret --> ParseKubeconfig --> Ensure --> first contact: store the identity, Ensure again --> conditions
//
// Invariants:
//   - The identity is in the status before anything of the member is believed.
//   - Another identity later is IdentityChanged; only a person resets it, and only to the identity that was shown.
//   - Deleting a MemberCluster closes a connection and deletes nothing on the member.
//   - The status is written when something else than a time has changed; a hub that has just started writes nothing
//     while it knows nothing.
//   - A stop (HubBehind, TwoHubs) outlives a restart: it is in the conditions of every member until a person confirms.
package cluster

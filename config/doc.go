// Package config holds the manifests of Underway and embeds them, so that the plugin, the demo and the tests install
// what kubectl apply -k would.
//
//	hub/crd            the kinds of the hub, and the template kinds for subsets without a cluster
//	hub/rbac           what the hub may do in its own cluster
//	hub/manager        the hub's Deployment
//	member/crd         the kinds of a member
//	member/rbac        what the agent may do in its cluster
//	member/manager     the agent's Deployment
//	member/hub-access  what the hub may do in a member
//
// The crd folders and every role.yaml are written by config/gen and never edited; all else is written by hand.
//
// Invariants:
//   - Every CRD carries the label app.kubernetes.io/part-of=underway; one that does not is not ours and is never
//     written.
//   - A kind that lives on the hub and on members has one schema, byte for byte, on both and in all its versions.
package config

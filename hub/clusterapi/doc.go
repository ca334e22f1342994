// Package clusterapi makes members of Cluster API's Clusters.
//
//	Cluster with the label --> MemberCluster with clusterRef --> the hub's account there, by <name>-kubeconfig
//	                                                         --> Secret member-<name> --> package cluster connects
//
// What is decided is in package plan. The kubeconfig of Cluster API is an administrator's: it is used to make the hub's own
// account, as `kubectl underway join` does, and is stored nowhere; from then on the hub uses its own token.
//
// Invariants:
//   - Without a selector, and while Cluster API's CRD is not served, nothing runs; when it is served later, it starts.
//   - A member that is slow or does not answer holds up no other: its account is made in a goroutine of its own.
//   - The kubeconfig Secrets are read one by one, by name, when needed: they are neither listed nor watched.
//   - Only Secrets of the install namespace and MemberClusters are written on the hub.
package clusterapi

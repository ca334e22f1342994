// Package hub is the list of what runs on the hub: the fleet of member connections, the outbox, and the reconcilers of
// MemberClusters and UnitedDeployments.
//
//	MemberCluster --> hub/cluster --> clusters.Fleet --events--> hub/united --> hub/united/plan
//	                                       ^                        |
//	                                       +------ outbox <---posts-+
//
// Invariants: only the leader connects to members and writes to them; nothing is sent before a stop that is stored in
// the members' conditions is in force again; the hub's id is decided once and never changes.
package hub

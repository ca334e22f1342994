// Package plan decides what a Cluster API Cluster means for the fleet: whether it becomes a MemberCluster, what is said of
// it, and when the hub's account is made there. It is pure.
//
// Invariants:
//   - A MemberCluster is removed only when its Cluster was seen being deleted and is then gone by a fresh read, while Cluster
//     API's CRD is there and stays. An empty list, a failed read and a CRD that goes remove nothing.
//   - A Cluster that is paused, lost the label, or is being deleted changes nothing but conditions.
//   - A label that somebody else put on the MemberCluster is never changed or taken off.
//   - Nothing here touches a workload.
package plan

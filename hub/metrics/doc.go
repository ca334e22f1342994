// Package metrics shows Prometheus what the hub knows: how old each member's report is, what waits for it, how far each
// release is, and whether anything is stopped.
//
//	connections --+
//	outbox -------+--> Collector --> one snapshot per scrape
//	objects ------+
//
// Invariants:
//   - A scrape asks no API server: it reads the manager's cache and memory.
//   - What is not known has no series; it is never 0.
//   - The number of series is bounded: per member by the number of MemberClusters, per UnitedDeployment by their number, and
//     per subset by Options.SubsetLimit.
package metrics

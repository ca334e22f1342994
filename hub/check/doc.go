// Package check decides how the pod templates of a UnitedDeployment are looked at before any member gets them: a dry-run
// create of a core/v1 PodTemplate, once per distinct template and Kubernetes minor version. It is pure; package dryrun
// asks.
//
//	Ask + members + answers --> Next --> Probes (to carry out), Results (for the plan) --> Judge --> Verdict
//
// A dry run of the workload itself would not do: the API server does not know the pod template in a CloneSet, and would
// take one with any mistake in it.
//
// Invariants:
//   - A template is invalid only when an API server says so of this template. That nobody can be asked, that the hub may
//     not ask, or that a place takes no PodTemplate at all is "unknown", which holds a release up for HoldFor at most.
//   - Each distinct template is asked about once per version; who is asked is the first ready member by name.
//   - Messages name fields as the user wrote them, and do not change from try to try.
package check

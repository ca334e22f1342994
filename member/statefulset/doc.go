// Package statefulset adapts the (Advanced) StatefulSet of apps.kruise.io to the member's reconciler: it reads the spec into
// one intent, says whose a name is, and writes the status. Who should exist is in its sub-package plan.
//
// A spec that cannot be read holds everything: the partition is taken as all replicas, so that a pod that is lost meanwhile
// comes back on the current revision and nothing reaches the new one.
package statefulset

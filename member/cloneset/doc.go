// Package cloneset adapts CloneSet to the member's reconciler: it reads both shapes of the spec into one intent and
// writes the status. Who should exist is in its sub-package plan.
//
// A spec that cannot be read holds everything: the partition is taken as all replicas, so that a pod that is lost
// meanwhile comes back on the current revision and nothing reaches the new one.
package cloneset

// Package simulation has no code of its own: its tests run the whole CloneSet reconciler (workload.Reconciler with
// cloneset.Kind, the plans and podwriter) against a model of a cluster, in random stories. DESIGN.md says what the model
// is and what is held after every step.
package simulation

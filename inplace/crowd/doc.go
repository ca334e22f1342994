// Package crowd is what plans of who should exist have in common, whatever the kind of workload: the sentences of what waits,
// pods that should be gone and are not, pods that nodes refuse, creates that the API server refuses, and what of a template
// must not reach a new pod. It decides nothing about how many pods there should be.
package crowd

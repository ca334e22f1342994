// Package podseed builds the pod that a workload creates, from its raw template: fields that this build does not know
// survive. Every pod gets the readiness gate InPlaceUpdateReady, or it could not be drained later.
package podseed

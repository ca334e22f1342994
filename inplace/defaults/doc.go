// Package defaults compares pod templates as the API server would store them: one that was stored by an apps/v1 workload has
// the defaults of its fields written out, the same template written by a person has not. A workload that takes over the pods of
// another must not take that for a change, and restart them.
//
// It knows the defaults that depend on nothing but the field. A template with fields that this build does not know equals
// no other: what they default to is not known.
package defaults

// Package hooks is the place of the lifecycle-hook state machine (preDelete, inPlaceUpdate, preNormal). It is empty: a
// workload that sets spec.lifecycle says so in its condition FieldsNotActedOn.
package hooks

// Package confirm is `kubectl underway confirm`: a person accepts what the hub will not decide alone.
//
// What waits is in conditions; for an object that travels by label it is in the hub's last event about it, because the hub
// writes nothing about copies to such an object.
//
// It writes the annotation fleet.underway.dev/confirm with the condition and the value that was shown. When something
// else is seen by the time the hub reads it, it confirms nothing.
package confirm

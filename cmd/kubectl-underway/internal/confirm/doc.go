// Package confirm is `kubectl underway confirm`: a person accepts what the hub will not decide alone.
//
// It writes the annotation fleet.underway.dev/confirm with the condition and the value that was shown. When something
// else is seen by the time the hub reads it, it confirms nothing.
package confirm

// Package undo is `kubectl underway undo`: it writes the template and the overrides of a stored revision back to the spec,
// on exactly the spec that was read, and says what the hub will make of it.
package undo

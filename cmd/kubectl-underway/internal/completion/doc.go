// Package completion is `kubectl underway completion`: scripts for shells, and the file kubectl asks.
package completion

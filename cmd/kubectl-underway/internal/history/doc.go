// Package history is `kubectl underway history`: the stored revisions of a UnitedDeployment, who runs them, and why they
// were made.
package history

// Package kit is what tests on a member's agent share: a cluster with a client and an agent, a namespace per test with
// the verbs of a user, and a recorder of the worst that was ever seen of its pods.
package kit

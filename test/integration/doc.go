// Package integration plays whole releases on real control planes: a hub, three members, the real binaries, and the
// faults that such systems have had. Every file has the build tag lab (tier: make test).
//
// One fleet is started for the suite and shared; a test has a namespace of its own. Tests that delete a CRD, swap a
// member or restart the hub have a fleet of their own.
package integration

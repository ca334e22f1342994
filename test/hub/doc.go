// Package hub tests what the hub does when it is not the hub that its members remember, on real control planes. The
// releases and the other faults are in test/integration.
package hub

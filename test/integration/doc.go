// Package integration plays whole releases on real control planes: a hub, three members, the real binaries, and the
// faults that such systems have had. Every file has the build tag lab (tier: make test).
//
// The specs run in several processes at once (make test-lab; go test runs them one after the other). One fleet is started for
// the suite and shared by all: a spec has a namespace of its own, filters what it counts by it, and changes nothing that
// others look at: it fills a member for its own pods only (roomy), and labels members under a name of its own (tier). Specs
// that stop a member, restart or freeze the hub, or delete a CRD are in trouble_test.go, on fleets of their own.
//
// What another process does is waited for (soon, status, have), and what must not happen is held against a while (stays):
// nothing is asserted at once that somebody else brings about.
package integration

// Package boot starts a binary of Underway: flags, logging, signals, the rest config, the leader Lease, the listen
// addresses and the version. It decides nothing about workloads.
//
// Invariants: no client-side rate limit (the API server's priority and fairness is the limit); a listen address of "0"
// opens no port; the leader Lease lives in underway-system, its default period is 15 s, renewed by 10 s, tried each
// 2 s, and it is released on a clean stop so that the next process need not wait for it to expire.
package boot

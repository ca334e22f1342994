// Package cli holds what the verbs of kubectl-underway share: the connection to the hub by kubectl's own flags, the
// terminal, the printers, and errors that name the flag and the remedy.
//
// Invariants: results go to stdout, notes and questions to stderr; no colour without a terminal, with NO_COLOR or with
// TERM=dumb; the exit code is 0 when the thing asked for is done or was so already, else 1.
package cli

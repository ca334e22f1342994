// Command kubectl-underway is the kubectl plugin `kubectl underway`.
//
// Exit codes: 0 when what was asked for is done, or was so already; 1 for everything else, as kubectl.
package main

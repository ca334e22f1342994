// Command demo moves an image through a fleet of real control planes, in place, and proves it.
//
// It builds what is missing, starts a hub and members (package lab), installs Underway with the real kubectl-underway,
// runs one underway-hub and one underway-member per member as processes, applies app.yaml and moves it from app:v1 to
// app:v2: a canary of two pods in the first member, then the first member whole, then the rest.
//
// Invariants:
//   - What is proven is counted from the pods in the members, never from our own status: UIDs, IPs, container IDs and
//     restart counts before and after.
//   - At every look the pods of the new image are within what was granted until then. One too many ends the demo with
//     an error that names it.
//   - A wrong result is an error and an exit code other than 0.
//   - Everything is taken down, also on SIGINT and SIGTERM; what a kill -9 leaves, the kernel and the next start end.
//     With KEEP=1 the fleet stays until `make lab-down`.
//
// REQUESTS=1 counts what hub and agents ask of API servers during the release, by audit logs.
package main

// Package push carries one decision of package changeset out on one member, by server-side apply.
//
// Invariants:
//   - An existing object is written only with the UID and resourceVersion it was judged on.
//   - A create is sent only after the member's identity was read anew; an object that turns out to have existed is
//     given back.
//   - Nothing is retried here; the caller decides again from what is then there.
package push

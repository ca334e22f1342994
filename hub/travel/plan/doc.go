// Package plan decides where an object of the hub goes that asks for it by its label fleet.underway.dev/propagate, and from
// which members its copies are taken away.
//
// Invariants:
//   - Pure: values in, values out.
//   - What cannot be read (a selector, a policy, a label with another value, how an object ends) moves nothing.
//   - A copy is only taken away that carries the object's own mark, or that this process asked for; of a MemberCluster that
//     is gone or going nothing is.
//   - The object is not released while a copy may be left, and is held before the first one is sent.
//   - Several members that leave at once wait for a person.
package plan

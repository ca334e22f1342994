// Package changeset decides what is to be done to one object of one member: nothing, create, apply, hand over, delete,
// let go, or nothing with a reason that a person must read.
//
// Invariants:
//   - Pure: values in, values out.
//   - An object that is not proven ours (hub id and owner UID, or controller reference) is never changed, except as the
//     owner's adopt policy says.
//   - A live object with a newer intent is never changed.
//   - Live equal to wanted gives no operation, with or without memory: a restart causes no write.
//   - Every operation on an existing object carries the UID and the resourceVersion it was judged on.
//   - Every decision has a reason.
package changeset

// Package outbox carries plans to members: per member a rate-limited queue with its own workers, keyed by object.
//
//	Post --> queue of the member --> stop? frozen? leader? --> live object --> changeset.Decide --> push --> Outcome
//
// Invariants:
//   - A slow or dead member delays only itself; nothing is tried on a member that is not ready.
//   - The last plan posted for an object is the only one that counts.
//   - Nothing is written while frozen (unreadable counts as frozen), stopped, or not leading.
//   - Nothing is deleted without a synced view, a fresh read of the object and a fresh read of its owner.
//   - What is remembered may be lost: a restart writes nothing that is not due.
package outbox

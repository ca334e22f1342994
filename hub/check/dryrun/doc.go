// Package dryrun asks members' API servers what package check wants to know: dry-run creates of core/v1 PodTemplates.
//
// Invariants:
//   - It never blocks its caller and never creates anything; not a namespace either.
//   - One question at a time per member, so that a slow member delays its own answers only.
//   - What it knows is in memory and bounded: the latest Ask of each owner, until Forget.
package dryrun

// Package feedback reads what a member says about a child into a neutral Report, one pure function per kind.
//
// Invariants:
//   - Pure: values in, values out.
//   - Revisions are opaque text here.
//   - A number counts only in a fresh report: the child's observedGeneration has reached its generation.
//   - A field that cannot be read is an error, never 0.
package feedback

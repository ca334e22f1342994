// Package render builds the objects that a hub keeps on its members: a workload template, the overrides of one subset,
// the numbers the hub decided and the stamps by which the hub knows its own.
//
// Invariants:
//   - Pure: values in, values out.
//   - Templates are raw JSON and stay raw JSON: a field that this build does not know survives every overlay.
//   - Equal input gives an equal object, byte for byte; names are derived, never random.
//   - A field that cannot be read is an error, never a default.
//   - The stamps are not part of what Overlaid returns, so a revision hashed from it is equal in all clusters.
package render

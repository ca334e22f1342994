// Package subset is the arithmetic of a UnitedDeployment: how many replicas each subset gets, and how many pods of each
// stay on the old revision.
//
// It is pure: values in, values out. Its invariants, each held by a property test:
//
//   - An allocation sums to the total, or says why it does not (bounds that leave no place).
//   - Equal input gives equal output, and an allocation fed back as the last one changes nothing.
//   - Divided partitions sum to what was asked, none exceeds its replicas, and none rises while the total falls.
//   - What cannot be read is an error that names the field, never a default.
package subset

// Package partition is the arithmetic of partition, maxUnavailable and maxSurge, for hub and members alike: numbers that
// must agree are computed once.
//
// Invariants:
//   - what cannot be read is an error that names the value and the remedy, never a number ("50" is not 50);
//   - percents are exact decimals, never floats: 33.3% of 1000 is 333;
//   - a partition below 100% of more than one replica keeps at most replicas-1, so that "99%" of 3 is a canary of one.
//
// Worked example, 10 replicas: partition "25%" keeps 3 (rounded up), "95%" keeps 9 (10 would be all, so one less),
// "100%" keeps 10; a DaemonSet's "25%" keeps 2 (rounded down).
package partition

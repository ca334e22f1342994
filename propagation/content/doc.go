// Package content says what travels to a member beside a workload: which ConfigMaps, Secrets, ServiceAccounts and claims a
// pod template names, and which part of such an object is sent.
//
// Invariants:
//   - Pure: values in, values out.
//   - What belongs to one cluster never travels: its default account and CA, tokens, what its controllers wrote, marks by
//     which other tools find what is theirs.
//   - Preparing is idempotent, and equal for objects that differ only in what their API server filled in.
package content

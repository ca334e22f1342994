// Package install puts Underway on a cluster: CRDs, namespace and account of the hub; CRDs, the hub's account, its
// credential and the agent of a member. kubectl-underway, the demo and the tests use it.
//
// Invariants:
//   - Everything is a server-side apply by the field manager [FieldManager], so doing it twice changes nothing.
//   - An object that lacks our label is never written, whoever asks: it belongs to somebody else (OpenKruise, mostly).
//     Such a CRD is a step Refused, and the rest goes on.
//   - A CRD and an agent that are there already are changed only when [Options.Upgrade] says so.
//   - Nothing is deleted but bindings of ours that let the hub write where the last join did not ask for it.
//   - A member's credential is rebuilt from named fields: server, CA data, TLS server name, token.
//   - No role wider than asked for: with namespaces named, the hub's writes are bound namespace by namespace.
package install

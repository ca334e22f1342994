// Package plan decides what a UnitedDeployment's children should be: replicas, template, partition, holds, removals,
// what is let go, and the status that says so. It is pure.
//
//	read spec --> allocate --> revisions and grants --> one push per subset --> leaving subsets --> conditions
//
// Invariants, each held by a test:
//
//   - Fail closed: what cannot be read moves nothing, and a condition names the field.
//   - Grants leak nowhere. While a release is under way a child that does not exist is created from the completed
//     template and held; the new template follows when the member has observed it. A subset without a grant is sent
//     neither the new template nor new content.
//   - A grant is in the stored status before it is pushed: a Decision that changes release or completed revision has
//     StoreFirst and no pushes.
//   - A member that is not heard from keeps its replicas, its grant and its last numbers; it holds up nobody else.
//   - Fed with its own result, Next changes nothing.
//   - Messages are deterministic; they name the command that moves what waits.
package plan

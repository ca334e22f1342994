// Package plan decides which pods of a StatefulSet should exist: which ordinals are wanted, which pods are missing and at
// which revision they come, which go, what becomes of their claims, and which claims are resized before their pods move. It
// moves nobody to another revision; that is inplace/plan, with the numbers and the order that Moves reads.
//
// One pass, in this order: finished pods are deleted, their names are needed; pods in PreparingDelete come back if they are
// wanted; condemned pods go, the highest ordinal first; pods that were asked to go go; missing ones are created, the lowest
// ordinal first; claims get their owners, and are resized.
//
// Words. A slot is a wanted ordinal: the first replicas ordinals from ordinals.start that are not reserved. The position of
// an ordinal is how many slots come before it. A pod on no slot is condemned. The partition is a number of pods: the slots at
// the first positions stay on the revision before.
//
// Invariants, checked by the tests of this package, in part together with inplace/plan:
//   - there is at most one pod of an ordinal, and a pod keeps its name, its claims and its host name whatever replaces it;
//   - a pod is created at the update revision only inside the grant (replicas-partition), by position and by number;
//   - a smaller partition never makes the revision of a new pod older (monotone);
//   - OrderedReady: a pod is created only when all before it are available, and a condemned pod that serves goes only when
//     those above it are gone and those below it are ready; a broken pod is moved all the same (B075);
//   - no pod that serves is deleted below replicas-maxUnavailable, those of the engine's choice counted;
//   - a claim is deleted only with an ordinal that is scaled away, where the policy says so, and by the garbage collector:
//     it names the pod as owner first, so that a crash leaves neither a pod without claims nor a claim too many;
//   - a claim is never made smaller, and a serving pod moves only with claims as large as their templates;
//   - a spec that cannot be read deletes nothing.
//
// Worked example, replicas 5, reserveOrdinals [1], partition 2: slots 0, 2, 3, 4, 5; pods 0 and 2 stay, 5, 4 and 3 move, in
// this order. If pod 0 is lost meanwhile it comes back on the revision before; if pod 4 is, on the update revision.
package plan

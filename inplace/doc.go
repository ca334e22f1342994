// Package inplace is the vocabulary of the in-place update engine: what a workload wants (Intent), what was seen of its
// pods (Pod), and what is to be done about it (Decision, Patch, Create, Delete, Hold). It holds values, no behaviour
// beyond what a value says about itself.
//
// The engine is pure. A caller observes, plans and acts:
//
//	pods[i] = podview.From(pod, around)             // corev1.Pod -> inplace.Pod
//	in.Population = scale(in, pods, now)            // who should exist (member/<kind>/plan)
//	decision := plan.Next(in, pods, now)            // who moves, and why the others do not
//	result, err := writer.Do(ctx, decision)         // inplace/podwriter, the only writer of pods
//	...wait until the cache has seen result.Written before the next pass
//
// Invariants every package below keeps:
//   - what cannot be read moves nothing (Intent.Invalid, Pod.StateProblem);
//   - every patch and delete names the UID and the resourceVersion it was judged on;
//   - a number in Summary counts what was seen to run, never what was asked for;
//   - every action and every pause carries a sentence that says why.
package inplace

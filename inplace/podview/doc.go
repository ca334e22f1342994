// Package podview reads a corev1.Pod into an inplace.Pod. It judges nothing: whether a pod runs what it was asked to run
// is step.Prove, whether it moves is plan.Next.
//
// Annotations are other people's input: what cannot be parsed is reported in StateProblem or Parked.Problem and never
// panics, so that the pod is held and not guessed about.
package podview

package podview

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// kruiseLifecycle is how OpenKruise's lifecycle hooks sign in the message of KruisePodReady.
const kruiseLifecycle = "Lifecycle"

// kruise reads what OpenKruise's lifecycle hooks left behind on a pod whose workload changed hands: nobody but us would ever
// take it back. What others wrote into the list stays, and so does a list that cannot be read.
func kruise(pod *corev1.Pod) *inplace.KruiseReady {
	gated := slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		return g.ConditionType == appsv1alpha1.ConditionKruisePodReady
	})
	if !gated {
		return nil
	}
	c := condition(pod, appsv1alpha1.ConditionKruisePodReady)
	switch {
	case c == nil:
		return &inplace.KruiseReady{Ready: true}
	case c.Status == corev1.ConditionTrue:
		return nil
	}
	var holders []map[string]any
	if err := json.Unmarshal([]byte(c.Message), &holders); err != nil {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(holders), func(h map[string]any) bool { return h["userAgent"] == kruiseLifecycle })
	switch {
	case len(left) == len(holders):
		return nil
	case len(left) == 0:
		return &inplace.KruiseReady{Ready: true}
	}
	message, err := json.Marshal(left)
	if err != nil {
		return nil
	}
	return &inplace.KruiseReady{Message: string(message)}
}

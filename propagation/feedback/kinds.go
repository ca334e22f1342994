package feedback

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/underway-dev/underway/propagation/render"
)

func advancedStatefulSet(obj *unstructured.Unstructured, r *Report) error {
	if err := specReplicas(obj, r); err != nil {
		return err
	}
	rolling, _, err := unstructured.NestedMap(obj.Object, "spec", "updateStrategy", "rollingUpdate")
	if err != nil {
		return fmt.Errorf("reading the update strategy: %w", err)
	}
	return ofOurs(obj, r, rolling)
}

func statefulSet(obj *unstructured.Unstructured, r *Report) error {
	if err := specReplicas(obj, r); err != nil {
		return err
	}
	ordinal, set, err := unstructured.NestedInt64(obj.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	if err != nil {
		return fmt.Errorf("reading the update strategy: %w", err)
	}
	start, _, err := unstructured.NestedInt64(obj.Object, "spec", "ordinals", "start")
	if err != nil {
		return fmt.Errorf("reading spec.ordinals.start: %w", err)
	}
	if set {
		if ordinal < render.HoldOrdinal {
			ordinal = max(ordinal-start, 0)
		}
		r.Partition = strconv.FormatInt(ordinal, 10)
	}
	return native(obj, r, map[string]*int32{
		"replicas":          &r.Replicas,
		"readyReplicas":     &r.Ready,
		"availableReplicas": &r.Available,
		"updatedReplicas":   &r.Updated,
	})
}

func deployment(obj *unstructured.Unstructured, r *Report) error {
	if err := specReplicas(obj, r); err != nil {
		return err
	}
	paused, _, err := unstructured.NestedBool(obj.Object, "spec", "paused")
	if err != nil {
		return fmt.Errorf("reading spec.paused: %w", err)
	}
	r.Paused = paused
	return native(obj, r, map[string]*int32{
		"replicas":            &r.Replicas,
		"readyReplicas":       &r.Ready,
		"availableReplicas":   &r.Available,
		"updatedReplicas":     &r.Updated,
		"unavailableReplicas": &r.Unavailable,
	})
}

// native reads a status that does not tell how many updated pods are ready: at least so many as the pods of other
// revisions cannot account for.
func native(obj *unstructured.Unstructured, r *Report, numbers map[string]*int32) error {
	if err := status(obj, r, numbers); err != nil {
		return err
	}
	r.PodsUnknown = true
	others := max(r.Replicas-r.Updated, 0)
	r.UpdatedReady = min(r.Updated, max(r.Ready-others, 0))
	return nil
}

package inplace

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// SameResources reports whether has shows all of want with the same values: "1000m" is "1". What want does not name does
// not matter.
func SameResources(want, has corev1.ResourceRequirements) bool {
	return sameList(want.Limits, has.Limits) && sameList(want.Requests, has.Requests)
}

func sameList(want, has corev1.ResourceList) bool {
	for name, w := range want {
		h, ok := has[name]
		if !ok || w.Cmp(h) != 0 {
			return false
		}
	}
	return true
}

// MergeResources is base with every value that over names replaced. Neither is changed.
func MergeResources(base, over corev1.ResourceRequirements) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Limits: mergeList(base.Limits, over.Limits), Requests: mergeList(base.Requests, over.Requests),
	}
}

func mergeList(base, over corev1.ResourceList) corev1.ResourceList {
	if len(base)+len(over) == 0 {
		return nil
	}
	out := make(corev1.ResourceList, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}

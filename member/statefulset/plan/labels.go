package plan

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// relabelAgain is how long labels are not written again that somebody takes off at once.
const relabelAgain = time.Minute

// Identity are the labels that tell which pod it is: Services and DNS find it by these. Of a pod that is not one of the
// StatefulSet's by its name there are none.
func Identity(set, pod string) map[string]string {
	ordinal, ok := OrdinalOf(set, pod)
	if !ok {
		return nil
	}
	return map[string]string{appsv1alpha1.LabelPodName: pod, appsv1alpha1.LabelPodIndex: strconv.FormatInt(ordinal, 10)}
}

// Relabel are the patches of the pods of a StatefulSet that lack labels of their identity; wrote is when each was last given
// some. Pods that have ended or are ending need none.
func Relabel(set string, pods []corev1.Pod, wrote map[types.UID]time.Time, now time.Time) []inplace.Patch {
	var out []inplace.Patch
	for i := range pods {
		p := &pods[i]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.DeletionTimestamp != nil || ended || now.Sub(wrote[p.UID]) < relabelAgain {
			continue
		}
		lacks := map[string]*string{}
		for key, value := range Identity(set, p.Name) {
			if p.Labels[key] != value {
				lacks[key] = &value
			}
		}
		if len(lacks) > 0 {
			out = append(out, inplace.Patch{
				Ref:  inplace.Ref{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion},
				Kind: inplace.PatchState, At: now, Metadata: inplace.MetadataChange{Labels: lacks}, Because: "labels of its identity are missing",
			})
		}
	}
	return out
}

//go:build lab

package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

func objectMeta(ns, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ns, Name: name}
}

// tag sets a label of a MemberCluster; value is JSON, null takes it off.
func (w *world) tag(ctx context.Context, member, key, value string) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value))
	Expect(w.hub.Patch(ctx, &fleetv1alpha1.MemberCluster{ObjectMeta: objectMeta("", member)}, patch)).To(Succeed())
}

// imagePatch is the merge patch that makes IMAGE the image of the one container of a template.
func imagePatch(template, container string) string {
	return fmt.Sprintf(`{"spec":{"template":{%q:{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":"IMAGE"}]}}}}}}}`, template, container)
}

// imagesOf are the images of a pod's containers by their names.
func imagesOf(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	for _, c := range pod.Spec.Containers {
		out[c.Name] = c.Image
	}
	return out
}

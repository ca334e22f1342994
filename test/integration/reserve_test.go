//go:build lab

package integration

import (
	"context"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// uids are the pods of a member that stay.
func uids(ctx context.Context, member, ns string) []types.UID {
	GinkgoHelper()
	out := map[types.UID]bool{}
	list := pods(ctx, shared.at[member], ns)
	for i := range list {
		if list[i].DeletionTimestamp == nil {
			out[list[i].UID] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// It waits for marks to wear off: it begins early.
var _ = Describe("Adaptive with reservation", SpecPriority(1), func() {
	It("keeps pods that find no node, has others stand in for them, and takes these away when the kept ones are proven", func(ctx context.Context) {
		w, ns := shared, shared.namespace(ctx)
		w.roomy(ctx, ns, true, "north")
		u := w.create(ctx, adaptiveYAML("kept", ns, "cloneSet", 3,
			"{reserveUnschedulablePods: true, rescheduleCriticalSeconds: 8, unschedulableDuration: 20}",
			"{name: a, cluster: east, maxReplicas: 2}", "{name: b, cluster: north}"))
		stands := func(reserved, a, b int32) {
			GinkgoHelper()
			w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
				g.Expect(u.Status.ReservedPods).To(Equal(reserved))
				g.Expect(subsetOf(u, "a").ReservedPods).To(Equal(reserved))
				g.Expect(subsetOf(u, "a").ReadyReplicas).To(Equal(a))
				g.Expect(subsetOf(u, "b").ReadyReplicas).To(Equal(b))
				g.Expect(u.Status.Replicas).To(BeEquivalentTo(3), "who reads the scale must not count what others stand in for")
				g.Expect(u.Status.ReadyReplicas).To(BeEquivalentTo(3))
			})
		}
		stands(2, 0, 3)
		kept := uids(ctx, "east", ns)
		Expect(kept).To(HaveLen(2))
		mark := meta.FindStatusCondition(subsetOf(refresh(ctx, u), "a").Conditions, appsv1alpha1.ConditionSchedulable)
		Expect(mark).NotTo(BeNil())
		Expect(mark.Status).To(Equal(metav1.ConditionFalse))

		By("giving the kept ones nodes")
		enough := w.neverLess(ctx, u, 3)
		w.roomy(ctx, ns, true, "east")
		stands(0, 2, 1)
		enough()
		Expect(uids(ctx, "east", ns)).To(Equal(kept), "they are the ones that waited")
		soon(ctx, func(g Gomega) { g.Expect(uids(ctx, "north", ns)).To(HaveLen(1)) })
	})
})

//go:build lab

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// tier is the label that the members are selected by; it has the namespace in its name, so that no other spec is concerned.
func tier(ns string) string { return "test.underway.dev/tier-" + ns }

// label puts a namespace's tier, "x", on a member, or takes it off.
func (w *world) label(ctx context.Context, member, ns string, on bool) {
	GinkgoHelper()
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: member}}
	text := "null"
	if on {
		text = `"x"`
	}
	Expect(w.hub.Patch(ctx, mc, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, tier(ns), text)))).To(Succeed())
}

// fiveLines is a fleet in five lines of topology.
func fiveLines(ns string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: fleet, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: fleet}}
  template:
    cloneSetTemplate:
      spec:
        template:
          metadata: {labels: {app: fleet}}
          spec: {containers: [{name: app, image: %q}]}
        updateStrategy: {type: InPlaceIfPossible, maxUnavailable: "100%%"}
  topology:
    subsetTemplates:
    - clusterSelector:
        matchLabels: {%s: x}
  updateStrategy: {manualUpdate: {partition: 0}}
`, ns, replicas, v1, tier(ns))
}

var _ = Describe("Subsets by selector", func() {
	var (
		ns string
		u  *appsv1alpha1.UnitedDeployment
	)

	BeforeEach(func(ctx context.Context) { ns = shared.namespace(ctx) })
	AfterEach(func(ctx context.Context) {
		if u != nil {
			Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed())
		}
		for _, member := range []string{"east", "west", "north"} {
			shared.label(ctx, member, ns, false)
		}
	})
	states := func(ctx context.Context, want ...string) {
		GinkgoHelper()
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			var got []string
			for _, s := range u.Status.SubsetStatuses {
				got = append(got, fmt.Sprintf("%s %s %d", s.Name, s.State, s.Replicas))
			}
			g.Expect(got).To(Equal(want))
		})
	}
	uids := func(ctx context.Context, member string) []string {
		return slices.Sorted(maps.Keys(identities(pods(ctx, shared.at[member], ns))))
	}

	It("follows members that join, are relabelled in mid-release, come back and are drained", func(ctx context.Context) {
		shared.label(ctx, "east", ns, true)
		shared.label(ctx, "west", ns, true)
		u = shared.create(ctx, fiveLines(ns, 6))
		shared.ready(ctx, u, 6)
		states(ctx, "east Current 3", "west Current 3")

		By("holding a release, and relabelling a member in it")
		shared.patch(ctx, u, `{"spec":{"updateStrategy":{"manualUpdate":{"partition":4}}}}`)
		shared.setImage(ctx, u, v2)
		shared.updated(ctx, u, 2)
		before := uids(ctx, "west")
		mark := shared.mark("west")
		shared.label(ctx, "west", ns, false)
		states(ctx, "east Held 3", "west Unselected 3")
		Consistently(func() []string { return uids(ctx, "west") }, 5*time.Second, time.Second).Should(Equal(before))
		Expect(shared.hubWrites("west", mark, ns)).To(BeEmpty(), "nothing is written to a member that is not selected")
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(condition(u, appsv1alpha1.ConditionUnselected).Message).To(ContainSubstring("west: 3 replicas"))
		})

		By("letting another one join, which is made from the completed template and held")
		shared.label(ctx, "north", ns, true)
		states(ctx, "east Held 2", "north Held 1", "west Unselected 3")
		Expect(running(pods(ctx, shared.at["north"], ns), v2)).To(BeZero())
		Expect(running(pods(ctx, shared.at["north"], ns), v1)).To(Equal(1))

		By("coming back")
		shared.label(ctx, "west", ns, true)
		states(ctx, "east Held 2", "north Held 2", "west Held 2")
		Expect(before).To(ContainElements(uids(ctx, "west")), "its pods are those that it had")
		shared.patch(ctx, u, `{"spec":{"updateStrategy":{"manualUpdate":{"partition":0}}}}`)
		shared.updated(ctx, u, 6)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.CurrentRevision).To(Equal(u.Status.UpdatedRevision))
		})

		By("draining")
		shared.patch(ctx, u, fmt.Sprintf(`{"spec":{"topology":{"subsetTemplates":[{"clusterSelector":{"matchLabels":{%q:%q}},"whenUnselected":"Drain"}]}}}`, tier(ns), "x"))
		shared.label(ctx, "west", ns, false)
		states(ctx, "east Current 3", "north Current 3")
		Eventually(func() []string { return uids(ctx, "west") }, patience, time.Second).Should(BeEmpty())
	})
})

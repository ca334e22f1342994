//go:build lab

package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

const (
	v1 = "app:v1"
	v2 = "app:v2"
	v3 = "app:v3"
)

var _ = Describe("A release by partitions", func() {
	var (
		ns string
		u  *appsv1alpha1.UnitedDeployment
	)

	BeforeEach(func(ctx context.Context) { ns = shared.namespace(ctx) })
	AfterEach(func(ctx context.Context) {
		if u != nil {
			Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed())
		}
	})

	It("M019 moves so many pods, in these clusters, in place", func(ctx context.Context) {
		u = shared.create(ctx, united{
			name: "checkout", ns: ns, image: "checkout:1", subsets: []string{"east:4", "west:3", "north:2"},
			partitions: "{east: 3, west: 3, north: 2}", strategy: "{type: InPlaceIfPossible, maxUnavailable: 1}",
		}.yaml())
		shared.ready(ctx, u, 9)
		before := map[string]map[string]identity{}
		for name, c := range shared.at {
			before[name] = identities(pods(ctx, c, ns))
		}
		Expect(before["east"]).To(HaveLen(4))
		Expect(before["west"]).To(HaveLen(3))
		Expect(before["north"]).To(HaveLen(2))

		shared.setImage(ctx, u, "checkout:2")
		shared.updated(ctx, u, 1)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.UpdateStatus.CurrentPartitions).To(Equal(map[string]int32{"east": 3, "west": 3, "north": 2}))
			g.Expect(u.Status.CurrentRevision).NotTo(Equal(u.Status.UpdatedRevision))
		})
		Expect(running(pods(ctx, shared.at["east"], ns), "checkout:2")).To(Equal(1))
		Expect(running(pods(ctx, shared.at["west"], ns), "checkout:2")).To(BeZero())
		Expect(running(pods(ctx, shared.at["north"], ns), "checkout:2")).To(BeZero())

		shared.setPartitions(ctx, u, "{east: 0, west: 3, north: 2}")
		shared.updated(ctx, u, 4)
		Expect(running(pods(ctx, shared.at["east"], ns), "checkout:2")).To(Equal(4))

		shared.setPartitions(ctx, u, "{east: 0, west: 0, north: 0}")
		shared.updated(ctx, u, 9)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.CurrentRevision).To(Equal(u.Status.UpdatedRevision))
			g.Expect(u.Status.UpdatedInPlace).To(BeEquivalentTo(9))
			g.Expect(u.Status.Recreated).To(BeZero())
			g.Expect(condition(u, appsv1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
		})
		for name, c := range shared.at {
			list := pods(ctx, c, ns)
			Expect(identities(list)).To(Equal(before[name]), name)
			for i := range list {
				Expect(list[i].Status.ContainerStatuses[0].RestartCount).To(BeEquivalentTo(1), list[i].Name)
			}
		}
	})

	It("holds a subset that nothing names, and lets it go when told to", func(ctx context.Context) {
		u = shared.create(ctx, united{name: "web", ns: ns, image: v1, subsets: []string{"east:2", "west:2"}}.yaml())
		shared.ready(ctx, u, 4)
		seen := lookout(ctx, shared.at["west"], ns)
		shared.setImage(ctx, u, v2)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			held := condition(u, appsv1alpha1.ConditionHeld)
			g.Expect(held.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(held.Message).To(And(ContainSubstring("east"), ContainSubstring("west")))
		})
		shared.setPartitions(ctx, u, "{east: 0}")
		shared.updated(ctx, u, 2)
		Expect(seen.of(v2)).To(BeZero())
		shared.patch(ctx, u, `{"spec":{"updateStrategy":{"manualUpdate":{"unnamed":"Update"}}}}`)
		shared.updated(ctx, u, 4)
	})

	It("B009 divides a total over the subsets in proportion", func(ctx context.Context) {
		u = shared.create(ctx, united{
			name: "split", ns: ns, image: v1, subsets: []string{"east:10", "west:5"},
			manual: "      partition: 9", strategy: "{type: InPlaceIfPossible, maxUnavailable: 5}",
		}.yaml())
		shared.ready(ctx, u, 15)
		shared.setImage(ctx, u, v2)
		shared.updated(ctx, u, 6)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.UpdateStatus.CurrentPartitions).To(Equal(map[string]int32{"east": 6, "west": 3}))
		})
		Expect(running(pods(ctx, shared.at["east"], ns), v2)).To(Equal(4))
		Expect(running(pods(ctx, shared.at["west"], ns), v2)).To(Equal(2))
	})

	It("takes percents, and rolls back by the old template", func(ctx context.Context) {
		u = shared.create(ctx, united{
			name: "pct", ns: ns, image: v1, subsets: []string{"east:4", "west:4"},
			partitions: `{east: "50%", west: "100%"}`,
		}.yaml())
		shared.ready(ctx, u, 8)
		shared.setImage(ctx, u, v2)
		shared.updated(ctx, u, 2)
		shared.setImage(ctx, u, v1)
		shared.status(ctx, u, func(g Gomega, _ *appsv1alpha1.UnitedDeployment) {
			g.Expect(running(pods(ctx, shared.at["east"], ns), v1)).To(Equal(4))
		})
		Expect(pods(ctx, shared.at["east"], ns)).To(HaveLen(4))
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.ReadyReplicas).To(BeEquivalentTo(8))
		})
	})

	It("refuses a template that InPlaceOnly forbids, moves nothing and names the field", func(ctx context.Context) {
		u = shared.create(ctx, united{
			name: "only", ns: ns, image: v1, subsets: []string{"east:2"}, partitions: "{east: 0}",
			strategy: "{type: InPlaceOnly, maxUnavailable: 1}",
		}.yaml())
		shared.ready(ctx, u, 2)
		before := identities(pods(ctx, shared.at["east"], ns))
		shared.patch(ctx, u, `{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app:v2","env":[{"name":"A","value":"b"}]}]}}}}}}}`)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			refused := condition(u, appsv1alpha1.ConditionRefused)
			g.Expect(refused.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(refused.Message).To(ContainSubstring("env"))
		})
		Consistently(ctx, func(g Gomega) {
			list := pods(ctx, shared.at["east"], ns)
			g.Expect(identities(list)).To(Equal(before))
			g.Expect(running(list, v2)).To(BeZero())
		}).WithTimeout(3 * time.Second).WithPolling(300 * time.Millisecond).Should(Succeed())
	})

	It("works in one cluster without `cluster`, as upstream's does", func(ctx context.Context) {
		u = shared.create(ctx, united{name: "local", ns: ns, image: v1, subsets: []string{"a:2:local", "b:1:local"}}.yaml())
		hubAgent := shared.localAgent(ctx)
		DeferCleanup(hubAgent.end)
		shared.ready(ctx, u, 3)
		var children appsv1alpha1.CloneSetList
		Expect(shared.hub.List(ctx, &children, client.InNamespace(ns))).To(Succeed())
		Expect(children.Items).To(HaveLen(2))
		for i := range children.Items {
			Expect(metav1.IsControlledBy(&children.Items[i], u)).To(BeTrue())
		}
		shared.setImage(ctx, u, v2)
		shared.updated(ctx, u, 3)
	})

	It("B045 corrects percents that do not sum, and says so", func(ctx context.Context) {
		text := fmt.Sprintf(`apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: half, namespace: %s}
spec:
  replicas: 5
  selector: {matchLabels: {app: half}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: half}}
      spec:
        selector: {matchLabels: {app: half}}
        template:
          metadata: {labels: {app: half}}
          spec: {containers: [{name: app, image: "app:v1"}]}
  topology:
    subsets:
    - {name: east, cluster: east, replicas: "50%%"}
    - {name: west, cluster: west, replicas: "50%%"}
`, ns)
		u = shared.create(ctx, text)
		shared.ready(ctx, u, 5)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.SubsetReplicas).To(Equal(map[string]int32{"east": 3, "west": 2}))
			g.Expect(condition(u, appsv1alpha1.ConditionAllocation).Status).To(Equal(metav1.ConditionTrue))
		})
		Expect(pods(ctx, shared.at["east"], ns)).To(HaveLen(3))
		Expect(pods(ctx, shared.at["west"], ns)).To(HaveLen(2))
	})

	It("B047 divides again once per change, with one write to each member that changes", func(ctx context.Context) {
		u = shared.create(ctx, united{name: "scale", ns: ns, image: v1, subsets: []string{"east:5", "west:5"}}.yaml())
		shared.ready(ctx, u, 10)
		shared.quiet(ctx, ns, "east", "west")
		mark := map[string]lab.Mark{}
		for name := range shared.at {
			mark[name] = shared.mark(name)
		}
		shared.patch(ctx, u, `{"spec":{"replicas":12,"topology":{"subsets":[{"name":"east","cluster":"east","replicas":7},{"name":"west","cluster":"west","replicas":5}]}}}`)
		shared.ready(ctx, u, 12)
		Expect(pods(ctx, shared.at["east"], ns)).To(HaveLen(7))
		Expect(shared.hubWrites("east", mark["east"], ns)).To(HaveLen(1))
		// west's child is the same; the new owner generation alone is not due.
		Expect(shared.hubWrites("west", mark["west"], ns)).To(BeEmpty())
	})
})

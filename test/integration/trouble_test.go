//go:build lab

package integration

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// The specs of this file stop members, restart or freeze the hub, keep it busy, or delete CRDs: on two fleets of their own, each one spec
// after the other, beside those of the shared fleet. They take longest, so they begin first.

var _ = Describe("A fleet in trouble", Ordered, ContinueOnFailure, SpecPriority(2), func() {
	var w *world

	BeforeAll(func(ctx context.Context) { w = newWorld(ctx, binaries, "east", "west", "north") })

	It("writes nothing but Leases when the idle hub restarts", func(ctx context.Context) {
		ns := w.namespace(ctx)
		u := w.create(ctx, united{name: "idle", ns: ns, image: v1, subsets: []string{"east:2", "west:2"}, partitions: "{east: 0, west: 2}"}.yaml())
		w.ready(ctx, u, 4)
		w.setImage(ctx, u, v2)
		w.updated(ctx, u, 2)
		w.quiet(ctx, "", "east", "west", "north", lab.HubName)
		marks := map[string]lab.Mark{"east": w.mark("east"), "west": w.mark("west"), "north": w.mark("north")}
		hubMark := w.mark(lab.HubName)
		w.restartHub(ctx)
		w.leading(ctx)
		time.Sleep(8 * time.Second)
		for m, mark := range marks {
			Expect(w.hubWrites(m, mark, "")).To(BeEmpty(), m)
		}
		Expect(w.writesHome(hubMark)).To(BeEmpty())
	})

	It("goes on without a member that stopped in mid-release, keeps its numbers as stale, and catches up", func(ctx context.Context) {
		ns := w.namespace(ctx)
		u := w.create(ctx, united{
			name: "trip", ns: ns, image: v1, subsets: []string{"east:4", "west:4", "north:4"},
			partitions: `{east: "100%", west: "100%", north: "100%"}`,
		}.yaml())
		w.ready(ctx, u, 12)
		w.setImage(ctx, u, v2)
		w.setPartitions(ctx, u, `{east: 2, west: 2, north: "100%"}`)
		w.updated(ctx, u, 4)

		Expect(w.fleet.Member("west").Stop()).To(Succeed())
		w.memberReady(ctx, "west", metav1.ConditionFalse)
		w.setPartitions(ctx, u, `{east: 0, west: 0, north: 0}`)
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "east").UpdatedReadyReplicas).To(BeEquivalentTo(4))
			g.Expect(subsetOf(u, "north").UpdatedReadyReplicas).To(BeEquivalentTo(4))
			west := subsetOf(u, "west")
			g.Expect(west.Stale).To(BeTrue())
			g.Expect(west.HeardAt).NotTo(BeNil())
			g.Expect(west.Replicas).To(BeEquivalentTo(4))
			g.Expect(west.UpdatedReadyReplicas).To(BeEquivalentTo(2))
			g.Expect(u.Status.Replicas).To(BeEquivalentTo(12))
			g.Expect(condition(u, appsv1alpha1.ConditionStale).Message).To(ContainSubstring("west"))
			g.Expect(u.Status.CurrentRevision).NotTo(Equal(u.Status.UpdatedRevision))
		})

		By("restarting the hub meanwhile: memory does not survive, the numbers do")
		w.restartHub(ctx)
		Consistently(ctx, func(g Gomega) {
			var got appsv1alpha1.UnitedDeployment
			g.Expect(w.hub.Get(ctx, client.ObjectKeyFromObject(u), &got)).To(Succeed())
			g.Expect(got.Status.Replicas).To(BeEquivalentTo(12))
			g.Expect(subsetOf(&got, "west").Stale).To(BeTrue())
		}).WithTimeout(6 * time.Second).WithPolling(300 * time.Millisecond).Should(Succeed())

		Expect(w.fleet.Member("west").Start(ctx)).To(Succeed())
		w.updated(ctx, u, 12)
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "west").Stale).To(BeFalse())
			g.Expect(u.Status.CurrentRevision).To(Equal(u.Status.UpdatedRevision))
		})
	})

	It("B139 deletes nothing and writes each change once, over 20 restarts in a running release", func(ctx context.Context) {
		ns := w.namespace(ctx)
		u := w.create(ctx, united{
			name: "storm", ns: ns, image: v1, subsets: []string{"east:6", "west:6"},
			partitions: `{east: "100%", west: "100%"}`, strategy: "{type: InPlaceIfPossible, maxUnavailable: 1}",
		}.yaml())
		w.ready(ctx, u, 12)
		marks := map[string]lab.Mark{"east": w.mark("east"), "west": w.mark("west")}
		w.setImage(ctx, u, v2)
		w.setPartitions(ctx, u, `{east: 0, west: 0}`)
		for range 20 {
			w.restartHub(ctx)
			time.Sleep(700 * time.Millisecond)
		}
		w.updated(ctx, u, 12)
		for m, mark := range marks {
			Expect(w.deletes(m, mark, ns)).To(BeEmpty())
			// The image held at 100%, and the partitions: two real changes.
			Expect(len(w.hubWrites(m, mark, ns))).To(BeNumerically("<=", 2), "%v", w.hubWrites(m, mark, ns))
		}
		for _, m := range []string{"east", "west"} {
			list := pods(ctx, w.at[m], ns)
			for i := range list {
				Expect(list[i].Status.ContainerStatuses[0].RestartCount).To(BeEquivalentTo(1))
			}
		}
	})

	It("leaves to each of two hubs what is its own on a member of both, and says whose the rest is", func(ctx context.Context) { twoHubs(ctx, w) })

	It("works with a template of 1 MB, and refuses one that is too large to be kept", func(ctx context.Context) { bigTemplate(ctx, w) })

	It("moves nothing for a partition that cannot be read, when it comes through a CRD without our rules", func(ctx context.Context) {
		ns := w.namespace(ctx)
		u := w.create(ctx, united{name: "blind", ns: ns, image: v1, subsets: []string{"east:2"}, partitions: `{east: "100%"}`}.yaml())
		w.ready(ctx, u, 2)
		w.loosenCRD(ctx, u)
		seen := lookout(ctx, w.at["east"], ns)
		for _, bad := range []string{`"abc"`, `"50"`, `-1`} {
			w.setPartitions(ctx, u, "{east: "+bad+"}")
			w.setImage(ctx, u, v2)
			w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
				c := condition(u, appsv1alpha1.ConditionInvalid)
				g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
				g.Expect(c.Message).To(And(ContainSubstring("partitions"), ContainSubstring(strings.Trim(bad, `"`))))
				g.Expect(c.ObservedGeneration).To(Equal(u.Generation))
			})
			Expect(seen.of(v2)).To(BeZero())
		}
		w.setPartitions(ctx, u, "{east: 0}")
		w.updated(ctx, u, 2)
	})

	It("deletes nothing in any member when the namespace, then the CRD, is deleted on the hub", func(ctx context.Context) {
		ns := w.namespace(ctx)
		first := w.create(ctx, united{name: "keep", ns: ns, image: v1, subsets: []string{"east:2", "west:2"}}.yaml())
		w.ready(ctx, first, 4)
		ns2 := w.namespace(ctx)
		second := w.create(ctx, united{name: "keep", ns: ns2, image: v1, subsets: []string{"east:1"}}.yaml())
		w.ready(ctx, second, 1)
		marks := map[string]lab.Mark{}
		for m := range w.at {
			marks[m] = w.mark(m)
		}
		Expect(w.hub.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns2}})).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(apierrors.IsNotFound(w.hub.Get(ctx, types.NamespacedName{Name: ns2}, &corev1.Namespace{}))).To(BeTrue())
		}).WithTimeout(patience).WithPolling(500 * time.Millisecond).Should(Succeed())
		Expect(w.child(ctx, "east", ns2).Annotations).To(HaveKey(appsv1alpha1.AnnotationOrphaned))

		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "uniteddeployments.apps.kruise.io"}}
		Expect(w.hub.Delete(ctx, crd)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(apierrors.IsNotFound(w.hub.Get(ctx, client.ObjectKeyFromObject(crd), crd))).To(BeTrue())
		}).WithTimeout(patience).WithPolling(500 * time.Millisecond).Should(Succeed())
		Consistently(ctx, func(g Gomega) {
			for m, mark := range marks {
				g.Expect(w.deletes(m, mark, ns, ns2)).To(BeEmpty(), m)
			}
		}).WithTimeout(5 * time.Second).WithPolling(500 * time.Millisecond).Should(Succeed())
		Expect(pods(ctx, w.at["east"], ns)).To(HaveLen(2))
		Expect(w.child(ctx, "west", ns).Annotations).To(HaveKey(appsv1alpha1.AnnotationOrphaned))
	})
})

var _ = Describe("A fleet whose members and hub come and go", Ordered, ContinueOnFailure, SpecPriority(1), func() {
	var w *world

	BeforeAll(func(ctx context.Context) { w = newWorld(ctx, binaries, "east", "west") })

	It("is frozen: that stops every write to members until it is lifted", func(ctx context.Context) {
		ns := w.namespace(ctx)
		u := w.create(ctx, united{name: "ice", ns: ns, image: v1, subsets: []string{"east:2"}, partitions: "{east: 0}"}.yaml())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(w.hub.Delete(ctx, u))).To(Succeed()) })
		w.ready(ctx, u, 2)
		w.kubectl(ctx, "freeze", "--all", "--reason", "incident 7")
		DeferCleanup(func(ctx context.Context) { w.kubectl(ctx, "unfreeze", "--all") })
		mark := w.mark("east")
		w.setImage(ctx, u, v2)
		Consistently(ctx, func(g Gomega) {
			g.Expect(running(pods(ctx, w.at["east"], ns), v2)).To(BeZero())
		}).WithTimeout(4 * time.Second).WithPolling(200 * time.Millisecond).Should(Succeed())
		Expect(w.hubWrites("east", mark, "")).To(BeEmpty())
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "east").Message).To(ContainSubstring("incident 7"))
		})
		w.kubectl(ctx, "unfreeze", "--all")
		w.updated(ctx, u, 2)
	})

	It("brings content along: before the pods, by the grant, and with its owner", func(ctx context.Context) { travelsAlong(ctx, w) })

	It("lets a deleted UnitedDeployment take its children with it, and says which member it waits for", func(ctx context.Context) {
		ns := w.namespace(ctx)
		u := w.create(ctx, united{name: "gone", ns: ns, image: v1, subsets: []string{"east:1", "west:1"}}.yaml())
		w.ready(ctx, u, 2)
		Expect(w.fleet.Member("west").Stop(lab.APIServer)).To(Succeed())
		stopped := true
		DeferCleanup(func(ctx context.Context) {
			if stopped {
				Expect(w.fleet.Member("west").Start(ctx, lab.APIServer)).To(Succeed())
			}
		})
		w.memberReady(ctx, "west", metav1.ConditionFalse)
		Expect(w.hub.Delete(ctx, u)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(pods(ctx, w.at["east"], ns)).To(BeEmpty())
		}).WithTimeout(patience).WithPolling(300 * time.Millisecond).Should(Succeed())
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			c := condition(u, appsv1alpha1.ConditionDeleting)
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(c.Message).To(ContainSubstring("west"))
			g.Expect(c.Message).NotTo(ContainSubstring("east"))
		})
		Expect(w.fleet.Member("west").Start(ctx, lab.APIServer)).To(Succeed())
		stopped = false
		Eventually(ctx, func(g Gomega) {
			err := w.hub.Get(ctx, client.ObjectKeyFromObject(u), u)
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			g.Expect(pods(ctx, w.at["west"], ns)).To(BeEmpty())
		}).WithTimeout(patience).WithPolling(300 * time.Millisecond).Should(Succeed())
		w.memberReady(ctx, "west", metav1.ConditionTrue)
	})

	It("N9 stands in for a member that is out of reach only where that was asked for, and gives back", func(ctx context.Context) {
		ns := w.namespace(ctx)
		w.roomy(ctx, ns, true, "east", "west")
		moves := w.create(ctx, adaptiveYAML("moves", ns, "cloneSet", 6, "{unreachableSeconds: 5, unschedulableDuration: 20}",
			"{name: a, cluster: east, maxReplicas: 3}", "{name: b, cluster: west}"))
		stays := w.create(ctx, adaptiveYAML("stays", ns, "cloneSet", 6, "{}",
			"{name: a, cluster: east, maxReplicas: 3}", "{name: b, cluster: west}"))
		w.allotted(ctx, moves, 3, 3)
		w.allotted(ctx, stays, 3, 3)
		east := w.fleet.Member("east")
		DeferCleanup(func(ctx context.Context) { Expect(east.Start(ctx)).To(Succeed()) })
		Expect(east.Stop(lab.APIServer)).To(Succeed())
		w.status(ctx, moves, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "a").DesiredReplicas).To(Equal(int32(3)))
			g.Expect(subsetOf(u, "a").Stale).To(BeTrue())
			g.Expect(subsetOf(u, "b").ReadyReplicas).To(Equal(int32(6)))
		})
		w.status(ctx, stays, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "a").Stale).To(BeTrue())
			g.Expect(subsetOf(u, "a").ReadyReplicas).To(Equal(int32(3)))
			g.Expect(subsetOf(u, "b").DesiredReplicas).To(Equal(int32(3)))
		})
		Expect(east.Start(ctx)).To(Succeed())
		w.memberReady(ctx, "east", metav1.ConditionTrue)
		enough := w.neverLess(ctx, moves, 6)
		w.allotted(ctx, moves, 3, 3)
		enough()
	})

	It("sends nothing to another cluster under a member's name, until a person confirms it", func(ctx context.Context) {
		ns := w.namespace(ctx)
		u := w.create(ctx, united{name: "swap", ns: ns, image: v1, subsets: []string{"east:2", "west:2"}, partitions: "{east: 0, west: 0}"}.yaml())
		w.ready(ctx, u, 4)
		w.giveHubAdminOf(ctx, "west")
		Expect(w.fleet.Member("west").Wipe(ctx)).To(Succeed())
		mark := w.mark("west")
		w.installBehindTheHubsBack(ctx, "west")
		Eventually(ctx, func(g Gomega) {
			var mc fleetv1alpha1.MemberCluster
			g.Expect(w.hub.Get(ctx, types.NamespacedName{Name: "west"}, &mc)).To(Succeed())
			c := meta.FindStatusCondition(mc.Status.Conditions, fleetv1alpha1.ConditionIdentityChanged)
			g.Expect(c).NotTo(BeNil())
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
		}).WithTimeout(patience).WithPolling(300 * time.Millisecond).Should(Succeed())
		w.setImage(ctx, u, v2)
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "east").UpdatedReadyReplicas).To(BeEquivalentTo(2))
			g.Expect(subsetOf(u, "west").Stale).To(BeTrue())
			g.Expect(subsetOf(u, "west").Replicas).To(BeEquivalentTo(2))
		})
		events, err := w.fleet.Member("west").Since(mark, lab.Writes, lab.ByUserAgent("underway-hub"))
		Expect(err).NotTo(HaveOccurred())
		Expect(events).To(BeEmpty())
		By("having talked to it all the same")
		var impostor corev1.Namespace
		Expect(w.client(w.fleet.Member("west")).Get(ctx, types.NamespacedName{Name: "kube-system"}, &impostor)).To(Succeed())
		var mc fleetv1alpha1.MemberCluster
		soon(ctx, func(g Gomega) {
			g.Expect(w.hub.Get(ctx, types.NamespacedName{Name: "west"}, &mc)).To(Succeed())
			g.Expect(mc.Status.SeenIdentity).To(BeEquivalentTo(impostor.UID))
			g.Expect(mc.Status.Identity).NotTo(Equal(mc.Status.SeenIdentity))
		})

		By("confirming it")
		w.kubectl(ctx, "confirm", "cluster", "west", "--yes")
		w.memberReady(ctx, "west", metav1.ConditionTrue)
		w.updated(ctx, u, 4)
		Expect(running(pods(ctx, w.client(w.fleet.Member("west")), ns), v2)).To(Equal(2))
	})

	// Last: it leaves hundreds of objects behind, which go with the fleet.
	It("divides an object over 500 subsets", func(ctx context.Context) { manySubsets(ctx, w) })
})

//go:build lab

package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
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

// hubUser is the account that join made for the hub on a member.
const hubUser = "system:serviceaccount:" + appsv1alpha1.SystemNamespace + ":underway-hub"

// hubWrites are the hub's writes to a member since a mark, Leases apart; an empty namespace means all.
func (w *world) hubWrites(member string, mark lab.Mark, ns string) []string {
	GinkgoHelper()
	events, err := w.fleet.Member(member).Since(mark, lab.Writes, lab.ByUser(hubUser))
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, e := range events {
		if e.ObjectRef.Resource == "leases" || strings.HasPrefix(e.ObjectRef.Resource, "selfsubject") || (ns != "" && e.ObjectRef.Namespace != ns) {
			continue
		}
		out = append(out, fmt.Sprintf("%s %s %s/%s: %d", e.Verb, e.Resource(), e.ObjectRef.Namespace, e.ObjectRef.Name, e.ResponseStatus.Code))
	}
	return out
}

// deletes are all deletes of namespaces, children and pods in a member since a mark, whoever asked.
func (w *world) deletes(member string, mark lab.Mark) []string {
	GinkgoHelper()
	events, err := w.fleet.Member(member).Since(mark, func(e lab.AuditEvent) bool {
		return strings.HasPrefix(e.Verb, "delete")
	})
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, e := range events {
		switch e.ObjectRef.Resource {
		case "pods", "clonesets", "namespaces", "controllerrevisions":
			out = append(out, fmt.Sprintf("%s %s %s/%s by %s", e.Verb, e.Resource(), e.ObjectRef.Namespace, e.ObjectRef.Name, e.User.Username))
		}
	}
	return out
}

// localAgent runs an agent in the hub's own cluster.
func (w *world) localAgent(ctx context.Context) *service {
	GinkgoHelper()
	return w.serve(ctx, "underway-member", w.fleet.Hub().Kubeconfig())
}

// child is the CloneSet of a subset in its member.
func (w *world) child(ctx context.Context, member, ns string) *appsv1alpha1.CloneSet {
	GinkgoHelper()
	var list appsv1alpha1.CloneSetList
	Expect(w.at[member].List(ctx, &list, client.InNamespace(ns))).To(Succeed())
	Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

var _ = Describe("A subset that is held", func() {
	var (
		ns string
		u  *appsv1alpha1.UnitedDeployment
	)

	BeforeEach(func(ctx context.Context) {
		ns = shared.namespace(ctx)
		u = shared.create(ctx, united{
			name: "held", ns: ns, image: v1, subsets: []string{"east:3", "west:3"},
			partitions: `{east: "100%", west: "100%"}`,
		}.yaml())
		shared.ready(ctx, u, 6)
	})
	AfterEach(func(ctx context.Context) { Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed()) })

	It("comes back on the old revision when its child, then its namespace, is deleted by hand", func(ctx context.Context) {
		seen := lookout(ctx, shared.at["west"], ns)
		shared.setImage(ctx, u, v2)
		shared.setPartitions(ctx, u, `{east: 1, west: "100%"}`)
		shared.updated(ctx, u, 2)

		first := shared.child(ctx, "west", ns)
		Expect(shared.at["west"].Delete(ctx, first)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			var list appsv1alpha1.CloneSetList
			g.Expect(shared.at["west"].List(ctx, &list, client.InNamespace(ns))).To(Succeed())
			g.Expect(list.Items).To(HaveLen(1))
			g.Expect(list.Items[0].UID).NotTo(Equal(first.UID))
			g.Expect(list.Items[0].Status.ReadyReplicas).To(BeEquivalentTo(3))
		}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
		second := shared.child(ctx, "west", ns)
		Expect(seen.of(v2)).To(BeZero())

		Expect(shared.at["west"].Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			var list appsv1alpha1.CloneSetList
			g.Expect(shared.at["west"].List(ctx, &list, client.InNamespace(ns))).To(Succeed())
			g.Expect(list.Items).To(HaveLen(1))
			g.Expect(list.Items[0].UID).NotTo(Equal(second.UID))
			g.Expect(list.Items[0].Status.ReadyReplicas).To(BeEquivalentTo(3))
		}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
		Expect(seen.of(v2)).To(BeZero())

		By("granting it at last")
		shared.setPartitions(ctx, u, `{east: 0, west: 1}`)
		shared.updated(ctx, u, 5)
	})

	It("leaks nothing when the member's own autoscaler doubles it", func(ctx context.Context) {
		seen := lookout(ctx, shared.at["west"], ns)
		shared.setImage(ctx, u, v2)
		shared.setPartitions(ctx, u, `{east: 2, west: "100%"}`)
		shared.updated(ctx, u, 1)
		set := shared.child(ctx, "west", ns)
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 6}}
		Expect(shared.at["west"].SubResource("scale").Update(ctx, set, client.WithSubResourceBody(scale))).To(Succeed())
		Consistently(ctx, func(g Gomega) {
			g.Expect(seen.of(v2)).To(BeZero())
		}).WithTimeout(6 * time.Second).WithPolling(200 * time.Millisecond).Should(Succeed())
		Expect(running(pods(ctx, shared.at["west"], ns), v2)).To(BeZero())
	})

	It("is put back when somebody edits it by hand (N8), and says who", func(ctx context.Context) {
		set := shared.child(ctx, "west", ns)
		Expect(shared.at["west"].Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(
			`{"spec":{"updateStrategy":{"paused":true},"template":{"spec":{"containers":[{"name":"app","image":"evil:v9"}]}}}}`)),
			client.FieldOwner("by-hand"))).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			got := shared.child(ctx, "west", ns)
			g.Expect(string(got.Spec.Template.Raw)).To(ContainSubstring(v1))
			g.Expect(got.Spec.UpdateStrategy.Paused).To(BeFalse())
		}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
		Eventually(ctx, func(g Gomega) {
			var events corev1.EventList
			g.Expect(shared.hub.List(ctx, &events, client.InNamespace(ns))).To(Succeed())
			var text []string
			for _, e := range events.Items {
				text = append(text, e.Message)
			}
			g.Expect(text).To(ContainElement(ContainSubstring("by-hand")))
		}).WithTimeout(patience).WithPolling(500 * time.Millisecond).Should(Succeed())
	})
})

var _ = Describe("Objects that are not ours", func() {
	It("are not touched, and the conflict is said (rule 3); names of 57 characters work (B121)", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		long := strings.Repeat("a", 57)
		other := long[:56] + "b"
		for _, name := range []string{long, other} {
			u := shared.create(ctx, united{name: name, ns: ns, image: v1, subsets: []string{"east:1", "west:1"}}.yaml())
			DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed()) })
			shared.ready(ctx, u, 2)
		}
		for _, m := range []string{"east", "west"} {
			var list appsv1alpha1.CloneSetList
			Expect(shared.at[m].List(ctx, &list, client.InNamespace(ns))).To(Succeed())
			Expect(list.Items).To(HaveLen(2))
			Expect(pods(ctx, shared.at[m], ns)).To(HaveLen(2))
		}
	})
})

var _ = Describe("A member's permission", func() {
	It("is asked for: allowedNamespaces keeps a namespace out, and says so", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		var mc fleetv1alpha1.MemberCluster
		Expect(shared.hub.Get(ctx, types.NamespacedName{Name: "north"}, &mc)).To(Succeed())
		allowed := mc.Spec.AllowedNamespaces.DeepCopy()
		setAllowed := func(ctx context.Context, s *metav1.LabelSelector) {
			GinkgoHelper()
			Eventually(ctx, func(g Gomega) {
				g.Expect(shared.hub.Get(ctx, types.NamespacedName{Name: "north"}, &mc)).To(Succeed())
				mc.Spec.AllowedNamespaces = s
				g.Expect(shared.hub.Update(ctx, &mc)).To(Succeed())
			}).WithTimeout(patience).Should(Succeed())
		}
		setAllowed(ctx, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "blue"}})
		DeferCleanup(func(ctx context.Context) { setAllowed(ctx, allowed) })
		u := shared.create(ctx, united{name: "barred", ns: ns, image: v1, subsets: []string{"east:1", "north:1"}}.yaml())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed()) })
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.ReadyReplicas).To(BeEquivalentTo(1))
			c := condition(u, appsv1alpha1.ConditionNotAllowed)
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(c.Message).To(ContainSubstring("north"))
		})
		Expect(pods(ctx, shared.at["north"], ns)).To(BeEmpty())
		By("allowing it")
		Expect(shared.hub.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"blue"}}}`)))).To(Succeed())
		shared.ready(ctx, u, 2)
	})
})

var _ = Describe("A freeze", func() {
	It("stops every write to members until it is lifted", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		u := shared.create(ctx, united{name: "ice", ns: ns, image: v1, subsets: []string{"east:2"}, partitions: "{east: 0}"}.yaml())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed()) })
		shared.ready(ctx, u, 2)
		shared.kubectl(ctx, "freeze", "--all", "--reason", "incident 7")
		DeferCleanup(func(ctx context.Context) { shared.kubectl(ctx, "unfreeze", "--all") })
		mark := shared.mark("east")
		shared.setImage(ctx, u, v2)
		Consistently(ctx, func(g Gomega) {
			g.Expect(running(pods(ctx, shared.at["east"], ns), v2)).To(BeZero())
		}).WithTimeout(4 * time.Second).WithPolling(200 * time.Millisecond).Should(Succeed())
		Expect(shared.hubWrites("east", mark, "")).To(BeEmpty())
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "east").Message).To(ContainSubstring("incident 7"))
		})
		shared.kubectl(ctx, "unfreeze", "--all")
		shared.updated(ctx, u, 2)
	})
})

var _ = Describe("A deleted UnitedDeployment", func() {
	It("takes its children with it, and says which member it waits for", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		u := shared.create(ctx, united{name: "gone", ns: ns, image: v1, subsets: []string{"east:1", "west:1"}}.yaml())
		shared.ready(ctx, u, 2)
		Expect(shared.fleet.Member("west").Stop(lab.APIServer)).To(Succeed())
		stopped := true
		DeferCleanup(func(ctx context.Context) {
			if stopped {
				Expect(shared.fleet.Member("west").Start(ctx, lab.APIServer)).To(Succeed())
			}
		})
		shared.memberReady(ctx, "west", metav1.ConditionFalse)
		Expect(shared.hub.Delete(ctx, u)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(pods(ctx, shared.at["east"], ns)).To(BeEmpty())
		}).WithTimeout(patience).WithPolling(300 * time.Millisecond).Should(Succeed())
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			c := condition(u, appsv1alpha1.ConditionDeleting)
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(c.Message).To(ContainSubstring("west"))
			g.Expect(c.Message).NotTo(ContainSubstring("east"))
		})
		Expect(shared.fleet.Member("west").Start(ctx, lab.APIServer)).To(Succeed())
		stopped = false
		Eventually(ctx, func(g Gomega) {
			err := shared.hub.Get(ctx, client.ObjectKeyFromObject(u), u)
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			g.Expect(pods(ctx, shared.at["west"], ns)).To(BeEmpty())
		}).WithTimeout(patience).WithPolling(300 * time.Millisecond).Should(Succeed())
		shared.memberReady(ctx, "west", metav1.ConditionTrue)
	})

	It("leaves its children, marked, with --cascade=orphan", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		u := shared.create(ctx, united{name: "free", ns: ns, image: v1, subsets: []string{"east:1"}}.yaml())
		shared.ready(ctx, u, 1)
		mark := shared.mark("east")
		Expect(shared.hub.Delete(ctx, u, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(apierrors.IsNotFound(shared.hub.Get(ctx, client.ObjectKeyFromObject(u), u))).To(BeTrue())
		}).WithTimeout(patience).WithPolling(300 * time.Millisecond).Should(Succeed())
		Expect(shared.child(ctx, "east", ns).Annotations).To(HaveKey(appsv1alpha1.AnnotationOrphaned))
		Expect(shared.deletes("east", mark)).To(BeEmpty())
	})
})

// The tests below stop members, restart the hub or delete CRDs: a fleet of their own, one after the other.

var _ = Describe("A fleet in trouble", Ordered, Serial, func() {
	var w *world

	BeforeAll(func(ctx context.Context) { w = newWorld(ctx, binaries, "east", "west", "north") })

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

	It("writes nothing but Leases when the idle hub restarts", func(ctx context.Context) {
		ns := w.namespace(ctx)
		u := w.create(ctx, united{name: "idle", ns: ns, image: v1, subsets: []string{"east:2", "west:2"}, partitions: "{east: 0, west: 2}"}.yaml())
		w.ready(ctx, u, 4)
		w.setImage(ctx, u, v2)
		w.updated(ctx, u, 2)
		time.Sleep(3 * time.Second) // let what is under way come to rest
		marks := map[string]lab.Mark{"east": w.mark("east"), "west": w.mark("west"), "north": w.mark("north")}
		hubMark := w.mark(lab.HubName)
		w.restartHub(ctx)
		w.leading(ctx)
		time.Sleep(8 * time.Second)
		for m, mark := range marks {
			Expect(w.hubWrites(m, mark, "")).To(BeEmpty(), m)
		}
		events, err := w.fleet.Hub().Since(hubMark, lab.Writes, lab.ByUserAgent("underway-hub"))
		Expect(err).NotTo(HaveOccurred())
		for _, e := range events {
			Expect(e.ObjectRef.Resource).To(BeElementOf("leases", "events", "selfsubjectaccessreviews"), "%s %s %s/%s", e.Verb, e.Resource(), e.ObjectRef.Namespace, e.ObjectRef.Name)
		}
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
			Expect(w.deletes(m, mark)).To(BeEmpty())
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

	It("moves nothing for a partition that cannot be read, when it comes through a CRD without our rules", func(ctx context.Context) {
		ns := w.namespace(ctx)
		u := w.create(ctx, united{name: "blind", ns: ns, image: v1, subsets: []string{"east:2"}, partitions: `{east: "100%"}`}.yaml())
		w.ready(ctx, u, 2)
		w.loosenCRD(ctx)
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
				g.Expect(w.deletes(m, mark)).To(BeEmpty(), m)
			}
		}).WithTimeout(5 * time.Second).WithPolling(500 * time.Millisecond).Should(Succeed())
		Expect(pods(ctx, w.at["east"], ns)).To(HaveLen(2))
		Expect(w.child(ctx, "west", ns).Annotations).To(HaveKey(appsv1alpha1.AnnotationOrphaned))
	})
})

var _ = Describe("Another cluster under a member's name", Ordered, Serial, func() {
	It("gets nothing, until a person confirms it", func(ctx context.Context) {
		w := newWorld(ctx, binaries, "east", "west")
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
		Expect(w.hub.Get(ctx, types.NamespacedName{Name: "west"}, &mc)).To(Succeed())
		Expect(mc.Status.SeenIdentity).To(BeEquivalentTo(impostor.UID))
		Expect(mc.Status.Identity).NotTo(Equal(mc.Status.SeenIdentity))

		By("confirming it")
		w.kubectl(ctx, "confirm", "cluster", "west", "--yes")
		w.memberReady(ctx, "west", metav1.ConditionTrue)
		w.updated(ctx, u, 4)
		Expect(running(pods(ctx, w.client(w.fleet.Member("west")), ns), v2)).To(Equal(2))
	})
})

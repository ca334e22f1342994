//go:build lab

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// deletes are all deletes of children and pods in some namespaces of a member, and of these, since a mark, whoever asked.
func (w *world) deletes(member string, mark lab.Mark, spaces ...string) []string {
	GinkgoHelper()
	events, err := w.fleet.Member(member).Since(mark, func(e lab.AuditEvent) bool {
		of := e.ObjectRef.Namespace
		if e.ObjectRef.Resource == "namespaces" {
			of = e.ObjectRef.Name
		}
		return strings.HasPrefix(e.Verb, "delete") && slices.Contains(spaces, of)
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

// child is the CloneSet of a subset in its member, once it is there alone.
func (w *world) child(ctx context.Context, member, ns string) *appsv1alpha1.CloneSet {
	GinkgoHelper()
	var list appsv1alpha1.CloneSetList
	soon(ctx, func(g Gomega) {
		g.Expect(w.at[member].List(ctx, &list, client.InNamespace(ns))).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
	})
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
		barred := "test.underway.dev/barred-" + ns // by this label, so that no other spec is concerned
		mark := func(text string) {
			GinkgoHelper()
			Expect(shared.hub.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
				client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, barred, text)))).To(Succeed())
		}
		mark(`"true"`)
		setAllowed := func(ctx context.Context, s *metav1.LabelSelector) {
			GinkgoHelper()
			var mc fleetv1alpha1.MemberCluster
			soon(ctx, func(g Gomega) {
				g.Expect(shared.hub.Get(ctx, types.NamespacedName{Name: "north"}, &mc)).To(Succeed())
				mc.Spec.AllowedNamespaces = s
				g.Expect(shared.hub.Update(ctx, &mc)).To(Succeed())
			})
			// The hub has seen it when its status is of this generation.
			soon(ctx, func(g Gomega) {
				var now fleetv1alpha1.MemberCluster
				g.Expect(shared.hub.Get(ctx, types.NamespacedName{Name: "north"}, &now)).To(Succeed())
				g.Expect(now.Status.ObservedGeneration).To(BeNumerically(">=", mc.Generation))
			})
		}
		var was fleetv1alpha1.MemberCluster
		Expect(shared.hub.Get(ctx, types.NamespacedName{Name: "north"}, &was)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { setAllowed(ctx, was.Spec.AllowedNamespaces) })
		setAllowed(ctx, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: barred, Operator: metav1.LabelSelectorOpDoesNotExist},
		}})
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
		mark("null")
		shared.ready(ctx, u, 2)
	})
})

var _ = Describe("A deleted UnitedDeployment", func() {
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
		Expect(shared.deletes("east", mark, ns)).To(BeEmpty())
	})
})

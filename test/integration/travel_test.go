//go:build lab

package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// travelling is the metadata of an object that asks for the members with a namespace's tier.
func travelling(ns, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: ns, Name: name, Labels: map[string]string{appsv1alpha1.LabelPropagate: "true", "team": "bags"},
		Annotations: map[string]string{appsv1alpha1.AnnotationClusters: tier(ns)},
	}
}

func web(ns string) *corev1.Service {
	return &corev1.Service{ObjectMeta: travelling(ns, "web"), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
}

// noted waits for an event about an object of the hub.
func (w *world) noted(ctx context.Context, ns, name, text string) {
	GinkgoHelper()
	soon(ctx, func(g Gomega) {
		var list corev1.EventList
		g.Expect(w.hub.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
		notes := []string{}
		for i := range list.Items {
			if list.Items[i].InvolvedObject.Name == name {
				notes = append(notes, list.Items[i].Message)
			}
		}
		g.Expect(notes).To(ContainElement(ContainSubstring(text)))
	})
}

// mayPropagate gives the hub's account on a member the rights to a kind of --propagate-kinds, as docs/content.md has it.
func mayPropagate(ctx context.Context, at client.Client, ns string) {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "underway-hub-propagate-" + ns}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"},
		Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
	}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: appsv1alpha1.SystemNamespace, Name: "underway-hub"}},
	}
	Expect(at.Create(ctx, role)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(at.Delete(ctx, role))).To(Succeed()) })
	Expect(at.Create(ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(at.Delete(ctx, binding))).To(Succeed()) })
}

var _ = Describe("what travels by label", SpecPriority(1), func() {
	It("reaches the members that are selected, follows, leaves them alone where it must, and is taken back", func(ctx context.Context) {
		w := shared
		ns := w.namespace(ctx)
		key := types.NamespacedName{Namespace: ns, Name: "web"}
		for _, member := range []string{"east", "west", "north"} {
			w.label(ctx, member, ns, true)
			DeferCleanup(func(ctx context.Context) { w.label(ctx, member, ns, false) })
		}

		By("somebody has a Service of that name on north already")
		Expect(w.at["north"].Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})).To(Succeed())
		foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "other"}, Ports: []corev1.ServicePort{{Name: "http", Port: 8080}},
		}}
		Expect(w.at["north"].Create(ctx, foreign)).To(Succeed())

		svc := web(ns)
		Expect(w.hub.Create(ctx, svc)).To(Succeed())
		has := func(member string, check func(g Gomega, got *corev1.Service)) corev1.Service {
			GinkgoHelper()
			var got corev1.Service
			soon(ctx, func(g Gomega) {
				got = corev1.Service{}
				g.Expect(w.at[member].Get(ctx, key, &got)).To(Succeed())
				g.Expect(got.Labels).To(HaveKey(appsv1alpha1.LabelHub))
				check(g, &got)
			})
			return got
		}
		gone := func(member string) {
			GinkgoHelper()
			soon(ctx, func(g Gomega) {
				g.Expect(apierrors.IsNotFound(w.at[member].Get(ctx, key, &corev1.Service{}))).To(BeTrue(), member)
			})
		}
		first := map[string]corev1.Service{}
		for _, member := range []string{"east", "west"} {
			first[member] = has(member, func(g Gomega, got *corev1.Service) { g.Expect(got.Spec.Selector).To(Equal(svc.Spec.Selector)) })
			Expect(first[member].Labels).To(HaveKeyWithValue("team", "bags"))
			Expect(first[member].Labels).NotTo(HaveKey(appsv1alpha1.LabelPropagate))
			Expect(first[member].Annotations).To(HaveKey(appsv1alpha1.AnnotationOwnerPrefix + string(svc.UID)))
			Expect(first[member].Spec.ClusterIP).NotTo(BeEmpty())
		}
		w.noted(ctx, ns, "web", "On 2 of 3 members; north: Conflict: Service "+ns+"/web is not touched")
		w.noted(ctx, ns, "web", "taking it over would change")

		By("following a change, with each member's own addresses and ports")
		Expect(w.hub.Patch(ctx, web(ns), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"selector":{"app":"web2"}}}`)))).To(Succeed())
		for member, was := range first {
			got := has(member, func(g Gomega, got *corev1.Service) {
				g.Expect(got.Spec.Selector).To(Equal(map[string]string{"app": "web2"}))
			})
			Expect(got.UID).To(Equal(was.UID))
			Expect(got.Spec.ClusterIP).To(Equal(was.Spec.ClusterIP))
			Expect(got.Spec.Ports).To(Equal(was.Spec.Ports))
		}

		By("taking back what somebody writes over it")
		Expect(w.at["east"].Patch(ctx, web(ns), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"selector":{"app":"mine"}}}`)))).To(Succeed())
		has("east", func(g Gomega, got *corev1.Service) {
			g.Expect(got.Spec.Selector).To(Equal(map[string]string{"app": "web2"}))
		})
		w.noted(ctx, ns, "web", "Took back in member east: spec.selector")

		By("leaving a member that is relabelled")
		w.label(ctx, "west", ns, false)
		gone("west")
		has("east", func(g Gomega, got *corev1.Service) { g.Expect(got.UID).To(Equal(first["east"].UID)) })

		By("waiting for a person when all are left at once")
		w.label(ctx, "north", ns, false)
		w.label(ctx, "east", ns, false)
		w.noted(ctx, ns, "web", "RemovalHeld")
		has("east", func(g Gomega, got *corev1.Service) { g.Expect(got.DeletionTimestamp).To(BeNil()) })
		w.label(ctx, "east", ns, true)
		w.label(ctx, "north", ns, true)

		By("a kind that the hub was told of, once it has the right")
		policy := &networkingv1.NetworkPolicy{ObjectMeta: travelling(ns, "calm"), Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		}}
		Expect(w.hub.Create(ctx, policy)).To(Succeed())
		w.noted(ctx, ns, "calm", "east")
		mayPropagate(ctx, w.at["east"], ns)
		soon(ctx, func(g Gomega) {
			g.Expect(w.at["east"].Get(ctx, client.ObjectKeyFromObject(policy), &networkingv1.NetworkPolicy{})).To(Succeed())
		})

		By("going with the hub's object, and nothing else with it")
		Expect(w.hub.Delete(ctx, web(ns))).To(Succeed())
		gone("east")
		soon(ctx, func(g Gomega) {
			g.Expect(apierrors.IsNotFound(w.hub.Get(ctx, key, &corev1.Service{}))).To(BeTrue())
		})
		var left corev1.Service
		Expect(w.at["north"].Get(ctx, key, &left)).To(Succeed())
		Expect(left.UID).To(Equal(foreign.UID))
		Expect(left.ResourceVersion).To(Equal(foreign.ResourceVersion), "nobody wrote to it")

		By("staying where its label is taken off with the mark of something managed elsewhere")
		Expect(w.hub.Patch(ctx, policy, client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"fleet.underway.dev/propagate":"false"}}}`)))).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			var got networkingv1.NetworkPolicy
			g.Expect(w.at["east"].Get(ctx, client.ObjectKeyFromObject(policy), &got)).To(Succeed())
			g.Expect(got.Annotations).To(HaveKey(appsv1alpha1.AnnotationOrphaned))
			g.Expect(got.Annotations).NotTo(HaveKey(appsv1alpha1.AnnotationOwnerPrefix + string(policy.UID)))
		}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
	})
})

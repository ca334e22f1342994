//go:build lab

package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// Kubernetes' own kinds need nothing of ours in the member: no agent, and no CRD.
var _ = Describe("A member with nothing of ours", Ordered, func() {
	const bare = "bare"
	var (
		fleet *lab.Fleet
		c     client.WithWatch
	)

	BeforeAll(func(ctx context.Context) {
		var err error
		fleet, err = lab.Start(ctx, lab.Options{HubNodes: 2, Audit: true, Log: GinkgoWriter})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(fleet.Stop()).To(Succeed()) })
		c = shared.client(fleet.Hub())
		shared.kubectl(ctx, "join", bare, "--kubeconfig", fleet.Hub().Kubeconfig(), "--all-namespaces", "--no-agent")
		DeferCleanup(func(ctx context.Context) {
			mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: bare}}
			Expect(shared.hub.Delete(ctx, mc)).To(Succeed())
		})
		Expect(c.DeleteAllOf(ctx, &apiextensionsv1.CustomResourceDefinition{}, client.MatchingLabels{"app.kubernetes.io/part-of": "underway"})).To(Succeed())
		soon(ctx, func(g Gomega) {
			var crds apiextensionsv1.CustomResourceDefinitionList
			g.Expect(c.List(ctx, &crds)).To(Succeed())
			g.Expect(crds.Items).To(BeEmpty())
		})
	})

	It("is released to by partitions with Kubernetes' StatefulSet, and whole with its Deployment", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		set := shared.create(ctx, native.yaml("set", ns, v1, `{bare: 1, east: 1}`, "bare:3", "east:1"))
		dep := shared.create(ctx, deploy.yaml("dep", ns, v1, `{bare: 1}`, "bare:2"))
		DeferCleanup(func(ctx context.Context) {
			for _, u := range []*appsv1alpha1.UnitedDeployment{set, dep} {
				Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed())
				soon(ctx, func(g Gomega) {
					g.Expect(apierrors.IsNotFound(shared.hub.Get(ctx, client.ObjectKeyFromObject(u), u))).To(BeTrue())
				})
			}
			// The member's own garbage collector takes the pods of a Deployment, in its own time.
			soon(ctx, func(g Gomega) { g.Expect(pods(ctx, c, ns)).To(BeEmpty()) })
		})
		shared.ready(ctx, set, 4)
		shared.ready(ctx, dep, 2)
		Expect(c.Get(ctx, types.NamespacedName{Namespace: appsv1alpha1.SystemNamespace, Name: "underway-member"}, &coordinationv1.Lease{})).NotTo(Succeed())

		native.release(ctx, set, v2)
		deploy.release(ctx, dep, v2)
		shared.updated(ctx, set, 2)
		shared.status(ctx, dep, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, bare).Message).To(ContainSubstring("held whole"))
		})
		Expect(at(only(ctx, c, nativeSet, ns), native.place...)).To(BeEquivalentTo(1))
		Expect(at(only(ctx, c, deployment, ns), "spec", "template", "spec", "containers")).To(ConsistOf(HaveKeyWithValue("image", v1)))
		shared.setPartitions(ctx, set, `{bare: 0, east: 0}`)
		shared.setPartitions(ctx, dep, `{bare: 0}`)
		shared.updated(ctx, set, 4)
		shared.updated(ctx, dep, 2)
		native.release(ctx, set, v1)
		deploy.release(ctx, dep, v1)
		soon(ctx, func(g Gomega) { g.Expect(running(pods(ctx, c, ns), v1)).To(Equal(5)) })
		shared.ready(ctx, set, 4)
		shared.ready(ctx, dep, 2)
	})

	It("is said to serve no CloneSets, with the command that changes it", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		u := shared.create(ctx, flatCloneSet.yaml("web", ns, v1, `{bare: 0, east: 0}`, "bare:1", "east:1"))
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed()) })
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, bare).State).To(Equal("NotServed"))
			g.Expect(subsetOf(u, bare).Message).To(ContainSubstring("kubectl underway join bare --upgrade"))
			g.Expect(subsetOf(u, "east").State).To(Equal("Current"))
		})
	})
})

//go:build lab

package integration

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/test/lab"
)

// mark is the present end of a cluster's audit log.
func (w *world) mark(cluster string) lab.Mark {
	GinkgoHelper()
	c := w.fleet.Hub()
	if cluster != lab.HubName {
		c = w.fleet.Member(cluster)
	}
	m, err := c.Mark()
	Expect(err).NotTo(HaveOccurred())
	return m
}

// holder is the hub that leads; every start of it has another name.
func (w *world) holder(ctx context.Context) string {
	GinkgoHelper()
	w.leading(ctx)
	lease := leaseOf("underway-hub")
	Expect(w.hub.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
	return *lease.Spec.HolderIdentity
}

// leading waits until a hub holds the leader Lease.
func (w *world) leading(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		var lease coordinationv1.Lease
		g.Expect(w.hub.Get(ctx, client.ObjectKeyFromObject(leaseOf("underway-hub")), &lease)).To(Succeed())
		g.Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
		g.Expect(*lease.Spec.HolderIdentity).NotTo(BeEmpty())
		g.Expect(lease.Spec.RenewTime.Time).To(BeTemporally(">", time.Now().Add(-20*time.Second)))
	}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
}

// quiet waits until the hub has written nothing to some clusters for a while, Leases apart: what comes after is due to what
// comes after. An empty namespace means all; on the hub itself events do not count.
func (w *world) quiet(ctx context.Context, ns string, clusters ...string) {
	GinkgoHelper()
	still := 2 * time.Second
	busy := func(cluster string, mark lab.Mark) []string { return w.hubWrites(cluster, mark, ns) }
	for _, name := range clusters {
		if name == lab.HubName {
			still, busy = 4*time.Second, func(_ string, mark lab.Mark) []string { return w.writesHome(mark) }
		}
		mark, since := w.mark(name), time.Now()
		Eventually(ctx, func(g Gomega) {
			if len(busy(name, mark)) > 0 {
				mark, since = w.mark(name), time.Now()
			}
			g.Expect(time.Since(since)).To(BeNumerically(">", still))
		}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
	}
}

// writesHome are the hub's writes to its own cluster since a mark, without Leases, events and what only asks.
func (w *world) writesHome(mark lab.Mark) []string {
	GinkgoHelper()
	events, err := w.fleet.Hub().Since(mark, lab.Writes, lab.ByUserAgent("underway-hub"))
	Expect(err).NotTo(HaveOccurred())
	var out []string
	for _, e := range events {
		if slices.Contains([]string{"leases", "events", "selfsubjectaccessreviews"}, e.ObjectRef.Resource) {
			continue
		}
		out = append(out, fmt.Sprintf("%s %s %s/%s", e.Verb, e.Resource(), e.ObjectRef.Namespace, e.ObjectRef.Name))
	}
	return out
}

// loosenCRD plays a UnitedDeployment CRD without our rules: every schema keeps whatever comes. It waits until a partition
// that nobody can read is taken for an object.
func (w *world) loosenCRD(ctx context.Context, u *appsv1alpha1.UnitedDeployment) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		var crd apiextensionsv1.CustomResourceDefinition
		g.Expect(w.hub.Get(ctx, types.NamespacedName{Name: "uniteddeployments.apps.kruise.io"}, &crd)).To(Succeed())
		for i := range crd.Spec.Versions {
			spec := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
			// `cluster` stays in sight: without it the hub would rightly leave the kind alone.
			spec.XValidations = nil
			strategy := spec.Properties["updateStrategy"]
			strategy.XValidations = nil
			strategy.Properties = nil
			strategy.XPreserveUnknownFields = new(true)
			spec.Properties["updateStrategy"] = strategy
			crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		}
		g.Expect(w.hub.Update(ctx, &crd)).To(Succeed())
	}).WithTimeout(patience).Should(Succeed())
	Eventually(ctx, func() error {
		bad := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"east":"abc"}}}}}`))
		return w.hub.Patch(ctx, u.DeepCopy(), bad, client.DryRunAll)
	}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
}

// installBehindTheHubsBack puts CRDs and the install namespace on a cluster, so that nothing but the identity keeps the
// hub away.
func (w *world) installBehindTheHubsBack(ctx context.Context, member string) {
	GinkgoHelper()
	c := w.client(w.fleet.Member(member))
	crds, err := config.MemberCRDs()
	Expect(err).NotTo(HaveOccurred())
	for _, crd := range crds {
		Expect(client.IgnoreAlreadyExists(c.Create(ctx, crd))).To(Succeed())
	}
	// The agent, which is that cluster's own affair, may have been quicker.
	err = c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: appsv1alpha1.SystemNamespace}})
	Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
}

// giveHubAdminOf replaces the hub's credential for a member by an administrator's, which another cluster at the same
// address accepts as well: the worst case. It waits until the hub uses it.
func (w *world) giveHubAdminOf(ctx context.Context, member string) {
	GinkgoHelper()
	raw, err := os.ReadFile(w.fleet.Member(member).Kubeconfig())
	Expect(err).NotTo(HaveOccurred())
	var mc fleetv1alpha1.MemberCluster
	Expect(w.hub.Get(ctx, types.NamespacedName{Name: member}, &mc)).To(Succeed())
	var secret corev1.Secret
	Expect(w.hub.Get(ctx, types.NamespacedName{Namespace: appsv1alpha1.SystemNamespace, Name: mc.Spec.KubeconfigSecretRef.Name}, &secret)).To(Succeed())
	Expect(secret.Data).To(HaveKey("kubeconfig"))
	mark := w.mark(member)
	before := client.MergeFrom(secret.DeepCopy())
	secret.Data["kubeconfig"] = raw
	Expect(w.hub.Patch(ctx, &secret, before)).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		events, err := w.fleet.Member(member).Since(mark, lab.ByUserAgent("underway-hub"), lab.ByUser("admin"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(events).NotTo(BeEmpty())
	}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
	w.memberReady(ctx, member, metav1.ConditionTrue)
}

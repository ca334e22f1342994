//go:build lab

package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// twoHubs plays two hubs that know nothing of each other on one member: north, a member of the first hub, becomes a hub of its
// own, and east a member of both. Nobody is copied, so nobody has to stop.
func twoHubs(ctx context.Context, w *world) {
	ns, east, north := w.namespace(ctx), w.fleet.Member("east").Kubeconfig(), w.fleet.Member("north").Kubeconfig()
	w.kubectl(ctx, "init", "--kubeconfig", north)
	other := &world{fleet: w.fleet, bin: w.bin, hub: w.at["north"], at: w.at}
	run := w.serve(ctx, "underway-hub", north, "--leader-elect-lease-duration", "60s", "--leader-elect-renew-deadline", "45s")
	DeferCleanup(run.end)
	w.kubectl(ctx, "join", "east", "--kubeconfig", east, "--hub-kubeconfig", north, "--all-namespaces", "--no-agent")
	other.memberReady(ctx, "east", metav1.ConditionTrue)
	w.memberReady(ctx, "east", metav1.ConditionTrue)
	w.memberReady(ctx, "north", metav1.ConditionTrue)

	for hub, says := range map[client.Client]string{w.hub: "first", other.hub: "second"} {
		Expect(client.IgnoreAlreadyExists(hub.Create(ctx, &corev1.Namespace{ObjectMeta: objectMeta("", ns)}))).To(Succeed())
		Expect(hub.Create(ctx, &corev1.ConfigMap{ObjectMeta: objectMeta(ns, "settings"), Data: map[string]string{"hub": says}})).To(Succeed())
	}
	const settings = `            volumes: [{name: a, configMap: {name: settings}}]`
	on := func(name, image, extra string) string {
		return united{name: name, ns: ns, image: image, subsets: []string{"east:2"}, partitions: "{east: 0}", extra: extra}.yaml()
	}

	By("the first hub's object, and the second one's of the same name")
	same, stays := w.create(ctx, on("same", v1, settings)), w.create(ctx, on("stays", v1, ""))
	w.ready(ctx, same, 2)
	w.ready(ctx, stays, 2)
	before := identities(pods(ctx, w.at["east"], ns))
	second := other.create(ctx, on("same", v2, ""))
	inTheWay := func(u *appsv1alpha1.UnitedDeployment, kind string) {
		GinkgoHelper()
		other.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "east").Message).To(ContainSubstring("belongs to hub "))
			if kind != "" {
				g.Expect(condition(u, kind).Status).To(Equal(metav1.ConditionTrue))
				g.Expect(condition(u, kind).Message).To(ContainSubstring("belongs to hub "))
			}
		})
	}
	inTheWay(second, appsv1alpha1.ConditionConflict)

	By("each with objects of its own beside them, and content of one name")
	own, bags := other.create(ctx, on("own", v3, "")), other.create(ctx, on("bags", v3, settings))
	other.ready(ctx, own, 2)
	inTheWay(bags, "")
	w.setImage(ctx, same, "app:v4")
	w.updated(ctx, same, 2)
	after := identities(pods(ctx, w.at["east"], ns))
	for name, pod := range before {
		Expect(after).To(HaveKeyWithValue(name, pod))
	}
	var cm corev1.ConfigMap
	Expect(w.at["east"].Get(ctx, client.ObjectKey{Namespace: ns, Name: "settings"}, &cm)).To(Succeed())
	Expect(cm.Data).To(HaveKeyWithValue("hub", "first"))

	By("the second one's coming when the first one's has gone")
	Expect(w.hub.Delete(ctx, same)).To(Succeed())
	other.ready(ctx, second, 2)
	other.ready(ctx, bags, 2)
	soon(ctx, func(g Gomega) {
		g.Expect(w.at["east"].Get(ctx, client.ObjectKey{Namespace: ns, Name: "settings"}, &cm)).To(Succeed())
		g.Expect(cm.Data).To(HaveKeyWithValue("hub", "second"))
	})
	Expect(running(pods(ctx, w.at["east"], ns), v1)).To(Equal(2), "those of the first hub's other object")

	By("the second hub leaving: the first one goes on there")
	for _, u := range []*appsv1alpha1.UnitedDeployment{second, own, bags} {
		Expect(other.hub.Delete(ctx, u)).To(Succeed())
	}
	soon(ctx, func(g Gomega) {
		var list appsv1alpha1.UnitedDeploymentList
		g.Expect(other.hub.List(ctx, &list)).To(Succeed())
		g.Expect(list.Items).To(BeEmpty())
	})
	said := w.kubectl(ctx, "unjoin", "east", "--kubeconfig", east, "--hub-kubeconfig", north)
	Expect(said).To(ContainSubstring("another hub uses this member too"))
	run.end()
	w.setImage(ctx, stays, v2)
	w.updated(ctx, stays, 2)
	w.memberReady(ctx, "east", metav1.ConditionTrue)
	Expect(w.hub.Delete(ctx, stays)).To(Succeed())
}

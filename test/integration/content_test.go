//go:build lab

package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// travelsAlong plays the content of one UnitedDeployment: it comes before the pods, follows the grant, waits where it is missing
// and goes with its owner. It restarts the hub.
func travelsAlong(ctx context.Context, w *world) {
	ns := w.namespace(ctx)
	object := metav1.ObjectMeta{Namespace: ns, Name: "settings", Annotations: map[string]string{"note": "kept"}}
	Expect(w.hub.Create(ctx, &corev1.ConfigMap{ObjectMeta: object, Data: map[string]string{"version": "1"}})).To(Succeed())
	Expect(w.hub.Create(ctx, &corev1.Secret{ObjectMeta: object, Data: map[string][]byte{"k": []byte("v")}})).To(Succeed())
	Expect(w.hub.Create(ctx, &corev1.ServiceAccount{ObjectMeta: object, Secrets: []corev1.ObjectReference{{Name: "token"}}})).To(Succeed())
	key := types.NamespacedName{Namespace: ns, Name: "settings"}
	edit := func(version string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"version":"`+version+`"}}`))
		Expect(w.hub.Patch(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings"}}, patch)).To(Succeed())
	}
	has := func(member, version string) {
		GinkgoHelper()
		Eventually(ctx, func(g Gomega) {
			var cm corev1.ConfigMap
			g.Expect(w.at[member].Get(ctx, key, &cm)).To(Succeed())
			g.Expect(cm.Data).To(Equal(map[string]string{"version": version}))
		}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
	}

	u := w.create(ctx, united{
		name: "bags", ns: ns, image: "bags:1", subsets: []string{"west:2", "east:1"}, partitions: `{west: 0, east: 0}`,
		extra: `            serviceAccountName: settings
            volumes: [{name: a, configMap: {name: settings}}, {name: b, secret: {secretName: settings}}, {name: c, configMap: {name: nowhere, optional: true}}]`,
	}.yaml())
	w.ready(ctx, u, 3)
	var account corev1.ServiceAccount
	Expect(w.at["west"].Get(ctx, key, &account)).To(Succeed())
	Expect(account.Secrets).To(BeEmpty())
	Expect(account.Annotations).To(HaveKeyWithValue("note", "kept"))
	Expect(account.Annotations).To(HaveKey(appsv1alpha1.AnnotationOwnerPrefix + string(u.UID)))
	has("west", "1")

	By("following a change outside of a release")
	edit("2")
	has("west", "2")
	has("east", "2")

	By("keeping it where a release has not come to")
	w.setPartitions(ctx, u, `{west: 100%, east: 100%}`)
	w.setImage(ctx, u, "bags:2")
	w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		g.Expect(u.Status.ObservedGeneration).To(Equal(u.Generation))
		g.Expect(u.Status.UpdatedRevision).NotTo(Equal(u.Status.CurrentRevision))
	})
	edit("3")
	w.setPartitions(ctx, u, `{west: 0, east: 100%}`)
	w.updated(ctx, u, 2)
	has("west", "3")
	has("east", "2")

	By("writing nothing when the hub restarts")
	before := map[string]string{}
	for _, member := range []string{"west", "east"} {
		var cm corev1.ConfigMap
		Expect(w.at[member].Get(ctx, key, &cm)).To(Succeed())
		before[member] = cm.ResourceVersion
	}
	w.restartHub(ctx)
	w.setPartitions(ctx, u, `{west: 0, east: 1}`) // held all the same
	w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		g.Expect(u.Status.ObservedGeneration).To(Equal(u.Generation))
	})
	time.Sleep(3 * time.Second)
	for member, version := range before {
		var cm corev1.ConfigMap
		Expect(w.at[member].Get(ctx, key, &cm)).To(Succeed())
		Expect(cm.ResourceVersion).To(Equal(version), member)
	}

	By("waiting for what is missing")
	w.setPartitions(ctx, u, `{west: 0, east: 0}`)
	w.updated(ctx, u, 3)
	has("east", "3")
	w.patch(ctx, u, `{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{
		"volumes":[{"name":"a","configMap":{"name":"later"}}],"containers":[{"name":"app","image":"bags:3"}]}}}}}}}`)
	w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		got := subsetOf(u, "west")
		g.Expect(got.State).To(Equal("Waiting"))
		g.Expect(got.Message).To(ContainSubstring("ConfigMap later is not there"))
	})
	Expect(running(pods(ctx, w.at["west"], ns), "bags:2")).To(Equal(2))
	Expect(w.hub.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "later"}})).To(Succeed())
	Eventually(ctx, func() int { return running(pods(ctx, w.at["west"], ns), "bags:3") }).WithTimeout(patience).Should(Equal(2))
	w.updated(ctx, u, 3)
	gone := func(member, name string) {
		GinkgoHelper()
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(w.at[member].Get(ctx, types.NamespacedName{Namespace: ns, Name: name}, &corev1.ConfigMap{}))
		}).WithTimeout(patience).WithPolling(200*time.Millisecond).Should(BeTrue(), "%s on %s", name, member)
	}
	gone("west", "settings") // no template names it any more

	By("going with its owner")
	Expect(w.hub.Delete(ctx, u)).To(Succeed())
	gone("west", "later")
	gone("east", "later")
	Eventually(ctx, func() bool {
		return apierrors.IsNotFound(w.hub.Get(ctx, client.ObjectKeyFromObject(u), &appsv1alpha1.UnitedDeployment{}))
	}).WithTimeout(patience).Should(BeTrue())
}

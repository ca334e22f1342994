//go:build lab

package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

var _ = Describe("a Secret that a template names", func() {
	It("follows a change to the members that are granted, partly granted ones too, and never past a grant", func(ctx context.Context) {
		w := shared
		ns := w.namespace(ctx)
		key := types.NamespacedName{Namespace: ns, Name: "pass"}
		secret := func(word string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: key.Name}, Data: map[string][]byte{"word": []byte(word)}}
		}
		has := func(member, word string) {
			GinkgoHelper()
			soon(ctx, func(g Gomega) {
				var got corev1.Secret
				g.Expect(w.at[member].Get(ctx, key, &got)).To(Succeed())
				g.Expect(string(got.Data["word"])).To(Equal(word), member)
			})
		}
		Expect(w.hub.Create(ctx, secret("one"))).To(Succeed())
		u := w.create(ctx, united{
			name: "bags", ns: ns, image: "bags:1", subsets: []string{"west:2", "east:2"}, partitions: `{west: 0, east: 0}`,
			extra: "            volumes: [{name: pass, secret: {secretName: pass}}]",
		}.yaml())
		w.ready(ctx, u, 4)
		has("west", "one")
		has("east", "one")

		By("a release that has come to nobody, and a change meanwhile")
		w.setPartitions(ctx, u, `{west: 100%, east: 100%}`)
		w.setImage(ctx, u, "bags:2")
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.ObservedGeneration).To(Equal(u.Generation))
			g.Expect(u.Status.UpdatedRevision).NotTo(Equal(u.Status.CurrentRevision))
		})
		Expect(w.hub.Update(ctx, secret("two"))).To(Succeed())

		By("a grant of one pod of two")
		w.setPartitions(ctx, u, `{west: 1, east: 100%}`)
		w.updated(ctx, u, 1)
		has("west", "two") // so the hub has seen the change
		w.quiet(ctx, ns, "west", "east")
		var kept corev1.Secret
		Expect(w.at["east"].Get(ctx, key, &kept)).To(Succeed())
		Expect(string(kept.Data["word"])).To(Equal("one"), "no pod of east is granted")

		By("the rest")
		w.setPartitions(ctx, u, `{west: 0, east: 0}`)
		w.updated(ctx, u, 4)
		has("west", "two")
		has("east", "two")
	})
})

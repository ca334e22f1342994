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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// adaptiveYAML is a UnitedDeployment of type Adaptive over east, west and north.
func adaptiveYAML(name, ns, kind string, replicas int, adaptive string, subsets ...string) string {
	return fmt.Sprintf(`apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    %[4]sTemplate:
      metadata: {labels: {app: %[1]s}}
      spec:
        selector: {matchLabels: {app: %[1]s}}
        template:
          metadata: {labels: {app: %[1]s}}
          spec:
            terminationGracePeriodSeconds: 1
            containers: [{name: app, image: "web:1"}]
  topology:
    scheduleStrategy: {type: Adaptive, adaptive: %[5]s}
    subsets:
    - %[6]s
  updateStrategy: {manualUpdate: {partition: 0}}
`, name, ns, replicas, kind, adaptive, strings.Join(subsets, "\n    - "))
}

// cordon makes every node of a member unschedulable, or schedulable again.
func (w *world) cordon(ctx context.Context, member string, cordoned bool) {
	GinkgoHelper()
	var nodes corev1.NodeList
	Expect(w.at[member].List(ctx, &nodes)).To(Succeed())
	Expect(nodes.Items).NotTo(BeEmpty())
	for i := range nodes.Items {
		n := &nodes.Items[i]
		patch := client.MergeFrom(n.DeepCopy())
		n.Spec.Unschedulable = cordoned
		Expect(w.at[member].Patch(ctx, n, patch)).To(Succeed())
	}
}

// allotted waits until the subsets, in the order of the spec, have so many replicas, all ready.
func (w *world) allotted(ctx context.Context, u *appsv1alpha1.UnitedDeployment, replicas ...int32) {
	GinkgoHelper()
	w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		var desired, ready []int32
		for _, s := range u.Spec.Topology.Subsets {
			e := subsetOf(u, s.Name)
			desired, ready = append(desired, e.DesiredReplicas), append(ready, e.ReadyReplicas)
		}
		g.Expect(desired).To(Equal(replicas))
		g.Expect(ready).To(Equal(replicas))
	})
}

// neverLess watches the ready replicas of an object, as members report them, until the returned function is called.
func (w *world) neverLess(ctx context.Context, u *appsv1alpha1.UnitedDeployment, n int32) (stop func()) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan []string, 1)
	go func() {
		var seen []string
		for ctx.Err() == nil {
			var now appsv1alpha1.UnitedDeployment
			if err := w.hub.Get(ctx, client.ObjectKeyFromObject(u), &now); err == nil && now.Status.ReadyReplicas < n {
				seen = append(seen, fmt.Sprintf("%d ready, allotted %v", now.Status.ReadyReplicas, now.Status.SubsetReplicas))
			}
			time.Sleep(50 * time.Millisecond)
		}
		done <- seen
	}()
	return func() {
		GinkgoHelper()
		cancel()
		Expect(<-done).To(BeEmpty())
	}
}

var _ = Describe("Allocation", func() {
	It("B049 moves replicas away from a member that cannot place them, and back", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		DeferCleanup(func(ctx context.Context) { shared.cordon(ctx, "west", false) })
		shared.cordon(ctx, "west", true)
		u := shared.create(ctx, adaptiveYAML("b049", ns, "cloneSet", 5, "{rescheduleCriticalSeconds: 5, unschedulableDuration: 30}",
			"{name: a, cluster: east, maxReplicas: 2}", "{name: b, cluster: west, maxReplicas: 2}", "{name: c, cluster: north}"))
		shared.allotted(ctx, u, 2, 0, 3)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			entry := subsetOf(u, "b")
			mark := meta.FindStatusCondition(entry.Conditions, appsv1alpha1.ConditionSchedulable)
			g.Expect(mark).NotTo(BeNil())
			g.Expect(mark.Status).To(Equal(metav1.ConditionFalse))
			g.Expect(condition(u, appsv1alpha1.ConditionAllocation).Message).To(ContainSubstring("others stand in for subset b"))
		})
		enough := shared.neverLess(ctx, u, 5)
		shared.cordon(ctx, "west", false)
		shared.allotted(ctx, u, 2, 2, 1)
		enough()
	})

	It("moves the replicas of a Deployment, too, when its member is full", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		DeferCleanup(func(ctx context.Context) { shared.cordon(ctx, "east", false) })
		u := shared.create(ctx, adaptiveYAML("full", ns, "deployment", 4, "{rescheduleCriticalSeconds: 3, unschedulableDuration: 600}",
			"{name: a, cluster: east, maxReplicas: 6}", "{name: b, cluster: west}"))
		shared.allotted(ctx, u, 4, 0)
		shared.cordon(ctx, "east", true)
		shared.patch(ctx, u, `{"spec":{"replicas":7}}`)
		shared.allotted(ctx, u, 4, 3)
	})

	It("N9 stands in for a member that is out of reach only where that was asked for, and gives back", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		moves := shared.create(ctx, adaptiveYAML("moves", ns, "cloneSet", 6, "{unreachableSeconds: 5, unschedulableDuration: 20}",
			"{name: a, cluster: east, maxReplicas: 3}", "{name: b, cluster: north}"))
		stays := shared.create(ctx, adaptiveYAML("stays", ns, "cloneSet", 6, "{}",
			"{name: a, cluster: east, maxReplicas: 3}", "{name: b, cluster: north}"))
		shared.allotted(ctx, moves, 3, 3)
		shared.allotted(ctx, stays, 3, 3)
		east := shared.fleet.Member("east")
		DeferCleanup(func(ctx context.Context) { Expect(east.Start(ctx)).To(Succeed()) })
		Expect(east.Stop(lab.APIServer)).To(Succeed())
		shared.status(ctx, moves, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "a").DesiredReplicas).To(Equal(int32(3)))
			g.Expect(subsetOf(u, "a").Stale).To(BeTrue())
			g.Expect(subsetOf(u, "b").ReadyReplicas).To(Equal(int32(6)))
		})
		shared.status(ctx, stays, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "a").Stale).To(BeTrue())
			g.Expect(subsetOf(u, "a").ReadyReplicas).To(Equal(int32(3)))
			g.Expect(subsetOf(u, "b").DesiredReplicas).To(Equal(int32(3)))
		})
		Expect(east.Start(ctx)).To(Succeed())
		shared.memberReady(ctx, "east", metav1.ConditionTrue)
		enough := shared.neverLess(ctx, moves, 6)
		shared.allotted(ctx, moves, 3, 3)
		enough()
	})

	It("M021 fills bounds in order, in the hub's own cluster, and refuses what contradicts itself", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		u := shared.create(ctx, fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: render, namespace: %s}
spec:
  replicas: 12
  selector: {matchLabels: {app: render}}
  template:
    deploymentTemplate:
      metadata: {labels: {app: render}}
      spec:
        selector: {matchLabels: {app: render}}
        template:
          metadata: {labels: {app: render}}
          spec:
            containers: [{name: r, image: "render:1"}]
  topology:
    subsets:
    - {name: fixed, minReplicas: 4, maxReplicas: 6}
    - {name: spot, minReplicas: "25%%", maxReplicas: "25%%"}
    - {name: burst}
`, ns))
		shared.allotted(ctx, u, 6, 3, 3)
		shared.scale(ctx, u, 5)
		shared.allotted(ctx, u, 4, 1, 0)

		Expect(shared.hub.Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
		closed := u.DeepCopy()
		closed.Spec.Topology.Subsets[2].MaxReplicas = new(intstr.FromInt32(9))
		Expect(shared.hub.Update(ctx, closed)).To(MatchError(ContainSubstring("must leave maxReplicas out")))
		mixed := u.DeepCopy()
		mixed.Spec.Topology.Subsets[2].Replicas = new(intstr.FromInt32(1))
		Expect(shared.hub.Update(ctx, mixed)).To(MatchError(ContainSubstring("cannot be mixed")))
	})
})

// scale writes the scale subresource, as kubectl scale and autoscalers do.
func (w *world) scale(ctx context.Context, u *appsv1alpha1.UnitedDeployment, n int32) {
	GinkgoHelper()
	s := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	Expect(w.hub.SubResource("scale").Update(ctx, u, client.WithSubResourceBody(s))).To(Succeed())
}

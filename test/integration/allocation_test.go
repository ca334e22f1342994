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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// adaptiveYAML is a UnitedDeployment of type Adaptive over east, west and north. Its pods go to nodes with the label room.
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
            nodeSelector: {%[7]s: yours}
            containers: [{name: app, image: "web:1"}]
  topology:
    scheduleStrategy: {type: Adaptive, adaptive: %[5]s}
    subsets:
    - %[6]s
  updateStrategy: {manualUpdate: {partition: 0}}
`, name, ns, replicas, kind, adaptive, strings.Join(subsets, "\n    - "), room(ns))
}

// room is the label of the nodes that have room for the pods of one test: it may make a member full for them, and for nobody
// else.
func room(ns string) string { return "test.underway.dev/room-" + ns }

// roomy gives every node of some members room for the pods of a namespace, or takes it; those that are there stay.
func (w *world) roomy(ctx context.Context, ns string, yes bool, members ...string) {
	GinkgoHelper()
	text := "null"
	if yes {
		text = `"yours"`
	}
	for _, m := range members {
		var nodes corev1.NodeList
		Expect(w.at[m].List(ctx, &nodes)).To(Succeed())
		Expect(nodes.Items).NotTo(BeEmpty())
		for i := range nodes.Items {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, room(ns), text)
			Expect(w.at[m].Patch(ctx, &nodes.Items[i], client.RawPatch(types.MergePatchType, patch))).To(Succeed())
		}
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

// They wait for marks to wear off: they begin early.
var _ = Describe("Allocation", SpecPriority(1), func() {
	It("B049 moves replicas away from a member that cannot place them, and back", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		shared.roomy(ctx, ns, true, "east", "north")
		u := shared.create(ctx, adaptiveYAML("b049", ns, "cloneSet", 5, "{rescheduleCriticalSeconds: 8, unschedulableDuration: 30}",
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
		shared.roomy(ctx, ns, true, "west")
		shared.allotted(ctx, u, 2, 2, 1)
		enough()
	})

	It("moves the replicas of a Deployment, too, when its member is full", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		shared.roomy(ctx, ns, true, "east", "west")
		// A mark stays: the scheduler of a busy machine has its time, too.
		u := shared.create(ctx, adaptiveYAML("full", ns, "deployment", 4, "{rescheduleCriticalSeconds: 15, unschedulableDuration: 600}",
			"{name: a, cluster: east, maxReplicas: 6}", "{name: b, cluster: west}"))
		shared.allotted(ctx, u, 4, 0)
		shared.roomy(ctx, ns, false, "east")
		shared.patch(ctx, u, `{"spec":{"replicas":7}}`)
		shared.allotted(ctx, u, 4, 3)
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

		refused := func(why string, edit func(last *appsv1alpha1.Subset)) {
			GinkgoHelper()
			soon(ctx, func(g Gomega) { // again after a conflict
				g.Expect(shared.hub.Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
				edit(&u.Spec.Topology.Subsets[2])
				g.Expect(shared.hub.Update(ctx, u)).To(MatchError(ContainSubstring(why)))
			})
		}
		refused("must leave maxReplicas out", func(s *appsv1alpha1.Subset) { s.MaxReplicas = new(intstr.FromInt32(9)) })
		refused("cannot be mixed", func(s *appsv1alpha1.Subset) { s.Replicas = new(intstr.FromInt32(1)) })
	})
})

// scale writes the scale subresource, as kubectl scale and autoscalers do.
func (w *world) scale(ctx context.Context, u *appsv1alpha1.UnitedDeployment, n int32) {
	GinkgoHelper()
	s := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	Expect(w.hub.SubResource("scale").Update(ctx, u, client.WithSubResourceBody(s))).To(Succeed())
}

//go:build lab

package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// hpaSteps is longer than two periods of the HPA controller.
const hpaSteps = 40 * time.Second

func autoscaler(ns, name string, target autoscalingv2.CrossVersionObjectReference, metric autoscalingv2.MetricSpec) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: target, MinReplicas: new(int32(1)), MaxReplicas: 20, Metrics: []autoscalingv2.MetricSpec{metric},
		},
	}
}

func cpuMetric() autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
	}}
}

// queueMetric wants one replica for every so many of external metric "queue".
func queueMetric(each string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse(each))},
	}}
}

func ofUnited(name string) autoscalingv2.CrossVersionObjectReference {
	return autoscalingv2.CrossVersionObjectReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: "UnitedDeployment", Name: name}
}

// serveQueue serves external metric "queue" in a cluster: a CRD whose lists look like external.metrics.k8s.io's answers.
func serveQueue(ctx context.Context, c client.Client) {
	GinkgoHelper()
	text := func(kind string) apiextensionsv1.JSONSchemaProps { return apiextensionsv1.JSONSchemaProps{Type: kind} }
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "queue.external.metrics.k8s.io",
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, a stand-in of a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "external.metrics.k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "queue", Singular: "queue", Kind: "ExternalMetricValue", ListKind: "ExternalMetricValueList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1beta1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"metricName": text("string"), "timestamp": text("string"), "value": text("string"),
						"metricLabels": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
					},
				}},
			}},
		},
	}
	Expect(client.IgnoreAlreadyExists(c.Create(ctx, crd))).To(Succeed())
}

// queueIs sets the metric.
func queueIs(ctx context.Context, c client.Client, ns, value string) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(schema.GroupVersionKind{Group: "external.metrics.k8s.io", Version: "v1beta1", Kind: "ExternalMetricValue"})
		u.SetNamespace(ns)
		u.SetName("now")
		if err := client.IgnoreNotFound(c.Delete(ctx, u)); err != nil {
			return err
		}
		u.Object["metricName"], u.Object["value"] = "queue", value
		u.Object["metricLabels"] = map[string]any{}
		u.Object["timestamp"] = time.Now().UTC().Format(time.RFC3339)
		u.SetResourceVersion("")
		return c.Create(ctx, u)
	}).WithTimeout(patience).Should(Succeed())
}

func hpaCondition(ctx context.Context, c client.Client, h *autoscalingv2.HorizontalPodAutoscaler, kind autoscalingv2.HorizontalPodAutoscalerConditionType) autoscalingv2.HorizontalPodAutoscalerCondition {
	if err := c.Get(ctx, client.ObjectKeyFromObject(h), h); err != nil {
		return autoscalingv2.HorizontalPodAutoscalerCondition{Message: err.Error()}
	}
	for _, cond := range h.Status.Conditions {
		if cond.Type == kind {
			return cond
		}
	}
	return autoscalingv2.HorizontalPodAutoscalerCondition{}
}

// They wait for what controllers do every 15 s, and for a minute more: they begin early.
var _ = Describe("Autoscalers", SpecPriority(1), func() {
	It("B041 leaves replicas alone while an HPA on the hub object has resource metrics, and follows one with external metrics", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		u := shared.create(ctx, united{name: "b041", ns: ns, image: "web:1", subsets: []string{"east:2", "west:1"}}.yaml())
		shared.ready(ctx, u, 3)
		shared.patch(ctx, u, `{"spec":{"topology":{"subsets":[{"name":"east","cluster":"east"},{"name":"west","cluster":"west"}]}}}`)

		By("the scale subresource being exact")
		var scale autoscalingv1.Scale
		Expect(shared.hub.SubResource("scale").Get(ctx, u, &scale)).To(Succeed())
		Expect(scale.Spec.Replicas).To(Equal(int32(3)))
		Expect(scale.Status.Replicas).To(Equal(int32(3)))
		Expect(scale.Status.Selector).To(Equal("app=b041"))

		By("resource metrics being inactive on the hub, which has no pods")
		cpu := autoscaler(ns, "cpu", ofUnited("b041"), cpuMetric())
		Expect(shared.hub.Create(ctx, cpu)).To(Succeed())
		Eventually(ctx, func() corev1.ConditionStatus {
			return hpaCondition(ctx, shared.hub, cpu, autoscalingv2.ScalingActive).Status
		}).WithTimeout(patience).Should(Equal(corev1.ConditionFalse))
		Consistently(ctx, func(g Gomega) {
			g.Expect(shared.hub.Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
			g.Expect(*u.Spec.Replicas).To(Equal(int32(3)))
			g.Expect(u.Status.Replicas).To(Equal(int32(3)))
			g.Expect(len(pods(ctx, shared.at["east"], ns)) + len(pods(ctx, shared.at["west"], ns))).To(Equal(3))
		}).WithTimeout(hpaSteps).WithPolling(time.Second).Should(Succeed())
		Expect(shared.hub.Delete(ctx, cpu)).To(Succeed())

		By("an external metric scaling the fleet")
		serveQueue(ctx, shared.hub)
		queueIs(ctx, shared.hub, ns, "70")
		queue := autoscaler(ns, "queue", ofUnited("b041"), queueMetric("10"))
		Expect(shared.hub.Create(ctx, queue)).To(Succeed())
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			active := hpaCondition(ctx, shared.hub, queue, autoscalingv2.ScalingActive)
			g.Expect(active.Status).To(Equal(corev1.ConditionTrue), active.Message)
			g.Expect(*u.Spec.Replicas).To(Equal(int32(7)))
			g.Expect(u.Status.ReadyReplicas).To(Equal(int32(7)))
		})
		Expect(shared.hub.Delete(ctx, queue)).To(Succeed())
	})

	It("B043 hands replicas over to a member's HPA, goes on with everything else, and takes them back when it is gone", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		u := shared.create(ctx, united{name: "b043", ns: ns, image: "web:1", subsets: []string{"east:3", "west:2"}}.yaml())
		shared.ready(ctx, u, 5)
		east := shared.at["east"]
		serveQueue(ctx, east)
		queueIs(ctx, east, ns, "50")
		hpa := autoscaler(ns, "queue", autoscalingv2.CrossVersionObjectReference{
			APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: subsetOf(refresh(ctx, u), "east").Workload,
		}, queueMetric("10"))
		Expect(east.Create(ctx, hpa)).To(Succeed())
		replicas := func(g Gomega, want int32) {
			var set appsv1alpha1.CloneSet
			g.Expect(east.Get(ctx, client.ObjectKey{Namespace: ns, Name: hpa.Spec.ScaleTargetRef.Name}, &set)).To(Succeed())
			g.Expect(*set.Spec.Replicas).To(Equal(want))
		}
		Eventually(ctx, func(g Gomega) { replicas(g, 5) }).WithTimeout(patience).Should(Succeed())

		By("the template going on, and the replicas staying")
		shared.setImage(ctx, u, "web:2")
		shared.setPartitions(ctx, u, `{"east":0,"west":0}`)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(running(pods(ctx, east, ns), "web:2")).To(Equal(5))
			g.Expect(condition(u, appsv1alpha1.ConditionConflict).Status).NotTo(Equal(metav1.ConditionTrue))
			g.Expect(subsetOf(u, "east").Message).To(ContainSubstring("scales it to 5"))
			replicas(g, 5)
		})

		By("the hub's number coming back a while after the HPA has gone, and not while it is there")
		Consistently(ctx, func(g Gomega) { replicas(g, 5) }).WithTimeout(10 * time.Second).WithPolling(time.Second).Should(Succeed())
		Expect(east.Delete(ctx, hpa)).To(Succeed())
		Eventually(ctx, func(g Gomega) { replicas(g, 3) }).WithTimeout(2 * patience).Should(Succeed())
		shared.ready(ctx, u, 5)
	})
})

func refresh(ctx context.Context, u *appsv1alpha1.UnitedDeployment) *appsv1alpha1.UnitedDeployment {
	GinkgoHelper()
	Expect(shared.hub.Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
	return u
}

//go:build lab

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

const customMetrics = "/apis/custom.metrics.k8s.io/v1beta2"

// serveHits serves the metric "hits" of every Service by an APIService of the hub, as an adapter of metrics does, until the
// test ends. The value is what the returned number says.
func (w *world) serveHits(ctx context.Context, ns string) *atomic.Int64 {
	GinkgoHelper()
	hits := &atomic.Int64{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		answer := map[string]any{
			"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "custom.metrics.k8s.io/v1beta2",
			"resources": []any{map[string]any{"name": "services/hits", "singularName": "", "namespaced": true, "kind": "MetricValueList", "verbs": []string{"get"}}},
		}
		path := strings.Split(strings.TrimPrefix(in.URL.Path, customMetrics+"/namespaces/"), "/")
		switch {
		case len(path) == 4 && path[1] == "services" && path[3] == "hits":
			answer = map[string]any{
				"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": map[string]any{},
				"items": []any{map[string]any{
					"describedObject": map[string]any{"kind": "Service", "apiVersion": "v1", "namespace": path[0], "name": path[2]},
					"metric":          map[string]any{"name": "hits"}, "timestamp": time.Now().UTC().Format(time.RFC3339), "value": strconv.FormatInt(hits.Load(), 10),
				}},
			}
		case in.URL.Path != customMetrics:
			http.NotFound(out, in)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(answer)
	}))
	DeferCleanup(server.Close)
	at, err := url.Parse(server.URL)
	Expect(err).NotTo(HaveOccurred())
	for _, text := range []string{
		fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: adapter, namespace: %s}, spec: {type: ExternalName, externalName: localhost, ports: [{port: %s}]}}`, ns, at.Port()),
		fmt.Sprintf(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta2.custom.metrics.k8s.io}, spec: {group: custom.metrics.k8s.io,
  version: v1beta2, insecureSkipTLSVerify: true, groupPriorityMinimum: 100, versionPriority: 100, service: {name: adapter, namespace: %s, port: %s}}}`, ns, at.Port()),
	} {
		obj := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(text), &obj.Object)).To(Succeed())
		Expect(w.hub.Create(ctx, obj)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(w.hub.Delete(ctx, obj))).To(Succeed()) })
	}
	return hits
}

// hitsMetric is that of a Service.
func hitsMetric(target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "adapter"},
		Metric:          autoscalingv2.MetricIdentifier{Name: "hits"}, Target: target,
	}}
}

func each(n string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(resource.MustParse(n))}
}

func total(n string) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: new(resource.MustParse(n))}
}

// It waits for what a controller does every 15 s: it begins early.
var _ = Describe("The metrics of an HPA on the hub", SpecPriority(1), func() {
	It("B041 scale by an object's averageValue, and change nothing by a value, of an object or external", func(ctx context.Context) {
		w, ns := shared, shared.namespace(ctx)
		scaled := map[string]*appsv1alpha1.UnitedDeployment{}
		for _, name := range []string{"average", "object", "external"} {
			scaled[name] = w.create(ctx, strings.ReplaceAll(united{name: name, ns: ns, image: v1, subsets: []string{"east:2"}}.yaml(), ", replicas: 2}", "}"))
		}
		for _, u := range scaled {
			w.ready(ctx, u, 2)
		}
		hits := w.serveHits(ctx, ns)
		hits.Store(50)
		serveQueue(ctx, w.hub)
		queueIs(ctx, w.hub, ns, "50")
		external := queueMetric("10")
		external.External.Target = total("10")
		hpas := map[string]*autoscalingv2.HorizontalPodAutoscaler{
			"average":  autoscaler(ns, "average", ofUnited("average"), hitsMetric(each("10"))),
			"object":   autoscaler(ns, "object", ofUnited("object"), hitsMetric(total("10"))),
			"external": autoscaler(ns, "external", ofUnited("external"), external),
		}
		for _, name := range []string{"object", "external", "average"} {
			Expect(w.hub.Create(ctx, hpas[name])).To(Succeed())
		}
		follows := func(replicas int32) {
			GinkgoHelper()
			w.status(ctx, scaled["average"], func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
				active := hpaCondition(ctx, w.hub, hpas["average"], autoscalingv2.ScalingActive)
				g.Expect(active.Status).To(Equal(corev1.ConditionTrue), active.Message)
				g.Expect(*u.Spec.Replicas).To(Equal(replicas))
				g.Expect(u.Status.ReadyReplicas).To(Equal(replicas))
			})
		}
		inactive := func() {
			GinkgoHelper()
			for _, name := range []string{"object", "external"} {
				soon(ctx, func(g Gomega) {
					active := hpaCondition(ctx, w.hub, hpas[name], autoscalingv2.ScalingActive)
					g.Expect(active.Status).To(Equal(corev1.ConditionFalse), name)
					g.Expect(active.Message).To(ContainSubstring("no pods"), name)
				})
				u := refresh(ctx, scaled[name])
				Expect(*u.Spec.Replicas).To(BeEquivalentTo(2), name)
				Expect(u.Status.ReadyReplicas).To(BeEquivalentTo(2), name)
			}
		}
		follows(5)
		inactive()
		By("in the next periods as well: the one that works shows that they came")
		hits.Store(80)
		follows(8)
		inactive()
	})
})

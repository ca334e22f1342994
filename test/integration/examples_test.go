//go:build lab

package integration

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// example is a manifest of docs/examples, in a namespace of the test. The names of what it replaces must be in it.
func example(name, ns string, replace ...string) string {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "examples", name))
	Expect(err).NotTo(HaveOccurred())
	text := string(raw)
	for pair := range slices.Chunk(append(replace, "namespace: demo", "namespace: "+ns), 2) {
		Expect(text).To(ContainSubstring(pair[0]))
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

// rest is what a fragment of the docs leaves out.
const rest = `
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: fragment}
spec:
  replicas: 24
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      spec:
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: web, image: "web:1"}]}
  topology: {subsets: [{name: eu, cluster: eu}, {name: us, cluster: us}, {name: ap, cluster: ap}]}
`

// whole is a manifest of the docs: as it is written, or, where it is a part of a UnitedDeployment, with the rest around it. Nil
// where it is no object of ours.
func whole(text []byte) *unstructured.Unstructured {
	GinkgoHelper()
	part := map[string]any{}
	Expect(yaml.Unmarshal(text, &part)).To(Succeed(), string(text))
	if strategy, is := part["updateStrategy"]; is {
		part = map[string]any{"spec": map[string]any{"updateStrategy": strategy}}
	}
	obj := &unstructured.Unstructured{Object: part}
	switch spec, is := part["spec"].(map[string]any); {
	case obj.GetKind() != "":
		return obj
	case !is || obj.GetAPIVersion() != "":
		return nil // two shapes side by side, a status, another program's file
	default:
		out := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(rest), &out.Object)).To(Succeed())
		all, ok := out.Object["spec"].(map[string]any)
		Expect(ok).To(BeTrue())
		maps.Copy(all, spec)
		return out
	}
}

var _ = Describe("The manifests of the docs", func() {
	It("are taken by API servers as they are written", func(ctx context.Context) {
		ns := shared.namespace(ctx)
		Expect(shared.at["east"].Create(ctx, &corev1.Namespace{ObjectMeta: objectMeta("", ns)})).To(Succeed())
		fenced, taken := regexp.MustCompile("(?s)```yaml\n(.*?)```"), map[string]int{}
		try := func(name string, text []byte) {
			GinkgoHelper()
			obj := whole(text)
			if obj == nil {
				return
			}
			obj.SetNamespace(ns)
			at := shared.hub
			if obj.GetKind() != "UnitedDeployment" {
				at = shared.at["east"]
			}
			Expect(at.Create(ctx, obj, client.DryRunAll, client.FieldValidation("Strict"))).To(Succeed(), "%s:\n%s", name, text)
			taken[filepath.Base(name)]++
		}
		pages, err := filepath.Glob("../../docs/*.md")
		Expect(err).NotTo(HaveOccurred())
		for _, page := range pages {
			raw, err := os.ReadFile(page)
			Expect(err).NotTo(HaveOccurred())
			for _, block := range fenced.FindAllSubmatch(raw, -1) {
				try(page, block[1])
			}
		}
		files, err := filepath.Glob("../../docs/examples/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			raw, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			try(file, raw)
		}
		for page, least := range map[string]int{
			"allocation.md": 3, "releases.md": 1, "subsets.md": 1, "statefulset.md": 1, "templates.md": 3,
			"from-fleet.yaml": 1, "from-karmada.yaml": 1, "from-kubefed.yaml": 1, "from-manifestwork.yaml": 1,
		} {
			Expect(taken[page]).To(BeNumerically(">=", least), page)
		}
	})

	It("M041 does what the pushed list of manifests did: held by its partition, released in part, and gone without its namespace", func(ctx context.Context) {
		w, ns := shared, shared.namespace(ctx)
		u := w.create(ctx, example("from-manifestwork.yaml", ns))
		w.allotted(ctx, u, 4)
		w.patch(ctx, u, strings.ReplaceAll(imagePatch("cloneSetTemplate", "feed"), "IMAGE", "feed:2"))
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(u.Status.ObservedGeneration).To(Equal(u.Generation))
			g.Expect(u.Status.UpdatedRevision).NotTo(Equal(u.Status.CurrentRevision))
			g.Expect(subsetOf(u, "east").State).To(Equal("Held"))
		})
		was := identities(pods(ctx, w.at["east"], ns))
		w.setPartitions(ctx, u, "{east: 2}")
		w.updated(ctx, u, 2)
		have(ctx, "east", ns, map[string]int{"feed:1": 2, "feed:2": 2})
		Expect(identities(pods(ctx, w.at["east"], ns))).To(Equal(was), "in place")
		Expect(w.hub.Delete(ctx, u)).To(Succeed())
		soon(ctx, func(g Gomega) {
			g.Expect(pods(ctx, w.at["east"], ns)).To(BeEmpty())
			g.Expect(w.at["east"].Get(ctx, client.ObjectKey{Name: ns}, &corev1.Namespace{})).To(Succeed())
		})
	})

	It("M043 begins with the canary, and prod waits until it is named", func(ctx context.Context) {
		w, ns := shared, shared.namespace(ctx)
		prod := tier(ns) + "-prod"
		w.label(ctx, "north", ns, true)
		for _, member := range []string{"east", "west"} {
			w.tag(ctx, member, prod, `"x"`)
		}
		u := w.create(ctx, example("from-fleet.yaml", ns, "{env: canary}", fmt.Sprintf("{%s: x}", tier(ns)), "{env: prod}", fmt.Sprintf("{%s: x}", prod),
			"{canary-1: 0}", "{north: 0}", "replicas: 10", "replicas: 2"))
		DeferCleanup(func(ctx context.Context) {
			Expect(client.IgnoreNotFound(w.hub.Delete(ctx, u))).To(Succeed())
			w.label(ctx, "north", ns, false)
			for _, member := range []string{"east", "west"} {
				w.tag(ctx, member, prod, "null")
			}
		})
		w.ready(ctx, u, 7)
		w.patch(ctx, u, strings.ReplaceAll(imagePatch("cloneSetTemplate", "checkout"), "IMAGE", "checkout:2"))
		w.updated(ctx, u, 3)
		have(ctx, "north", ns, map[string]int{"checkout:2": 3})
		have(ctx, "east", ns, map[string]int{"checkout:1": 2})
		w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(condition(u, "Ready")).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "Held")))
		})
		w.setPartitions(ctx, u, "{north: 0, west: 0}")
		w.updated(ctx, u, 5)
		have(ctx, "west", ns, map[string]int{"checkout:2": 2})
		have(ctx, "east", ns, map[string]int{"checkout:1": 2})
	})

	It("M045 places its shares, and overrides a container by its name, whatever stands in front of it", func(ctx context.Context) {
		w, ns := shared, shared.namespace(ctx)
		u := w.create(ctx, example("from-kubefed.yaml", ns))
		w.allotted(ctx, u, 3, 5)
		have(ctx, "east", ns, map[string]int{"web:1": 3})
		have(ctx, "west", ns, map[string]int{"mirror.west.test/web:1": 5})
		w.patch(ctx, u, `{"spec":{"template":{"deploymentTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"front","image":"proxy:1"},{"name":"web","image":"web:1"}]}}}}}}}`)
		w.updated(ctx, u, 8)
		soon(ctx, func(g Gomega) {
			list := pods(ctx, w.at["west"], ns)
			g.Expect(list).To(HaveLen(5))
			for i := range list {
				g.Expect(imagesOf(&list[i])).To(Equal(map[string]string{"front": "proxy:1", "web": "mirror.west.test/web:1"}))
			}
		})
	})

	It("divides as the static weights of another tool did", func(ctx context.Context) {
		u := shared.create(ctx, example("from-karmada.yaml", shared.namespace(ctx)))
		shared.allotted(ctx, u, 6, 3)
	})

	It("M025 runs under long names in the hub's own cluster, and only the total of its autoscaler would move", func(ctx context.Context) {
		w, ns := shared, shared.namespace(ctx)
		agent := w.localAgent(ctx)
		DeferCleanup(agent.end)
		const name = "customer-notification-dispatch-service-production"
		u := w.create(ctx, fmt.Sprintf(`
apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: %s, namespace: %s}
spec:
  replicas: 4
  selector: {matchLabels: {app: notify}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: notify}}
      spec:
        selector: {matchLabels: {app: notify}}
        template:
          metadata: {labels: {app: notify}}
          spec:
            containers: [{name: "n", image: "notify:1"}]
        updateStrategy: {type: InPlaceIfPossible}
  topology:
    subsets:
    - {name: region-north-primary, minReplicas: 1, maxReplicas: 3}
    - {name: region-south-backup}
`, name, ns))
		DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(w.hub.Delete(ctx, u))).To(Succeed()) })
		w.allotted(ctx, u, 3, 1)
		hpa := autoscaler(ns, "notify", ofUnited(name), cpuMetric())
		hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = new(int32(2)), 10
		Expect(w.hub.Create(ctx, hpa)).To(Succeed())
		for _, want := range [][]int32{{2, 0}, {3, 7}} {
			w.scale(ctx, u, want[0]+want[1])
			w.allotted(ctx, u, want...)
		}
		list := pods(ctx, w.hub, ns)
		Expect(list).To(HaveLen(10))
		for i := range list {
			for key, value := range list[i].Labels {
				Expect(len(value)).To(BeNumerically("<=", 63), key)
			}
		}
		soon(ctx, func(g Gomega) {
			active := hpaCondition(ctx, w.hub, hpa, autoscalingv2.ScalingActive)
			g.Expect(active.Status).To(Equal(corev1.ConditionFalse), active.Message)
		})
		got := refresh(ctx, u)
		Expect(*got.Spec.Replicas).To(BeEquivalentTo(10))
		Expect(got.Status.CurrentRevision).To(Equal(got.Status.UpdatedRevision), "a scale is no release")
	})
})

//go:build lab

package integration

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

var _ = Describe("What a template and its subsets say", func() {
	var (
		ns string
		u  *appsv1alpha1.UnitedDeployment
	)

	BeforeEach(func(ctx context.Context) { ns, u = shared.namespace(ctx), nil })
	AfterEach(func(ctx context.Context) {
		if u != nil {
			Expect(client.IgnoreNotFound(shared.hub.Delete(ctx, u))).To(Succeed())
		}
	})

	It("B163 brings the whole embedded spec to the member, and merges a subset's terms into those of the template", func(ctx context.Context) {
		name := nodesOf(ctx, "east")[0]
		rich := native
		rich.spec = `podManagementPolicy: Parallel, serviceName: web, minReadySeconds: 1, revisionHistoryLimit: 3, ordinals: {start: 4}, ` +
			`persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}`
		u = shared.create(ctx, fmt.Sprintf(`apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: web, namespace: %[1]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {%[2]s}
  topology:
    subsets:
    - {name: east, cluster: east, replicas: 1, nodeSelectorTerm: {matchFields: [{key: metadata.name, operator: In, values: [%[3]s]}]}}
    - {name: west, cluster: west, replicas: 1}
`, ns, rich.workload("web", v1), name))
		shared.patch(ctx, u, `{"spec":{"template":{"statefulSetTemplate":{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"type","operator":"In","values":["kwok"]}]},{"matchExpressions":[{"key":"type","operator":"Exists"}]}]}}}}}}}}}}`)
		shared.setPartitions(ctx, u, `{east: 0, west: 0}`)
		shared.updated(ctx, u, 2)
		const terms = "nodeSelectorTerms"
		path := []string{"spec", "template", "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", terms}
		field := map[string]any{"key": "metadata.name", "operator": "In", "values": []any{name}}
		east := only(ctx, shared.at["east"], nativeSet, ns)
		both, _ := at(east, path...).([]any)
		Expect(both).To(HaveLen(2))
		for _, term := range both {
			Expect(term).To(And(HaveKey("matchExpressions"), HaveKeyWithValue("matchFields", []any{field})))
		}
		west := only(ctx, shared.at["west"], nativeSet, ns)
		plain, _ := at(west, path...).([]any)
		Expect(plain).To(HaveLen(2))
		for _, term := range plain {
			Expect(term).NotTo(HaveKey("matchFields"))
		}
		for _, child := range []map[string]any{east.Object, west.Object} {
			Expect(child["spec"]).To(And(
				HaveKeyWithValue("serviceName", "web"), HaveKeyWithValue("minReadySeconds", int64(1)),
				HaveKeyWithValue("revisionHistoryLimit", int64(3)), HaveKeyWithValue("ordinals", map[string]any{"start": int64(4)}),
				HaveKeyWithValue("persistentVolumeClaimRetentionPolicy", map[string]any{"whenDeleted": "Delete", "whenScaled": "Retain"}),
			))
		}
		Expect(pods(ctx, shared.at["east"], ns)).To(HaveLen(1))
		Expect(pods(ctx, shared.at["east"], ns)[0].Name).To(HaveSuffix("-4"))
		Expect(pods(ctx, shared.at["east"], ns)[0].Spec.NodeName).To(Equal(name))
	})

	It("B149 B163 releases a template with a field that the members' version drops, and says so", func(ctx context.Context) {
		u = shared.create(ctx, native.yaml("web", ns, v1, `{east: 0}`, "east:1"))
		shared.ready(ctx, u, 1)
		shared.patch(ctx, u, `{"spec":{"template":{"statefulSetTemplate":{"spec":{"template":{"spec":{"fromTheFuture":{"a":1},"containers":[{"name":"app","image":"app:v2"}]}}}}}}}`)
		shared.updated(ctx, u, 1)
		Expect(images(ctx, "east", ns)).To(Equal(map[string]int{v2: 1}))
		soon(ctx, func(g Gomega) {
			var list eventsv1.EventList
			g.Expect(shared.hub.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
			var notes []string
			for i := range list.Items {
				if list.Items[i].Reason == "TemplateWarning" {
					notes = append(notes, list.Items[i].Note)
				}
			}
			g.Expect(notes).To(ConsistOf(ContainSubstring("does not keep spec.template.statefulSetTemplate.spec.template.spec.fromTheFuture")))
		})
	})

	// The volume of a claim is added by the workload's controller: the pod template alone mounts what it does not have.
	It("sends a template whose containers mount its claims, and refuses one that mounts anything else", func(ctx context.Context) {
		const claims = `, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}]`
		mounting := func(t template, volume string) string {
			t.spec += claims
			return strings.Replace(t.yaml("web", ns, v1, `{east: 0}`, "east:1"), `containers: [{name: app,`,
				`containers: [{name: app, volumeMounts: [{name: `+volume+`, mountPath: /data}],`, 1)
		}
		for _, t := range []template{flatCloneSet, advanced, native} {
			u = shared.create(ctx, mounting(t, "data"))
			soon(ctx, func(g Gomega) { g.Expect(childrenIn(ctx, shared.at["east"], t.kind, ns)).To(HaveLen(1)) })
			Expect(shared.hub.Delete(ctx, u)).To(Succeed())
			soon(ctx, func(g Gomega) {
				g.Expect(apierrors.IsNotFound(shared.hub.Get(ctx, client.ObjectKeyFromObject(u), u))).To(BeTrue())
			})
		}
		u = shared.create(ctx, mounting(native, "other"))
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(condition(u, appsv1alpha1.ConditionTemplateInvalid).Message).To(ContainSubstring(`volumeMounts[0].name: Not found: "other"`))
		})
		Expect(childrenIn(ctx, shared.at["east"], nativeSet, ns)).To(BeEmpty())
	})

	It("takes the examples of docs/templates.md as they are written there", func(ctx context.Context) {
		raw, err := os.ReadFile("../../docs/templates.md")
		Expect(err).NotTo(HaveOccurred())
		examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(raw, -1)
		Expect(len(examples)).To(BeNumerically(">=", 3))
		for _, example := range examples {
			var u appsv1alpha1.UnitedDeployment
			Expect(yaml.UnmarshalStrict(example[1], &u)).To(Succeed())
			u.Namespace = ns
			Expect(shared.hub.Create(ctx, &u, client.DryRunAll)).To(Succeed())
			Expect(u.Spec.Problems()).To(BeEmpty())
			Expect(u.Spec.NotActedOn()).To(BeEmpty())
		}
	})

	It("M023 patches the template per subset, and a template change that a patch covers leaves that subset alone", func(ctx context.Context) {
		for _, m := range []string{"east", "west"} {
			class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000}
			Expect(client.IgnoreAlreadyExists(shared.at[m].Create(ctx, class))).To(Succeed())
		}
		u = shared.create(ctx, fmt.Sprintf(`apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: search, namespace: %s}
spec:
  replicas: 6
  selector: {matchLabels: {app: search}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: search}}
      spec:
        selector: {matchLabels: {app: search}}
        template:
          metadata: {labels: {app: search}}
          spec:
            terminationGracePeriodSeconds: 1
            containers:
            - name: search
              image: hub.test/search:7
              env: [{name: REGION, value: none}]
        updateStrategy:
          type: RollingUpdate
          rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: "50%%", inPlaceUpdateStrategy: {gracePeriodSeconds: 1}}
  topology:
    subsets:
    - name: east
      cluster: east
      replicas: 3
      patch: {spec: {containers: [{name: search, image: "mirror.east.test/search:7", env: [{name: REGION, value: east}]}]}}
    - name: west
      cluster: west
      replicas: 3
      patch: {metadata: {labels: {edge: "true"}}, spec: {priorityClassName: high}}
  updateStrategy: {manualUpdate: {partitions: {east: 0, west: 0}}}
`, ns))
		shared.ready(ctx, u, 6)
		region := func(member string) string { return pods(ctx, shared.at[member], ns)[0].Spec.Containers[0].Env[0].Value }
		Expect(images(ctx, "east", ns)).To(Equal(map[string]int{"mirror.east.test/search:7": 3}))
		Expect(images(ctx, "west", ns)).To(Equal(map[string]int{"hub.test/search:7": 3}))
		Expect(region("east")).To(Equal("east"))
		Expect(region("west")).To(Equal("none"))
		for _, p := range pods(ctx, shared.at["west"], ns) {
			Expect(p.Spec.PriorityClassName).To(Equal("high"))
			Expect(p.Labels).To(HaveKeyWithValue("edge", "true"))
		}
		east, west := identities(pods(ctx, shared.at["east"], ns)), identities(pods(ctx, shared.at["west"], ns))
		shared.patch(ctx, u, `{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"search","image":"hub.test/search:8","env":[{"name":"REGION","value":"none"}]}]}}}}}}}`)
		soon(ctx, func(g Gomega) { g.Expect(images(ctx, "west", ns)).To(Equal(map[string]int{"hub.test/search:8": 3})) })
		shared.updated(ctx, u, 6)
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			g.Expect(subsetOf(u, "east").Revision).NotTo(Equal(subsetOf(u, "west").Revision))
			g.Expect(u.Status.CurrentRevision).To(Equal(u.Status.UpdatedRevision))
		})
		Expect(images(ctx, "east", ns)).To(Equal(map[string]int{"mirror.east.test/search:7": 3}))
		for _, p := range pods(ctx, shared.at["east"], ns) {
			Expect(p.Status.ContainerStatuses[0].RestartCount).To(BeZero())
		}
		shared.patch(ctx, u, `{"spec":{"topology":{"subsets":[{"name":"east","cluster":"east","replicas":3,"patch":{"spec":{"containers":[{"name":"search","image":"mirror.east.test/search:8","env":[{"name":"REGION","value":"east"}]}]}}},{"name":"west","cluster":"west","replicas":3,"patch":{"metadata":{"labels":{"edge":"true"}},"spec":{"priorityClassName":"high"}}}]}}}`)
		soon(ctx, func(g Gomega) {
			g.Expect(images(ctx, "east", ns)).To(Equal(map[string]int{"mirror.east.test/search:8": 3}))
		})
		shared.updated(ctx, u, 6)
		Expect(identities(pods(ctx, shared.at["east"], ns))).To(Equal(east))
		Expect(identities(pods(ctx, shared.at["west"], ns))).To(Equal(west))
	})

	It("B165 takes patches that are valid, and refuses others by their name", func(ctx context.Context) {
		subsets := func(patch string) string {
			return fmt.Sprintf(`{"spec":{"topology":{"subsets":[{"name":"east","cluster":"east","replicas":1,"patch":%s}]}}}`, patch)
		}
		u = shared.create(ctx, deploy.yaml("web", ns, v1, `{east: 0}`, "east:1"))
		shared.ready(ctx, u, 1)
		shared.patch(ctx, u, subsets(`{"spec":{"containers":[{"name":"app","image":"app:arm"}],"schedulerName":"default-scheduler"}}`))
		soon(ctx, func(g Gomega) { g.Expect(images(ctx, "east", ns)).To(Equal(map[string]int{"app:arm": 1})) })
		shared.quiet(ctx, ns, "east")
		mark := shared.mark("east")
		shared.patch(ctx, u, subsets(`{"spec":{"containers":[{"image":"x"}]}}`))
		shared.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
			c := condition(u, appsv1alpha1.ConditionInvalid)
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(c.Message).To(And(ContainSubstring("east"), ContainSubstring("name")))
		})
		stays(ctx, func(g Gomega) { g.Expect(shared.hubWrites("east", mark, ns)).To(BeEmpty()) })
		err := shared.hub.Patch(ctx, u.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(subsets(`"not an object"`))))
		Expect(err).To(MatchError(ContainSubstring("spec.topology.subsets[0].patch")))
	})

	It("A06 divides over zones by the old node selector, and fills in what the embedded StatefulSet lacks", func(ctx context.Context) {
		nodes := nodesOf(ctx, "east")
		for i, zone := range []string{"zone-a", "zone-b", "zone-c"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodes[i]}}
			Expect(shared.at["east"].Patch(ctx, node, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"node":%q}}}`, zone)))).To(Succeed())
		}
		zone := func(z string) string {
			return fmt.Sprintf(`nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: node, operator: In, values: [%s]}]}]}`, z)
		}
		u = shared.create(ctx, fmt.Sprintf(`apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: sample, namespace: %s}
spec:
  replicas: 6
  revisionHistoryLimit: 10
  selector: {matchLabels: {app: sample}}
  template:
    statefulSetTemplate:
      metadata: {labels: {app: sample}}
      spec:
        template:
          metadata: {labels: {app: sample}}
          spec:
            containers: [{name: nginx, image: "nginx:alpine"}]
  topology:
    subsets:
    - {name: subset-a, cluster: east, replicas: 1, %s}
    - {name: subset-b, cluster: east, replicas: 50%%, %s}
    - {name: subset-c, cluster: east, %s}
  updateStrategy:
    type: Manual
    manualUpdate:
      partitions: {subset-a: 0, subset-b: 0, subset-c: 0}
`, ns, zone("zone-a"), zone("zone-b"), zone("zone-c")))
		shared.ready(ctx, u, 6)
		per := map[string]int{}
		for _, p := range pods(ctx, shared.at["east"], ns) {
			per[p.Spec.NodeName]++
		}
		Expect(per).To(Equal(map[string]int{nodes[0]: 1, nodes[1]: 3, nodes[2]: 2}))
	})
})

// nodesOf are a member's nodes by name.
func nodesOf(ctx context.Context, member string) []string {
	GinkgoHelper()
	var list corev1.NodeList
	Expect(shared.at[member].List(ctx, &list)).To(Succeed())
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return out
}

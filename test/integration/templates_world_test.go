//go:build lab

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gtypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Kinds of children, as the status names them.
const (
	cloneSet    = "CloneSet.apps.kruise.io"
	advancedSet = "StatefulSet.apps.kruise.io"
	nativeSet   = "StatefulSet.apps"
	deployment  = "Deployment.apps"
)

// template is one way to write a workload template.
type template struct {
	// field of spec.template, kind of the children.
	field, kind string
	// spec is what the embedded spec has beside its pod template, as YAML flow fields.
	spec string
	// place is where the child has its partition; hold is the hold there.
	place []string
	hold  any
	// strategy is what the child's updateStrategy must have, as it was written.
	strategy gtypes.GomegaMatcher
	// inPlace is true where pods are updated in place; elsewhere, Deployments apart, they keep their names.
	inPlace bool
}

// The kinds as users write them. The CloneSet is there in both wire shapes.
var (
	flatCloneSet = template{
		field: "cloneSetTemplate", kind: cloneSet, inPlace: true,
		spec:  `updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 1, maxSurge: 0, inPlaceUpdateStrategy: {gracePeriodSeconds: 1}}`,
		place: []string{"spec", "updateStrategy", "partition"}, hold: "100%",
		strategy: And(HaveKeyWithValue("type", "InPlaceIfPossible"), HaveKeyWithValue("maxUnavailable", int64(1)),
			HaveKeyWithValue("inPlaceUpdateStrategy", HaveKeyWithValue("gracePeriodSeconds", int64(1)))),
	}
	nestedCloneSet = template{
		field: "cloneSetTemplate", kind: cloneSet, inPlace: true,
		spec:  `updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1}}`,
		place: []string{"spec", "updateStrategy", "rollingUpdate", "partition"}, hold: "100%",
		strategy: HaveKeyWithValue("rollingUpdate", HaveKeyWithValue("podUpdatePolicy", "InPlaceIfPossible")),
	}
	advanced = template{
		strategy: HaveKeyWithValue("rollingUpdate", HaveKeyWithValue("podUpdatePolicy", "InPlaceIfPossible")),
		field:    "advancedStatefulSetTemplate", kind: advancedSet, inPlace: true,
		spec:  `updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1}}`,
		place: []string{"spec", "updateStrategy", "rollingUpdate", "partition"}, hold: int64(2147483647),
	}
	native = template{
		strategy: HaveKeyWithValue("type", "RollingUpdate"),
		field:    "statefulSetTemplate", kind: nativeSet, spec: `podManagementPolicy: Parallel`,
		place: []string{"spec", "updateStrategy", "rollingUpdate", "partition"}, hold: int64(2147483647),
	}
	deploy = template{
		field: "deploymentTemplate", kind: deployment, spec: `strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}`,
	}
)

// workload is the template's field with an image, as YAML flow.
func (t template) workload(app, image string) string {
	sep := ", "
	if t.spec == "" {
		sep = ""
	}
	return fmt.Sprintf(`%[1]s: {metadata: {labels: {app: %[2]s}}, spec: {selector: {matchLabels: {app: %[2]s}}, template: {metadata: {labels: {app: %[2]s}}, `+
		`spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: %[3]q}]}}%[5]s%[4]s}}`, t.field, app, image, t.spec, sep)
}

// yaml is a UnitedDeployment; subsets are "<member>:<replicas>", partitions a YAML flow map.
func (t template) yaml(name, ns, image, partitions string, subsets ...string) string {
	total := 0
	var lines []string
	for _, s := range subsets {
		member, count, _ := strings.Cut(s, ":")
		n := 0
		_, err := fmt.Sscan(count, &n)
		Expect(err).NotTo(HaveOccurred())
		total += n
		lines = append(lines, fmt.Sprintf("    - {name: %[1]s, cluster: %[1]s, replicas: %[2]d}", member, n))
	}
	return fmt.Sprintf(`apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: %s, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: %s}}
  template: {%s}
  topology:
    subsets:
%s
  updateStrategy: {type: Manual, manualUpdate: {partitions: %s}}
`, name, ns, total, name, t.workload(name, image), strings.Join(lines, "\n"), partitions)
}

// release changes the image, as kubectl patch does.
func (t template) release(ctx context.Context, u *appsv1alpha1.UnitedDeployment, image string) {
	GinkgoHelper()
	shared.patch(ctx, u, fmt.Sprintf(`{"spec":{"template":{%q:{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":1,"containers":[{"name":"app","image":%q}]}}}}}}}`, t.field, image))
}

// become changes the template to one of another kind.
func (t template) become(ctx context.Context, u *appsv1alpha1.UnitedDeployment, other template, image string) {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte("{" + other.workload(u.Name, image) + "}"))
	Expect(err).NotTo(HaveOccurred())
	var fields map[string]any
	Expect(json.Unmarshal(raw, &fields)).To(Succeed())
	fields[t.field] = nil
	raw, err = json.Marshal(fields)
	Expect(err).NotTo(HaveOccurred())
	shared.patch(ctx, u, fmt.Sprintf(`{"spec":{"template":%s}}`, raw))
}

// childrenIn are the children of one kind in a namespace.
func childrenIn(ctx context.Context, c client.Client, kind, ns string) []unstructured.Unstructured {
	GinkgoHelper()
	name, group, _ := strings.Cut(kind, ".")
	version := group + "/v1"
	if group == "apps.kruise.io" {
		version = group + "/v1alpha1"
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(version)
	list.SetKind(name + "List")
	Expect(c.List(ctx, list, client.InNamespace(ns))).To(Succeed())
	return list.Items
}

// only is the one child of a kind in a namespace, once it is there alone.
func only(ctx context.Context, c client.Client, kind, ns string) *unstructured.Unstructured {
	GinkgoHelper()
	var list []unstructured.Unstructured
	soon(ctx, func(g Gomega) {
		list = childrenIn(ctx, c, kind, ns)
		g.Expect(list).To(HaveLen(1))
	})
	return &list[0]
}

// at reads a field of an object.
func at(obj *unstructured.Unstructured, path ...string) any {
	GinkgoHelper()
	v, _, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
	Expect(err).NotTo(HaveOccurred())
	return v
}

// headcount watches how many pods of a namespace are ready and not on their way out.
type headcount struct {
	mu     sync.Mutex
	ready  map[types.UID]bool
	ever   map[types.UID]bool
	fewest int
	failed error
}

// count begins with what is there now, and ends with the test.
func count(ctx context.Context, c client.WithWatch, ns string) *headcount {
	GinkgoHelper()
	h := &headcount{ready: map[types.UID]bool{}, ever: map[types.UID]bool{}}
	var list corev1.PodList
	Expect(c.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
	for i := range list.Items {
		h.see(watch.Added, &list.Items[i])
	}
	h.fewest = len(h.ready)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(ns), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	DeferCleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		defer w.Stop()
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			h.mu.Lock()
			if ok {
				h.see(e.Type, pod)
				h.fewest = min(h.fewest, len(h.ready))
			} else {
				h.failed = fmt.Errorf("the watch of pods: %v", e.Object)
			}
			h.mu.Unlock()
		}
	}()
	return h
}

func (h *headcount) see(kind watch.EventType, pod *corev1.Pod) {
	ready := false
	for _, c := range pod.Status.Conditions {
		ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	if kind == watch.Deleted || pod.DeletionTimestamp != nil || !ready {
		delete(h.ready, pod.UID)
		return
	}
	h.ready[pod.UID], h.ever[pod.UID] = true, true
}

// seen is how many pods ever were ready: it tells a watch that saw nothing.
func (h *headcount) seen() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ever)
}

// low is the fewest that ever were ready.
func (h *headcount) low() int {
	GinkgoHelper()
	h.mu.Lock()
	defer h.mu.Unlock()
	Expect(h.failed).NotTo(HaveOccurred())
	return h.fewest
}

// soon waits for a state of the world.
func soon(ctx context.Context, check func(g Gomega)) {
	GinkgoHelper()
	Eventually(ctx, check).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
}

// stays holds a state of the world against a few seconds.
func stays(ctx context.Context, check func(g Gomega)) {
	GinkgoHelper()
	Consistently(ctx, check).WithTimeout(2 * time.Second).WithPolling(200 * time.Millisecond).Should(Succeed())
}

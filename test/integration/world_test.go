//go:build lab

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/test/lab"
)

// patience bounds every wait; nothing is measured by it.
const patience = 4 * time.Minute

// world is a fleet with Underway on it.
type world struct {
	fleet *lab.Fleet
	hub   client.WithWatch
	at    map[string]client.WithWatch
	bin   string

	mu sync.Mutex
	// hubRun and agents are of the process that started the fleet.
	hubRun *service
	runs   int
	agents map[string]*service
	// spaces are the namespaces that this process made in the spec that runs.
	spaces []string
}

// worlds are the fleets that this process uses now.
var worlds []*world

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		Expect(add(s)).To(Succeed())
	}
	return s
}

// buildProduct compiles the three binaries once per suite.
func buildProduct(ctx context.Context) string {
	dir, err := os.MkdirTemp("", "underway-integration-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	dir, err = lab.Product(ctx, dir, "underway-hub", "underway-member", "kubectl-underway")
	Expect(err).NotTo(HaveOccurred())
	return dir
}

// newWorld starts a fleet and installs Underway with the real plugin, as a user would. It ends with the container that it
// was called in.
func newWorld(ctx context.Context, bin string, members ...string) *world {
	fleet, err := lab.Start(ctx, lab.Options{MemberNames: members, Nodes: 3, HubNodes: 2, Audit: true, Log: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	w := worldOf(fleet, bin)
	DeferCleanup(func() { Expect(fleet.Stop()).To(Succeed()) })
	DeferCleanup(func() {
		worlds = slices.DeleteFunc(worlds, func(o *world) bool { return o == w })
		for _, s := range w.agents {
			s.end()
		}
		if w.hubRun != nil {
			w.hubRun.end()
		}
	})
	w.kubectl(ctx, "init")
	w.startHub(ctx)
	for _, m := range members {
		w.kubectl(ctx, "join", m, "--kubeconfig", fleet.Member(m).Kubeconfig(), "--all-namespaces", "--no-agent")
		w.startAgent(ctx, m)
	}
	for _, m := range members {
		w.memberReady(ctx, m, metav1.ConditionTrue)
	}
	return w
}

// openWorld is a fleet that another process started, with its hub and its agents.
func openWorld(dir, bin string) *world {
	fleet, err := lab.Open(dir, lab.Options{Log: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	return worldOf(fleet, bin)
}

func worldOf(fleet *lab.Fleet, bin string) *world {
	w := &world{fleet: fleet, bin: bin, at: map[string]client.WithWatch{}, agents: map[string]*service{}}
	w.hub = w.client(fleet.Hub())
	for _, m := range fleet.Members() {
		w.at[m.Name()] = w.client(m)
	}
	worlds = append(worlds, w)
	return w
}

func (w *world) client(c *lab.Cluster) client.WithWatch {
	cl, err := client.NewWithWatch(c.RESTConfig(), client.Options{Scheme: scheme()})
	Expect(err).NotTo(HaveOccurred())
	return cl
}

// kubectl runs the plugin against the hub.
func (w *world) kubectl(ctx context.Context, args ...string) string {
	out, err := w.tryKubectl(ctx, args...)
	Expect(err).NotTo(HaveOccurred(), out)
	return out
}

func (w *world) tryKubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.bin, "kubectl-underway"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.fleet.Hub().Kubeconfig())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// startHub runs the hub with a leader Lease that outlasts a busy machine: a hub that started again by itself would spoil what
// a spec counts.
func (w *world) startHub(ctx context.Context) {
	w.hubRun = w.serve(ctx, "underway-hub", w.fleet.Hub().Kubeconfig(),
		"--leader-elect-lease-duration", "60s", "--leader-elect-renew-deadline", "45s",
		"--propagate-kinds", "networking.k8s.io/v1/NetworkPolicy")
}

// stopHub ends the hub as a node failure would, for good.
func (w *world) stopHub() {
	GinkgoHelper()
	Expect(w.hubRun).NotTo(BeNil(), "another process runs this hub: a spec that stops it needs a fleet of its own")
	w.hubRun.end()
}

func (w *world) restartHub(ctx context.Context) {
	w.stopHub()
	w.dropHubLease(ctx)
	w.startHub(ctx)
}

// dropHubLease spares the test the wait until a killed hub's leader Lease has run out.
func (w *world) dropHubLease(ctx context.Context) {
	Expect(client.IgnoreNotFound(w.hub.Delete(ctx, leaseOf("underway-hub")))).To(Succeed())
}

func (w *world) startAgent(ctx context.Context, member string) {
	w.agents[member] = w.serve(ctx, "underway-member", w.fleet.Member(member).Kubeconfig())
}

// service is a program of ours that is started again when it ends.
type service struct{ *lab.Service }

func (s *service) end() { s.End() }

// serve runs a binary of ours against a cluster; it ends with this process at the latest.
func (w *world) serve(_ context.Context, binary, kubeconfig string, more ...string) *service {
	GinkgoHelper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs++
	args := append([]string{"--kubeconfig", kubeconfig, "--metrics-bind-address", "0", "--health-probe-bind-address", "0"}, more...)
	s, err := w.fleet.Serve(fmt.Sprintf("%s-%d-%d", binary, GinkgoParallelProcess(), w.runs), filepath.Join(w.bin, binary), args, nil)
	Expect(err).NotTo(HaveOccurred())
	return &service{s}
}

func (w *world) memberReady(ctx context.Context, name string, want metav1.ConditionStatus) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		var mc fleetv1alpha1.MemberCluster
		g.Expect(w.hub.Get(ctx, types.NamespacedName{Name: name}, &mc)).To(Succeed())
		c := meta.FindStatusCondition(mc.Status.Conditions, fleetv1alpha1.ConditionReady)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Status).To(Equal(want), "%s: %s", c.Reason, c.Message)
	}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
}

// namespace makes a namespace on the hub for one test.
func (w *world) namespace(ctx context.Context) string {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "it-"}}
	Expect(w.hub.Create(ctx, ns)).To(Succeed())
	w.spaces = append(w.spaces, ns.Name)
	return ns.Name
}

// tell prints the objects of the spec that runs, and the ends of the logs.
func (w *world) tell(ctx context.Context) {
	if len(w.spaces) == 0 {
		return
	}
	for _, ns := range w.spaces {
		var list appsv1alpha1.UnitedDeploymentList
		if err := w.hub.List(ctx, &list, client.InNamespace(ns)); err != nil {
			GinkgoWriter.Printf("--- UnitedDeployments of %s: %v\n", ns, err)
			continue
		}
		for i := range list.Items {
			u := &list.Items[i]
			u.ManagedFields = nil
			text, _ := yaml.Marshal(u)
			GinkgoWriter.Printf("--- UnitedDeployment %s/%s\n%s\n", u.Namespace, u.Name, text[:min(len(text), 20_000)])
		}
	}
	logs, _ := filepath.Glob(filepath.Join(w.fleet.Dir(), "logs", "underway-*.log"))
	for _, path := range logs {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		lines := strings.Split(string(raw), "\n")
		GinkgoWriter.Printf("--- %s\n%s\n", filepath.Base(path), strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
}

// united is a UnitedDeployment of one container over clusters.
type united struct {
	name, ns   string
	image      string
	subsets    []string // "<name>:<replicas>" with the member of that name, or "<name>:<replicas>:local"
	partitions string   // YAML flow map
	manual     string   // more YAML of manualUpdate
	strategy   string   // YAML flow map of the CloneSet's updateStrategy
	extra      string   // more YAML of the pod spec
}

func (u united) yaml() string {
	var b strings.Builder
	total := 0
	var subsets []string
	for _, s := range u.subsets {
		parts := strings.Split(s, ":")
		n := 0
		_, err := fmt.Sscan(parts[1], &n)
		Expect(err).NotTo(HaveOccurred())
		total += n
		cluster := ", cluster: " + parts[0]
		if len(parts) == 3 {
			cluster = ""
		}
		subsets = append(subsets, fmt.Sprintf("    - {name: %s%s, replicas: %d}", parts[0], cluster, n))
	}
	strategy := u.strategy
	if strategy == "" {
		strategy = "{type: InPlaceIfPossible, maxUnavailable: 2}"
	}
	fmt.Fprintf(&b, `apiVersion: apps.kruise.io/v1alpha1
kind: UnitedDeployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: %[1]s}}
      spec:
        selector: {matchLabels: {app: %[1]s}}
        template:
          metadata: {labels: {app: %[1]s}}
          spec:
            terminationGracePeriodSeconds: 1
            containers: [{name: app, image: "%[4]s"}]
%[5]s
        updateStrategy: %[6]s
  topology:
    subsets:
%[7]s
  updateStrategy:
    type: Manual
    manualUpdate:
      partitions: %[8]s
%[9]s
`, u.name, u.ns, total, u.image, u.extra, strategy, strings.Join(subsets, "\n"), orElse(u.partitions, "{}"), u.manual)
	return b.String()
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (w *world) create(ctx context.Context, text string) *appsv1alpha1.UnitedDeployment {
	GinkgoHelper()
	u := parse(text)
	Expect(w.hub.Create(ctx, u)).To(Succeed())
	return u
}

func parse(text string) *appsv1alpha1.UnitedDeployment {
	GinkgoHelper()
	var u appsv1alpha1.UnitedDeployment
	Expect(yaml.UnmarshalStrict([]byte(text), &u)).To(Succeed())
	return &u
}

// setImage and setPartitions are what a user does with kubectl.
func (w *world) setImage(ctx context.Context, u *appsv1alpha1.UnitedDeployment, image string) {
	GinkgoHelper()
	w.patch(ctx, u, fmt.Sprintf(`{"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}}}}`, image))
}

func (w *world) setPartitions(ctx context.Context, u *appsv1alpha1.UnitedDeployment, partitions string) {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte(partitions))
	Expect(err).NotTo(HaveOccurred())
	w.patch(ctx, u, fmt.Sprintf(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":%s}}}}`, raw))
}

func (w *world) patch(ctx context.Context, u *appsv1alpha1.UnitedDeployment, patch string) {
	GinkgoHelper()
	Expect(json.Valid([]byte(patch))).To(BeTrue(), patch)
	Expect(w.hub.Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// status waits until the UnitedDeployment satisfies the check.
func (w *world) status(ctx context.Context, u *appsv1alpha1.UnitedDeployment, check func(g Gomega, u *appsv1alpha1.UnitedDeployment)) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		var got appsv1alpha1.UnitedDeployment
		g.Expect(w.hub.Get(ctx, client.ObjectKeyFromObject(u), &got)).To(Succeed())
		check(g, &got)
	}).WithTimeout(patience).WithPolling(200 * time.Millisecond).Should(Succeed())
}

// ready waits until every pod of every subset is ready and the status says so of the present spec.
func (w *world) ready(ctx context.Context, u *appsv1alpha1.UnitedDeployment, replicas int) {
	GinkgoHelper()
	w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		g.Expect(u.Status.ObservedGeneration).To(Equal(u.Generation))
		g.Expect(u.Status.Replicas).To(BeEquivalentTo(replicas))
		g.Expect(u.Status.ReadyReplicas).To(BeEquivalentTo(replicas))
	})
}

// updated waits until exactly that many pods are updated and ready, and the status says so of the present spec.
func (w *world) updated(ctx context.Context, u *appsv1alpha1.UnitedDeployment, n int) {
	GinkgoHelper()
	w.status(ctx, u, func(g Gomega, u *appsv1alpha1.UnitedDeployment) {
		g.Expect(u.Status.ObservedGeneration).To(Equal(u.Generation))
		g.Expect(u.Status.UpdatedReplicas).To(BeEquivalentTo(n))
		g.Expect(u.Status.UpdatedReadyReplicas).To(BeEquivalentTo(n))
	})
}

func subsetOf(u *appsv1alpha1.UnitedDeployment, name string) appsv1alpha1.SubsetStatus {
	i := slices.IndexFunc(u.Status.SubsetStatuses, func(s appsv1alpha1.SubsetStatus) bool { return s.Name == name })
	if i < 0 {
		return appsv1alpha1.SubsetStatus{Name: name, State: "absent"}
	}
	return u.Status.SubsetStatuses[i]
}

func condition(u *appsv1alpha1.UnitedDeployment, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(u.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind, Status: "absent"}
}

// pods lists a test's pods in one cluster.
func pods(ctx context.Context, c client.Client, ns string) []corev1.Pod {
	GinkgoHelper()
	var list corev1.PodList
	Expect(c.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
	return list.Items
}

func running(list []corev1.Pod, image string) int {
	n := 0
	for i := range list {
		if list[i].DeletionTimestamp == nil && list[i].Spec.Containers[0].Image == image {
			n++
		}
	}
	return n
}

// identity is what an in-place update keeps.
type identity struct {
	uid  types.UID
	ip   string
	node string
}

func identities(list []corev1.Pod) map[string]identity {
	out := map[string]identity{}
	for i := range list {
		p := &list[i]
		out[p.Name] = identity{uid: p.UID, ip: p.Status.PodIP, node: p.Spec.NodeName}
	}
	return out
}

// sighting records every pod that ever had an image, also for a moment.
type sighting struct {
	mu    sync.Mutex
	seen  map[string]map[types.UID]bool
	stops context.CancelFunc
	done  chan struct{}
}

// lookout watches a namespace of one cluster until the test ends.
func lookout(ctx context.Context, c client.WithWatch, ns string) *sighting {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &sighting{seen: map[string]map[types.UID]bool{}, stops: cancel, done: make(chan struct{})}
	watcher, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(ns))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		cancel()
		<-s.done
	})
	go func() {
		defer close(s.done)
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			s.mu.Lock()
			image := pod.Spec.Containers[0].Image
			if s.seen[image] == nil {
				s.seen[image] = map[types.UID]bool{}
			}
			s.seen[image][pod.UID] = true
			s.mu.Unlock()
		}
	}()
	return s
}

// of is how many pods ever had the image.
func (s *sighting) of(image string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen[image])
}

//go:build lab

package lab

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// needContainers skips, loudly, on a machine that cannot run containers.
func needContainers(t *testing.T) {
	t.Helper()
	began := time.Now()
	if err := CanRunContainers(t.Context(), "", os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED real nodes: %v\n", err)
		t.Skipf("SKIPPED real nodes: %v", err)
	}
	t.Logf("a container ran after %.1fs", time.Since(began).Seconds())
}

// TestRealNodes starts one member with simulated and real nodes, and sees of a
// real kubelet what the simulated one was written after.
func TestRealNodes(t *testing.T) {
	needContainers(t)
	left := traces{files: usualFiles()}
	began := time.Now()
	fleet, err := Start(t.Context(), Options{Members: 1, NoHub: true, Nodes: 1, RealNodes: 2, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.Stop() })
	t.Logf("a member with 2 real nodes is up after %.1fs", time.Since(began).Seconds())

	r := realTest{member: fleet.Member("member-1")}
	r.client = kubernetes.NewForConfigOrDie(r.member.RESTConfig())
	t.Run("nodes", r.nodes)
	t.Run("pods", func(t *testing.T) {
		t.Run("image update in place", r.imageUpdate)
		t.Run("same digest", r.sameDigest)
		t.Run("images that misbehave", r.misbehaving)
		t.Run("image that is not there", r.missingImage)
		t.Run("resize waits for room", r.resize)
		t.Run("kubelet away", r.kubeletAway)
		t.Run("containerd restarts", r.containerdRestarts)
		t.Run("traffic", r.traffic)
	})
	t.Run("wipe", r.wipe)
	left.dir = fleet.Dir()
	left.learn(t)
	left.mustSee(t, traceProcess, traceLink, traceCgroup)
	if err := fleet.Stop(); err != nil {
		t.Error(err)
	}
	left.mustBeGone(t)
}

type realTest struct {
	member *Cluster
	client kubernetes.Interface
}

func (r realTest) nodes(t *testing.T) {
	list, err := r.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: TypeLabel + "=" + RealType})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2 || len(r.member.RealNodes()) != 2 {
		t.Fatalf("%d real nodes", len(list.Items))
	}
	for i, n := range list.Items {
		want := map[string]string{
			PoolLabel: pool(i), corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux",
			corev1.LabelTopologyRegion: "member-1", corev1.LabelTopologyZone: r.member.zone(i),
		}
		for k, v := range want {
			if n.Labels[k] != v {
				t.Errorf("%s: label %s is %q, want %q", n.Name, k, n.Labels[k], v)
			}
		}
		if r.member.RealNode(n.Name) == nil {
			t.Errorf("the lab does not know node %s", n.Name)
		}
		if cpu, memory := n.Status.Allocatable.Cpu().String(), n.Status.Allocatable.Memory().String(); cpu != RealCPU || memory != RealMemory {
			t.Errorf("%s has room for %s of processor and %s of memory", n.Name, cpu, memory)
		}
	}
}

// pod is a server with a native sidecar, an init container and a volume, on the
// first real node.
func (r realTest) pod(name, tag string) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	zero := int64(1)
	container := func(name, image string) corev1.Container {
		return corev1.Container{Name: name, Image: image, ImagePullPolicy: corev1.PullNever}
	}
	side := container("side", Image(SideImage, "v1"))
	side.RestartPolicy = &always
	main := container("main", Image(AppImage, tag))
	main.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	main.ReadinessProbe = &corev1.Probe{
		PeriodSeconds: 1,
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}},
	}
	aux := container("aux", Image(AppImage, "v1"))
	aux.Env = []corev1.EnvVar{{Name: "PORT", Value: "8081"}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeSelector:                  map[string]string{corev1.LabelHostname: r.first().Name()},
			TerminationGracePeriodSeconds: &zero,
			InitContainers:                []corev1.Container{container("init", Image(InitImage, "v1")), side},
			Containers:                    []corev1.Container{main, aux},
			Volumes:                       []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

func (r realTest) first() *RealNode { return r.member.RealNodes()[0] }

func (r realTest) create(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	if _, err := r.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, r.client, pod.Name, nil, ready(corev1.ConditionTrue))
	return r.get(t, pod.Name)
}

func (r realTest) get(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (r realTest) setImage(t *testing.T, pod, image string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"main","image":%q}]}}`, image)
	if _, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Patch(t.Context(), pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// imageUpdate: the changed container restarts once, and nothing else does.
func (r realTest) imageUpdate(t *testing.T) {
	t.Parallel()
	before := r.create(t, r.pod("update", "v1"))
	if _, err := r.first().Exec(t.Context(), "default", "update", "main", "/app", "write", "/data/kept", "some text"); err != nil {
		t.Fatal(err)
	}
	r.setImage(t, "update", Image(AppImage, "v2"))
	awaitPod(t, r.client, "update", before, all(restarted(Image(AppImage, "v2")), ready(corev1.ConditionTrue), func(before, after *corev1.Pod) error {
		if b, a := before.Status.InitContainerStatuses, after.Status.InitContainerStatuses; a[1].ContainerID != b[1].ContainerID || a[0].RestartCount != 0 {
			return fmt.Errorf("init containers before %+v, after %+v", b, a)
		}
		return nil
	}))
	if got, err := r.first().Exec(t.Context(), "default", "update", "main", "/app", "cat", "/data/kept"); err != nil || string(got) != "some text" {
		t.Errorf("the volume holds %q after the update (%v)", got, err)
	}
	if got, err := r.first().Exec(t.Context(), "default", "update", "main", "/app", "env", "VERSION"); err != nil || string(got) != "v2" {
		t.Errorf("version %q runs (%v)", got, err)
	}
	// The API server reaches the kubelet, so exec and logs work as anywhere.
	if _, err := r.client.CoreV1().Pods("default").GetLogs("update", &corev1.PodLogOptions{Container: "main"}).DoRaw(t.Context()); err != nil {
		t.Errorf("logs: %v", err)
	}
}

// sameDigest: a second tag of one image restarts the container, and neither
// imageID nor the image in the status tells.
func (r realTest) sameDigest(t *testing.T) {
	t.Parallel()
	before := r.create(t, r.pod("digest", "v2"))
	r.setImage(t, "digest", Image(AppImage, "v2-again"))
	awaitPod(t, r.client, "digest", before, func(before, after *corev1.Pod) error {
		b, a := main(before), main(after)
		if a.ContainerID == b.ContainerID || a.RestartCount != 1 || a.State.Running == nil {
			return fmt.Errorf("before %+v, after %+v", b, a)
		}
		if a.ImageID != b.ImageID || a.Image != b.Image {
			return fmt.Errorf("imageID and image are %s %s, were %s %s", a.ImageID, a.Image, b.ImageID, b.Image)
		}
		return nil
	})
}

func (r realTest) misbehaving(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]check{
		"crash": all(ready(corev1.ConditionFalse), func(_, pod *corev1.Pod) error {
			if s := main(pod); s.State.Waiting == nil || s.State.Waiting.Reason != "CrashLoopBackOff" || s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 1 {
				return fmt.Errorf("status %+v", s)
			}
			return nil
		}),
		"never-ready": all(ready(corev1.ConditionFalse), runsFor(3*time.Second)),
		// Not by what is seen meanwhile: on a busy machine a kubelet says that it runs when it is about to be ready.
		"slow-start": all(ready(corev1.ConditionTrue), func(_, pod *corev1.Pod) error {
			began, ready := main(pod).State.Running.StartedAt, condition(pod, corev1.PodReady).LastTransitionTime
			if ready.Sub(began.Time) < 2*time.Second { // stamps are of whole seconds
				t.Errorf("it was ready %s after its start", ready.Sub(began.Time))
			}
			return nil
		}),
	} {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			pod := r.pod(tag, tag)
			if _, err := r.client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			awaitPod(t, r.client, tag, nil, want)
		})
	}
}

// runsFor checks that the main container has run for some time.
func runsFor(long time.Duration) check {
	return func(_, pod *corev1.Pod) error {
		if s := main(pod); s.State.Running == nil || time.Since(s.State.Running.StartedAt.Time) < long {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	}
}

// missingImage: the old container's identity stays in the status.
func (r realTest) missingImage(t *testing.T) {
	t.Parallel()
	before := r.create(t, r.pod("missing", "v1"))
	gone := Image(AppImage, "v3")
	if err := r.first().RemoveImages(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	r.setImage(t, "missing", gone)
	awaitPod(t, r.client, "missing", before, all(ready(corev1.ConditionFalse), func(before, after *corev1.Pod) error {
		b, a := main(before), main(after)
		if a.State.Waiting == nil || a.State.Waiting.Reason != "ErrImageNeverPull" || a.ContainerID != b.ContainerID || a.RestartCount != 0 {
			return fmt.Errorf("before %+v, after %+v", b, a)
		}
		return nil
	}))
	if err := r.first().LoadImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, r.client, "missing", before, all(restarted(gone), ready(corev1.ConditionTrue)))
}

// resize: more than is free is Deferred, and happens when there is room.
func (r realTest) resize(t *testing.T) {
	t.Parallel()
	second := r.member.RealNodes()[1].Name()
	ask := func(name, cpu string) {
		pod := r.pod(name, "v1")
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: second}
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		r.create(t, pod)
	}
	ask("filler", "600m")
	ask("grows", "200m")
	patch := `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"500m"}}}]}}`
	if _, err := r.client.CoreV1().Pods("default").Patch(t.Context(), "grows", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, r.client, "grows", nil, func(_, pod *corev1.Pod) error {
		if c := condition(pod, corev1.PodResizePending); c.Reason != corev1.PodReasonDeferred {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	if err := r.client.CoreV1().Pods("default").Delete(t.Context(), "filler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, r.client, "grows", nil, func(_, pod *corev1.Pod) error {
		if s := main(pod); s.Resources == nil || s.Resources.Requests.Cpu().String() != "500m" || s.RestartCount != 0 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
}

// kubeletAway: containers go on without their kubelet, and it catches up.
func (r realTest) kubeletAway(t *testing.T) {
	before := r.create(t, r.pod("away", "v1"))
	node := r.first()
	for name, stop := range map[string]func() error{"stopped": node.StopKubelet, "killed": node.KillKubelet} {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if node.KubeletRunning() {
			t.Fatalf("the kubelet runs after it was %s", name)
		}
		if _, err := node.Exec(t.Context(), "default", "away", "main", "/app", "env", "VERSION"); err != nil {
			t.Errorf("the container does not run while the kubelet is %s: %v", name, err)
		}
		if name == "stopped" {
			r.setImage(t, "away", Image(AppImage, "v2"))
		}
		if err := node.StartKubelet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	awaitPod(t, r.client, "away", before, all(restarted(Image(AppImage, "v2")), ready(corev1.ConditionTrue)))

	if err := node.PauseKubelet(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := node.waitKubelet(ctx); err == nil {
		t.Error("a paused kubelet answers")
	}
	if err := node.ResumeKubelet(); err != nil {
		t.Fatal(err)
	}
	if err := node.waitKubelet(t.Context()); err != nil {
		t.Error(err)
	}
}

func (r realTest) containerdRestarts(t *testing.T) {
	before := r.create(t, r.pod("runtime", "v1"))
	if err := r.first().RestartContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.setImage(t, "runtime", Image(AppImage, "v2"))
	awaitPod(t, r.client, "runtime", before, all(restarted(Image(AppImage, "v2")), ready(corev1.ConditionTrue)))
}

// traffic: no request fails while nothing happens, and the counter sees what a
// restart without a drain does.
func (r realTest) traffic(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"service": "web"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	if _, err := r.client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web-0", "web-1"} {
		pod := r.pod(name, "v1")
		pod.Labels["service"] = "web"
		r.create(t, pod)
	}
	for name, keepAlive := range map[string]bool{"connection per request": false, "keep alive": true} {
		traffic, err := StartTraffic(t.Context(), r.member.RESTConfig(), TrafficOptions{Namespace: "default", Service: "web", KeepAlive: keepAlive})
		if err != nil {
			t.Fatal(err)
		}
		await(t, "answers of both pods", func() error {
			if r := traffic.Report(); r.ByPod["web-0"] < 50 || r.ByPod["web-1"] < 50 {
				return fmt.Errorf("%s", r)
			}
			return nil
		})
		if report := traffic.Stop(); len(report.Failures) > 0 || report.Succeeded != report.ByVersion["v1"] {
			t.Errorf("%s: %s", name, report)
		}
	}
	before := r.get(t, "web-0")
	traffic, err := StartTraffic(t.Context(), r.member.RESTConfig(), TrafficOptions{Namespace: "default", Service: "web", PerSecond: 200})
	if err != nil {
		t.Fatal(err)
	}
	r.setImage(t, "web-0", Image(AppImage, "v2"))
	awaitPod(t, r.client, "web-0", before, restarted(Image(AppImage, "v2")))
	report := traffic.Stop()
	t.Logf("a restart without a drain: %s", report)
	if len(report.Failures) == 0 || report.Failures[0].Pod != "web-0" {
		t.Errorf("a restart without a drain cost no request: %s", report)
	}
}

// wipe: another cluster, and nodes without pods.
func (r realTest) wipe(t *testing.T) {
	if err := r.member.Wipe(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.create(t, r.pod("after-wipe", "v1"))
	tasks, err := r.first().ctr(t.Context(), "tasks", "ls", "-q")
	if err != nil {
		t.Fatal(err)
	}
	// A sandbox, and its three containers that go on.
	if got := len(strings.Fields(string(tasks))); got != 4 {
		t.Errorf("%d containers run for one pod:\n%s", got, tasks)
	}
}

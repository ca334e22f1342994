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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const gate = corev1.PodConditionType("InPlaceUpdateReady")

// TestFleet starts one small fleet and walks through what the lab promises.
func TestFleet(t *testing.T) {
	began := time.Now()
	fleet, err := Start(t.Context(), Options{Members: 2, Nodes: 2, Audit: true, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = fleet.Stop()
		}
	}()
	t.Logf("hub and 2 members are up after %.1fs", time.Since(began).Seconds())

	m := fleet.Member("member-1")
	t.Run("pods", func(t *testing.T) { testPods(t, m) })
	t.Run("resize", func(t *testing.T) { testResize(t, m) })
	t.Run("late delete", func(t *testing.T) { testLateDelete(t, m) })
	t.Run("faults", func(t *testing.T) { testFaults(t, m) })
	t.Run("credentials and links", func(t *testing.T) { testLink(t, m) })
	t.Run("links to others", func(t *testing.T) { testPoint(t, m, fleet.Member("member-2")) })
	t.Run("gateway", func(t *testing.T) { testGateway(t, m, fleet.Member("member-2")) })
	t.Run("backup", func(t *testing.T) { testBackup(t, fleet.Member("member-2")) })
	t.Run("wipe", func(t *testing.T) { testWipe(t, m) })
	t.Run("add member", func(t *testing.T) {
		c, err := fleet.AddMember(t.Context(), "late")
		if err != nil {
			t.Fatal(err)
		}
		if fleet.Member("late") != c || len(fleet.Members()) != 3 {
			t.Error("the new member is not in the fleet")
		}
	})

	stopped = true
	if err := fleet.Stop(); err != nil {
		t.Error(err)
	}
	if pids, err := marked(fleet.state.Mark); err != nil || len(pids) != 0 {
		t.Errorf("still running after Stop: %v (%v)", pids, err)
	}
	if _, err := os.Stat(fleet.Dir()); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func testPods(t *testing.T, c *Cluster) {
	cases := map[string]struct {
		before, after string
		gates         bool
		policy        corev1.RestartPolicy
		// want is awaited after the image was changed.
		want func(before, after *corev1.Pod) error
	}{
		"image change restarts one container once": {
			before: "web:v1", after: "web:v2",
			want: all(restarted("web:v2"), ready(corev1.ConditionTrue)),
		},
		"gate holds readiness": {
			before: "web:v1", after: "web:v2", gates: true,
			want: all(restarted("web:v2"), ready(corev1.ConditionFalse)),
		},
		"never ready": {
			before: "web:v1", after: "web:v2-never-ready",
			want: all(restarted("web:v2-never-ready"), ready(corev1.ConditionFalse)),
		},
		"slow pull": {
			before: "web:v1", after: "web:v2-slow-pull-1500ms",
			want: all(restarted("web:v2-slow-pull-1500ms"), ready(corev1.ConditionTrue)),
		},
		"slow start": {
			before: "web:v1", after: "web:v2-slow-start-2s",
			want: all(restarted("web:v2-slow-start-2s"), ready(corev1.ConditionTrue)),
		},
		"same digest": {
			before: "same-digest/web:v1", after: "same-digest/web:v2",
			want: func(before, after *corev1.Pod) error {
				b, a := main(before), main(after)
				if a.ContainerID == b.ContainerID || a.RestartCount != 1 || a.ImageID != b.ImageID || a.Image != "same-digest/web:v1" {
					return fmt.Errorf("before %+v, after %+v", b, a)
				}
				return nil
			},
		},
		"prefixed": {
			before: "prefixed-web:v1", after: "prefixed-web:v2",
			want: restarted("docker.io/library/prefixed-web:v2"),
		},
		"pull fails": {
			before: "web:v1", after: "web:v2-pull-fails",
			want: all(ready(corev1.ConditionFalse), func(before, after *corev1.Pod) error {
				b, a := main(before), main(after)
				if a.State.Waiting == nil || a.State.Waiting.Reason != "ErrImagePull" ||
					a.ContainerID != b.ContainerID || a.ImageID != b.ImageID || a.Image != b.Image || a.RestartCount != 0 {
					return fmt.Errorf("after %+v", a)
				}
				return nil
			}),
		},
		"crash": {
			before: "web:v1", after: "web:v2-crash",
			want: all(ready(corev1.ConditionFalse), func(_, after *corev1.Pod) error {
				if a := main(after); a.State.Waiting == nil || a.State.Waiting.Reason != "CrashLoopBackOff" || a.RestartCount != 1 {
					return fmt.Errorf("after %+v", a)
				}
				return nil
			}),
		},
		"job completes": {
			before: "web:v1", policy: corev1.RestartPolicyNever,
			want: phase(corev1.PodSucceeded),
		},
		"job fails": {
			before: "web:exit-1", policy: corev1.RestartPolicyNever,
			want: phase(corev1.PodFailed),
		},
	}
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := testPod(strings.ReplaceAll(name, " ", "-"), tc.before, tc.policy)
			if tc.gates {
				pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
			}
			pods := client.CoreV1().Pods(metav1.NamespaceDefault)
			if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			want := corev1.ConditionTrue
			if tc.gates {
				want = corev1.ConditionFalse
			}
			if tc.policy == "" {
				awaitPod(t, client, pod.Name, nil, ready(want))
			}
			before, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if tc.after != "" {
				patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"main","image":%q}]}}`, tc.after)
				if _, err := pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			awaitPod(t, client, pod.Name, before, tc.want)
			if tc.gates {
				testGate(t, client, pod.Name)
			}
			if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			await(t, pod.Name+" is gone", func() error {
				_, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
				if err == nil {
					return fmt.Errorf("still there")
				}
				return nil
			})
		})
	}
}

// testResize sees new resources in the status, and no restart.
func testResize(t *testing.T, c *Cluster) {
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	pod := testPod("resize", "web:v1", "")
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	pods := client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, client, pod.Name, nil, ready(corev1.ConditionTrue))
	patch := `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"300m"}}}]}}`
	if _, err := pods.Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, client, pod.Name, nil, func(_, pod *corev1.Pod) error {
		s := main(pod)
		if s.Resources == nil || s.Resources.Requests.Cpu().String() != "300m" || s.RestartCount != 0 {
			return fmt.Errorf("after %+v", s)
		}
		return nil
	})
}

// testLateDelete: what a simulated node ends by a name that another pod has by now ends nobody.
func testLateDelete(t *testing.T, c *Cluster) {
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	as := c.RESTConfig()
	as.Impersonate = rest.ImpersonationConfig{UserName: kwokUser, Groups: []string{"system:masters"}}
	node := kubernetes.NewForConfigOrDie(as)
	pod := testPod("late", "web:v1", "")
	made, err := client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	awaitPod(t, client, pod.Name, nil, ready(corev1.ConditionTrue))
	err = node.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0))
	if err == nil || !strings.Contains(err.Error(), onlyTheEnding) {
		t.Errorf("a node ended a pod that nobody had deleted: %v", err)
	}
	if now, err := client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || now.UID != made.UID {
		t.Errorf("the pod is not there: %v", err)
	}
}

// testGate sets the gate and sees the pod get ready with the gate's condition kept.
func testGate(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","reason":"Test"}]}}`, gate)
	_, err := client.CoreV1().Pods(metav1.NamespaceDefault).
		Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	awaitPod(t, client, name, nil, all(ready(corev1.ConditionTrue), func(_, pod *corev1.Pod) error {
		if c := condition(pod, gate); c.Status != corev1.ConditionTrue || c.Reason != "Test" {
			return fmt.Errorf("the gate's condition is %+v", c)
		}
		return nil
	}))
}

func testFaults(t *testing.T, c *Cluster) {
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	uid := kubeSystemUID(t, client)
	mark, err := c.Mark()
	if err != nil {
		t.Fatal(err)
	}

	if err := c.Pause(APIServer); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("a paused API server answers")
	}
	cancel()
	if err := c.Resume(APIServer); err != nil {
		t.Fatal(err)
	}
	if got := kubeSystemUID(t, client); got != uid {
		t.Errorf("another cluster after resume")
	}

	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, part := range Parts() {
		if c.Running(part) {
			t.Errorf("%s runs after Stop", part)
		}
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := kubeSystemUID(t, client); got != uid {
		t.Errorf("another cluster after stop and start")
	}
	pod := testPod("after-start", "web:v1", "")
	if _, err := client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, client, pod.Name, nil, ready(corev1.ConditionTrue))

	events, err := c.Since(mark, ByUser(adminUser), Writes, On("pods"))
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || events[0].Verb != "create" || events[0].ResponseStatus.Code != 201 {
		t.Errorf("audited writes of the administrator on pods: %+v", events)
	}
}

func testWipe(t *testing.T, c *Cluster) {
	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
	uid := kubeSystemUID(t, client)
	if err := c.Wipe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := kubeSystemUID(t, client); got == uid {
		t.Error("the wiped cluster has the old UID")
	}
}

func kubeSystemUID(t *testing.T, client kubernetes.Interface) types.UID {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.UID
}

func testPod(name, image string, policy corev1.RestartPolicy) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			RestartPolicy: policy,
			Containers:    []corev1.Container{{Name: "main", Image: image}, {Name: "aux", Image: "aux:v1"}},
		},
	}
}

type check func(before, after *corev1.Pod) error

func all(checks ...check) check {
	return func(before, after *corev1.Pod) error {
		for _, c := range checks {
			if err := c(before, after); err != nil {
				return err
			}
		}
		return nil
	}
}

// restarted checks what an update in place must do, and what it must leave alone.
func restarted(image string) check {
	return func(before, after *corev1.Pod) error {
		b, a := main(before), main(after)
		switch {
		case after.Status.ObservedGeneration != after.Generation:
			return fmt.Errorf("observed generation %d of %d", after.Status.ObservedGeneration, after.Generation)
		case a.RestartCount != b.RestartCount+1, a.ContainerID == b.ContainerID, a.ImageID == b.ImageID, a.Image != image:
			return fmt.Errorf("main before %+v, after %+v", b, a)
		case aux(before).ContainerID != aux(after).ContainerID, aux(after).RestartCount != 0:
			return fmt.Errorf("aux before %+v, after %+v", aux(before), aux(after))
		case after.UID != before.UID, after.Status.PodIP != before.Status.PodIP, after.Status.PodIP == "":
			return fmt.Errorf("another pod or address: %s %s", after.UID, after.Status.PodIP)
		}
		return nil
	}
}

func ready(want corev1.ConditionStatus) check {
	return func(_, pod *corev1.Pod) error {
		if got := condition(pod, corev1.PodReady); got.Status != want || got.LastTransitionTime.IsZero() {
			return fmt.Errorf("Ready is %+v, want %s", got, want)
		}
		return nil
	}
}

func phase(want corev1.PodPhase) check {
	return func(_, pod *corev1.Pod) error {
		if pod.Status.Phase != want {
			return fmt.Errorf("phase %s, want %s", pod.Status.Phase, want)
		}
		return nil
	}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func main(pod *corev1.Pod) corev1.ContainerStatus { return containerStatus(pod, "main") }
func aux(pod *corev1.Pod) corev1.ContainerStatus  { return containerStatus(pod, "aux") }

func containerStatus(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

func awaitPod(t *testing.T, client kubernetes.Interface, name string, before *corev1.Pod, want check) {
	t.Helper()
	await(t, "pod "+name, func() error {
		pod, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return want(before, pod)
	})
}

func await(t *testing.T, what string, fn func() error) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		err := fn()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

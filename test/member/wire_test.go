//go:build lab

package member

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
	"github.com/underway-dev/underway/test/kit"
)

// single is a pod of nobody's, with an init container, a native sidecar and an app container.
func single(name string) *corev1.Pod {
	container := func(name, image string) corev1.Container {
		return corev1.Container{Name: name, Image: image, Resources: requests("200m")}
	}
	sidecar := container("log", "log:v1")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("prep", "prep:v1"), sidecar},
			Containers:     []corev1.Container{container("main", "app:v1"), container("other", "other:v1")},
		},
	}
}

func requests(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}

// put creates a pod and waits until it is Ready.
func put(p kit.Place, pod *corev1.Pod) *corev1.Pod {
	p.Helper()
	pod.Namespace = p.NS
	if err := p.Create(p.Context(), pod); err != nil {
		p.Fatal(err)
	}
	p.Eventually(30*time.Second, func() string {
		if pod = p.Pods()[pod.Name]; !kit.PodReady(pod) {
			return "not Ready: " + kit.Text(pod.Status)
		}
		return ""
	})
	return pod
}

func refTo(pod *corev1.Pod) inplace.Ref {
	return inplace.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
}

func write(p kit.Place, patch inplace.Patch) podwriter.Result {
	p.Helper()
	result, err := podwriter.New(p.WithWatch).Do(p.Context(), inplace.Decision{Patches: []inplace.Patch{patch}})
	if err != nil {
		p.Fatal(err)
	}
	return result
}

// TestWireUpdate: what the writer sends is what a real API server understands: images in both lists by name, resources
// through the subresource, preconditions in the body; each request raises the generation by one.
func TestWireUpdate(t *testing.T) {
	t.Parallel()
	p := kit.In(t, steady)
	before := put(p, single("a"))
	result := write(p, inplace.Patch{
		Ref: refTo(before), Kind: inplace.PatchUpdate,
		Order:  []string{"main", "other", "prep", "log"},
		Images: map[string]string{"main": "app:v2", "other": "other:v2"}, InitImages: map[string]string{"prep": "prep:v2", "log": "log:v2"},
		Resources:     map[string]corev1.ResourceRequirements{"main": requests("300m")},
		InitResources: map[string]corev1.ResourceRequirements{"log": requests("250m")},
	})
	if result.Patched != 1 || len(result.Refused) != 0 || result.Conflicts > 1 {
		t.Fatalf("result %+v", result)
	}
	// A kubelet's status may come between the two requests: then the resize is sent alone, as the agent does.
	p.Eventually(30*time.Second, func() string {
		if result.Conflicts == 0 {
			return ""
		}
		result = write(p, inplace.Patch{
			Ref: refTo(p.Pods()["a"]), Kind: inplace.PatchResize, Order: []string{"main", "other", "prep", "log"},
			Resources:     map[string]corev1.ResourceRequirements{"main": requests("300m")},
			InitResources: map[string]corev1.ResourceRequirements{"log": requests("250m")},
		})
		return "somebody wrote in between"
	})
	p.Eventually(30*time.Second, func() string {
		after := p.Pods()["a"]
		got := map[string]string{}
		for _, c := range append(after.Spec.InitContainers, after.Spec.Containers...) {
			got[c.Name] = c.Image + " " + c.Resources.Requests.Cpu().String()
		}
		switch {
		case kit.Text(got) != `{"log":"log:v2 250m","main":"app:v2 300m","other":"other:v2 200m","prep":"prep:v2 200m"}`:
			t.Fatalf("containers %v", got)
		case after.Generation != before.Generation+2:
			t.Fatalf("generation %d after %d, want one more per request", after.Generation, before.Generation)
		case after.Status.ObservedGeneration != after.Generation:
			return "not observed"
		}
		return ""
	})
	stale := inplace.Patch{Ref: refTo(before), Kind: inplace.PatchResize, Resources: map[string]corev1.ResourceRequirements{"main": requests("350m")}}
	other := stale
	other.Ref = refTo(p.Pods()["a"])
	other.UID = "another"
	for name, patch := range map[string]inplace.Patch{"another version": stale, "another UID": other} {
		if r := write(p, patch); r.Conflicts != 1 || r.Patched+len(r.Refused) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if cpu := p.Pods()["a"].Spec.Containers[0].Resources.Requests.Cpu().String(); cpu != "300m" {
		t.Errorf("a write that conflicts was made: cpu %s", cpu)
	}
}

// resize asks for other resources of a pod's container, again while a kubelet's status comes in between.
func resize(p kit.Place, pod string, wanted corev1.ResourceRequirements) podwriter.Result {
	p.Helper()
	var r podwriter.Result
	p.Eventually(30*time.Second, func() string {
		r = write(p, inplace.Patch{Ref: refTo(p.Pods()[pod]), Kind: inplace.PatchResize, Resources: map[string]corev1.ResourceRequirements{"main": wanted}})
		if r.Conflicts > 0 {
			return "somebody wrote in between"
		}
		return ""
	})
	return r
}

// TestWireRefusals: how a real API server refuses a resize, and what is made of it.
func TestWireRefusals(t *testing.T) {
	t.Parallel()
	p := kit.In(t, steady)
	put(p, single("a"))
	lone := single("solo")
	lone.Spec.InitContainers, lone.Spec.Containers = nil, lone.Spec.Containers[:1]
	lone.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
	put(p, lone)
	guaranteed := requests("200m")
	guaranteed.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	old := single("old")
	old.Namespace, old.Spec.NodeName = p.NS, "without-kubelet"
	if err := p.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	old.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}}
	if err := p.Status().Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		pod    string
		wanted corev1.ResourceRequirements
		says   string
		final  bool
	}{
		{"more than the node has", "a", requests("9000"), "enough allocatable", true},
		{"another QoS class", "solo", guaranteed, "QOS", true},
		{"a kubelet that reports no resources", "old", requests("300m"), "without support for resize", true},
	} {
		r := resize(p, tc.pod, tc.wanted)
		if len(r.Refused) != 1 || r.Refused[0].Final != tc.final || !strings.Contains(r.Refused[0].Message, tc.says) {
			t.Errorf("%s: %+v", tc.name, r)
		}
	}
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: p.NS},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("1900m")}},
	}
	if err := p.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	p.Eventually(20*time.Second, func() string {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil || len(quota.Status.Used) == 0 {
			return "the quota is not counted"
		}
		return ""
	})
	inForce(p, overCPU())
	r := resize(p, "a", requests("900m"))
	if len(r.Refused) != 1 || r.Refused[0].Final || !strings.Contains(r.Refused[0].Message, "quota") {
		t.Errorf("quota: %+v", r)
	}
}

package workload_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/podview"
	"github.com/underway-dev/underway/member/cloneset"
	"github.com/underway-dev/underway/member/workload"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// fullPod has a value in everything that the engine may read.
func fullPod() *corev1.Pod {
	at := metav1.NewTime(time.Unix(1_800_000_000, 0))
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: name + ":v1", Command: []string{"run"},
			Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {
				Name: appsv1alpha1.EnvContainerBarrier, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "web-barrier"}, Key: "p_10",
				}},
			}},
			Resources:    corev1.ResourceRequirements{Requests: amounts("1", "1Gi"), Limits: amounts("2", "2Gi")},
			ResizePolicy: []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}},
		}
	}
	status := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, Image: name + ":v1", ImageID: "sha:" + name, ContainerID: "c:" + name, RestartCount: 2, Ready: true, Started: new(false),
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", FinishedAt: at}},
			Resources:            &corev1.ResourceRequirements{Requests: amounts("1", "1Gi"), Limits: amounts("2", "2Gi")},
			AllocatedResources:   amounts("1", "1Gi"),
		}
	}
	sidecar := container("log")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-a", UID: "u", ResourceVersion: "7", Generation: 4, CreationTimestamp: at, Finalizers: []string{"a/b"},
			Labels: map[string]string{
				appsv1alpha1.LabelPodRevision: "web-1", appsv1alpha1.LabelCloneSetInstanceID: "a", appsv1alpha1.LabelSpecifiedDelete: "",
			},
			Annotations: map[string]string{
				appsv1alpha1.AnnotationInPlaceState: `{"revision":"web-1","lastContainerStatuses":{"web":{"imageID":"x"}},"generation":4}`,
				appsv1alpha1.AnnotationInPlaceGrace: `{"revision":"web-1","containerImages":{"web":"web:v2"},"graceSeconds":5}`,
				appsv1alpha1.AnnotationReplaces:     "web-0", appsv1alpha1.AnnotationDeletionCost: "3",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web", UID: "o", Controller: new(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "underway-member"}},
		},
		Spec: corev1.PodSpec{
			NodeName:       "n1",
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: appsv1alpha1.ConditionInPlaceUpdateReady}},
			Containers:     []corev1.Container{container("web"), container("side")},
			InitContainers: []corev1.Container{container("prep"), sidecar},
		},
		Status: corev1.PodStatus{
			ObservedGeneration: 4, Phase: corev1.PodRunning, Reason: "Why", QOSClass: corev1.PodQOSBurstable,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at},
				{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, Message: "no room", LastTransitionTime: at},
				{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError, Message: "fails", LastTransitionTime: at},
				{Type: appsv1alpha1.ConditionInPlaceUpdateReady, Status: corev1.ConditionFalse, LastTransitionTime: at},
			},
			ContainerStatuses:     []corev1.ContainerStatus{status("web"), status("side")},
			InitContainerStatuses: []corev1.ContainerStatus{status("prep"), status("log")},
		},
	}
}

// TestLeanPodOfOthers: what others control shrinks to its name and owner; what nobody controls may be adopted.
func TestLeanPodOfOthers(t *testing.T) {
	t.Parallel()
	others, orphan := fullPod(), fullPod()
	others.OwnerReferences[0].Kind, orphan.OwnerReferences = "ReplicaSet", nil
	for obj, options := range workload.Caches(runtime.NewScheme(), cloneset.Resource()).ByObject {
		if _, is := obj.(*corev1.Pod); !is {
			continue
		}
		if options.Label != nil {
			t.Errorf("orphans without %s are not seen", options.Label)
		}
		for _, pod := range []*corev1.Pod{others, orphan} {
			if _, err := options.Transform(pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(others.Spec.Containers)+len(others.Labels)+len(others.Status.Conditions) != 0 || len(others.OwnerReferences) != 1 {
		t.Errorf("kept of another's pod: %+v", others)
	}
	if len(orphan.Spec.Containers) != 2 || len(orphan.Labels) != 3 {
		t.Errorf("an orphan lacks what it is judged by: %+v", orphan)
	}
}

// TestLeanPodReadsAsTheWholePod: what the cache drops is nothing that the engine reads.
func TestLeanPodReadsAsTheWholePod(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	whole, lean := fullPod(), fullPod()
	for obj, options := range workload.Caches(scheme, cloneset.Resource()).ByObject {
		if _, is := obj.(*corev1.Pod); !is {
			continue
		}
		if _, err := options.Transform(lean); err != nil {
			t.Fatal(err)
		}
	}
	if lean.ManagedFields != nil || lean.Spec.Containers[0].Command != nil || len(lean.Spec.Containers[0].Env) != 1 {
		t.Errorf("the pod is not lean: %+v", lean.Spec.Containers[0])
	}
	now := time.Unix(1_800_000_060, 0)
	look := func(pod *corev1.Pod) any {
		memory := podview.NewMemory()
		return podview.From(pod, podview.Around{Now: now, Seen: memory.Look(pod, podview.Endpoints{}, now)})
	}
	if diff := cmp.Diff(look(whole), look(lean)); diff != "" {
		t.Errorf("read (-whole +lean):\n%s", diff)
	}
}

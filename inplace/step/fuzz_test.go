package step_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/podview"
	"github.com/underway-dev/underway/inplace/step"
)

// foreignPod is a pod on which anybody may have written anything.
func foreignPod(state, grace, lifecycle, kruise string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-a", UID: "u", ResourceVersion: "7", Generation: 2,
			Labels:      map[string]string{appsv1alpha1.LabelPodRevision: "web-1", "lb": "true"},
			Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			NodeName: "n",
			ReadinessGates: []corev1.PodReadinessGate{
				{ConditionType: appsv1alpha1.ConditionInPlaceUpdateReady}, {ConditionType: appsv1alpha1.ConditionKruisePodReady},
			},
			Containers: []corev1.Container{{Name: "web", Image: "app:v1"}, {Name: "side", Image: "side:v1"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 2,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse},
				{Type: appsv1alpha1.ConditionInPlaceUpdateReady, Status: corev1.ConditionFalse},
				{Type: appsv1alpha1.ConditionKruisePodReady, Status: corev1.ConditionFalse, Message: kruise},
			},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "web", Image: "app:v1", ImageID: "sha1", ContainerID: "c1", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			},
		},
	}
	for key, text := range map[string]string{appsv1alpha1.AnnotationInPlaceState: state, appsv1alpha1.AnnotationInPlaceGrace: grace} {
		if text != "" {
			pod.Annotations[key] = text
		}
	}
	if lifecycle != "" {
		pod.Labels[appsv1alpha1.LabelLifecycleState] = lifecycle
	}
	return pod
}

// FuzzForeignPods: whatever stands in the state, the parked update, the lifecycle label and OpenKruise's condition, nothing
// panics; a pod whose state cannot be read is not called done; one in a state that nobody knows is neither moved nor
// labelled; and what is written can be read again.
func FuzzForeignPods(f *testing.F) {
	f.Add("", "", "", "")
	f.Add(`{"revision":"web-1","updateTimestamp":"2026-11-29T12:00:00Z","lastContainerStatuses":{"web":{"imageID":"sha0"}},"updateImages":true}`, "", "Updating", `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`)
	f.Add(`{"revision":"web-1","lastContainerStatuses":{"web":{"imageID":"sha0","containerID":"c0","image":"app:v0"}},"generation":2,"nextContainerImages":{"side":"side:v2"},"preCheckBeforeNext":{"containersRequiredReady":["web"]}}`, "", "PreparingUpdate", "[]")
	f.Add(`{"revision":"web-1","lastContainerStatuses":null,"resources":{"web":{"requests":{"cpu":"1"}}},"otherContainerStatuses":{"web":{"unsure":true}}}`, "", "Updated", "null")
	f.Add(`{"revision":"web-1"}`, `{"revision":"web-1","containerImages":{"web":"app:v2","gone":"x"},"metaDataPatch":{"metadata":{"labels":{"a":null}}},"graceSeconds":5}`, "Updating", "{}")
	f.Add(`{nonsense`, `{"revision":"web-0"}`, "Sleeping", `[1]`)
	f.Add(`{"revision":"web-1","generation":-1}`, `{"revision":"","graceSeconds":-9}`, "PreparingDelete", `[{"userAgent":1}]`)
	f.Fuzz(func(t *testing.T, state, grace, lifecycle, kruise string) {
		p := podview.From(foreignPod(state, grace, lifecycle, kruise), podview.Around{Now: now})
		if p.StateProblem != "" && step.Prove(p, step.Update{}, now).Done {
			t.Error("proven by a state that cannot be read")
		}
		_, known := hooks.Of(p.Labels)
		for _, u := range []step.Update{{}, to2(), {Lifecycle: gateway(true)}, {HooksUnread: true}} {
			o := step.Next(p, u, now)
			if o.Patch == nil {
				continue
			}
			if to := o.Patch.Metadata.Labels[appsv1alpha1.LabelLifecycleState]; !known && (to != nil || o.Patch.To != p.Revision) {
				t.Errorf("state %q, and %+v", lifecycle, o.Patch)
			}
			if text := o.Patch.Metadata.Annotations[appsv1alpha1.AnnotationInPlaceState]; text != nil {
				if _, err := podview.ParseState(*text); err != nil {
					t.Errorf("it writes %s: %v", *text, err)
				}
			}
		}
	})
}

// FuzzState: what can be read of a state is the same after it was written and read again.
func FuzzState(f *testing.F) {
	for _, seed := range []string{
		`{"revision":"r","updateTimestamp":"2026-11-29T12:00:00Z","lastContainerStatuses":{"web":{"imageID":"x"}}}`,
		`{"revision":"r","lastContainerStatuses":{"a":{"containerID":"","unsure":true,"resources":{"limits":{"cpu":"1000m"}}}},"generation":3}`,
		`{"revision":"r","nextContainerRefMetadata":{"a":{"labels":{"k":"v"}}},"containerBatchesRecord":[{"timestamp":null,"containers":["a"]}]}`,
		`{"revision":"r","updateTimestamp":"not a time"}`, `{"revision":7}`, `[]`, ``, `{"revision":"r","generation":9223372036854775808}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if once, err := podview.ParseState(text); err == nil {
			written, err := json.Marshal(once)
			if err != nil {
				t.Skip("a time that JSON cannot write, which we never write")
			}
			twice, err := podview.ParseState(string(written))
			if err != nil {
				t.Fatalf("%s: %v", written, err)
			}
			again, err := json.Marshal(twice)
			if err != nil || !bytes.Equal(again, written) {
				t.Errorf("%s, then %s, %v", written, again, err)
			}
		}
		once := podview.ParseParked(text)
		if once.Problem != "" {
			if cmp.Equal(*once, inplace.Parked{}) {
				t.Error("no problem")
			}
			return
		}
		written, err := json.Marshal(once)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(once.ContainerImages, podview.ParseParked(string(written)).ContainerImages, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

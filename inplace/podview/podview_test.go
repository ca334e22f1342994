package podview_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podview"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func running() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-a", UID: "u", ResourceVersion: "7", Generation: 3,
			Labels:      map[string]string{appsv1alpha1.LabelPodRevision: "web-1"},
			Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			NodeName:       "n1",
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: appsv1alpha1.ConditionInPlaceUpdateReady}},
			Containers:     []corev1.Container{{Name: "web", Image: "app:v1"}, {Name: "side", Image: "side:v1"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 3,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-30 * time.Second))},
				{Type: appsv1alpha1.ConditionInPlaceUpdateReady, Status: corev1.ConditionTrue},
			},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "web", Image: "app:v1", ImageID: "sha1", ContainerID: "c1", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			},
		},
	}
}

// kruiseGate gives the pod OpenKruise's readiness gate, with its condition where status is not empty.
func kruiseGate(p *corev1.Pod, status corev1.ConditionStatus, message string) {
	p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: appsv1alpha1.ConditionKruisePodReady})
	if status != "" {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: appsv1alpha1.ConditionKruisePodReady, Status: status, Message: message})
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change     func(*corev1.Pod)
		minReady   int32
		want       func(inplace.Pod) any
		wantResult any
	}{
		"ready and available": {want: func(p inplace.Pod) any { return []bool{p.Ready, p.Available} }, wantResult: []bool{true, true}},
		"ready for 30 s of 45": {
			minReady: 45, want: func(p inplace.Pod) any { return []any{p.Ready, p.Available, p.AvailableIn} },
			wantResult: []any{true, false, 15 * time.Second},
		},
		"ready for 30 s of 30": {minReady: 30, want: func(p inplace.Pod) any { return p.Available }, wantResult: true},
		"kruise.md 1.0: Normal is available, and so is no state": {
			change: func(p *corev1.Pod) { p.Labels[appsv1alpha1.LabelLifecycleState] = "Normal" },
			want:   func(p inplace.Pod) any { return p.Available }, wantResult: true,
		},
		"a pod that a hook holds serves and is not available": {
			change: func(p *corev1.Pod) { p.Labels[appsv1alpha1.LabelLifecycleState] = "PreparingUpdate" },
			want:   func(p inplace.Pod) any { return []any{p.Ready, p.Available, p.AvailableIn, p.InService()} }, wantResult: []any{true, false, time.Duration(0), true},
		},
		"a new pod that its preNormal hook has not let in": {
			change: func(p *corev1.Pod) { p.Labels[appsv1alpha1.LabelLifecycleState] = "PreparingNormal" },
			want:   func(p inplace.Pod) any { return p.Available }, wantResult: false,
		},
		"a state that nobody knows is not available": {
			change: func(p *corev1.Pod) { p.Labels[appsv1alpha1.LabelLifecycleState] = "Sleeping" },
			want:   func(p inplace.Pod) any { return p.Available }, wantResult: false,
		},
		"OpenKruise's hooks held it, and nobody else": {
			change: func(p *corev1.Pod) { kruiseGate(p, "False", `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`) },
			want:   func(p inplace.Pod) any { return p.Kruise }, wantResult: &inplace.KruiseReady{Ready: true},
		},
		"a restart request holds it too": {
			change: func(p *corev1.Pod) {
				kruiseGate(p, "False", `[{"key":"ns/crr","userAgent":"ContainerRecreateRequest"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]`)
			},
			want: func(p inplace.Pod) any { return p.Kruise }, wantResult: &inplace.KruiseReady{Message: `[{"key":"ns/crr","userAgent":"ContainerRecreateRequest"}]`},
		},
		"only others hold it": {
			change: func(p *corev1.Pod) {
				kruiseGate(p, "False", `[{"key":"ns/crr","userAgent":"ContainerRecreateRequest"}]`)
			},
			want: func(p inplace.Pod) any { return p.Kruise }, wantResult: (*inplace.KruiseReady)(nil),
		},
		"nobody can say who holds it": {
			change: func(p *corev1.Pod) { kruiseGate(p, "False", `{Lifecycle`) },
			want:   func(p inplace.Pod) any { return p.Kruise }, wantResult: (*inplace.KruiseReady)(nil),
		},
		"OpenKruise's gate was never written": {
			change: func(p *corev1.Pod) { kruiseGate(p, "", "") },
			want:   func(p inplace.Pod) any { return p.Kruise }, wantResult: &inplace.KruiseReady{Ready: true},
		},
		"OpenKruise's gate is True": {
			change: func(p *corev1.Pod) { kruiseGate(p, "True", "[]") },
			want:   func(p inplace.Pod) any { return p.Kruise }, wantResult: (*inplace.KruiseReady)(nil),
		},
		"terminating, and when it should be gone": {
			change: func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now.Add(30 * time.Second))) },
			want:   func(p inplace.Pod) any { return p.GoneBy.Sub(now) }, wantResult: 30 * time.Second,
		},
		"a False gate is not available, though Ready lags behind": {
			change: func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse },
			want:   func(p inplace.Pod) any { return []any{p.Gate, p.Ready, p.Available} }, wantResult: []any{inplace.GateFalse, true, false},
		},
		"an Unknown gate is False": {
			change: func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionUnknown },
			want:   func(p inplace.Pod) any { return p.Gate }, wantResult: inplace.GateFalse,
		},
		"a gate whose condition was never written": {
			change: func(p *corev1.Pod) { p.Status.Conditions = p.Status.Conditions[:1] },
			want:   func(p inplace.Pod) any { return p.Gate }, wantResult: inplace.GateUnset,
		},
		"no gate, though somebody wrote the condition": {
			change: func(p *corev1.Pod) { p.Spec.ReadinessGates = nil },
			want:   func(p inplace.Pod) any { return p.Gate }, wantResult: inplace.GateNone,
		},
		"terminating": {
			change: func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now)) },
			want:   func(p inplace.Pod) any { return []any{p.Phase, p.Active(), p.Ready, p.Available} }, wantResult: []any{inplace.PhaseTerminating, false, false, false},
		},
		"failed": {
			change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
			want:   func(p inplace.Pod) any { return []any{p.Phase, p.Ready} }, wantResult: []any{inplace.PhaseTerminal, false},
		},
		"no status at all": {
			change: func(p *corev1.Pod) { p.Status = corev1.PodStatus{} },
			want:   func(p inplace.Pod) any { return []any{p.Phase, p.Ready, p.Gate, p.Containers[0].Known} }, wantResult: []any{inplace.PhasePending, false, inplace.GateUnset, false},
		},
		"a container that the status does not mention": {
			want: func(p inplace.Pod) any { return p.Containers[1] }, wantResult: inplace.Container{Name: "side", Image: "side:v1"},
		},
		"a container that waits": {
			change: func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "m"}}
			},
			want: func(p inplace.Pod) any { return p.Containers[0] },
			wantResult: inplace.Container{
				Name: "web", Image: "app:v1", RunningImage: "app:v1", ImageID: "sha1", ContainerID: "c1", Known: true, Ready: true, Started: true,
				Waiting: "ImagePullBackOff", WaitingMessage: "m",
			},
		},
		"specified delete, whatever the value": {
			change: func(p *corev1.Pod) { p.Labels[appsv1alpha1.LabelSpecifiedDelete] = "false" },
			want:   func(p inplace.Pod) any { return p.SpecifiedDelete }, wantResult: true,
		},
		"deletion cost": {
			change: func(p *corev1.Pod) { p.Annotations[appsv1alpha1.AnnotationDeletionCost] = "-5" },
			want:   func(p inplace.Pod) any { return p.DeletionCost }, wantResult: int32(-5),
		},
		"a deletion cost that is none": {
			change: func(p *corev1.Pod) { p.Annotations[appsv1alpha1.AnnotationDeletionCost] = "99999999999" },
			want:   func(p inplace.Pod) any { return p.DeletionCost }, wantResult: int32(0),
		},
		"what it replaces": {
			change: func(p *corev1.Pod) { p.Annotations[appsv1alpha1.AnnotationReplaces] = "web-0" },
			want:   func(p inplace.Pod) any { return []string{p.Replaces, p.Revision} }, wantResult: []string{"web-0", "web-1"},
		},
		"a state": {
			change: func(p *corev1.Pod) {
				p.Annotations[appsv1alpha1.AnnotationInPlaceState] = `{"revision":"web-2","updateTimestamp":"2026-11-29T11:59:00Z","lastContainerStatuses":{"web":{"imageID":"x"}}}`
			},
			want: func(p inplace.Pod) any {
				return []any{p.State.Revision, p.State.LastContainerStatuses["web"].ImageID, p.State.LastContainerStatuses["web"].ContainerID == nil, p.StateProblem}
			},
			wantResult: []any{"web-2", "x", true, ""},
		},
		"a state that is not JSON is a problem, not a guess": {
			change: func(p *corev1.Pod) { p.Annotations[appsv1alpha1.AnnotationInPlaceState] = `{"revision":` },
			want:   func(p inplace.Pod) any { return []bool{p.State == nil, p.StateProblem != ""} }, wantResult: []bool{true, true},
		},
		"an empty state is a problem": {
			change: func(p *corev1.Pod) { p.Annotations[appsv1alpha1.AnnotationInPlaceState] = `` },
			want:   func(p inplace.Pod) any { return p.StateProblem != "" }, wantResult: true,
		},
		"a parked update": {
			change: func(p *corev1.Pod) {
				p.Annotations[appsv1alpha1.AnnotationInPlaceGrace] = `{"revision":"web-2","containerImages":{"web":"app:v2"},"graceSeconds":5}`
			},
			want: func(p inplace.Pod) any { return []any{p.Parked.ContainerImages, p.Parked.Problem} }, wantResult: []any{map[string]string{"web": "app:v2"}, ""},
		},
		"a parked resize": {
			change: func(p *corev1.Pod) {
				p.Annotations[appsv1alpha1.AnnotationInPlaceGrace] = `{"revision":"web-2","containerResources":{"web":{"limits":{"cpu":"2"}}},"containerRefMetadata":{"web":{"labels":{"a":"b"},"creationTimestamp":null}}}`
			},
			want: func(p inplace.Pod) any {
				parked := p.Parked.ContainerResources["web"]
				return []any{p.Parked.Problem, parked.Limits.Cpu().String(), p.Parked.ContainerRefMetadata["web"].Labels["a"]}
			}, wantResult: []any{"", "2", "b"},
		},
		"the next batches of OpenKruise": {
			change: func(p *corev1.Pod) {
				p.Annotations[appsv1alpha1.AnnotationInPlaceState] = `{"revision":"web-2","updateTimestamp":"2026-11-29T11:59:00Z","lastContainerStatuses":{},"nextContainerImages":{"b":"x"},"nextContainerResources":{"b":{"requests":{"cpu":"1"}}},"preCheckBeforeNext":{"containersRequiredReady":["a"]},"containerBatchesRecord":[{"timestamp":"2026-11-29T11:59:00Z","containers":["a"]}]}`
			},
			want: func(p inplace.Pod) any {
				next := p.State.NextContainerResources["b"]
				return []any{p.State.Next(), p.State.PreCheckBeforeNext.ContainersRequiredReady, len(p.State.ContainerBatchesRecord), next.Requests.Cpu().String()}
			}, wantResult: []any{true, []string{"a"}, 1, "1"},
		},
		"launch priorities, p_-3 too": {
			change: func(p *corev1.Pod) {
				for i, key := range []string{"p_20", "p_-3"} {
					p.Spec.Containers[i].Env = []corev1.EnvVar{{Name: "X"}, {Name: "KRUISE_CONTAINER_BARRIER", ValueFrom: &corev1.EnvVarSource{
						ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: key},
					}}}
				}
			},
			want: func(p inplace.Pod) any { return []int32{*p.Containers[0].Priority, *p.Containers[1].Priority} }, wantResult: []int32{20, -3},
		},
		"a barrier that nobody can read is none": {
			change: func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "KRUISE_CONTAINER_BARRIER", Value: "p_1"}}
			},
			want: func(p inplace.Pod) any { return p.Containers[0].Priority == nil }, wantResult: true,
		},
		"init containers and native sidecars come after the containers, with the statuses of their own list": {
			change: func(p *corev1.Pod) {
				always := corev1.ContainerRestartPolicyAlways
				p.Spec.InitContainers = []corev1.Container{{Name: "prep", Image: "prep:1"}, {Name: "log", Image: "log:1", RestartPolicy: &always}}
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{
					{Name: "log", ImageID: "shaL", ContainerID: "l1", Started: new(false), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				}
			},
			want: func(p inplace.Pod) any {
				return []any{p.Containers[2].Name, p.Containers[2].Kind, p.Containers[2].Known, p.Containers[3].Kind, p.Containers[3].ContainerID, p.Containers[3].Started}
			}, wantResult: []any{"prep", inplace.KindInit, false, inplace.KindSidecar, "l1", false},
		},
		"cpu and memory, what runs of them, and whose change restarts": {
			change: func(p *corev1.Pod) {
				c, s := &p.Spec.Containers[0], &p.Status.ContainerStatuses[0]
				c.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("2"), "nvidia.com/gpu": resource.MustParse("1")}}
				c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "memory", RestartPolicy: corev1.RestartContainer}, {ResourceName: "cpu", RestartPolicy: corev1.NotRequired}}
				s.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}
			},
			want: func(p inplace.Pod) any {
				c := p.Containers[0]
				return []any{len(c.Resources.Limits), c.Resources.Limits.Cpu().String(), c.RunningResources.Limits.Cpu().String(), c.ResizeRestarts}
			}, wantResult: []any{1, "2", "1", []corev1.ResourceName{"memory"}},
		},
		"a resize that waits for room": {
			change: func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: "Deferred", Message: "no room"})
			},
			want: func(p inplace.Pod) any { return p.Resize }, wantResult: inplace.Resize{Pending: inplace.ResizeDeferred, Message: "no room"},
		},
		"a resize that fails": {
			change: func(p *corev1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: "Error", Message: "m"})
			},
			want: func(p inplace.Pod) any { return p.Resize }, wantResult: inplace.Resize{InProgress: true, Failing: true, Message: "m"},
		},
		"how the last run ended": {
			change: func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}
			},
			want: func(p inplace.Pod) any { return p.Containers[0].LastExit }, wantResult: "exit code 3",
		},
		"out of memory": {
			change: func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}
			},
			want: func(p inplace.Pod) any { return p.Containers[0].LastExit }, wantResult: "OOMKilled",
		},
		"unschedulable": {
			change: func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"}}
			},
			want: func(p inplace.Pod) any { return p.Unschedulable }, wantResult: "0/1 nodes",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := running()
			if tc.change != nil {
				tc.change(pod)
			}
			got := podview.From(pod, podview.Around{Now: now, MinReadySeconds: tc.minReady})
			if diff := cmp.Diff(tc.wantResult, tc.want(got)); diff != "" {
				t.Error(diff)
			}
			if got.Ref != (inplace.Ref{Namespace: "ns", Name: "web-a", UID: "u", ResourceVersion: "7"}) {
				t.Errorf("ref %+v", got.Ref)
			}
		})
	}
}

func endpoint(pod string, ready, serving *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: pod},
		Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving},
	}
}

func TestEndpointsOf(t *testing.T) {
	t.Parallel()
	slice := func(name string, e ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Endpoints: e}
	}
	yes, no := new(true), new(false)
	got := podview.EndpointsOf([]*discoveryv1.EndpointSlice{
		slice("z-ready", endpoint("a", yes, yes)),
		slice("unset-is-ready", endpoint("a", nil, nil)),
		slice("other-pod", endpoint("b", yes, yes)),
		slice("unready", endpoint("a", no, no)),
		slice("published", endpoint("a", yes, no)),
		slice("both", endpoint("a", yes, no), endpoint("a", yes, yes)),
		slice("no-target", discoveryv1.Endpoint{}),
		slice("a-node", discoveryv1.Endpoint{TargetRef: &corev1.ObjectReference{Kind: "Node", Name: "a"}}),
	}, "a")
	want := podview.Endpoints{Ready: []string{"both", "unset-is-ready", "z-ready"}, Published: []string{"published"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMemoryCountsOnOurClock(t *testing.T) {
	t.Parallel()
	m := podview.NewMemory()
	pod := running()
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	check := func(name string, got inplace.Seen, same, notReady, drained time.Time) {
		t.Helper()
		got.FoundReady = time.Time{}
		got.UnreadySince = time.Time{}
		if diff := cmp.Diff(inplace.Seen{SameSince: same, NotReadySince: notReady, DrainedSince: drained}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	none := time.Time{}
	check("first", m.Look(pod, podview.Endpoints{}, at(0)), at(0), none, none)
	pod.Status.Conditions[1].Status = corev1.ConditionFalse
	check("gate False, still Ready", m.Look(pod, podview.Endpoints{}, at(1)), at(0), none, none)
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	named := podview.Endpoints{Ready: []string{"s"}}
	check("not ready, still named", m.Look(pod, named, at(2)), at(0), at(2), none)
	check("no longer named", m.Look(pod, podview.Endpoints{}, at(3)), at(0), at(2), at(3))
	check("named again", m.Look(pod, named, at(4)), at(0), at(2), none)
	pod.Status.ContainerStatuses[0].ContainerID = "c2"
	check("another container", m.Look(pod, podview.Endpoints{}, at(5)), at(5), at(2), at(5))
	pod.Status.ObservedGeneration = 4
	check("another generation observed", m.Look(pod, podview.Endpoints{}, at(6)), at(6), at(2), at(5))
	pod.Status.Conditions[1].Status = corev1.ConditionTrue
	check("gate True", m.Look(pod, podview.Endpoints{}, at(7)), at(6), none, none)
	m.Forget(pod.UID)
	if m.Len() != 0 {
		t.Error("it is not forgotten")
	}
	check("after a restart everything begins anew", m.Look(pod, podview.Endpoints{}, at(9)), at(9), none, none)
}

// Other people's annotations never panic, and are never half believed.
func FuzzAnnotations(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `[]`, `{}`, `{"revision":1}`, `{"revision":"r","lastContainerStatuses":{"a":null}}`,
		`{"revision":"r","updateTimestamp":"yesterday"}`, `{"revision":"r","generation":-1}`, `{"revision":"r","nextContainerImages":{"a":"b"}}`,
		`{"revision":"r","containerImages":{"a":"b"},"metaDataPatch":{"metadata":{"labels":{"x":null}}},"graceSeconds":5}`,
		strings.Repeat(`{"a":`, 100),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		pod := running()
		pod.Annotations[appsv1alpha1.AnnotationInPlaceState] = text
		pod.Annotations[appsv1alpha1.AnnotationInPlaceGrace] = text
		p := podview.From(pod, podview.Around{Now: now})
		if (p.State == nil) != (p.StateProblem != "") {
			t.Errorf("state %v, problem %q", p.State, p.StateProblem)
		}
		if p.Parked == nil || (p.Parked.Problem == "" && p.Parked.Revision == "") {
			t.Errorf("parked %+v", p.Parked)
		}
	})
}

// TestDown: a pod is down by its kubelet's word or after a while, by our clock, not because it is called not ready for a
// moment, nor because its node is not heard from.
func TestDown(t *testing.T) {
	t.Parallel()
	unready := func(p *corev1.Pod) {
		p.Status.Conditions[0].Status = corev1.ConditionFalse
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse})
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		// after is how long the pod has looked like this.
		after  time.Duration
		down   bool
		downIn time.Duration
	}{
		"ready": {change: func(*corev1.Pod) {}, after: time.Hour},
		"a kubelet that starts anew calls its pods not ready": {change: unready, after: 250 * time.Millisecond, downIn: 9750 * time.Millisecond},
		"not ready for a while":                               {change: unready, after: 10 * time.Second, down: true},
		"its node is not heard from": {change: func(p *corev1.Pod) {
			unready(p)
			p.Status.Conditions[2].Status = corev1.ConditionTrue
		}, after: time.Hour},
		"trouble by the kubelet's word": {change: func(p *corev1.Pod) {
			unready(p)
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}
		}, down: true},
		"a startup probe that has not succeeded": {change: func(p *corev1.Pod) {
			unready(p)
			p.Status.ContainerStatuses[0].Started = new(false)
		}, after: time.Second, downIn: 9 * time.Second},
		"drained by us": {change: func(p *corev1.Pod) {
			unready(p)
			p.Status.Conditions[1].Status = corev1.ConditionFalse
		}, down: true},
		"not started": {change: func(p *corev1.Pod) {
			unready(p)
			p.Status.Phase = corev1.PodPending
		}, down: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, pod := podview.NewMemory(), running()
			tc.change(pod)
			m.Look(pod, podview.Endpoints{}, now.Add(-tc.after))
			got := podview.From(pod, podview.Around{Now: now, Seen: m.Look(pod, podview.Endpoints{}, now)})
			if got.Down != tc.down || got.DownIn != tc.downIn || got.InService() != !tc.down {
				t.Errorf("down %v in %s, in service %v", got.Down, got.DownIn, got.InService())
			}
		})
	}
}

// TestAStartIsNoFlap: a pod that has just started, and whose kubelet starts anew then, is not down: the time of its start does
// not count. Seen on a real kubelet, 7 s after the pod became Ready.
func TestAStartIsNoFlap(t *testing.T) {
	t.Parallel()
	m, pod := podview.NewMemory(), running()
	set := func(status corev1.ConditionStatus) {
		pod.Status.Conditions = append(pod.Status.Conditions[:2:2], corev1.PodCondition{Type: corev1.ContainersReady, Status: status})
		pod.Status.Conditions[0].Status = status
	}
	for _, step := range []struct {
		second int
		ready  corev1.ConditionStatus
		down   bool
	}{
		{0, corev1.ConditionFalse, false},
		{8, corev1.ConditionTrue, false},
		{15, corev1.ConditionFalse, false},
		{16, corev1.ConditionTrue, false},
		// Twice more within ten seconds: now it flaps.
		{20, corev1.ConditionFalse, false},
		{23, corev1.ConditionTrue, false},
		{26, corev1.ConditionFalse, true},
	} {
		set(step.ready)
		at := now.Add(time.Duration(step.second) * time.Second)
		got := podview.From(pod, podview.Around{Now: at, Seen: m.Look(pod, podview.Endpoints{}, at)})
		if got.Down != step.down {
			t.Errorf("after %d s: down %v", step.second, got.Down)
		}
	}
}

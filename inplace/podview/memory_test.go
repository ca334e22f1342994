package podview_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podview"
)

func at(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }

// TestB107ClockSkew: a node whose clock is 30 s off makes its pods available neither early nor late.
func TestB107ClockSkew(t *testing.T) {
	t.Parallel()
	const minReady = 10
	look := func(m *podview.Memory, pod *corev1.Pod, second int) inplace.Pod {
		return podview.From(pod, podview.Around{
			Now: at(second), MinReadySeconds: minReady, Seen: m.Look(pod, podview.Endpoints{}, at(second)),
		})
	}
	for name, skew := range map[string]time.Duration{"30 s ahead": 30 * time.Second, "30 s behind": -30 * time.Second, "right": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, pod := podview.NewMemory(), running()
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			look(m, pod, 0)
			pod.Status.Conditions[0].Status = corev1.ConditionTrue
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(at(1).Add(skew))
			if p := look(m, pod, 1); p.Available || p.AvailableIn != 10*time.Second {
				t.Errorf("at once: available %v, in %s", p.Available, p.AvailableIn)
			}
			if p := look(m, pod, 10); p.Available || p.AvailableIn != time.Second {
				t.Errorf("after 9 s: available %v, in %s", p.Available, p.AvailableIn)
			}
			if p := look(m, pod, 11); !p.Available {
				t.Errorf("after 10 s: in %s", p.AvailableIn)
			}
		})
	}
	t.Run("Ready at our first look, the node 30 s ahead", func(t *testing.T) {
		t.Parallel()
		m, pod := podview.NewMemory(), running()
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(at(30))
		if p := look(m, pod, 0); p.Available || p.AvailableIn != 10*time.Second {
			t.Errorf("available %v, in %s", p.Available, p.AvailableIn)
		}
		if p := look(m, pod, 10); !p.Available {
			t.Errorf("in %s", p.AvailableIn)
		}
	})
	t.Run("Ready for long at our first look: available at once, or a restart of the agent would stop every release", func(t *testing.T) {
		t.Parallel()
		if p := look(podview.NewMemory(), running(), 0); !p.Available {
			t.Errorf("in %s", p.AvailableIn)
		}
	})
}

func cpu(text string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}}
}

func TestARefusedResizeIsRememberedWhileItIsWanted(t *testing.T) {
	t.Parallel()
	m, pod := podview.NewMemory(), running()
	wants := func(text string) {
		pod.Annotations[appsv1alpha1.AnnotationInPlaceState] = `{"revision":"web-2","updateTimestamp":"2026-11-29T11:59:00Z","lastContainerStatuses":{},"resources":{"web":{"limits":{"cpu":"` + text + `"}}}}`
	}
	refused := func(second int) *inplace.ResizeRefusal {
		return m.Look(pod, podview.Endpoints{}, at(second)).ResizeRefused
	}
	patch := func(text string) inplace.Patch {
		return inplace.Patch{Ref: inplace.Ref{UID: pod.UID}, Resources: map[string]corev1.ResourceRequirements{"web": cpu(text)}}
	}
	wants("2")
	if got := refused(0); got != nil {
		t.Fatalf("%+v", got)
	}
	m.Refuse(patch("2000m"), "quota", false, at(1))
	m.Refuse(patch("2"), "quota still", false, at(3))
	want := &inplace.ResizeRefusal{Message: "quota still", Since: at(1), Last: at(3)}
	if diff := cmp.Diff(want, refused(4)); diff != "" {
		t.Error(diff)
	}
	wants("3")
	if got := refused(5); got != nil {
		t.Errorf("another size was not refused: %+v", got)
	}
	m.Refuse(patch("3"), "too big", true, at(6))
	if got := refused(7); got == nil || !got.Final || !got.Since.Equal(at(6)) {
		t.Errorf("%+v", got)
	}
	m.Forget(pod.UID)
	if got := refused(8); got != nil {
		t.Errorf("%+v", got)
	}
}

// TestTroubleDoesNotFlap: what a kubelet alternates between is one trouble with one beginning.
func TestTroubleDoesNotFlap(t *testing.T) {
	t.Parallel()
	m, pod := podview.NewMemory(), running()
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	s := &pod.Status.ContainerStatuses[0]
	look := func(second int, change func()) inplace.Trouble {
		change()
		return m.Look(pod, podview.Endpoints{}, at(second)).Trouble
	}
	waits := func(reason string) func() {
		return func() {
			s.Ready, s.State = false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
		}
	}
	runs := func(id string, ready bool) func() {
		return func() {
			s.ContainerID, s.Ready, s.State = id, ready, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}
	}
	none := inplace.Trouble{}
	pull := inplace.Trouble{Reason: inplace.TroublePull, Container: "web", Since: at(1)}
	crash := inplace.Trouble{Reason: inplace.TroubleCrash, Container: "web", Since: at(5)}
	cases := []struct {
		second int
		change func()
		want   inplace.Trouble
	}{
		{0, waits("ContainerCreating"), none},
		{1, waits("ErrImagePull"), pull},
		{2, waits("ImagePullBackOff"), pull},
		{3, waits("ErrImagePull"), pull},
		{4, runs("c2", false), none},
		{5, waits("CrashLoopBackOff"), crash},
		{6, runs("c3", false), crash},
		{7, func() { s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}} }, crash},
		{8, waits("CrashLoopBackOff"), crash},
		{9, runs("c4", false), crash},
		{19, runs("c4", false), none},
		{20, waits("CrashLoopBackOff"), inplace.Trouble{Reason: inplace.TroubleCrash, Container: "web", Since: at(20)}},
		{21, runs("c5", true), none},
		{22, waits("CrashLoopBackOff"), inplace.Trouble{Reason: inplace.TroubleCrash, Container: "web", Since: at(22)}},
		{23, func() { runs("c6", false)(); pod.Generation++ }, none},
		{24, func() { s.Started = new(false) }, inplace.Trouble{Reason: inplace.TroubleStartup, Container: "web", Since: at(24)}},
		{25, func() { pod.DeletionTimestamp = new(metav1.NewTime(now)) }, none},
	}
	for _, tc := range cases {
		if diff := cmp.Diff(tc.want, look(tc.second, tc.change)); diff != "" {
			t.Errorf("second %d: %s", tc.second, diff)
		}
	}
}

// B081: a native sidecar's restart begins the quiet time anew, as a container's does.
func TestB081SameSinceFollowsSidecars(t *testing.T) {
	t.Parallel()
	m, pod := podview.NewMemory(), running()
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "log", ContainerID: "l1"}}
	m.Look(pod, podview.Endpoints{}, at(0))
	pod.Status.InitContainerStatuses[0].ContainerID = "l2"
	if got := m.Look(pod, podview.Endpoints{}, at(7)).SameSince; !got.Equal(at(7)) {
		t.Errorf("since %s", got)
	}
}

// TestAnAbsentImageIsNoCrash: a kubelet whose new image is absent shows the back-off of the container before it in between.
// That is no crash of the new image, and the trouble goes on since its beginning.
func TestAnAbsentImageIsNoCrash(t *testing.T) {
	t.Parallel()
	m, pod := podview.NewMemory(), running()
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Spec.Containers[0].Image = "app:absent"
	pod.Annotations[appsv1alpha1.AnnotationInPlaceState] = `{"revision":"web-2","updateTimestamp":"2026-11-29T11:59:00Z",` +
		`"lastContainerStatuses":{"web":{"imageID":"sha1","containerID":"c1","image":"app:v1"}},"generation":3}`
	for i, step := range []struct{ waiting, id, want string }{
		{"CrashLoopBackOff", "c1", inplace.TroubleNotStarted},
		{"ErrImageNeverPull", "c1", "ErrImageNeverPull"},
		{"CrashLoopBackOff", "c1", "ErrImageNeverPull"},
		{"ErrImageNeverPull", "c1", "ErrImageNeverPull"},
	} {
		status := &pod.Status.ContainerStatuses[0]
		status.ContainerID, status.State = step.id, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: step.waiting}}
		got := m.Look(pod, podview.Endpoints{}, at(i)).Trouble
		if got.Reason != step.want || got.Container != "web" || !got.Since.Equal(at(0)) {
			t.Errorf("%d: %s after %s since %s, want %s", i, got.Reason, step.waiting, got.Since, step.want)
		}
	}
	pod.Status.ContainerStatuses[0].ContainerID = "c2"
	pod.Status.ContainerStatuses[0].State.Waiting.Reason = "CrashLoopBackOff"
	if got := m.Look(pod, podview.Endpoints{}, at(9)).Trouble; got.Reason != inplace.TroubleCrash || !got.Since.Equal(at(9)) {
		t.Errorf("the new container crashes: %+v", got)
	}
}

// TestAPodThatFlapsBetweenTwoLooksStartsAnew: it was Ready at both looks and not between them, as its condition says.
func TestAPodThatFlapsBetweenTwoLooksStartsAnew(t *testing.T) {
	t.Parallel()
	m, pod := podview.NewMemory(), running()
	look := func(second int) inplace.Pod {
		return podview.From(pod, podview.Around{Now: at(second), MinReadySeconds: 10, Seen: m.Look(pod, podview.Endpoints{}, at(second))})
	}
	if p := look(0); !p.Available {
		t.Fatalf("at first: in %s", p.AvailableIn)
	}
	pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(at(3))
	if p := look(5); p.Available || p.AvailableIn != 10*time.Second {
		t.Errorf("after it flapped: available %v, in %s", p.Available, p.AvailableIn)
	}
	if p := look(15); !p.Available {
		t.Errorf("10 s later: in %s", p.AvailableIn)
	}
}

package podview

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// Memory remembers, per pod, since when it looks as it does, on our own clock: the clocks of nodes and of the agent are
// never compared. It is a cache: after a restart every wait begins anew, which is safe. It is safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	pods map[types.UID]memo
}

type memo struct {
	looks      string
	seen       inplace.Seen
	generation int64
	// ready is the pod's Ready condition at the last look; settled is set when it was Ready before with these containers.
	ready, settled bool
	// turned is that condition's own transition time: compared with itself only, it tells that the pod was not ready between
	// two looks.
	turned time.Time
	// refused is what the API server refused, by container, and how it said so.
	refused map[string]corev1.ResourceRequirements
	refusal inplace.ResizeRefusal
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{pods: map[types.UID]memo{}}
}

// crashCalm is how long a container that crashed again and again must run before it is out of trouble: between two
// crashes it runs too.
const crashCalm = 10 * time.Second

// Look records how the pod looks at now and returns the marks.
func (m *Memory) Look(pod *corev1.Pod, endpoints Endpoints, now time.Time) inplace.Seen {
	view := inplace.Pod{
		Phase: phase(pod), Generation: pod.Generation, Containers: containers(pod), Unschedulable: unschedulable(pod),
	}
	view.State, _ = state(pod)
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.pods[pod.UID]
	next := memo{looks: looks(pod), generation: pod.Generation, refused: last.refused, refusal: last.refusal}
	next.seen.SameSince = since(next.looks == last.looks, last.seen.SameSince, now)
	ready := condition(pod, corev1.PodReady)
	next.ready = ready != nil && ready.Status == corev1.ConditionTrue
	if ready != nil {
		next.turned = ready.LastTransitionTime.Time
	}
	next.readiness(last, now)
	c := condition(pod, corev1.ContainersReady)
	unready := !next.ready && (c == nil || c.Status != corev1.ConditionTrue || heldByOthers(pod))
	// Readiness that comes and goes counts as not ready all along. The time in which containers started does not belong to it.
	same := next.looks == last.looks
	flaps := next.ready && same && last.settled && !last.seen.UnreadySince.IsZero() && now.Sub(next.seen.ReadySince) < crashCalm
	next.settled = next.ready || (same && last.settled)
	if unready || flaps {
		next.seen.UnreadySince = since(true, last.seen.UnreadySince, now)
	}
	if g, _ := gate(pod); g == inplace.GateFalse && !next.ready {
		next.seen.NotReadySince = since(true, last.seen.NotReadySince, now)
		if len(endpoints.Ready) == 0 {
			next.seen.DrainedSince = since(true, last.seen.DrainedSince, now)
		}
	}
	next.trouble(&view, last, now)
	seen := next.seen
	switch s := view.State; {
	case s == nil:
	case asks(next.refused, s.Resources):
		seen.ResizeRefused = new(next.refusal)
	default:
		next.refused, next.refusal = nil, inplace.ResizeRefusal{}
	}
	m.pods[pod.UID] = next
	return seen
}

// heldByOthers reports whether somebody else's readiness gate is not True.
func heldByOthers(pod *corev1.Pod) bool {
	for _, g := range pod.Spec.ReadinessGates {
		if g.ConditionType == appsv1alpha1.ConditionInPlaceUpdateReady {
			continue
		}
		if c := condition(pod, g.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// readiness keeps since when the pod is Ready.
func (next *memo) readiness(last memo, now time.Time) {
	switch {
	case !next.ready:
	case last.looks == "":
		next.seen.FoundReady = now
	case last.ready && next.turned.Equal(last.turned):
		next.seen.ReadySince, next.seen.FoundReady = last.seen.ReadySince, last.seen.FoundReady
	default:
		next.seen.ReadySince = now
	}
}

// trouble keeps since when the pod is in the trouble it is in.
func (next *memo) trouble(view *inplace.Pod, last memo, now time.Time) {
	if !view.Active() {
		return
	}
	t, was := view.TroubleNow(), last.seen.Trouble
	if next.crashesOn(view, t, last, now) {
		t = inplace.Trouble{Reason: was.Reason, Container: was.Container}
	}
	if t.Reason == "" {
		return
	}
	t.Since = now
	switch {
	case t.Container != was.Container || was.Reason == "":
	case t.Reason == was.Reason:
		t.Since = was.Since
	case last.generation != next.generation:
	case t.Reason == inplace.TroubleNotStarted && was.Reason != inplace.TroubleCrash && was.Reason != inplace.TroubleStartup:
		// The kubelet said why the new image cannot be used; that still holds while the old container's back-off shows.
		t = was
	case was.Reason == inplace.TroubleNotStarted:
		t.Since = was.Since
	}
	next.seen.Trouble = t
}

// crashesOn reports whether a container that was seen crashing only runs between two crashes.
func (next *memo) crashesOn(view *inplace.Pod, t inplace.Trouble, last memo, now time.Time) bool {
	was := last.seen.Trouble
	if was.Reason != inplace.TroubleCrash || last.generation != next.generation || (t.Reason != "" && t.Container != was.Container) {
		return false
	}
	c := view.Container(was.Container)
	if c == nil || c.Waiting != "" {
		return false
	}
	calm := c.Running && c.Started && (c.Ready || now.Sub(next.seen.SameSince) >= crashCalm)
	return !calm
}

// since keeps the earlier mark while it holds.
func since(holds bool, mark, now time.Time) time.Time {
	if !holds || mark.IsZero() {
		return now
	}
	return mark
}

// Refuse remembers that the API server refused the resize of a patch (Update or Resize), with its message; final when the
// answer would be the same on another try. Look returns it as Seen.ResizeRefused for as long as the pod's state asks for
// those resources.
func (m *Memory) Refuse(p inplace.Patch, message string, final bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	refused := maps.Clone(p.Resources)
	if refused == nil {
		refused = map[string]corev1.ResourceRequirements{}
	}
	maps.Copy(refused, p.InitResources)
	memo := m.pods[p.UID]
	since := now
	if asks(refused, memo.refused) && asks(memo.refused, refused) {
		since = memo.refusal.Since
	}
	memo.refused = refused
	memo.refusal = inplace.ResizeRefusal{Message: message, Final: final, Since: since, Last: now}
	m.pods[p.UID] = memo
}

// asks reports whether wanted names all of part, with the same values.
func asks(part, wanted map[string]corev1.ResourceRequirements) bool {
	for name, r := range part {
		w, ok := wanted[name]
		if !ok || !inplace.SameResources(r, w) {
			return false
		}
	}
	return len(part) > 0
}

// Forget drops a pod that is gone.
func (m *Memory) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

// Len is how many pods are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pods)
}

// looks is what must stay the same for SameSince to stand.
func looks(pod *corev1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d", pod.Generation, pod.Status.ObservedGeneration)
	for i := range pod.Status.ContainerStatuses {
		write(&b, &pod.Status.ContainerStatuses[i])
	}
	// Init containers that have finished no longer change; native sidecars run as long as the pod.
	for i := range pod.Status.InitContainerStatuses {
		write(&b, &pod.Status.InitContainerStatuses[i])
	}
	return b.String()
}

func write(b *strings.Builder, s *corev1.ContainerStatus) {
	fmt.Fprintf(b, "|%s %s %s %t", s.Name, s.ContainerID, s.ImageID, s.State.Running != nil)
}

package plan_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// world is a member cluster in the small: an API server that checks resourceVersions, kubelets that act late, an
// endpoints controller that lags, and a user who changes his mind.
type world struct {
	rng  *rand.Rand
	now  time.Time
	rv   int
	ids  int
	pods map[string]*simPod
	// tracked is false where kubelets never set observedGeneration.
	tracked bool
	// sharedDigest makes app:v2 and app:v3 one digest, whose status.image is always app:v2.
	sharedDigest bool
}

// simPod is one pod with its history, so that an observer can see it late.
type simPod struct {
	name string
	// versions are immutable; the last is the truth; nil means gone.
	versions []*corev1.Pod
	// own is the oldest version that an observer who waits for its own writes may see.
	own int
	// real is what the kubelet runs, whatever the status says.
	real map[string]*simContainer
	// endpoint is what the EndpointSlice says.
	endpoint bool
	healthy  bool
	// charged is set while it is out of service because we took it down when it was available.
	charged bool
}

type simContainer struct {
	id      string
	image   string
	running bool
	// killAt is when the kubelet replaces it, having observed another image.
	killAt time.Time
}

func (p *simPod) truth() *corev1.Pod { return p.versions[len(p.versions)-1] }

func (w *world) names() []string {
	out := make([]string, 0, len(w.pods))
	for name := range w.pods {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// live are the pods that exist.
func (w *world) live() []*simPod {
	var out []*simPod
	for _, name := range w.names() {
		if p := w.pods[name]; p.truth() != nil {
			out = append(out, p)
		}
	}
	return out
}

// write stores a new version; f changes a copy.
func (w *world) write(p *simPod, f func(*corev1.Pod)) {
	next := p.truth().DeepCopy()
	f(next)
	w.rv++
	next.ResourceVersion = fmt.Sprint(w.rv)
	p.versions = append(p.versions, next)
}

func (w *world) remove(p *simPod) {
	p.versions = append(p.versions, nil)
	p.charged = false
}

func (w *world) create(name string, rev inplace.Revision, containers []corev1.Container) bool {
	if old := w.pods[name]; old != nil && old.truth() != nil {
		return false
	}
	w.rv++
	w.ids++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(fmt.Sprintf("uid-%d", w.ids)), ResourceVersion: fmt.Sprint(w.rv), Generation: 1,
			CreationTimestamp: metav1.NewTime(w.now),
			Labels:            map[string]string{appsv1alpha1.LabelPodRevision: rev.Name}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			NodeName: "n", Containers: containers,
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: appsv1alpha1.ConditionInPlaceUpdateReady}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	w.pods[name] = &simPod{name: name, versions: []*corev1.Pod{pod}, real: map[string]*simContainer{}, healthy: true}
	return true
}

func (w *world) digest(image string) string {
	if w.sharedDigest && image == "app:v3" {
		image = "app:v2"
	}
	return "sha256:" + image
}

// shown is the name that the runtime reports for an image.
func (w *world) shown(image string) string {
	if w.sharedDigest && image == "app:v3" {
		image = "app:v2"
	}
	return "docker.io/library/" + image
}

func bad(image string) bool { return image == "app:v6" }

// advance lets time pass; what a kubelet was about to kill by then, it has killed. A kubelet that has observed another
// image acts on it within 3 s: the proof of design 5 rests on that (real ones took 0.2 s).
func (w *world) advance(d time.Duration) {
	for _, p := range w.live() {
		w.begin(p)
	}
	w.now = w.now.Add(d)
	for _, p := range w.live() {
		if slices.ContainsFunc(containerList(p), func(c *simContainer) bool { return !c.killAt.IsZero() && !w.now.Before(c.killAt) }) {
			w.kubelet(p)
		}
	}
}

// begin sets the clock of what the kubelet has observed and not begun.
func (w *world) begin(p *simPod) {
	pod := p.truth()
	if pod == nil || (w.tracked && pod.Generation != pod.Status.ObservedGeneration) {
		return
	}
	for i := range pod.Spec.Containers {
		c := p.real[pod.Spec.Containers[i].Name]
		if c != nil && c.running && c.image != pod.Spec.Containers[i].Image && c.killAt.IsZero() {
			c.killAt = w.now.Add(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
		}
	}
}

func containerList(p *simPod) []*simContainer {
	var out []*simContainer
	for _, c := range p.real {
		out = append(out, c)
	}
	return out
}

// kubelet does one thing about one pod.
func (w *world) kubelet(p *simPod) {
	pod := p.truth()
	if pod == nil {
		return
	}
	if pod.DeletionTimestamp != nil {
		w.remove(p)
		return
	}
	observed := pod.Generation == pod.Status.ObservedGeneration || !w.tracked
	if w.tracked && !observed || w.act(p, pod) {
		w.report(p, pod.Generation)
		return
	}
	w.report(p, pod.Generation)
}

// act replaces or starts containers; it reports whether something changed.
func (w *world) act(p *simPod, pod *corev1.Pod) bool {
	changed := false
	for i := range pod.Spec.Containers {
		want := pod.Spec.Containers[i]
		c := p.real[want.Name]
		switch {
		case c == nil:
			if bad(want.Image) {
				continue
			}
			p.real[want.Name] = &simContainer{id: w.id(), image: want.Image, running: true}
			changed = true
		case !c.running && !bad(want.Image):
			*c = simContainer{id: w.id(), image: want.Image, running: true}
			changed = true
		case c.running && c.image != want.Image && c.killAt.IsZero():
			c.killAt = w.now.Add(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
		case c.running && !c.killAt.IsZero() && !w.now.Before(c.killAt):
			// A kubelet that had begun to kill does so even if the image was put back meanwhile.
			c.running, c.killAt = false, time.Time{}
			if w.rng.IntN(2) == 0 && !bad(want.Image) {
				*c = simContainer{id: w.id(), image: want.Image, running: true}
			}
			changed = true
		}
	}
	return changed
}

func (w *world) id() string {
	w.ids++
	return fmt.Sprintf("containerd://%d", w.ids)
}

// crash restarts a container with the image it had, before the kubelet has acted on another.
func (w *world) crash(p *simPod) {
	for _, c := range containerList(p) {
		if c.running {
			c.id = w.id()
		}
	}
}

// report writes the status, if it says something new.
func (w *world) report(p *simPod, generation int64) {
	pod := p.truth()
	next := pod.Status.DeepCopy()
	if w.tracked {
		next.ObservedGeneration = generation
	}
	all := true
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		s := corev1.ContainerStatus{Name: name}
		c := p.real[name]
		switch {
		case c == nil:
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
			all = false
		case c.running:
			s.ContainerID, s.Image, s.ImageID = c.id, w.shown(c.image), w.digest(c.image)
			s.State.Running = &corev1.ContainerStateRunning{}
		default:
			s.ContainerID, s.Image, s.ImageID = c.id, w.shown(c.image), w.digest(c.image)
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
			all = false
		}
		statuses = append(statuses, s)
	}
	next.ContainerStatuses = statuses
	if all && next.Phase == corev1.PodPending {
		next.Phase = corev1.PodRunning
	}
	ready := all && p.healthy && gateStatus(pod) == corev1.ConditionTrue
	setCondition(next, corev1.PodReady, boolStatus(ready), w.now)
	if !statusEqual(next, &pod.Status) {
		w.write(p, func(pod *corev1.Pod) { pod.Status = *next })
	}
	if p.charged && ready {
		p.charged = false
	}
}

// endpoints is the endpoints controller looking at one pod.
func (w *world) endpoints(p *simPod) {
	pod := p.truth()
	p.endpoint = pod != nil && pod.DeletionTimestamp == nil && isReady(pod)
}

func statusEqual(a, b *corev1.PodStatus) bool {
	if a.Phase != b.Phase || a.ObservedGeneration != b.ObservedGeneration || len(a.Conditions) != len(b.Conditions) ||
		len(a.ContainerStatuses) != len(b.ContainerStatuses) {
		return false
	}
	for i := range a.Conditions {
		if a.Conditions[i].Status != b.Conditions[i].Status {
			return false
		}
	}
	for i := range a.ContainerStatuses {
		x, y := &a.ContainerStatuses[i], &b.ContainerStatuses[i]
		if x.ContainerID != y.ContainerID || (x.State.Running == nil) != (y.State.Running == nil) {
			return false
		}
	}
	return true
}

func boolStatus(b bool) corev1.ConditionStatus {
	if b {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func setCondition(s *corev1.PodStatus, kind corev1.PodConditionType, status corev1.ConditionStatus, at time.Time) {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == kind {
			if c.Status != status {
				c.Status, c.LastTransitionTime = status, metav1.NewTime(at)
			}
			return
		}
	}
	s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(at)})
	slices.SortFunc(s.Conditions, func(a, b corev1.PodCondition) int { return cmp.Compare(a.Type, b.Type) })
}

func gateStatus(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == appsv1alpha1.ConditionInPlaceUpdateReady {
			return c.Status
		}
	}
	return ""
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

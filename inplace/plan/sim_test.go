package plan_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
	// builds are the pod specs of the revisions, by name.
	builds map[string]build
	// tracked is false where kubelets never set observedGeneration; mute where they report no resources.
	tracked, mute bool
	// stamped is set where the conditions about resizes carry the generation they were judged on.
	stamped bool
	// sharedDigest makes app:v2 and app:v3 one digest, whose status.image is always app:v2.
	sharedDigest bool
	// ordered gives web launch priority 20 and side 10; restarting makes a resize restart web.
	ordered, restarting bool
	// gateless makes pods without a readiness gate.
	gateless bool
	// room is false while nodes cannot hold cpu 7; quota is true while the API server refuses cpu 5.
	room, quota bool
	// calm ends all chance: what crashes stays down.
	calm bool
}

// build is what a revision's pods are made of: versions of images, a variable that cannot change in place, and cpu.
type build struct {
	app, side, log, prep, env, cpu int
}

// Amounts of cpu that not everybody grants.
const (
	cpuQuota      = 5
	cpuDeferred   = 7
	cpuInfeasible = 8
	cpuRefused    = 9
)

// simPod is one pod with its history, so that an observer can see it late.
type simPod struct {
	name string
	// versions are immutable; the last is the truth; nil means gone.
	versions []*corev1.Pod
	// own is the oldest version that an observer who waits for its own writes may see.
	own int
	// real is what the kubelet runs, whatever the status says; allocated is the cpu that it has granted.
	real      map[string]*simContainer
	allocated map[string]int64
	// pending is the reason why it has not granted what the spec asked for at generation judged.
	pending string
	judged  int64
	// actBy is when a kubelet that has observed a generation has acted on it.
	actBy time.Time
	// stopped is set while its kubelet is down.
	stopped bool
	// endpoint is what the EndpointSlice says.
	endpoint bool
	healthy  bool
	// garbled is set when somebody has written nonsense over its state.
	garbled bool
	// changes are the patches that ask for another image or for a resize that restarts, restarts what the kubelet made of
	// them; by container.
	changes, restarts map[string]int
}

type simContainer struct {
	id      string
	image   string
	cpu     int64
	running bool
	// killAt is when the kubelet replaces it, having observed another image or size.
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
}

func (w *world) create(name string, rev inplace.Revision, spec corev1.PodSpec) bool {
	if old := w.pods[name]; old != nil && old.truth() != nil {
		return false
	}
	w.rv++
	w.ids++
	spec.NodeName = "n"
	if !w.gateless {
		spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: appsv1alpha1.ConditionInPlaceUpdateReady}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(fmt.Sprintf("uid-%d", w.ids)), ResourceVersion: fmt.Sprint(w.rv), Generation: 1,
			CreationTimestamp: metav1.NewTime(w.now),
			Labels:            map[string]string{appsv1alpha1.LabelPodRevision: rev.Name}, Annotations: map[string]string{},
		},
		Spec:   spec,
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	p := &simPod{
		name: name, versions: []*corev1.Pod{pod}, real: map[string]*simContainer{}, healthy: true,
		allocated: map[string]int64{}, changes: map[string]int{}, restarts: map[string]int{},
	}
	for _, c := range living(pod) {
		p.allocated[c.Name] = cpuOf(c)
	}
	w.pods[name] = p
	return true
}

// living are the containers of a pod that run as long as it does.
func living(pod *corev1.Pod) []corev1.Container {
	out := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil {
			out = append(out, c)
		}
	}
	return out
}

func cpuOf(c corev1.Container) int64 { return c.Resources.Requests.Cpu().Value() }

func cpuRequest(n int64) corev1.ResourceRequirements {
	if n == 0 {
		return corev1.ResourceRequirements{}
	}
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}}
}

// spec is what the pods of a build look like.
func (w *world) spec(b build) corev1.PodSpec {
	always := corev1.ContainerRestartPolicyAlways
	image := func(name string, v int) string { return fmt.Sprintf("%s:v%d", name, v) }
	web := corev1.Container{Name: "web", Image: image("app", b.app), Resources: cpuRequest(int64(b.cpu))}
	side := corev1.Container{Name: "side", Image: image("side", b.side)}
	if w.restarting {
		web.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	}
	if w.ordered {
		for i, c := range []*corev1.Container{&web, &side} {
			c.Env = []corev1.EnvVar{{Name: "KRUISE_CONTAINER_BARRIER", ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: fmt.Sprintf("p_%d", 20-10*i)},
			}}}
		}
	}
	return corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Name: "prep", Image: image("prep", b.prep)},
			{Name: "log", Image: image("log", b.log), RestartPolicy: &always},
		},
		Containers: []corev1.Container{side, web},
	}
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

// bad images cannot be pulled, crashing ones end soon after their start.
func bad(image string) bool { return image == "app:v6" }

func crashing(image string) bool { return image == "app:v5" }

// within is how late a kubelet acts on what it has observed: the proof of design 5 rests on that (real ones took 0.2 s).
func (w *world) within() time.Time {
	return w.now.Add(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
}

// advance lets time pass; what a kubelet was about to do by then, it has done.
func (w *world) advance(d time.Duration) {
	for _, p := range w.live() {
		w.begin(p)
	}
	w.now = w.now.Add(d)
	for _, p := range w.live() {
		due := !p.actBy.IsZero() && !w.now.Before(p.actBy)
		due = due || slices.ContainsFunc(containerList(p), func(c *simContainer) bool { return !c.killAt.IsZero() && !w.now.Before(c.killAt) })
		if due && !p.stopped {
			w.kubelet(p)
		}
	}
}

// begin sets the clock of what the kubelet has observed and not begun.
func (w *world) begin(p *simPod) {
	pod := p.truth()
	if pod == nil || p.stopped || (w.tracked && pod.Generation != pod.Status.ObservedGeneration) {
		return
	}
	if p.actBy.IsZero() {
		p.actBy = w.within()
	}
	for _, want := range living(pod) {
		c := p.real[want.Name]
		if c != nil && c.running && c.image != want.Image && c.killAt.IsZero() {
			c.killAt = w.within()
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
	if pod == nil || p.stopped {
		return
	}
	if pod.DeletionTimestamp != nil {
		w.remove(p)
		return
	}
	p.actBy = time.Time{}
	if !w.tracked || pod.Generation == pod.Status.ObservedGeneration {
		w.act(p, pod)
	}
	w.report(p, pod.Generation)
}

// act grants sizes, and replaces or starts containers.
func (w *world) act(p *simPod, pod *corev1.Pod) {
	w.allocate(p, pod)
	for _, want := range living(pod) {
		w.container(p, want)
	}
}

// allocate grants the sizes of a pod, all or none.
func (w *world) allocate(p *simPod, pod *corev1.Pod) {
	p.pending, p.judged = "", pod.Generation
	for _, want := range living(pod) {
		switch cpu := cpuOf(want); {
		case cpu == p.allocated[want.Name]:
		case cpu >= cpuInfeasible:
			p.pending = inplace.ResizeInfeasible
		case cpu == cpuDeferred && !w.room && p.pending == "":
			p.pending = inplace.ResizeDeferred
		}
	}
	if p.pending != "" {
		return
	}
	for _, want := range living(pod) {
		p.allocated[want.Name] = cpuOf(want)
	}
}

func (w *world) container(p *simPod, want corev1.Container) {
	c, cpu := p.real[want.Name], p.allocated[want.Name]
	start := func() *simContainer {
		return &simContainer{id: w.id(), image: want.Image, cpu: cpu, running: true}
	}
	restarts := c != nil && (c.image != want.Image || (c.cpu != cpu && len(want.ResizePolicy) > 0))
	switch {
	case c == nil:
		if !bad(want.Image) {
			p.real[want.Name] = start()
		}
	case !c.running && w.calm && crashing(c.image) && crashing(want.Image):
		// The back-off is long by now.
	case !c.running && !bad(want.Image):
		*c = *start()
	case !c.running:
	case !c.killAt.IsZero() && !w.now.Before(c.killAt):
		// A kubelet that had begun to kill does so even if the image was put back meanwhile.
		c.running, c.killAt = false, time.Time{}
		p.restarts[want.Name]++
		if w.rng.IntN(2) == 0 && !bad(want.Image) {
			*c = *start()
		}
	case restarts && c.killAt.IsZero():
		c.killAt = w.within()
	case c.cpu != cpu && !restarts:
		c.cpu = cpu
	case crashing(c.image) && (w.calm || w.rng.IntN(2) == 0):
		c.running = false
	}
}

// owes reports whether the kubelet has observed what it has not acted on. One that dies just then, for longer than the
// quiet time, is the known limit of the proof by quiet time (DESIGN.md): the model's kubelets die before or after.
func (w *world) owes(p *simPod) bool {
	pod := p.truth()
	if pod == nil || pod.Generation != pod.Status.ObservedGeneration {
		return false
	}
	return slices.ContainsFunc(living(pod), func(want corev1.Container) bool {
		c := p.real[want.Name]
		return c != nil && (c.image != want.Image || c.cpu != cpuOf(want))
	})
}

func (w *world) id() string {
	w.ids++
	return fmt.Sprintf("containerd://%d", w.ids)
}

// crash restarts containers with the image they had, before the kubelet has acted on another.
func (w *world) crash(p *simPod) {
	if p.stopped {
		return
	}
	for name, c := range p.real {
		if c.running {
			c.id, c.cpu = w.id(), p.allocated[name]
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
	statuses := func(containers []corev1.Container) []corev1.ContainerStatus {
		var out []corev1.ContainerStatus
		for i := range containers {
			s := w.status(p, containers[i])
			all = all && (s.Ready || containers[i].Name == "prep")
			out = append(out, s)
		}
		return out
	}
	next.ContainerStatuses = statuses(pod.Spec.Containers)
	next.InitContainerStatuses = statuses(pod.Spec.InitContainers)
	if all && next.Phase == corev1.PodPending {
		next.Phase = corev1.PodRunning
	}
	gated := len(pod.Spec.ReadinessGates) > 0
	ready := all && p.healthy && (!gated || gateStatus(pod) == corev1.ConditionTrue)
	setCondition(next, corev1.PodReady, boolStatus(ready), w.now)
	w.resizeCondition(p, next)
	if !statusEqual(next, &pod.Status) {
		w.write(p, func(pod *corev1.Pod) { pod.Status = *next })
	}
}

// resizeCondition says why a size is not granted. A kubelet that only observes a generation leaves what it said before.
func (w *world) resizeCondition(p *simPod, status *corev1.PodStatus) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	if p.pending == "" {
		return
	}
	c := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: p.pending, Message: "says the model"}
	if w.stamped {
		c.ObservedGeneration = p.judged
	}
	status.Conditions = append(status.Conditions, c)
}

// status is one container's.
func (w *world) status(p *simPod, spec corev1.Container) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: spec.Name}
	c := p.real[spec.Name]
	if spec.Name == "prep" {
		s.State.Terminated = &corev1.ContainerStateTerminated{}
		return s
	}
	if c == nil {
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		return s
	}
	s.ContainerID, s.Image, s.ImageID = c.id, w.shown(c.image), w.digest(c.image)
	cpu := p.allocated[spec.Name]
	switch {
	case c.running:
		s.State.Running = &corev1.ContainerStateRunning{}
		s.Ready, cpu = true, c.cpu
	case crashing(c.image) && !bad(spec.Image):
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
	}
	if !w.mute {
		s.Resources = new(cpuRequest(cpu))
	}
	return s
}

// endpoints is the endpoints controller looking at one pod.
func (w *world) endpoints(p *simPod) {
	pod := p.truth()
	p.endpoint = pod != nil && pod.DeletionTimestamp == nil && isReady(pod)
}

func statusEqual(a, b *corev1.PodStatus) bool {
	if a.Phase != b.Phase || a.ObservedGeneration != b.ObservedGeneration || len(a.Conditions) != len(b.Conditions) {
		return false
	}
	for i := range a.Conditions {
		x, y := &a.Conditions[i], &b.Conditions[i]
		if x.Type != y.Type || x.Status != y.Status || x.Reason != y.Reason || x.ObservedGeneration != y.ObservedGeneration {
			return false
		}
	}
	return containersEqual(a.ContainerStatuses, b.ContainerStatuses) && containersEqual(a.InitContainerStatuses, b.InitContainerStatuses)
}

func containersEqual(a, b []corev1.ContainerStatus) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.ContainerStatus) bool {
		sized := x.Resources == nil || (y.Resources != nil && x.Resources.Requests.Cpu().Cmp(*y.Resources.Requests.Cpu()) == 0)
		return x.ContainerID == y.ContainerID && (x.State.Running == nil) == (y.State.Running == nil) && sized
	})
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

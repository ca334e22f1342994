package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/hooks"
)

// Images that do not come up.
const (
	imageCrashes    = "app:v5"
	imageNotThere   = "app:v6"
	imageNeverReady = "app:v7"
)

const hookPrefix = "sim.hook/"

// process is what a kubelet runs for a pod, whatever the status says.
type process struct {
	id, image string
	running   bool
	restarts  int32
	// actBy is when a kubelet that has observed a generation acts on it.
	actBy     time.Time
	unhealthy bool
	// stuck processes do not end when the pod is deleted.
	stuck bool
}

// cluster is everything but the agent: an API server, a scheduler, kubelets, the endpoints controller, owners of hooks.
type cluster struct {
	*server

	// rng is of the step that runs now.
	rng   *rand.Rand
	procs map[types.UID]*process
	// down are the nodes whose kubelets do not act.
	down map[string]bool
	ids  int
	// calm ends all chance: what crashes stays down.
	calm bool
	log  []string
}

func (c *cluster) logf(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf("%s  ", c.now.UTC().Format("04:05"))+fmt.Sprintf(format, args...))
}

func (c *cluster) process(pod *corev1.Pod) *process {
	p := c.procs[pod.UID]
	if p == nil {
		p = &process{}
		c.procs[pod.UID] = p
	}
	return p
}

// advance lets time pass; what a kubelet was about to do by then, it has done: the proof by quiet time rests on that.
func (c *cluster) advance(d time.Duration) {
	c.now = c.now.Add(d)
	for _, pod := range c.pods() {
		p := c.process(pod)
		if !p.actBy.IsZero() && !c.now.Before(p.actBy) {
			c.kubelet(pod.Name)
		}
	}
}

// schedule gives a pod a node, when its claims are there.
func (c *cluster) schedule(name string) {
	pod := c.pod(name)
	if pod == nil || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		if claim := c.claim(v.PersistentVolumeClaim.ClaimName); claim == nil || claim.DeletionTimestamp != nil {
			return
		}
	}
	c.editPod(name, func(p *corev1.Pod) {
		p.Spec.NodeName = fmt.Sprintf("n%d", c.rng.IntN(3))
		setCondition(&p.Status, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(c.now)})
	})
}

// owes reports whether the kubelet has observed what it has not acted on: such a kubelet does not die just then (the known
// limit of the proof by quiet time).
func (c *cluster) owes(pod *corev1.Pod) bool {
	p := c.process(pod)
	return pod.Generation == pod.Status.ObservedGeneration && p.id != "" && p.image != pod.Spec.Containers[0].Image
}

// kubelet does one thing about one pod.
func (c *cluster) kubelet(name string) {
	pod := c.pod(name)
	if pod == nil || pod.Spec.NodeName == "" || c.down[pod.Spec.NodeName] {
		return
	}
	p := c.process(pod)
	switch {
	case pod.DeletionTimestamp != nil:
		if !p.stuck {
			p.running = false
			c.gonePod(pod)
		}
		return
	case pod.Status.Phase == corev1.PodFailed:
		return
	case pod.Generation != pod.Status.ObservedGeneration:
		p.actBy = c.now.Add(time.Duration(c.rng.IntN(3000)) * time.Millisecond)
	case !p.actBy.IsZero() && c.now.Before(p.actBy):
	default:
		p.actBy = time.Time{}
		c.act(p, pod.Spec.Containers[0].Image)
	}
	c.report(pod, p)
}

// act starts, replaces or loses the container.
func (c *cluster) act(p *process, want string) {
	start := func() {
		c.ids++
		p.id, p.image, p.running = fmt.Sprintf("containerd://%d", c.ids), want, true
	}
	switch {
	case !p.running && want == imageNotThere:
	case p.id == "":
		start()
	case !p.running && c.calm && want == imageCrashes && p.image == want:
		// The back-off is long by now.
	case !p.running:
		p.restarts++
		start()
	case p.image != want:
		p.running = false
		if want != imageNotThere && c.rng.IntN(2) == 0 {
			p.restarts++
			start()
		}
	case p.image == imageCrashes && (c.calm || c.rng.IntN(2) == 0):
		p.running = false
	}
}

// report writes the pod's status, if it says something new.
func (c *cluster) report(pod *corev1.Pod, p *process) {
	next := pod.Status.DeepCopy()
	next.ObservedGeneration = pod.Generation
	want := pod.Spec.Containers[0]
	s := corev1.ContainerStatus{Name: want.Name, RestartCount: p.restarts, Started: new(p.running)}
	if p.id != "" {
		s.ContainerID, s.Image, s.ImageID = p.id, "docker.io/library/"+p.image, "sha256:"+p.image
	}
	switch {
	case p.running:
		s.State.Running = &corev1.ContainerStateRunning{}
		s.Ready = !p.unhealthy && p.image != imageNeverReady
	case p.id == "" && want.Image != imageNotThere:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	case want.Image == imageNotThere:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
	}
	next.ContainerStatuses = []corev1.ContainerStatus{s}
	if p.running {
		next.Phase = corev1.PodRunning
	}
	set := func(kind corev1.PodConditionType, yes bool) {
		status := corev1.ConditionFalse
		if yes {
			status = corev1.ConditionTrue
		}
		setCondition(next, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(c.now)})
	}
	set(corev1.ContainersReady, s.Ready)
	set(corev1.PodReady, s.Ready && isTrue(pod, appsv1alpha1.ConditionInPlaceUpdateReady))
	if !sameStatus(next, &pod.Status) {
		c.editPod(pod.Name, func(p *corev1.Pod) { p.Status = *next })
	}
}

// sameStatus compares what report writes.
func sameStatus(a, b *corev1.PodStatus) bool {
	if a.ObservedGeneration != b.ObservedGeneration || a.Phase != b.Phase || len(a.ContainerStatuses) != len(b.ContainerStatuses) {
		return false
	}
	x, y := a.ContainerStatuses[0], b.ContainerStatuses[0]
	same := func(c, d corev1.PodCondition) bool { return c.Type == d.Type && c.Status == d.Status }
	return x.ContainerID == y.ContainerID && x.Ready == y.Ready && *x.Started == *y.Started && waiting(x) == waiting(y) &&
		slices.EqualFunc(a.Conditions, b.Conditions, same)
}

func waiting(s corev1.ContainerStatus) string {
	if s.State.Waiting == nil {
		return ""
	}
	return s.State.Waiting.Reason
}

// fail ends a pod for good: evicted after its containers ran, or refused by its node before.
func (c *cluster) fail(pod *corev1.Pod) {
	p := c.process(pod)
	p.running = false
	c.editPod(pod.Name, func(next *corev1.Pod) {
		next.Status.Phase, next.Status.Reason = corev1.PodFailed, "Evicted"
		setCondition(&next.Status, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(c.now)})
	})
}

// nodeLost stops a kubelet; what runs goes on running, and the control plane calls its pods not ready.
func (c *cluster) nodeLost(node string) {
	for _, pod := range c.pods() {
		if pod.Spec.NodeName == node && c.owes(pod) {
			return
		}
	}
	c.logf("node %s is lost", node)
	c.down[node] = true
	for _, pod := range c.pods() {
		if pod.Spec.NodeName == node && isTrue(pod, corev1.PodReady) {
			c.editPod(pod.Name, func(p *corev1.Pod) {
				setCondition(&p.Status, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(c.now)})
			})
		}
	}
}

// nodeGone removes a lost node and its pods.
func (c *cluster) nodeGone(node string) {
	for _, pod := range c.pods() {
		if pod.Spec.NodeName == node {
			c.endPod(pod)
			if pod = c.pod(pod.Name); pod != nil {
				c.gonePod(pod)
			}
		}
	}
	delete(c.down, node)
}

// endpoints is the endpoints controller looking at one pod.
func (c *cluster) endpoints(name string) {
	pod := c.pod(name)
	old := c.slice()
	var before *discoveryv1.Endpoint
	for i := range old.Endpoints {
		if old.Endpoints[i].TargetRef.Name == name {
			before = &old.Endpoints[i]
		}
	}
	ready := pod != nil && pod.DeletionTimestamp == nil && isTrue(pod, corev1.PodReady)
	if pod == nil && before == nil || pod != nil && before != nil && *before.Conditions.Ready == ready {
		return
	}
	next := old.DeepCopy()
	next.Endpoints = slices.DeleteFunc(next.Endpoints, func(e discoveryv1.Endpoint) bool { return e.TargetRef.Name == name })
	if pod != nil {
		next.Endpoints = append(next.Endpoints, discoveryv1.Endpoint{
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: name},
			Conditions: discoveryv1.EndpointConditions{Ready: new(ready), Serving: new(ready)},
		})
	}
	c.put(kindSlice, next)
}

// hook is the controller that owns the hooks, looking at one pod: it lets go what is to go, puts on what is asked for, and
// puts back what a pod that stays should have.
func (c *cluster) hook(name string) {
	pod := c.pod(name)
	if pod == nil {
		return
	}
	life := lifeOf(c.get(kindSet, setName))
	next := pod.DeepCopy()
	state, _ := hooks.Of(pod.Labels)
	switch {
	case pod.DeletionTimestamp != nil:
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return strings.HasPrefix(f, hookPrefix) })
	case state == hooks.PreparingDelete:
		takeOff(next, life.PreDelete)
	case state == hooks.PreparingUpdate:
		takeOff(next, life.InPlaceUpdate)
	case state == hooks.Updated:
		putOn(next, life.InPlaceUpdate)
	case state == hooks.PreparingNormal:
		putOn(next, life.PreNormal)
	case state == hooks.Updating:
	default:
		putOn(next, life.InPlaceUpdate)
		putOn(next, life.PreDelete)
	}
	if equality.Semantic.DeepEqual(next.ObjectMeta, pod.ObjectMeta) {
		return
	}
	c.put(kindPod, next)
	if next.DeletionTimestamp != nil && next.Spec.NodeName == "" {
		c.gonePod(next)
	}
}

// lifeOf are the hooks of a workload, never nil.
func lifeOf(obj client.Object) *appsv1alpha1.Lifecycle {
	var life *appsv1alpha1.Lifecycle
	switch set := obj.(type) {
	case *appsv1alpha1.CloneSet:
		life = set.Spec.Lifecycle
	case *appsv1alpha1.StatefulSet:
		life = set.Spec.Lifecycle
	}
	if life == nil {
		return &appsv1alpha1.Lifecycle{}
	}
	return life
}

func takeOff(pod *corev1.Pod, h *appsv1alpha1.LifecycleHook) {
	if h == nil {
		return
	}
	for k := range h.LabelsHandler {
		delete(pod.Labels, k)
	}
	pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return slices.Contains(h.FinalizersHandler, f) })
}

func putOn(pod *corev1.Pod, h *appsv1alpha1.LifecycleHook) {
	if h == nil {
		return
	}
	maps.Copy(pod.Labels, h.LabelsHandler)
	for _, f := range h.FinalizersHandler {
		if !slices.Contains(pod.Finalizers, f) {
			pod.Finalizers = append(pod.Finalizers, f)
		}
	}
}

// held names the keys of a hook that a pod has, missing those that it does not have.
func held(pod *corev1.Pod, h *appsv1alpha1.LifecycleHook) (has, missing []string) {
	if h == nil {
		return nil, nil
	}
	note := func(key string, there bool) {
		if there {
			has = append(has, key)
		} else {
			missing = append(missing, key)
		}
	}
	for k, v := range h.LabelsHandler {
		note(k, pod.Labels[k] == v)
	}
	for _, f := range h.FinalizersHandler {
		note(f, slices.Contains(pod.Finalizers, f))
	}
	return has, missing
}

func active(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

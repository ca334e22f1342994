package plan_test

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/plan"
)

// lifecycle draws hooks: lb holds a pod before an update and takes it back after it, keep holds it before its deletion, seen
// lets a new one in.
func (s *story) lifecycle() *appsv1alpha1.Lifecycle {
	one := func(label string) *appsv1alpha1.LifecycleHook {
		if s.rng.IntN(3) == 0 {
			return nil
		}
		return &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{label: "true"}, MarkPodNotReady: s.rng.IntN(2) == 0}
	}
	if s.rng.IntN(2) == 0 {
		return nil
	}
	return &appsv1alpha1.Lifecycle{PreDelete: one("keep"), InPlaceUpdate: one("lb"), PreNormal: one("seen")}
}

func asks(life *appsv1alpha1.Lifecycle, of func(*appsv1alpha1.Lifecycle) *appsv1alpha1.LifecycleHook) bool {
	return life != nil && of(life) != nil
}

func stateOf(pod *corev1.Pod) hooks.State {
	state, _ := hooks.Of(pod.Labels)
	return state
}

// written is the lifecycle state that a patch writes.
func written(x inplace.Patch) hooks.State {
	if to := x.Metadata.Labels[appsv1alpha1.LabelLifecycleState]; to != nil {
		return hooks.State(*to)
	}
	return hooks.None
}

// hook is the controller that owns the hooks, doing what a pod's state asks of it.
func (w *world) hook(p *simPod) {
	pod := p.truth()
	if pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	set := func(key, value string) {
		if pod.Labels[key] != value {
			w.write(p, func(pod *corev1.Pod) { pod.Labels[key] = value })
		}
	}
	switch stateOf(pod) {
	case hooks.PreparingNormal:
		set("seen", "true")
	case hooks.PreparingUpdate:
		set("lb", "false")
	case hooks.Updated:
		set("lb", "true")
	case hooks.PreparingDelete:
		set("keep", "false")
	case hooks.None, hooks.Normal:
		if pod.Labels["lb"] != "true" {
			set("lb", "true")
		} else {
			set("keep", "true")
		}
	case hooks.Updating:
	default:
		w.write(p, func(pod *corev1.Pod) { delete(pod.Labels, appsv1alpha1.LabelLifecycleState) })
	}
}

// meddle is somebody who writes labels that are not his.
func (w *world) meddle(p *simPod) {
	key := []string{"lb", "keep", "seen"}[w.rng.IntN(3)]
	w.write(p, func(pod *corev1.Pod) {
		if w.rng.IntN(6) == 0 {
			pod.Labels[appsv1alpha1.LabelLifecycleState] = "Sleeping"
			return
		}
		pod.Labels[key] = []string{"true", "false"}[w.rng.IntN(2)]
	})
}

// checkHook: no pod is patched to another revision while its hook holds it, and none comes back into service that was taken
// out to be deleted.
func (a *agent) checkHook(in inplace.Intent, pod *corev1.Pod, x inplace.Patch) error {
	update := func(l *appsv1alpha1.Lifecycle) *appsv1alpha1.LifecycleHook { return l.InPlaceUpdate }
	state := stateOf(pod)
	moves := x.Kind == inplace.PatchUpdate && pod.Labels[appsv1alpha1.LabelPodRevision] != x.To
	switch {
	case moves && state != hooks.PreparingNormal && asks(in.Lifecycle, update) && pod.Labels["lb"] == "true":
		return fmt.Errorf("%s is patched while its hook holds it (%s)", x.Name, state)
	case moves && state == "Sleeping", written(x) != hooks.None && state == "Sleeping":
		return fmt.Errorf("%s is written in a state that nobody knows", x.Name)
	case state == hooks.PreparingDelete && x.Kind == inplace.PatchReturn && asks(in.Lifecycle, func(l *appsv1alpha1.Lifecycle) *appsv1alpha1.LifecycleHook { return l.PreDelete }) &&
		in.Lifecycle.PreDelete.MarkPodNotReady:
		return fmt.Errorf("%s comes back into service on its way out", x.Name)
	case in.Invalid != "" && written(x) != hooks.None:
		return fmt.Errorf("%s: a hook's state is written under a spec that cannot be read", x.Name)
	}
	return nil
}

// checkUndone: with nothing changed in between, the next pass takes back nothing of this one.
func (a *agent) checkUndone(in inplace.Intent, d inplace.Decision, minReady int32) error {
	a.faults = false
	pods := a.observe(minReady)
	a.faults = true
	in.Population = a.scale(&in, pods)
	next := plan.Next(in, pods, a.w.now)
	away, drained, created := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, x := range d.Patches {
		if slices.ContainsFunc(pods, func(p inplace.Pod) bool { return p.Ref == x.Ref }) {
			// A write that was lost leaves nothing to take back (seed 7838).
			continue
		}
		drained[x.Name] = x.Kind == inplace.PatchDrain
		away[x.Name] = drained[x.Name] || written(x) == hooks.PreparingUpdate || written(x) == hooks.PreparingDelete
	}
	for _, c := range d.Creates {
		created[c.Object.GetName()] = true
	}
	for _, x := range next.Patches {
		if drained[x.Name] && x.Kind == inplace.PatchReturn || away[x.Name] && (written(x) == hooks.Normal || written(x) == hooks.Updated) {
			return fmt.Errorf("undone: %s %s %q after %+v", x.Kind, x.Name, written(x), d.Patches)
		}
	}
	for _, x := range next.Deletes {
		if created[x.Name] {
			return fmt.Errorf("undone: %s is deleted right after it was created", x.Name)
		}
	}
	return nil
}

// crowd are a workload's pods, sorted out.
type crowd struct {
	used         map[string]bool
	older, newer []inplace.Pod
	preparing    []inplace.Pod
}

func crowdOf(in inplace.Intent, pods []inplace.Pod) crowd {
	out := crowd{used: map[string]bool{}}
	for _, p := range pods {
		state, _ := hooks.Of(p.Labels)
		switch {
		case out.used[p.Name] || !p.Active():
		case state == hooks.PreparingDelete:
			out.preparing = append(out.preparing, p)
		case p.Revision == in.Update.Name:
			out.newer = append(out.newer, p)
		default:
			out.older = append(out.older, p)
		}
		out.used[p.Name] = true
	}
	return out
}

// transit are the pods on their way to the update revision, as far as the grant has room for them.
func (c *crowd) transit(in inplace.Intent) int {
	if in.Invalid != "" || in.Paused || in.OnDelete {
		return 0
	}
	moving := 0
	for i := range c.older {
		state, _ := hooks.Of(c.older[i].Labels)
		moving += count(c.older[i].Gate == inplace.GateFalse || state == hooks.PreparingUpdate || state == hooks.Updating)
	}
	return min(moving, max(int(in.Grant())-len(c.newer), 0))
}

// scale is a workload's scaling in its simplest right form.
func scale(in inplace.Intent, pods []inplace.Pod) inplace.Population {
	var out inplace.Population
	c := crowdOf(in, pods)
	for i := range c.preparing {
		leave(&out, in, &c.preparing[i], "let go")
		out.Leaving = append(out.Leaving, c.preparing[i].Name)
	}
	slices.Sort(out.Leaving)
	missing := int(in.Replicas) - len(c.older) - len(c.newer)
	stay := len(c.older) - c.transit(in)
	for n := range max(missing, 0) {
		rev := in.Update
		if n < int(in.Partition)-stay || in.Invalid != "" {
			rev = in.Current
		}
		i := 0
		for c.used[fmt.Sprintf("p-%d", i)] {
			i++
		}
		name := fmt.Sprintf("p-%d", i)
		c.used[name] = true
		out.Creates = append(out.Creates, inplace.Create{Object: newborn(in.Lifecycle, name), Revision: rev.Name})
	}
	for range max(-missing, 0) {
		from := &c.newer
		if len(c.older) > int(in.Partition) || len(c.newer) == 0 {
			from = &c.older
		}
		slices.SortFunc(*from, func(a, b inplace.Pod) int { return cmp.Compare(a.Name, b.Name) })
		leave(&out, in, &(*from)[0], "scaled in")
		*from = (*from)[1:]
	}
	return out
}

// newborn is a pod as scaling makes it.
func newborn(life *appsv1alpha1.Lifecycle, name string) *unstructured.Unstructured {
	pod := object(name)
	labels := map[string]string{"lb": "true", "keep": "true"}
	if state := hooks.New(life); state != hooks.None {
		labels[appsv1alpha1.LabelLifecycleState] = string(state)
	}
	pod.SetLabels(labels)
	return pod
}

// leave deletes a pod, or asks its hook; under a spec that cannot be read nothing goes.
func leave(out *inplace.Population, in inplace.Intent, p *inplace.Pod, because string) {
	if in.Invalid != "" {
		return
	}
	answer, patch := hooks.Depart(in.Lifecycle, p, p.Created)
	switch {
	case answer.Ready:
		out.Deletes = append(out.Deletes, inplace.Delete{Ref: p.Ref, Because: because})
	case patch != nil:
		out.Patches = append(out.Patches, *patch)
	}
}

// unhooked is the state in which nothing waits for a hook any more.
func unhooked(pod *corev1.Pod) error {
	if state := stateOf(pod); state != hooks.None && state != hooks.Normal {
		return fmt.Errorf("%s is still %s: %v", pod.Name, state, pod.Labels)
	}
	return nil
}

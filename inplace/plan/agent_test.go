package plan_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/plan"
	"github.com/underway-dev/underway/inplace/podview"
)

// agent is a member's agent on a world: it observes late, decides by plan.Next, and some of its writes fail.
type agent struct {
	w      *world
	memory *podview.Memory
	// grants holds, per revision, the most pods that were ever granted since it became the update revision, or had it then.
	grants map[string]int32
	// faults is off in the final phase.
	faults bool
	log    []string
}

func (a *agent) logf(format string, args ...any) {
	if len(a.log) > 400 {
		a.log = a.log[200:]
	}
	a.log = append(a.log, fmt.Sprintf(format, args...))
}

// observe sees every pod at some version not older than the agent's own writes.
func (a *agent) observe(in inplace.Intent, minReady int32) []inplace.Pod {
	var out []inplace.Pod
	for _, name := range a.w.names() {
		p := a.w.pods[name]
		at := len(p.versions) - 1
		if a.faults && p.own < at {
			at = p.own + a.w.rng.IntN(at-p.own+1)
		}
		pod := p.versions[at]
		if pod == nil {
			continue
		}
		var e podview.Endpoints
		if p.endpoint {
			e.Ready = []string{"slice"}
		}
		out = append(out, podview.From(pod, podview.Around{
			Now: a.w.now, MinReadySeconds: minReady, Endpoints: e, Seen: a.memory.Look(pod, e, a.w.now),
		}))
	}
	if a.faults {
		a.w.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		if len(out) > 0 && a.w.rng.IntN(4) == 0 {
			out = append(out, out[a.w.rng.IntN(len(out))])
		}
	}
	_ = in
	return out
}

// pass is one reconcile. It returns the decision and the first broken invariant.
func (a *agent) pass(in inplace.Intent, minReady int32) (inplace.Decision, error) {
	pods := a.observe(in, minReady)
	in.Population = scale(in, pods)
	d := plan.Next(in, pods, a.w.now)
	if err := a.checkBudget(in, pods, d); err != nil {
		return d, err
	}
	for _, c := range d.Creates {
		if err := a.doCreate(in, c); err != nil {
			return d, err
		}
	}
	for _, x := range d.Deletes {
		a.doDelete(x)
	}
	for _, p := range d.Patches {
		if err := a.doPatch(in, p); err != nil {
			return d, err
		}
	}
	return d, nil
}

// checkBudget recounts, from what was seen, whether what is taken down fits the budget.
func (a *agent) checkBudget(in inplace.Intent, pods []inplace.Pod, d inplace.Decision) error {
	down, leaving := map[string]bool{}, map[string]bool{}
	for _, x := range in.Population.Deletes {
		leaving[x.Name] = true
	}
	for _, x := range d.Deletes {
		down[x.Name] = !leaving[x.Name]
	}
	for _, p := range d.Patches {
		down[p.Name] = p.Kind == inplace.PatchDrain || (p.Kind == inplace.PatchUpdate && len(p.Images) > 0)
	}
	available, taken, seen := int32(0), 0, map[string]bool{}
	for _, p := range pods {
		if seen[p.Name] || leaving[p.Name] || !p.Active() {
			continue
		}
		seen[p.Name] = true
		serves := p.Ready && p.Gate != inplace.GateFalse
		switch {
		case down[p.Name] && serves:
			taken++
			if sim := a.w.pods[p.Name]; p.Available {
				sim.charged = true
			}
		case p.Available:
			available++
		}
	}
	if taken > 0 && available < in.Replicas-in.MaxUnavailable {
		return fmt.Errorf("took down %d pods that serve; %d stay available of %d with maxUnavailable %d", taken, available, in.Replicas, in.MaxUnavailable)
	}
	return nil
}

// answer is what becomes of a request.
type answer int

const (
	done answer = iota
	lostRequest
	lostResponse
)

func (a *agent) answer() answer {
	if !a.faults {
		return done
	}
	switch a.w.rng.IntN(12) {
	case 0:
		return lostRequest
	case 1:
		return lostResponse
	default:
		return done
	}
}

// checkGrant is called after a write that put one more pod on rev.
func (a *agent) checkGrant(in inplace.Intent, rev string) error {
	if rev == in.Current.Name && rev != in.Update.Name {
		return nil
	}
	if n, most := a.count(rev), a.grants[rev]; n > most {
		return fmt.Errorf("%d pods on %s, at most %d were ever granted", n, rev, most)
	}
	return nil
}

func (a *agent) count(rev string) int32 {
	n := int32(0)
	for _, p := range a.w.live() {
		if pod := p.truth(); pod.DeletionTimestamp == nil && pod.Labels[appsv1alpha1.LabelPodRevision] == rev {
			n++
		}
	}
	return n
}

func (a *agent) doCreate(in inplace.Intent, c inplace.Create) error {
	result := a.answer()
	if result == lostRequest {
		return nil
	}
	rev, _ := in.Find(c.Revision)
	name := c.Object.GetName()
	if !a.w.create(name, rev, containersOf(rev)) {
		a.logf("create %s: exists", name)
		return nil
	}
	a.logf("create %s at %s", name, c.Revision)
	return a.checkGrant(in, c.Revision)
}

// current returns the pod when a write judged on ref reaches exactly that version.
func (a *agent) current(ref inplace.Ref) *simPod {
	p := a.w.pods[ref.Name]
	if p == nil || p.truth() == nil || p.truth().UID != ref.UID || p.truth().ResourceVersion != ref.ResourceVersion {
		return nil
	}
	return p
}

func (a *agent) doDelete(x inplace.Delete) {
	p := a.current(x.Ref)
	if p == nil || a.answer() == lostRequest {
		return
	}
	a.logf("delete %s: %s", x.Name, x.Because)
	a.w.write(p, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(a.w.now)) })
	p.own = len(p.versions) - 1
}

func (a *agent) doPatch(in inplace.Intent, x inplace.Patch) error {
	p := a.current(x.Ref)
	if p == nil || a.answer() == lostRequest {
		return nil
	}
	before := p.truth()
	a.logf("%s %s -> %s (rv %s)", x.Kind, x.Name, x.To, x.ResourceVersion)
	switch x.Kind {
	case inplace.PatchDrain:
		a.gate(p, corev1.ConditionFalse)
	case inplace.PatchReturn:
		if err := a.checkReturn(p); err != nil {
			return err
		}
		a.gate(p, corev1.ConditionTrue)
	case inplace.PatchUpdate, inplace.PatchRepair:
		if len(x.Images) > 0 && isReady(before) {
			return fmt.Errorf("%s is patched while it is Ready", x.Name)
		}
		a.update(p, x)
	}
	p.own = len(p.versions) - 1
	if x.Kind == inplace.PatchUpdate && before.Labels[appsv1alpha1.LabelPodRevision] != x.To {
		return a.checkGrant(in, x.To)
	}
	return nil
}

func (a *agent) gate(p *simPod, status corev1.ConditionStatus) {
	a.w.write(p, func(pod *corev1.Pod) {
		setCondition(&pod.Status, appsv1alpha1.ConditionInPlaceUpdateReady, status, a.w.now)
	})
}

func (a *agent) update(p *simPod, x inplace.Patch) {
	a.w.write(p, func(pod *corev1.Pod) {
		for i := range pod.Spec.Containers {
			if image, ok := x.Images[pod.Spec.Containers[i].Name]; ok && image != pod.Spec.Containers[i].Image {
				pod.Spec.Containers[i].Image = image
				pod.Generation++
			}
		}
		// One patch raises the generation once.
		if before := p.truth().Generation; pod.Generation > before {
			pod.Generation = before + 1
		}
		merge(pod.Labels, x.Metadata.Labels)
		merge(pod.Annotations, x.Metadata.Annotations)
	})
}

func merge(into map[string]string, change map[string]*string) {
	for k, v := range change {
		if v == nil {
			delete(into, k)
		} else {
			into[k] = *v
		}
	}
}

// checkReturn holds the proof against what the kubelet really runs.
func (a *agent) checkReturn(p *simPod) error {
	pod := p.truth()
	if pod.Annotations[appsv1alpha1.AnnotationInPlaceState] == "" {
		return nil
	}
	for i := range pod.Spec.Containers {
		want := pod.Spec.Containers[i]
		if c := p.real[want.Name]; c != nil && c.running && c.image != want.Image {
			return fmt.Errorf("%s returns with container %s on %s, wanted %s", p.name, want.Name, c.image, want.Image)
		}
	}
	return nil
}

// scale is a workload's scaling in its simplest right form.
func scale(in inplace.Intent, pods []inplace.Pod) inplace.Population {
	var out inplace.Population
	used, older, newer := map[string]bool{}, []inplace.Pod{}, []inplace.Pod{}
	for _, p := range pods {
		if used[p.Name] {
			continue
		}
		used[p.Name] = true
		switch {
		case !p.Active():
		case p.Revision == in.Update.Name:
			newer = append(newer, p)
		default:
			older = append(older, p)
		}
	}
	missing := int(in.Replicas) - len(older) - len(newer)
	for n := range max(missing, 0) {
		rev := in.Update
		if n < int(in.Partition)-len(older) || in.Invalid != "" {
			rev = in.Current
		}
		i := 0
		for used[fmt.Sprintf("p-%d", i)] {
			i++
		}
		name := fmt.Sprintf("p-%d", i)
		used[name] = true
		out.Creates = append(out.Creates, inplace.Create{Object: object(name), Revision: rev.Name})
	}
	for range max(-missing, 0) {
		from := &newer
		if len(older) > int(in.Partition) || len(newer) == 0 {
			from = &older
		}
		slices.SortFunc(*from, func(a, b inplace.Pod) int { return cmp.Compare(a.Name, b.Name) })
		out.Deletes = append(out.Deletes, inplace.Delete{Ref: (*from)[0].Ref, Because: "scaled in"})
		*from = (*from)[1:]
	}
	return out
}

// settle lets everybody act on everything, without faults, until nothing is written any more.
func (a *agent) settle(in inplace.Intent, minReady int32) (inplace.Decision, error) {
	a.faults = false
	quiet := time.Duration(0)
	for range 300 {
		for _, name := range slices.Sorted(maps.Keys(a.w.pods)) {
			a.w.kubelet(a.w.pods[name])
			a.w.endpoints(a.w.pods[name])
		}
		before := a.w.rv
		d, err := a.pass(in, minReady)
		if err != nil {
			return d, err
		}
		step := 2 * time.Second
		if quiet > 8*time.Second {
			step = 35 * time.Second // longer than any wait but the reports
		}
		a.w.advance(step)
		quiet += step
		if !d.Quiet() || a.w.rv != before {
			quiet = 0
		}
		if quiet > 150*time.Second {
			return d, nil
		}
	}
	return inplace.Decision{}, fmt.Errorf("it never ends")
}

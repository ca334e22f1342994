package plan_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/plan"
	"github.com/underway-dev/underway/inplace/podview"
	"github.com/underway-dev/underway/inplace/step"
)

// agent is a member's agent on a world: it observes late, decides by plan.Next, and some of its writes fail.
type agent struct {
	w      *world
	memory *podview.Memory
	// grants holds, per revision, the most pods that were ever granted since it became the update revision, or had it then.
	grants map[string]int32
	// slots are those of numbered pods, nil without.
	slots *numbered
	// faults is off in the final phase.
	faults     bool
	refusedNow bool
	// lagged is set when the last observation was not the newest of everything.
	lagged bool
	log    []string
}

func (a *agent) logf(format string, args ...any) {
	if len(a.log) > 400 {
		a.log = a.log[200:]
	}
	a.log = append(a.log, fmt.Sprintf(format, args...))
}

// observe sees every pod at some version not older than the agent's own writes.
func (a *agent) observe(minReady int32) []inplace.Pod {
	var out []inplace.Pod
	a.lagged = false
	for _, name := range a.w.names() {
		p := a.w.pods[name]
		at := len(p.versions) - 1
		if a.faults && p.own < at {
			at = p.own + a.w.rng.IntN(at-p.own+1)
			a.lagged = a.lagged || at < len(p.versions)-1
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
	return out
}

// pass is one reconcile. It returns the decision and the first broken invariant.
func (a *agent) pass(in inplace.Intent, minReady int32) (inplace.Decision, error) {
	pods := a.observe(minReady)
	in.Population = a.scale(&in, pods)
	if a.faults && a.w.rng.IntN(6) == 0 {
		// A quota, a claim that is not gone yet.
		in.Population.Creates, a.lagged = nil, true
	}
	d := plan.Next(in, pods, a.w.now)
	if err := cmp.Or(a.checkBudget(in, pods, d), a.checkProven(pods), told(in, d), kept(in, pods, d), placed(in, pods, d), fixedStay(in, d), a.act(in, d)); err != nil {
		return d, err
	}
	if a.faults && !a.lagged {
		return d, a.checkUndone(in, d, minReady)
	}
	return d, nil
}

// act carries a decision out.
func (a *agent) act(in inplace.Intent, d inplace.Decision) error {
	for _, c := range d.Creates {
		if err := a.doCreate(in, c); err != nil {
			return err
		}
	}
	for _, x := range d.Deletes {
		if err := a.doDelete(in, x); err != nil {
			return err
		}
	}
	for _, p := range d.Patches {
		if err := a.doPatch(in, p); err != nil {
			return err
		}
	}
	return nil
}

// restarts reports whether a patch starts a container anew.
func (a *agent) restarts(x inplace.Patch) bool {
	_, sidecar := x.InitImages["log"]
	return len(x.Images) > 0 || sidecar || (a.w.restarting && len(x.Resources) > 0)
}

// unsettled reports whether a pod without a gate may go down at any moment, because of a patch of ours.
func (a *agent) unsettled(p inplace.Pod) bool {
	if p.Gate != inplace.GateNone || (p.State == nil && p.StateProblem == "") {
		return false
	}
	proof := step.Prove(p, step.Update{Undrained: true}, a.w.now)
	return !proof.Done && !proof.Settled
}

// checkBudget recounts, from what was seen, whether what is taken down fits the budget, and that pods without a gate are
// patched one at a time.
func (a *agent) checkBudget(in inplace.Intent, pods []inplace.Pod, d inplace.Decision) error {
	down, leaving := map[string]bool{}, map[string]bool{}
	for _, x := range in.Population.Deletes {
		leaving[x.Name] = true
	}
	for _, x := range in.Population.Patches {
		leaving[x.Name] = true
	}
	for _, x := range d.Deletes {
		down[x.Name] = !leaving[x.Name]
	}
	asked := map[string]bool{}
	for _, p := range d.Patches {
		down[p.Name] = p.Kind == inplace.PatchDrain || a.restarts(p) || written(p) == hooks.PreparingDelete
		asked[p.Name] = written(p) == hooks.PreparingUpdate || written(p) == hooks.Updating
	}
	for _, name := range in.Population.Condemned {
		// It stands in for nobody.
		leaving[name] = true
	}
	available, taken, bare, fresh, seen := int32(0), 0, 0, 0, map[string]bool{}
	held, heldTaken := int32(0), 0
	for _, p := range pods {
		if seen[p.Name] || leaving[p.Name] || !p.Active() {
			continue
		}
		seen[p.Name] = true
		serves := p.Ready && p.Gate != inplace.GateFalse
		unsettled := a.unsettled(p)
		state, _ := hooks.Of(p.Labels)
		waits := state == hooks.PreparingUpdate && serves
		patched := down[p.Name] && slices.ContainsFunc(d.Patches, func(x inplace.Patch) bool { return x.Name == p.Name && a.restarts(x) })
		bare += count(p.Gate == inplace.GateNone && (unsettled || (patched && p.Ready)))
		fresh += count(p.Gate == inplace.GateNone && patched && p.Ready && !unsettled)
		switch {
		case down[p.Name] && serves && unsettled:
			// Its next batch, or another target: it is down already as far as the budget goes.
		case down[p.Name] && waits:
			heldTaken++
		case down[p.Name] && serves, asked[p.Name] && p.Available && !unsettled:
			taken++
		case waits:
			held++
		case p.Available && !unsettled:
			available++
		}
	}
	if taken > 0 && available < in.Replicas-in.MaxUnavailable {
		return fmt.Errorf("took down %d pods that serve; %d stay available of %d with maxUnavailable %d: %+v", taken, available, in.Replicas, in.MaxUnavailable, d)
	}
	if heldTaken > 0 && available+held < in.Replicas-in.MaxUnavailable {
		return fmt.Errorf("took down %d pods that their hooks let go; %d stay in service of %d with maxUnavailable %d", heldTaken, available+held, in.Replicas, in.MaxUnavailable)
	}
	if bare > 1 && fresh > 0 {
		return fmt.Errorf("%d pods without a gate are patched and not proven, %d of them now: %+v", bare, fresh, d.Patches)
	}
	return nil
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkProven holds every proof against what the kubelet really runs: never complete while the old container runs.
func (a *agent) checkProven(pods []inplace.Pod) error {
	for _, p := range pods {
		sim := a.w.pods[p.Name]
		if p.State == nil || sim.truth() == nil || sim.truth().ResourceVersion != p.ResourceVersion || !step.Prove(p, step.Update{}, a.w.now).Done {
			continue
		}
		if err := a.checkRuns(sim); err != nil {
			return fmt.Errorf("called complete: %w\nstate %s\nstatus %+v\ntracked %v, seen %+v", err, sim.truth().Annotations[appsv1alpha1.AnnotationInPlaceState], p.Containers, a.w.tracked, p.Seen)
		}
		for _, want := range living(sim.truth()) {
			c := p.State.Resources[want.Name]
			if runs := sim.real[want.Name]; len(c.Requests) > 0 && runs != nil && runs.running && runs.cpu != cpuOf(want) {
				return fmt.Errorf("%s is called complete with cpu %d of %d", p.Name, runs.cpu, cpuOf(want))
			}
		}
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
		if pod := p.truth(); pod.DeletionTimestamp == nil && pod.Labels[appsv1alpha1.LabelPodRevision] == rev && stateOf(pod) != hooks.PreparingDelete {
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
	if !a.w.create(name, rev, a.w.spec(a.w.builds[rev.Name])) {
		a.logf("create %s: exists", name)
		return nil
	}
	maps.Copy(a.w.pods[name].truth().Labels, c.Object.GetLabels())
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

func (a *agent) doDelete(in inplace.Intent, x inplace.Delete) error {
	p := a.current(x.Ref)
	if p == nil || a.answer() == lostRequest {
		return nil
	}
	if asks(in.Lifecycle, func(l *appsv1alpha1.Lifecycle) *appsv1alpha1.LifecycleHook { return l.PreDelete }) && p.truth().Labels["keep"] == "true" {
		return fmt.Errorf("%s is deleted while its preDelete hook holds it", x.Name)
	}
	a.logf("delete %s: %s", x.Name, x.Because)
	a.w.write(p, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(a.w.now)) })
	p.own = len(p.versions) - 1
	return nil
}

func (a *agent) doPatch(in inplace.Intent, x inplace.Patch) error {
	p := a.current(x.Ref)
	if p == nil {
		return nil
	}
	first := a.answer()
	if first == lostRequest {
		return nil
	}
	before := p.truth()
	a.logf("%s %s -> %s (rv %s): %s", x.Kind, x.Name, x.To, x.ResourceVersion, x.Because)
	if err := cmp.Or(a.checkPatch(in, p, x), a.checkHook(in, p.truth(), x)); err != nil {
		return err
	}
	switch x.Kind {
	case inplace.PatchDrain:
		a.gate(p, corev1.ConditionFalse, x.Metadata)
	case inplace.PatchReturn:
		if err := a.checkReturn(p); err != nil {
			return err
		}
		a.gate(p, corev1.ConditionTrue, x.Metadata)
	case inplace.PatchUpdate, inplace.PatchRepair, inplace.PatchState:
		a.update(p, x)
		if first == done && len(x.Resources) > 0 && a.answer() != lostRequest {
			a.resize(p, x)
		}
	case inplace.PatchResize:
		a.resize(p, x)
	}
	p.own = len(p.versions) - 1
	if x.Kind != inplace.PatchUpdate {
		return nil
	}
	if err := a.checkTarget(p, x); err != nil {
		return err
	}
	if before.Labels[appsv1alpha1.LabelPodRevision] != x.To {
		return a.checkGrant(in, x.To)
	}
	return nil
}

// checkPatch: no pod that can be drained is patched while it serves, none is drained for what restarts nothing, nothing is
// patched that is there already, and launch order is kept.
func (a *agent) checkPatch(in inplace.Intent, p *simPod, x inplace.Patch) error {
	pod := p.truth()
	gated := len(pod.Spec.ReadinessGates) > 0
	if gated && a.restarts(x) && isReady(pod) {
		return fmt.Errorf("%s is patched while it is Ready", x.Name)
	}
	hooked := written(x) != hooks.None || stateOf(pod) == hooks.PreparingUpdate || stateOf(pod) == hooks.PreparingDelete
	if x.Kind == inplace.PatchDrain && !hooked && a.harmless(in, pod) {
		return fmt.Errorf("%s is drained for what restarts nothing", x.Name)
	}
	for i := range pod.Spec.Containers {
		c := pod.Spec.Containers[i]
		if x.Images[c.Name] == c.Image {
			return fmt.Errorf("%s: container %s is patched to the image that it has", x.Name, c.Name)
		}
	}
	_, side := x.Images["side"]
	_, web := x.Images["web"]
	runs := p.real["web"]
	if a.w.ordered && side && (web || (runs != nil && runs.image != imageOf(pod, "web"))) {
		return fmt.Errorf("%s: side is patched before web runs its image", x.Name)
	}
	return nil
}

// harmless reports whether every revision that the pod could go to differs only in what restarts nothing.
func (a *agent) harmless(in inplace.Intent, pod *corev1.Pod) bool {
	own, ok := a.w.builds[pod.Labels[appsv1alpha1.LabelPodRevision]]
	if !ok || strings.Contains(pod.Annotations[appsv1alpha1.AnnotationInPlaceState], "next") || strings.Contains(pod.Annotations[appsv1alpha1.AnnotationInPlaceState], "resources") {
		return false
	}
	for _, rev := range []inplace.Revision{in.Update, in.Current} {
		b := a.w.builds[rev.Name]
		if !a.w.restarting {
			b.cpu = own.cpu
		}
		b.prep = own.prep
		if b != own {
			return false
		}
	}
	return true
}

func imageOf(pod *corev1.Pod, name string) string {
	for _, c := range living(pod) {
		if c.Name == name {
			return c.Image
		}
	}
	return ""
}

// checkTarget: after an update every container is what the revision says, or written down as to follow.
func (a *agent) checkTarget(p *simPod, x inplace.Patch) error {
	b, ok := a.w.builds[x.To]
	if !ok || p.garbled {
		return nil // whoever made the state unreadable took with it what was still to be done
	}
	pod := p.truth()
	state, err := podview.ParseState(pod.Annotations[appsv1alpha1.AnnotationInPlaceState])
	if err != nil {
		return err
	}
	spec := a.w.spec(b)
	for _, want := range slices.Concat(spec.Containers, spec.InitContainers) {
		for _, has := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			if has.Name != want.Name {
				continue
			}
			if has.Image != want.Image && state.NextContainerImages[want.Name] != want.Image {
				return fmt.Errorf("%s: container %s has %s and is to have %s", x.Name, want.Name, has.Image, want.Image)
			}
			asked, next := state.Resources[want.Name], state.NextContainerResources[want.Name]
			if cpu := cpuOf(want); cpuOf(has) != cpu && asked.Requests.Cpu().Value() != cpu && next.Requests.Cpu().Value() != cpu {
				return fmt.Errorf("%s: container %s has cpu %d and is to have %d", x.Name, want.Name, cpuOf(has), cpu)
			}
		}
	}
	return nil
}

func (a *agent) gate(p *simPod, status corev1.ConditionStatus, m inplace.MetadataChange) {
	a.w.write(p, func(pod *corev1.Pod) {
		merge(pod.Labels, m.Labels)
		merge(pod.Annotations, m.Annotations)
		setCondition(&pod.Status, appsv1alpha1.ConditionInPlaceUpdateReady, status, a.w.now)
	})
}

func (a *agent) update(p *simPod, x inplace.Patch) {
	set := func(containers []corev1.Container, images map[string]string) bool {
		changed := false
		for i := range containers {
			c := &containers[i]
			if image, ok := images[c.Name]; ok && image != c.Image {
				c.Image, changed = image, true
				p.changes[c.Name]++
			}
		}
		return changed
	}
	a.w.write(p, func(pod *corev1.Pod) {
		apps := set(pod.Spec.Containers, x.Images)
		if set(pod.Spec.InitContainers, x.InitImages) || apps {
			pod.Generation++
		}
		merge(pod.Labels, x.Metadata.Labels)
		merge(pod.Annotations, x.Metadata.Annotations)
	})
}

// resize is the API server's subresource, which refuses what no node can hold and what a quota forbids.
func (a *agent) resize(p *simPod, x inplace.Patch) {
	for _, r := range x.Resources {
		cpu := r.Requests.Cpu().Value()
		if cpu == cpuRefused || (cpu == cpuQuota && a.w.quota) {
			a.logf("resize of %s to %d is refused", x.Name, cpu)
			a.refusedNow = true
			a.memory.Refuse(inplace.Patch{Ref: inplace.Ref{UID: p.truth().UID}, Resources: x.Resources}, "says the model", cpu == cpuRefused, a.w.now)
			return
		}
	}
	a.w.write(p, func(pod *corev1.Pod) {
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			if r, ok := x.Resources[c.Name]; ok && r.Requests.Cpu().Cmp(*c.Resources.Requests.Cpu()) != 0 {
				c.Resources.Requests = r.Requests
				pod.Generation++
				if len(c.ResizePolicy) > 0 {
					p.changes[c.Name]++
				}
			}
		}
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
	if p.truth().Annotations[appsv1alpha1.AnnotationInPlaceState] == "" {
		return nil
	}
	if err := a.checkRuns(p); err != nil {
		return fmt.Errorf("returns: %w", err)
	}
	for _, want := range living(p.truth()) {
		c := p.real[want.Name]
		if a.w.restarting && c != nil && c.running && c.cpu != cpuOf(want) && p.pending == "" {
			return fmt.Errorf("%s returns with a restart of %s to come", p.name, want.Name)
		}
	}
	return nil
}

// checkRuns: no container runs another image than its spec's.
func (a *agent) checkRuns(p *simPod) error {
	for _, want := range living(p.truth()) {
		if c := p.real[want.Name]; c != nil && c.running && c.image != want.Image {
			return fmt.Errorf("%s with container %s on %s, wanted %s", p.name, want.Name, c.image, want.Image)
		}
	}
	return nil
}

// checkRestarts: a container restarts at most as often as a patch asked for it.
func (a *agent) checkRestarts() error {
	for _, p := range a.w.live() {
		for name, n := range p.restarts {
			if n > p.changes[name] {
				return fmt.Errorf("%s: container %s was restarted %d times for %d changes", p.name, name, n, p.changes[name])
			}
		}
	}
	return nil
}

// settle lets everybody act on everything, without faults, until nothing is written any more.
func (a *agent) settle(in inplace.Intent, minReady int32) (inplace.Decision, error) {
	a.faults, a.w.calm = false, true
	quiet := time.Duration(0)
	var d inplace.Decision
	var due time.Time
	seenView := ""
	for range 300 {
		for _, name := range slices.Sorted(maps.Keys(a.w.pods)) {
			a.w.kubelet(a.w.pods[name])
			a.w.endpoints(a.w.pods[name])
			a.w.hook(a.w.pods[name])
		}
		before := a.w.rv
		view := fmt.Sprint(a.w.rv)
		for _, name := range slices.Sorted(maps.Keys(a.w.pods)) {
			view += fmt.Sprint(a.w.pods[name].endpoint, len(a.w.pods[name].versions))
		}
		if view != seenView || (!due.IsZero() && !a.w.now.Before(due)) {
			seenView, due = view, time.Time{}
			var err error
			d, err = a.pass(in, minReady)
			if err != nil {
				return d, err
			}
			if d.LookAgainIn > 0 {
				due = a.w.now.Add(d.LookAgainIn)
			}
			if a.refusedNow {
				a.refusedNow, due = false, a.w.now.Add(time.Second)
			}
		} else {
			d.Patches, d.Deletes, d.Creates = nil, nil, nil
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
			last, err := a.pass(in, minReady)
			if err == nil && !last.Quiet() {
				err = fmt.Errorf("a wake-up was lost: before %v %v, look %s; now %+v", d.Holds, d.LookAgainIn, due, last)
			}
			return last, err
		}
	}
	return inplace.Decision{}, fmt.Errorf("it never ends: %d of %d, maxUnavailable %d; %+v", in.Partition, in.Replicas, in.MaxUnavailable, d)
}

package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
	"github.com/underway-dev/underway/inplace/hooks"
)

// simPod is one pod of the model: every version it had, the last is the truth, nil when it is gone.
type simPod struct {
	versions []*inplace.Pod
	// own is the oldest version that the agent may still see: its own last write.
	own int
	// healthy pods become ready; stuck ones do not end although they are terminating.
	healthy, stuck bool
	readyAt        time.Time
}

func (p *simPod) truth() *inplace.Pod { return p.versions[len(p.versions)-1] }

// world is a cluster of one CloneSet.
type world struct {
	rng    *rand.Rand
	now    time.Time
	pods   []*simPod
	claims map[string]*inplace.Claim
	serial int
	log    []string
}

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) write(p *simPod, change func(*inplace.Pod)) {
	next := *p.truth()
	labels := map[string]string{}
	maps.Copy(labels, next.Labels)
	next.Labels, next.Finalizers = labels, slices.Clone(next.Finalizers)
	change(&next)
	w.serial++
	next.ResourceVersion = fmt.Sprint(w.serial)
	p.versions = append(p.versions, &next)
}

func (w *world) remove(p *simPod) {
	p.versions = append(p.versions, nil)
}

func (w *world) live() []*simPod {
	var out []*simPod
	for _, p := range w.pods {
		if p.truth() != nil {
			out = append(out, p)
		}
	}
	return out
}

func (w *world) named(name string) *simPod {
	for _, p := range w.live() {
		if p.truth().Name == name {
			return p
		}
	}
	return nil
}

// create is the API server: a name in use is refused. It says whether the pod was made.
func (w *world) create(name, id, rev, volumes string, fin bool) bool {
	if w.named(name) != nil {
		return false
	}
	w.serial++
	p := &inplace.Pod{
		Ref:   inplace.Ref{Name: name, UID: types.UID(fmt.Sprint("u", w.serial)), ResourceVersion: fmt.Sprint(w.serial)},
		Phase: inplace.PhasePending, Created: w.now, Revision: rev, Gate: inplace.GateTrue,
		Labels:      map[string]string{appsv1alpha1.LabelCloneSetInstanceID: id},
		Annotations: map[string]string{appsv1alpha1.AnnotationClaimTemplate: volumes},
		Containers:  []inplace.Container{{Name: "c", Known: true, Running: true}},
	}
	if fin {
		p.Finalizers = []string{"fin"}
	}
	w.pods = append(w.pods, &simPod{versions: []*inplace.Pod{p}, healthy: w.rng.IntN(6) > 0})
	return true
}

// end deletes a pod as the API server does: it terminates, and goes later.
func (w *world) end(p *simPod) {
	if p.truth().Phase == inplace.PhaseTerminating {
		return
	}
	p.stuck = w.rng.IntN(8) == 0
	w.write(p, func(pod *inplace.Pod) {
		pod.Phase, pod.Ready, pod.Available, pod.GoneBy = inplace.PhaseTerminating, false, false, w.now.Add(30*time.Second)
	})
}

// kubelet moves one pod on.
func (w *world) kubelet(p *simPod, minReady time.Duration) {
	pod := p.truth()
	switch {
	case pod.Phase == inplace.PhaseTerminating:
		if !p.stuck {
			w.remove(p)
			w.finish()
		}
	case pod.Phase == inplace.PhaseTerminal:
	case pod.Phase == inplace.PhasePending:
		w.write(p, func(pod *inplace.Pod) { pod.Phase, pod.Node = inplace.PhaseRunning, fmt.Sprint("n", w.rng.IntN(3)) })
	case p.healthy && !pod.Ready && pod.Gate != inplace.GateFalse:
		p.readyAt = w.now
		w.write(p, func(pod *inplace.Pod) { pod.Ready, pod.Available, pod.ReadySince = true, minReady == 0, w.now })
	case pod.Ready && (!p.healthy || pod.Gate == inplace.GateFalse):
		w.write(p, func(pod *inplace.Pod) { pod.Ready, pod.Available = false, false })
	}
}

// finish removes claims that are being deleted and that no pod has any more, as Kubernetes does.
func (w *world) finish() {
	for name, c := range w.claims {
		if c.Terminating && !w.holds(c.ID) {
			delete(w.claims, name)
		}
	}
}

// holds reports whether any pod has the id.
func (w *world) holds(id string) bool {
	return slices.ContainsFunc(w.live(), func(p *simPod) bool { return idOf(p.truth()) == id })
}

// observe sees each pod at some version not older than the agent's own writes, in any order, and every claim. Of pods that
// had one name after each other only the last is seen, as in a cache.
func (w *world) observe(late bool, minReady time.Duration) ([]inplace.Pod, []inplace.Claim) {
	var out []inplace.Pod
	last := map[string]int{}
	for i, p := range w.pods {
		last[p.versions[0].Name] = i
	}
	for i, p := range w.pods {
		if last[p.versions[0].Name] != i {
			continue
		}
		at := len(p.versions) - 1
		if late && p.own < at {
			at = p.own + w.rng.IntN(at-p.own+1)
		}
		if p.versions[at] == nil {
			continue
		}
		pod := *p.versions[at]
		if pod.Ready && minReady > 0 {
			pod.Available = !w.now.Before(p.readyAt.Add(minReady))
		}
		pod.Available = pod.Available && hooks.Settled(pod.Labels) && pod.Gate == inplace.GateTrue
		// The model's kubelets do not blink: who is not ready is down.
		pod.Down = !pod.Ready
		out = append(out, pod)
	}
	w.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	var seen []inplace.Claim
	for _, c := range w.claims {
		seen = append(seen, *c)
	}
	return out, seen
}

// current is the pod if a write judged on ref still reaches exactly that version.
func (w *world) current(ref inplace.Ref) *simPod {
	p := w.named(ref.Name)
	if p == nil || p.truth().UID != ref.UID || p.truth().ResourceVersion != ref.ResourceVersion {
		return nil
	}
	return p
}

// lost reports whether a request never arrives.
func (w *world) lost(faults bool) bool {
	return faults && w.rng.IntN(12) == 0
}

// act carries a decision out; a pod's claims are made before it and deleted after it.
func (w *world) act(d inplace.Decision, faults, fin bool) {
	for _, x := range d.Patches {
		if p := w.current(x.Ref); p != nil && !w.lost(faults) {
			w.logf("%s %s %v", x.Kind, x.Name, *x.Metadata.Labels[appsv1alpha1.LabelLifecycleState])
			w.write(p, func(pod *inplace.Pod) {
				for k, v := range x.Metadata.Labels {
					pod.Labels[k] = *v
				}
				_, pod.SpecifiedDelete = pod.Labels[appsv1alpha1.LabelSpecifiedDelete]
				if x.Kind == inplace.PatchDrain {
					pod.Gate = inplace.GateFalse
				}
			})
			p.own = len(p.versions) - 1
		}
	}
	for _, x := range d.Deletes {
		p := w.current(x.Ref)
		if p == nil || w.lost(faults) {
			continue
		}
		w.logf("delete %s %s %s", x.Name, p.truth().Revision, x.Because)
		w.end(p)
		p.own = len(p.versions) - 1
		for _, c := range x.Claims {
			w.dropClaim(c, faults)
		}
	}
	for _, x := range d.ClaimDeletes {
		w.dropClaim(x.Ref, faults)
	}
	for _, c := range d.Creates {
		w.doCreate(c, faults, fin)
	}
}

func (w *world) dropClaim(ref inplace.Ref, faults bool) {
	if c := w.claims[ref.Name]; c != nil && c.UID == ref.UID && !w.lost(faults) {
		w.logf("drop %s", ref.Name)
		c.Terminating = true
		w.finish()
	}
}

func (w *world) doCreate(c inplace.Create, faults, fin bool) {
	id := c.Object.GetLabels()[appsv1alpha1.LabelCloneSetInstanceID]
	for _, claim := range c.Claims {
		if w.claims[claim.GetName()] != nil || w.lost(faults) {
			return
		}
		w.serial++
		made := claims.From(claim)
		made.UID, made.ResourceVersion, made.Created = types.UID(fmt.Sprint("c", w.serial)), fmt.Sprint(w.serial), w.now
		w.claims[made.Name] = &made
	}
	if w.lost(faults) {
		return
	}
	if w.create(c.Object.GetName(), id, c.Revision, c.Object.GetAnnotations()[appsv1alpha1.AnnotationClaimTemplate], fin) {
		w.logf("create %s %s", c.Object.GetName(), c.Revision)
	}
}

// owner is the CloneSet.
func owner() metav1.OwnerReference {
	return metav1.OwnerReference{Name: "web", UID: "uid", Controller: new(true)}
}

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

// simPod is one pod of the model: every version it had, the last is the truth, nil when it is gone.
type simPod struct {
	versions []*inplace.Pod
	// own is the oldest version that the agent may still see: its own last write.
	own int
	// crashing pods never become ready; stuck ones do not end although they are terminating.
	crashing, stuck bool
	readyAt         time.Time
}

func (p *simPod) truth() *inplace.Pod { return p.versions[len(p.versions)-1] }

// world is a cluster of one StatefulSet: API server, kubelets, garbage collector and a storage that resizes.
type world struct {
	rng    *rand.Rand
	now    time.Time
	pods   []*simPod
	claims map[string]*Claim
	// bad are images that cannot be pulled.
	bad    map[string]bool
	serial int
	log    []string
	// removed notes each claim that the garbage collector took.
	removed func(name string) error
	err     error
}

func (w *world) logf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) version() string {
	w.serial++
	return fmt.Sprint(w.serial)
}

func (w *world) write(p *simPod, change func(*inplace.Pod)) {
	next := *p.truth()
	next.Labels, next.Annotations = maps.Clone(next.Labels), maps.Clone(next.Annotations)
	next.Finalizers, next.Containers = slices.Clone(next.Finalizers), slices.Clone(next.Containers)
	change(&next)
	next.ResourceVersion = w.version()
	p.versions = append(p.versions, &next)
}

func (w *world) live() []*simPod {
	return slices.DeleteFunc(slices.Clone(w.pods), func(p *simPod) bool { return p.truth() == nil })
}

func (w *world) named(name string) *simPod {
	for _, p := range w.live() {
		if p.truth().Name == name {
			return p
		}
	}
	return nil
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

// collect is the garbage collector: a claim goes when all its owners are gone.
func (w *world) collect() {
	uids := map[types.UID]bool{"set": true}
	for _, p := range w.live() {
		uids[p.truth().UID] = true
	}
	for _, name := range slices.Sorted(maps.Keys(w.claims)) {
		c := w.claims[name]
		if len(c.Owners) == 0 {
			continue
		}
		gone := true
		for _, o := range c.Owners {
			gone = gone && !uids[o.UID]
		}
		if gone {
			w.logf("collected %s", name)
			delete(w.claims, name)
			if err := w.removed(name); err != nil && w.err == nil {
				w.err = err
			}
		}
	}
}

// kubelet moves one pod on.
func (w *world) kubelet(p *simPod) {
	pod := p.truth()
	c := &pod.Containers[0]
	switch {
	case pod.Phase == inplace.PhaseTerminating:
		if !p.stuck {
			p.versions = append(p.versions, nil)
		}
	case pod.Phase == inplace.PhaseTerminal:
	case w.bad[c.Image] && c.Waiting != "" && pod.ObservedGeneration == pod.Generation:
	case c.RunningImage != c.Image && w.bad[c.Image]:
		w.write(p, func(pod *inplace.Pod) {
			pod.Node, pod.ObservedGeneration, pod.Ready = "n", pod.Generation, false
			pod.Containers[0] = inplace.Container{Name: "c", Image: c.Image, Known: true, Waiting: "ImagePullBackOff"}
		})
	case c.RunningImage != c.Image:
		w.write(p, func(pod *inplace.Pod) {
			pod.Node, pod.Phase, pod.ObservedGeneration = "n", inplace.PhaseRunning, pod.Generation
			pod.Containers[0] = inplace.Container{
				Name: "c", Image: c.Image, RunningImage: c.Image, ImageID: "id:" + c.Image, ContainerID: w.version(), Known: true, Running: true, Started: true,
			}
		})
	default:
		ready := !p.crashing
		serves := ready && pod.Gate == inplace.GateTrue
		if pod.Containers[0].Ready == ready && pod.Ready == serves && pod.ObservedGeneration == pod.Generation {
			return
		}
		if serves && !pod.Ready {
			p.readyAt = w.now
		}
		w.write(p, func(pod *inplace.Pod) {
			pod.Containers[0].Ready, pod.Ready, pod.ObservedGeneration, pod.Containers[0].Waiting = ready, serves, pod.Generation, ""
		})
	}
}

// storage brings a claim to what it asks for.
func (w *world) storage(c *Claim) {
	if c.Capacity.Cmp(c.Request) < 0 {
		c.Capacity, c.ResourceVersion = c.Request, w.version()
	}
}

// observe sees each pod at some version not older than the agent's own writes, in any order, and every claim. Of pods that
// had one name after each other only the last is seen, as in a cache.
func (w *world) observe(late bool, minReady time.Duration) ([]inplace.Pod, []Claim) {
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
		pod.Available = pod.Ready && !w.now.Before(p.readyAt.Add(minReady)) && hooks.Settled(pod.Labels) && pod.Gate == inplace.GateTrue
		pod.Down = !pod.Ready
		// Nothing of the containers has changed for long.
		pod.Seen.SameSince = w.now.Add(-time.Minute)
		out = append(out, pod)
	}
	w.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	var claims []Claim
	for _, name := range slices.Sorted(maps.Keys(w.claims)) {
		c := *w.claims[name]
		c.Owners = slices.Clone(c.Owners)
		claims = append(claims, c)
	}
	return out, claims
}

// current is the pod if a write judged on ref still reaches exactly that version.
func (w *world) current(ref inplace.Ref) *simPod {
	p := w.named(ref.Name)
	if p == nil || p.truth().UID != ref.UID || p.truth().ResourceVersion != ref.ResourceVersion {
		return nil
	}
	return p
}

func (w *world) lost(faults bool) bool { return faults && w.rng.IntN(12) == 0 }

// act carries out what was decided; claims are patched first.
func (w *world) act(r Result, d inplace.Decision, faults, hooked bool) {
	for _, x := range r.ClaimPatches {
		if c := w.claims[x.Name]; c != nil && c.UID == x.UID && c.ResourceVersion == x.ResourceVersion && !w.lost(faults) {
			w.logf("claim %s owners %d request %v", x.Name, len(x.Owners), x.Request)
			if x.Owners != nil {
				c.Owners = x.Owners
			}
			if x.Request != nil {
				c.Request = *x.Request
			}
			c.ResourceVersion = w.version()
		}
	}
	for _, x := range d.Patches {
		if p := w.current(x.Ref); p != nil && !w.lost(faults) {
			w.logf("%s %s %s: %s", x.Kind, x.Name, x.To, x.Because)
			w.write(p, func(pod *inplace.Pod) { apply(pod, x) })
			p.own = len(p.versions) - 1
		}
	}
	for _, x := range d.Deletes {
		if p := w.current(x.Ref); p != nil && !w.lost(faults) {
			w.logf("delete %s %s: %s", x.Name, p.truth().Revision, x.Because)
			w.end(p)
			p.own = len(p.versions) - 1
		}
	}
	for _, c := range d.Creates {
		w.create(c, faults, hooked)
	}
}

// apply is the API server's part of a patch.
func apply(pod *inplace.Pod, x inplace.Patch) {
	for k, v := range x.Metadata.Labels {
		if v == nil {
			delete(pod.Labels, k)
			continue
		}
		pod.Labels[k] = *v
	}
	pod.Revision = pod.Labels[appsv1alpha1.LabelPodRevision]
	_, pod.SpecifiedDelete = pod.Labels[appsv1alpha1.LabelSpecifiedDelete]
	if v := x.Metadata.Annotations[appsv1alpha1.AnnotationInPlaceState]; v != nil {
		pod.State = &inplace.State{}
		if err := json.Unmarshal([]byte(*v), pod.State); err != nil {
			panic(err)
		}
	}
	switch x.Kind { //nolint:exhaustive // the others change nothing that the model has
	case inplace.PatchDrain:
		pod.Gate, pod.GateSince = inplace.GateFalse, x.At
	case inplace.PatchReturn:
		pod.Gate, pod.GateSince = inplace.GateTrue, x.At
	case inplace.PatchUpdate:
		if image := x.Images["c"]; image != "" {
			pod.Containers[0].Image = image
			pod.Generation++
		}
	}
}

// create is the API server: a name in use is refused, and so is the pod then. Claims come before their pod.
func (w *world) create(c inplace.Create, faults, hooked bool) {
	name := c.Object.GetName()
	for _, claim := range c.Claims {
		if w.claims[claim.GetName()] != nil || w.lost(faults) {
			return
		}
		made := &Claim{Labels: claim.GetLabels(), Owners: claim.GetOwnerReferences(), Class: "fast", Request: storageOf(claim.Object)}
		made.Ref = inplace.Ref{Name: claim.GetName(), UID: types.UID("c" + w.version()), ResourceVersion: w.version()}
		made.Capacity = made.Request
		w.claims[made.Name] = made
	}
	if w.named(name) != nil || w.lost(faults) {
		return
	}
	p := &inplace.Pod{
		Ref:   inplace.Ref{Name: name, UID: types.UID("u" + w.version()), ResourceVersion: w.version()},
		Phase: inplace.PhasePending, Created: w.now, Revision: c.Revision, Gate: inplace.GateUnset, Generation: 1,
		Labels: maps.Clone(c.Object.GetLabels()), Annotations: c.Object.GetAnnotations(),
		Containers: []inplace.Container{{Name: "c", Image: "app:" + c.Revision}},
	}
	if hooked {
		p.Finalizers = []string{"x.io/y"}
	}
	w.logf("create %s %s", name, c.Revision)
	w.pods = append(w.pods, &simPod{versions: []*inplace.Pod{p}, crashing: w.rng.IntN(10) == 0})
}

func storageOf(claim map[string]any) resource.Quantity {
	raw, _ := json.Marshal(claim)
	_, rest, _ := strings.Cut(string(raw), `"storage":"`)
	size, _, _ := strings.Cut(rest, `"`)
	return resource.MustParse(size)
}

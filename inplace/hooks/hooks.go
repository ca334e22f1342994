package hooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// State is the value of the label lifecycle.apps.kruise.io/state.
type State string

// Values of State.
const (
	// None: the label is absent, which counts as Normal.
	None State = ""
	// PreparingNormal: new, and its preNormal hook has not let it in yet.
	PreparingNormal State = "PreparingNormal"
	// Normal: nothing holds it.
	Normal State = "Normal"
	// PreparingUpdate: to be updated in place as soon as its hook lets it go.
	PreparingUpdate State = "PreparingUpdate"
	// Updating: patched, or about to be.
	Updating State = "Updating"
	// Updated: proven, and its hook has not taken it back yet.
	Updated State = "Updated"
	// PreparingDelete: to be deleted as soon as its hook lets it go.
	PreparingDelete State = "PreparingDelete"
)

// Of reads the state of a pod; known is false for a value that is none of ours.
func Of(labels map[string]string) (s State, known bool) {
	s = State(labels[appsv1alpha1.LabelLifecycleState])
	switch s {
	case None, PreparingNormal, Normal, PreparingUpdate, Updating, Updated, PreparingDelete:
		return s, true
	}
	return s, false
}

// Settled reports whether the state lets a pod count as available: None and Normal do.
func Settled(labels map[string]string) bool {
	s, _ := Of(labels)
	return s == None || s == Normal
}

// Answer is what the hooks say about one step of one pod.
type Answer struct {
	// Ready: the step may be taken. Of After: the pod may be in service.
	Ready bool
	// Write is the state to write, None when it stays. Of Before with Ready it rides on the update's patch.
	Write State
	// Out: the pod is kept out of service meanwhile (gate False).
	Out bool
	// Because says what it waits for, or why nothing is done; equal for pods in the same situation.
	Because string
}

// Before says whether a pod that has a target may be updated in place now.
func Before(life *appsv1alpha1.Lifecycle, p *inplace.Pod) Answer {
	state, known := Of(p.Labels)
	hook := read(life).update
	switch {
	case !known:
		return Answer{Because: strange(state)}
	case state == PreparingDelete:
		return Answer{Because: "it is about to be deleted"}
	case state == PreparingNormal:
		return Answer{Ready: true}
	}
	held := hook.there(p)
	switch {
	case len(held) > 0 && state == PreparingUpdate:
		return Answer{Out: hook.mark, Because: waitsUntilGone("in-place update", held)}
	case len(held) > 0:
		return Answer{Write: PreparingUpdate, Out: hook.mark, Because: waitsUntilGone("in-place update", held)}
	case state == Updating, !hook.asks() && (state == None || state == Normal):
		return Answer{Ready: true}
	default:
		return Answer{Ready: true, Write: Updating}
	}
}

// After says what becomes of a pod that stays where it is. proven is whether it runs what it was asked to (step.Prove): an
// update that is not proven is not over, whatever the hooks say.
func After(life *appsv1alpha1.Lifecycle, p *inplace.Pod, proven bool) Answer {
	state, known := Of(p.Labels)
	hooks := read(life)
	switch {
	case !known:
		return Answer{Ready: true, Because: strange(state)}
	case state == PreparingDelete:
		// Written by Delete, left by Restore or by the deletion; here it only stays as it is.
		out := hooks.del.mark && hooks.del.asks()
		return Answer{Ready: !out, Out: out}
	case state == PreparingNormal:
		return fresh(hooks.normal, p)
	case state == None || state == Normal:
		return Answer{Ready: true}
	case !proven:
		return Answer{Because: "its update is not proven"}
	}
	// PreparingUpdate without a target, Updating, Updated.
	missing := hooks.update.missing(p)
	switch {
	case len(missing) == 0:
		return Answer{Ready: true, Write: Normal}
	case state == Updated:
		return Answer{Ready: true, Because: waitsUntilThere("after its in-place update", missing)}
	default:
		return Answer{Ready: true, Write: Updated, Because: waitsUntilThere("after its in-place update", missing)}
	}
}

// fresh lets a new pod in when it has a node and its preNormal hook is satisfied.
func fresh(hook hook, p *inplace.Pod) Answer {
	missing := hook.missing(p)
	switch {
	case len(missing) > 0:
		return Answer{Ready: true, Because: waitsUntilThere("before it counts as new", missing)}
	case p.Node == "":
		return Answer{Ready: true}
	default:
		return Answer{Ready: true, Write: Normal}
	}
}

// New is the state that a pod is created in: None unless a preNormal hook asks for something.
func New(life *appsv1alpha1.Lifecycle) State {
	if read(life).normal.asks() {
		return PreparingNormal
	}
	return None
}

// Delete says whether a pod that is to go may be deleted now.
func Delete(life *appsv1alpha1.Lifecycle, p *inplace.Pod) Answer {
	hook := read(life).del
	held := hook.there(p)
	state, known := Of(p.Labels)
	switch {
	case len(held) == 0:
		return Answer{Ready: true}
	case !known:
		return Answer{Because: strange(state)}
	case state == PreparingDelete:
		return Answer{Out: hook.mark, Because: waitsUntilGone("deletion", held)}
	default:
		return Answer{Write: PreparingDelete, Out: hook.mark, Because: waitsUntilGone("deletion", held)}
	}
}

// Depart is the patch that a pod needs which is to be deleted and is held by its hook: into PreparingDelete, out of service
// where the hook says so. Without a patch it waits, or is Ready to be deleted.
func Depart(life *appsv1alpha1.Lifecycle, p *inplace.Pod, now time.Time) (a Answer, patch *inplace.Patch) {
	a = Delete(life, p)
	drain := a.Out && p.Gate == inplace.GateTrue
	if a.Ready || a.Write == None && !drain {
		return a, nil
	}
	kind := inplace.PatchState
	if drain {
		kind = inplace.PatchDrain
	}
	return a, &inplace.Patch{
		Ref: p.Ref, Kind: kind, At: now, To: p.Revision, Metadata: Change(PreparingDelete, now), Because: a.Because,
	}
}

// Replace is Depart for a pod that is recreated at another revision: the patch also asks for its deletion
// (apps.kruise.io/specified-delete), or the pod would be taken back as soon as it is missing.
func Replace(life *appsv1alpha1.Lifecycle, p *inplace.Pod, now time.Time) (a Answer, patch *inplace.Patch) {
	a, patch = Depart(life, p, now)
	if patch != nil {
		yes := "true"
		patch.Metadata.Labels[appsv1alpha1.LabelSpecifiedDelete] = &yes
	}
	return a, patch
}

// Restore is the state that a pod in PreparingDelete goes back to when it is wanted after all; ok is false when it is in
// another state, or was taken out of service for good (markPodNotReady), as in OpenKruise.
func Restore(life *appsv1alpha1.Lifecycle, p *inplace.Pod) (to State, ok bool) {
	state, _ := Of(p.Labels)
	hooks := read(life)
	if state != PreparingDelete || hooks.del.asks() && hooks.del.mark {
		return None, false
	}
	if hooks.normal.asks() {
		return PreparingNormal, true
	}
	return Normal, true
}

// Change is the metadata that a state is written with.
func Change(to State, now time.Time) inplace.MetadataChange {
	state, at := string(to), now.UTC().Format(time.RFC3339)
	return inplace.MetadataChange{
		Labels:      map[string]*string{appsv1alpha1.LabelLifecycleState: &state},
		Annotations: map[string]*string{appsv1alpha1.AnnotationLifecycleTimestamp: &at},
	}
}

func strange(s State) string {
	return fmt.Sprintf("its label %s says %q, which is no state; it is left alone until somebody corrects or removes the label",
		appsv1alpha1.LabelLifecycleState, string(s))
}

func waitsUntilGone(what string, held []string) string {
	return fmt.Sprintf("its %s waits until somebody removes %s", what, strings.Join(held, ", "))
}

func waitsUntilThere(when string, missing []string) string {
	return fmt.Sprintf("%s it waits until somebody puts on %s", when, strings.Join(missing, ", "))
}

// hook is one hook, read.
type hook struct {
	labels     map[string]string
	finalizers []string
	mark       bool
}

type lifecycle struct {
	normal, update, del hook
}

func read(life *appsv1alpha1.Lifecycle) lifecycle {
	if life == nil {
		return lifecycle{}
	}
	one := func(h *appsv1alpha1.LifecycleHook) hook {
		if h == nil {
			return hook{}
		}
		return hook{labels: h.LabelsHandler, finalizers: h.FinalizersHandler, mark: h.MarkPodNotReady}
	}
	return lifecycle{normal: one(life.PreNormal), update: one(life.InPlaceUpdate), del: one(life.PreDelete)}
}

func (h hook) asks() bool {
	return len(h.labels)+len(h.finalizers) > 0
}

// there names what the hook asks for and the pod has, missing what it does not have; labels first, sorted.
func (h hook) there(p *inplace.Pod) []string {
	return h.named(p, true)
}

func (h hook) missing(p *inplace.Pod) []string {
	return h.named(p, false)
}

func (h hook) named(p *inplace.Pod, has bool) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(h.labels)) {
		value, ok := p.Labels[key]
		if (ok && value == h.labels[key]) == has {
			out = append(out, fmt.Sprintf("label %s=%s", key, h.labels[key]))
		}
	}
	finalizers := slices.Clone(h.finalizers)
	slices.Sort(finalizers)
	for _, f := range slices.Compact(finalizers) {
		if slices.Contains(p.Finalizers, f) == has {
			out = append(out, "finalizer "+f)
		}
	}
	return out
}

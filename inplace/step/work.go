package step

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/underway-dev/underway/inplace"
)

// work is what is to be changed of a pod's containers.
type work struct {
	// images are those that the spec does not show yet, of all kinds of containers.
	images map[string]string
	// resources are those asked for and not asked for before, or not shown by the spec yet.
	resources map[string]corev1.ResourceRequirements
	// metadata is what OpenKruise held back until a container is started anew that reads it.
	metadata map[string]inplace.RefMetadata
}

// parkedHere reports whether an update to the pod's own revision is parked on it, in a form that we can read.
func parkedHere(p *inplace.Pod) bool {
	return p.Parked != nil && p.Parked.Problem == "" && p.Parked.Revision == p.Revision
}

// begun is what is begun on the pod and not done: parked for a grace period, of later batches, or asked of pods/resize.
func begun(p *inplace.Pod) work {
	var w work
	if p.State != nil && !parkedHere(p) {
		for name, r := range p.State.Resources {
			if st := standingOf(p, name); st == untouched || st == setBack {
				w.resources = put(w.resources, name, r)
			}
		}
		w.add(p.State.NextContainerImages, p.State.NextContainerResources)
		w.metadata = p.State.NextContainerRefMetadata
	}
	if parkedHere(p) {
		w.add(p.Parked.ContainerImages, p.Parked.ContainerResources)
		w.metadata = p.Parked.ContainerRefMetadata
	}
	return w
}

// add lays changes over what is there.
func (w *work) add(images map[string]string, resources map[string]corev1.ResourceRequirements) {
	for name, image := range images {
		w.images = put(w.images, name, image)
	}
	for name, r := range resources {
		w.resources = put(w.resources, name, inplace.MergeResources(w.resources[name], r))
	}
}

// due is what brings the pod where u says: what is begun, and over it what changes from the pod's revision to the new one.
// The change wins: it is judged against the revision that what is begun leads to.
func due(p *inplace.Pod, u *Update) work {
	w := begun(p)
	w.add(u.Change.Images, u.Change.Resources)
	w.add(u.Change.InitImages, nil)
	for name, image := range w.images {
		if c := p.Container(name); c != nil && c.Image == image {
			delete(w.images, name)
		}
	}
	w.metadata = without(w.metadata, u.Change.Metadata)
	return w
}

// without is what was held back and is not overwritten by a newer change.
func without(held map[string]inplace.RefMetadata, change inplace.MetadataChange) map[string]inplace.RefMetadata {
	var out map[string]inplace.RefMetadata
	for name, m := range held {
		left := inplace.RefMetadata{Labels: less(m.Labels, change.Labels), Annotations: less(m.Annotations, change.Annotations)}
		if len(left.Labels)+len(left.Annotations) > 0 {
			out = put(out, name, left)
		}
	}
	return out
}

func less(held map[string]string, change map[string]*string) map[string]string {
	out := maps.Clone(held)
	maps.DeleteFunc(out, func(k, _ string) bool {
		_, changed := change[k]
		return changed
	})
	return out
}

// restarts reports whether the kubelet starts the container anew for w: for another image, or for cpu or memory whose
// resizePolicy says so. An init container has run already.
func (w *work) restarts(c *inplace.Container) bool {
	if c == nil || c.Kind == inplace.KindInit {
		return false
	}
	if _, changed := w.images[c.Name]; changed {
		return true
	}
	r, asked := w.resources[c.Name]
	return asked && resizeRestarts(c, c.Resources, r)
}

// resizeRestarts reports whether a resize from one to the other restarts c.
func resizeRestarts(c *inplace.Container, from, to corev1.ResourceRequirements) bool {
	for _, name := range c.ResizeRestarts {
		if differs(name, from.Limits, to.Limits) || differs(name, from.Requests, to.Requests) {
			return true
		}
	}
	return false
}

// differs reports whether to asks for another amount of one resource.
func differs(name corev1.ResourceName, from, to corev1.ResourceList) bool {
	want, asked := to[name]
	have, has := from[name]
	return asked && (!has || want.Cmp(have) != 0)
}

// harmless reports whether w restarts no container.
func (w *work) harmless(p *inplace.Pod) bool {
	for i := range p.Containers {
		if w.restarts(&p.Containers[i]) {
			return false
		}
	}
	return true
}

// unshown are the resources that the spec does not show, by kind of container: apps, and native sidecars.
func (w *work) unshown(p *inplace.Pod) (apps, sidecars map[string]corev1.ResourceRequirements) {
	for name, r := range w.resources {
		c := p.Container(name)
		if c == nil || inplace.SameResources(r, c.Resources) {
			continue
		}
		if c.Kind == inplace.KindApp {
			apps = put(apps, name, r)
		} else {
			sidecars = put(sidecars, name, r)
		}
	}
	return apps, sidecars
}

// split divides w by launch priority: containers without a barrier go now, and of those with one only the highest. A
// container that was patched and is not proven yet counts, so that a newer target does not overtake it. What restarts
// nothing has no order. A container's image and resources go together.
func (w *work) split(p *inplace.Pod, unproven func(name string) bool) (now, next work) {
	var highest *int32
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Priority != nil && (w.restarts(c) || unproven(c.Name)) && (highest == nil || *c.Priority > *highest) {
			highest = c.Priority
		}
	}
	for _, name := range w.names() {
		into := &now
		c := p.Container(name)
		if c != nil && c.Priority != nil && w.restarts(c) && *c.Priority < *highest {
			into = &next
		}
		w.move(name, into)
	}
	return now, next
}

// names are the containers that w is about, sorted.
func (w *work) names() []string {
	if len(w.images)+len(w.resources)+len(w.metadata) == 0 {
		return nil
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(w.images)), maps.Keys(w.resources))
	names = slices.AppendSeq(names, maps.Keys(w.metadata))
	slices.Sort(names)
	return slices.Compact(names)
}

// move copies what w has of one container.
func (w *work) move(name string, into *work) {
	if image, ok := w.images[name]; ok {
		into.images = put(into.images, name, image)
	}
	if r, ok := w.resources[name]; ok {
		into.resources = put(into.resources, name, r)
	}
	if m, ok := w.metadata[name]; ok {
		into.metadata = put(into.metadata, name, m)
	}
}

// standing says what became of the cpu and memory that the state asks for in one container.
type standing int

const (
	// shown: the spec shows them.
	shown standing = iota
	// untouched: the spec shows what it showed before the patch, so the resize was not made.
	untouched
	// setBack: the same, though the spec has changed since more often than explains it. Somebody else takes our resizes
	// back; we do not fight.
	setBack
	// foreign: the spec shows a third value. Somebody else sizes this container now.
	foreign
)

func standingOf(p *inplace.Pod, name string) standing {
	c := p.Container(name)
	want := p.State.Resources[name]
	if c == nil || inplace.SameResources(want, c.Resources) {
		return shown
	}
	was := recordedOf(p.State, name).Resources
	if was != nil && !inplace.SameResources(expected(*was, want), c.Resources) {
		return foreign
	}
	// Our resize raises the generation by one; one more change may have come between.
	if p.Generation > p.State.Generation+1 && p.Seen.ResizeRefused == nil {
		return setBack
	}
	return untouched
}

// expected are the values of was that want names.
func expected(was, want corev1.ResourceRequirements) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: named(was.Limits, want.Limits), Requests: named(was.Requests, want.Requests)}
}

func named(was, want corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name := range want {
		if q, ok := was[name]; ok {
			out[name] = q
		}
	}
	return out
}

// recordedOf is the record of one container, the zero value when there is none.
func recordedOf(s *inplace.State, name string) inplace.ContainerState {
	if r, ok := s.LastContainerStatuses[name]; ok {
		return r
	}
	return s.OtherContainerStatuses[name]
}

// put sets a key of a map that may not be there yet.
func put[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

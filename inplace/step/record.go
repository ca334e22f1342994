package step

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/imagediff"
)

// record is the writing of one state annotation: what runs now in every container that is patched, and, while an earlier
// update is not proven, what ran before that one.
type record struct {
	p   *inplace.Pod
	now time.Time
	// apps and others are the records that are carried over, of an update that is not proven.
	apps, others map[string]inplace.ContainerState
	// resources are those that the earlier update asks for and that are not proven.
	resources map[string]corev1.ResourceRequirements
	// before are the resources from before, of resizes carried over alone.
	before map[string]*corev1.ResourceRequirements
}

func newRecord(p *inplace.Pod, now time.Time) *record {
	r := &record{
		p: p, now: now, apps: map[string]inplace.ContainerState{}, others: map[string]inplace.ContainerState{},
		resources: map[string]corev1.ResourceRequirements{},
	}
	switch {
	case p.StateProblem != "":
		r.asItRuns()
	case p.State == nil || p.Parked != nil:
	default:
		r.carry()
	}
	return r
}

// asItRuns records every container that lives: nobody knows which of them were patched.
func (r *record) asItRuns() {
	for i := range r.p.Containers {
		c := &r.p.Containers[i]
		was := recordOf(c, inplace.ContainerState{ImageID: c.ImageID, Image: c.RunningImage}, true)
		switch c.Kind {
		case inplace.KindApp:
			r.apps[c.Name] = was
		case inplace.KindSidecar:
			r.others[c.Name] = was
		case inplace.KindInit:
		}
	}
}

// carry keeps what is not proven. Once all containers run that were to be started anew, only the resize is left.
func (r *record) carry() {
	proof := proveBatch(r.p, r.now)
	if proof.Done {
		return
	}
	for name := range r.p.State.Resources {
		if standingOf(r.p, name) != foreign {
			r.resources[name] = r.p.State.Resources[name]
		}
	}
	if proof.Settled {
		r.before = map[string]*corev1.ResourceRequirements{}
		for name := range r.resources {
			r.before[name] = recordedOf(r.p.State, name).Resources
		}
		return
	}
	maps.Copy(r.apps, r.p.State.LastContainerStatuses)
	maps.Copy(r.others, r.p.State.OtherContainerStatuses)
}

// unproven reports whether an earlier update of the container is carried over.
func (r *record) unproven(name string) bool {
	_, app := r.apps[name]
	_, other := r.others[name]
	return app || other
}

// state is the annotation for a patch of w, with next to follow.
func (r *record) state(revision string, w, next work) inplace.State {
	unproven := map[string]bool{}
	for _, m := range []map[string]inplace.ContainerState{r.apps, r.others} {
		for name := range m {
			unproven[name] = true
		}
	}
	s := inplace.State{
		Revision:              revision,
		UpdateTimestamp:       metav1.NewTime(r.now.UTC().Truncate(time.Second)),
		LastContainerStatuses: r.apps,
		UpdateImages:          len(w.images)+len(next.images) > 0,
		Generation:            r.p.Generation,
	}
	for _, name := range sorted(w.images) {
		r.image(name, w.images[name])
	}
	if len(w.images) > 0 && r.p.Generation > 0 {
		s.Generation++
	}
	for _, name := range sorted(w.resources) {
		r.resource(name, w.resources[name])
	}
	for name, was := range r.before {
		c := r.p.Container(name)
		_, app := r.apps[name]
		_, other := r.others[name]
		if was == nil || c == nil || app || other {
			continue
		}
		rec := recordOf(c, inplace.ContainerState{}, false)
		rec.Resources = was
		r.others[name] = rec
	}
	if len(r.resources) > 0 {
		s.Resources = r.resources
	}
	if len(r.others) > 0 {
		s.OtherContainerStatuses = r.others
	}
	s.UpdateResources = len(s.Resources)+len(next.resources) > 0
	r.batches(&s, w, next, unproven)
	return s
}

// image records a container whose image is patched. An init container that has run proves nothing and is not recorded.
func (r *record) image(name, image string) {
	c := r.p.Container(name)
	if c == nil || c.Kind == inplace.KindInit {
		return
	}
	earlier, unsure := r.apps[name]
	if !unsure {
		earlier, unsure = r.others[name]
	}
	was := recordOf(c, earlier, unsure)
	was.Resources = earlier.Resources
	// A runtime names an image by any of its tags. Where it shows the wanted name already, a container that crashes
	// before the kubelet acts shows it too: the name proves nothing then.
	was.Unsure = was.Unsure || imagediff.SameImage(c.RunningImage, image)
	if c.Kind == inplace.KindApp {
		delete(r.others, name)
		r.apps[name] = was
		return
	}
	r.others[name] = was
}

// resource records a container whose cpu or memory is asked for, beside its image where that changes too.
func (r *record) resource(name string, want corev1.ResourceRequirements) {
	c := r.p.Container(name)
	if c == nil || c.Kind == inplace.KindInit {
		return
	}
	r.resources[name] = inplace.MergeResources(r.resources[name], want)
	into := r.others
	was, has := r.apps[name]
	if has {
		into = r.apps
	} else {
		was, has = r.others[name]
		was = recordOf(c, was, has)
	}
	was.Resources = new(c.Resources)
	into[name] = was
}

// recordOf records what runs in c. When an earlier update is not proven, a container that still shows the imageID
// recorded then may have been started from the image of that time.
func recordOf(c *inplace.Container, earlier inplace.ContainerState, unsure bool) inplace.ContainerState {
	r := inplace.ContainerState{ImageID: c.ImageID, ContainerID: new(c.ContainerID), Image: c.Image, Unsure: unsure}
	if !unsure || c.ImageID != earlier.ImageID {
		return r
	}
	r.Image = earlier.Image
	if r.Image == "" {
		r.Image = c.RunningImage
	}
	return r
}

// batches writes down what follows, and what of containers with launch priorities was patched when.
func (r *record) batches(s *inplace.State, w, next work, unproven map[string]bool) {
	var restarted, inFlight []string
	for i := range r.p.Containers {
		c := &r.p.Containers[i]
		if c.Kind != inplace.KindApp {
			continue
		}
		if w.restarts(c) {
			restarted = append(restarted, c.Name)
		} else if c.Priority != nil && unproven[c.Name] {
			inFlight = append(inFlight, c.Name)
		}
	}
	slices.Sort(restarted)
	follows := len(next.names()) > 0
	if r.p.State != nil && r.p.State.Revision == s.Revision {
		s.ContainerBatchesRecord = slices.Clone(r.p.State.ContainerBatchesRecord)
	}
	if (follows || len(s.ContainerBatchesRecord) > 0) && len(restarted) > 0 {
		s.ContainerBatchesRecord = append(s.ContainerBatchesRecord, inplace.Batch{Timestamp: s.UpdateTimestamp, Containers: restarted})
	}
	if !follows {
		return
	}
	required := slices.Concat(restarted, inFlight)
	slices.Sort(required)
	s.PreCheckBeforeNext = &inplace.PreCheck{ContainersRequiredReady: required}
	s.NextContainerImages = someOf(next.images)
	s.NextContainerResources = someOf(next.resources)
	s.NextContainerRefMetadata = someOf(next.metadata)
}

// someOf is m, or nil when it is empty.
func someOf[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return m
}

package step_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/step"
)

// ordered is a drained pod of web-1 with priorities c1 20, c2 10, c3 and c4 0, and c5 without a barrier.
func ordered() inplace.Pod {
	p := drained()
	p.Containers = nil
	for name, priority := range map[string]*int32{"c1": new(int32(20)), "c2": new(int32(10)), "c3": new(int32(0)), "c4": new(int32(0)), "c5": nil} {
		p.Containers = append(p.Containers, inplace.Container{
			Name: name, Image: name + ":1", RunningImage: name + ":1", ImageID: name + "-1", ContainerID: name + "-a", Known: true, Running: true, Ready: true, Started: true, Priority: priority,
		})
	}
	return p
}

func images(names ...string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		out[name] = name + ":2"
	}
	return out
}

func toImages(names ...string) step.Update {
	return step.Update{To: inplace.Revision{Name: "web-2"}, Change: inplace.Change{Images: images(names...)}}
}

// restart is the kubelet doing what a patch asks.
func restart(p inplace.Pod, names ...string) inplace.Pod {
	p.ObservedGeneration = p.Generation
	for _, name := range names {
		c := p.Container(name)
		c.ContainerID, c.ImageID, c.RunningImage = c.ContainerID+"b", c.Image+"-id", c.Image
	}
	return p
}

func TestLaunchPriorities(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		u         step.Update
		now, next map[string]string
		required  []string
	}{
		"O155: the higher first":           {u: toImages("c1", "c2"), now: images("c1"), next: images("c2"), required: []string{"c1"}},
		"O157: one priority, one batch":    {u: toImages("c3", "c4"), now: images("c3", "c4")},
		"without a barrier at once":        {u: toImages("c2", "c3", "c5"), now: images("c2", "c5"), next: images("c3"), required: []string{"c2", "c5"}},
		"only what changes has an order":   {u: toImages("c3", "c5"), now: images("c3", "c5")},
		"all: the lower ones wait as well": {u: toImages("c1", "c2", "c3", "c4"), now: images("c1"), next: images("c2", "c3", "c4"), required: []string{"c1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patch := step.Next(ordered(), tc.u, now).Patch
			s := state(t, patch)
			if diff := cmp.Diff(tc.now, patch.Images) + cmp.Diff(tc.next, s.NextContainerImages); diff != "" {
				t.Error(diff)
			}
			var required []string
			if s.PreCheckBeforeNext != nil {
				required = s.PreCheckBeforeNext.ContainersRequiredReady
			}
			if diff := cmp.Diff(tc.required, required); diff != "" {
				t.Error(diff)
			}
			if (len(s.ContainerBatchesRecord) > 0) != (tc.next != nil) {
				t.Errorf("batches %+v", s.ContainerBatchesRecord)
			}
		})
	}
}

// O169b: the next containers are patched when the batch is proven and ready, and not before; each batch is written down.
func TestO169bBatchAfterBatch(t *testing.T) {
	t.Parallel()
	p := apply(t, ordered(), step.Next(ordered(), toImages("c1", "c2", "c3"), now).Patch)
	p.ObservedGeneration, p.Seen.SameSince = p.Generation, ago(time.Hour)
	waits := func(p inplace.Pod, text string) {
		t.Helper()
		if o := step.Next(p, step.Update{}, now); o.Patch != nil || o.Wait != inplace.HoldProof || !strings.Contains(o.Because, text) {
			t.Errorf("%+v, want %q", o, text)
		}
	}
	waits(p, "container c1 is still the one from before the patch")
	p = restart(p, "c1")
	p.Container("c1").Ready = false
	waits(p, "container c1 must be ready before the next ones are patched")
	if o := step.Next(p, step.Update{}, now.Add(3*time.Minute)); o.Reason != step.ReasonNotProven || !strings.Contains(o.Problem, "c1") {
		t.Errorf("not told: %+v", o)
	}
	p.Container("c1").Ready = true
	o := step.Next(p, step.Update{Grace: time.Hour}, now)
	if o.Patch == nil || o.Patch.Kind != inplace.PatchUpdate || cmp.Diff(images("c2"), o.Patch.Images) != "" || o.Patch.To != "web-2" {
		t.Fatalf("%+v", o)
	}
	p = restart(apply(t, p, o.Patch), "c2")
	if diff := cmp.Diff(images("c3"), p.State.NextContainerImages); diff != "" || step.Prove(p, step.Update{}, now).Done {
		t.Error(diff)
	}
	p = restart(apply(t, p, step.Next(p, step.Update{}, now).Patch), "c3")
	if p.State.Next() || p.State.PreCheckBeforeNext != nil {
		t.Errorf("%+v", p.State)
	}
	var batches [][]string
	for _, b := range p.State.ContainerBatchesRecord {
		batches = append(batches, b.Containers)
	}
	if diff := cmp.Diff([][]string{{"c1"}, {"c2"}, {"c3"}}, batches); diff != "" {
		t.Error(diff)
	}
	if o := step.Next(p, step.Update{}, now); o.Patch == nil || o.Patch.Kind != inplace.PatchReturn {
		t.Errorf("%+v", o)
	}
}

// Between two batches everything may change its mind; each is decided from the pod as it is.
func TestBetweenBatches(t *testing.T) {
	t.Parallel()
	between := apply(t, ordered(), step.Next(ordered(), toImages("c1", "c2"), now).Patch)
	proven := restart(apply(t, ordered(), step.Next(ordered(), toImages("c1", "c2"), now).Patch), "c1")
	back := step.Update{To: inplace.Revision{Name: "web-1"}, Change: inplace.Change{Images: map[string]string{"c1": "c1:1", "c2": "c2:1"}}}
	other := step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{Images: map[string]string{"c2": "c2:3"}}}
	higher := step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{Images: map[string]string{"c1": "c1:3"}}}
	cases := map[string]struct {
		pod       inplace.Pod
		u         step.Update
		now, next map[string]string
		required  []string
	}{
		"rolled back while the first is not proven: the second was never touched": {between, back, map[string]string{"c1": "c1:1"}, nil, nil},
		"rolled back when the first is proven":                                    {proven, back, map[string]string{"c1": "c1:1"}, nil, nil},
		"a newer image of the second, the first not proven: does not overtake it": {between, other, map[string]string{}, map[string]string{"c2": "c2:3"}, []string{"c1"}},
		"a newer image of the second, the first proven":                           {proven, other, map[string]string{"c2": "c2:3"}, nil, nil},
		"a newer image of the first: the second still follows":                    {proven, higher, map[string]string{"c1": "c1:3"}, images("c2"), []string{"c1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patch := step.Next(tc.pod, tc.u, now).Patch
			s := state(t, patch)
			if diff := cmp.Diff(tc.now, patch.Images) + cmp.Diff(tc.next, s.NextContainerImages); diff != "" {
				t.Error(diff)
			}
			if tc.required != nil && cmp.Diff(tc.required, s.PreCheckBeforeNext.ContainersRequiredReady) != "" {
				t.Errorf("%+v", s.PreCheckBeforeNext)
			}
		})
	}
}

// Image and resources of a container go together, in its batch; a batch of resources alone does not get stuck.
func TestResourcesInBatches(t *testing.T) {
	t.Parallel()
	p := ordered()
	p.Container("c2").Resources, p.Container("c2").RunningResources = cpu("1"), new(cpu("1"))
	p.Container("c2").ResizeRestarts = []corev1.ResourceName{corev1.ResourceCPU}
	u := toImages("c1")
	u.Change.Resources = map[string]corev1.ResourceRequirements{"c2": cpu("2")}
	patch := step.Next(p, u, now).Patch
	s := state(t, patch)
	if len(patch.Resources) != 0 || len(s.Resources) != 0 || !inplace.SameResources(cpu("2"), s.NextContainerResources["c2"]) || !s.UpdateResources {
		t.Fatalf("%+v, %+v", patch, s)
	}
	p = restart(apply(t, p, patch), "c1")
	patch = step.Next(p, step.Update{}, now).Patch
	if patch == nil || patch.Kind != inplace.PatchUpdate || len(patch.Images) != 0 || !inplace.SameResources(cpu("2"), patch.Resources["c2"]) {
		t.Fatalf("%+v", patch)
	}
	if s := state(t, patch); s.Next() || len(s.Resources) != 1 {
		t.Errorf("%+v", s)
	}
	q := ordered()
	q.Container("c2").Resources = cpu("1")
	if patch := step.Next(q, u, now).Patch; !inplace.SameResources(cpu("2"), patch.Resources["c2"]) {
		t.Errorf("a resize that restarts nothing waits for its turn: %+v", patch)
	}
}

// A resize that waits for room, or is refused for good, does not hold up the next batch, and is not forgotten by it.
func TestNextBatchBesideAResize(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*inplace.Pod){
		"Deferred": func(p *inplace.Pod) {
			p.Container("c1").Resources, p.Resize = cpu("2"), inplace.Resize{Pending: inplace.ResizeDeferred}
		},
		"refused for good": func(p *inplace.Pod) { p.Seen.ResizeRefused = &inplace.ResizeRefusal{Final: true} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := ordered()
			p.Container("c1").Resources, p.Container("c1").RunningResources = cpu("1"), new(cpu("1"))
			u := toImages("c1", "c2")
			u.Change.Resources = map[string]corev1.ResourceRequirements{"c1": cpu("2")}
			p = restart(apply(t, p, step.Next(p, u, now).Patch), "c1")
			change(&p)
			patch := step.Next(p, step.Update{}, now).Patch
			if patch == nil || cmp.Diff(images("c2"), patch.Images) != "" || !inplace.SameResources(cpu("2"), state(t, patch).Resources["c1"]) {
				t.Fatalf("%+v", patch)
			}
			p = restart(apply(t, p, patch), "c2")
			change(&p)
			if o := step.Next(p, step.Update{}, now); o.Patch == nil || o.Patch.Kind != inplace.PatchReturn || step.Prove(p, step.Update{}, now).Done {
				t.Errorf("%+v", o)
			}
		})
	}
}

// What OpenKruise left between two batches is done in the same order, with the metadata that it held back.
func TestBatchesOfOpenKruise(t *testing.T) {
	t.Parallel()
	left := func() inplace.Pod {
		p := ordered()
		p.Revision, p.Container("c1").Image = "web-2", "c1:2"
		p = restart(p, "c1")
		p.State = &inplace.State{
			Revision: "web-2", UpdateTimestamp: metav1.NewTime(ago(time.Hour)), UpdateImages: true,
			LastContainerStatuses: map[string]inplace.ContainerState{"c1": {ImageID: "c1-1"}},
			NextContainerImages:   images("c2", "c3"), PreCheckBeforeNext: &inplace.PreCheck{ContainersRequiredReady: []string{"c1"}},
			NextContainerRefMetadata: map[string]inplace.RefMetadata{"c3": {Labels: map[string]string{"env": "new"}}},
		}
		return p
	}
	patch := step.Next(left(), step.Update{}, now).Patch
	if diff := cmp.Diff(images("c2"), patch.Images); diff != "" || patch.Metadata.Labels["env"] != nil {
		t.Fatalf("%s%+v", diff, patch.Metadata)
	}
	p := restart(apply(t, left(), patch), "c2")
	patch = step.Next(p, step.Update{}, now).Patch
	if diff := cmp.Diff(images("c3"), patch.Images); diff != "" || patch.Metadata.Labels["env"] == nil || *patch.Metadata.Labels["env"] != "new" {
		t.Fatalf("%s%+v", diff, patch.Metadata)
	}
	p = left()
	p.State.NextContainerImages = images("c2")
	o := step.Next(p, step.Update{}, now)
	if o.Patch != nil || !strings.Contains(o.Problem, "the environment of container c3 is to change without its image, which only an agent on the node could do") || !step.Prove(p, step.Update{}, now).Hopeless {
		t.Errorf("%+v", o)
	}
	back := step.Update{To: inplace.Revision{Name: "web-1"}, Change: inplace.Change{
		Images: map[string]string{"c1": "c1:1", "c2": "c2:1"}, Metadata: inplace.MetadataChange{Labels: map[string]*string{"env": new("old")}},
	}}
	if o := step.Next(p, back, now); o.Patch == nil || cmp.Diff(map[string]string{"c1": "c1:1"}, o.Patch.Images) != "" {
		t.Errorf("it cannot be rolled back: %+v", o)
	}
}

// O168: an update parked by OpenKruise, its grace period over, with resources and launch priorities.
func TestO168ParkedWithEverything(t *testing.T) {
	t.Parallel()
	p := ordered()
	p.Revision = "web-2"
	p.State = &inplace.State{Revision: "web-2", UpdateTimestamp: metav1.NewTime(ago(10 * time.Second))}
	p.Container("c2").Resources = cpu("1")
	p.Parked = &inplace.Parked{
		Revision: "web-2", GraceSeconds: 5, ContainerImages: images("c1", "c2"), ContainerResources: map[string]corev1.ResourceRequirements{"c2": cpu("2")},
		ContainerRefMetadata: map[string]inplace.RefMetadata{"c1": {Annotations: map[string]string{"a": "b"}}},
	}
	patch := step.Next(p, step.Update{}, now).Patch
	s := state(t, patch)
	if cmp.Diff(images("c1"), patch.Images) != "" || cmp.Diff(images("c2"), s.NextContainerImages) != "" || len(s.NextContainerResources) != 1 || *patch.Metadata.Annotations["a"] != "b" {
		t.Errorf("%+v\n%+v", patch, s)
	}
	p.Parked.ContainerRefMetadata = map[string]inplace.RefMetadata{"c5": {Annotations: map[string]string{"a": "b"}}}
	if o := step.Next(p, step.Update{}, now); p.Gate == inplace.GateFalse && (o.Patch == nil || o.Patch.Kind != inplace.PatchReturn) {
		t.Errorf("nothing was patched, and it does not serve: %+v", o)
	}
	p.Gate, p.Ready = inplace.GateTrue, true
	if o := step.Next(p, step.Update{}, now); o.Patch != nil || !strings.Contains(o.Problem, "container c5") {
		t.Errorf("%+v", o)
	}
}

// withSidecar is serving with a native sidecar and an init container that has run.
func withSidecar(p inplace.Pod) inplace.Pod {
	p.Containers = append(p.Containers,
		inplace.Container{Name: "prep", Kind: inplace.KindInit, Image: "prep:1", Known: true},
		inplace.Container{Name: "log", Kind: inplace.KindSidecar, Image: "log:1", RunningImage: "log:1", ImageID: "log-1", ContainerID: "l1", Known: true, Running: true, Ready: true, Started: true},
	)
	return p
}

// B081: a native sidecar is drained like any restart, recorded where OpenKruise does not look for it, and proven from its
// own status; the other containers are not touched.
func TestB081NativeSidecar(t *testing.T) {
	t.Parallel()
	u := step.Update{To: inplace.Revision{Name: "web-2"}, Change: inplace.Change{Images: map[string]string{"log": "log:2"}}}
	if got := step.Next(withSidecar(serving()), u, now).Patch; got.Kind != inplace.PatchDrain {
		t.Fatalf("%+v", got)
	}
	patch := step.Next(withSidecar(drained()), u, now).Patch
	if len(patch.Images) != 0 || cmp.Diff(map[string]string{"log": "log:2"}, patch.InitImages) != "" {
		t.Errorf("%+v", patch)
	}
	s := state(t, patch)
	if _, there := s.LastContainerStatuses["log"]; there || s.OtherContainerStatuses["log"].ImageID != "log-1" {
		t.Errorf("%+v", s)
	}
	p := withSidecar(drained())
	p = apply(t, p, patch)
	p.ObservedGeneration, p.Seen.SameSince = p.Generation, ago(time.Hour)
	if got := step.Prove(p, step.Update{}, now); got.Done || !strings.Contains(got.Missing, "container log is still the one") {
		t.Errorf("%+v", got)
	}
	p = restart(p, "log")
	if !step.Prove(p, step.Update{}, now).Done {
		t.Error("not proven")
	}
	again := step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{Images: map[string]string{"web": "app:v3"}}}
	p.Container("log").Running = false
	if s := state(t, step.Next(p, again, now).Patch); s.OtherContainerStatuses["log"].ImageID != "log-1" || len(s.LastContainerStatuses) != 1 {
		t.Errorf("a sidecar that is not proven is forgotten: %+v", s)
	}
}

// B079: beside another image an init container's is recorded in the pod; nothing of it is to be proven.
func TestB079AnInitImageIsRecorded(t *testing.T) {
	t.Parallel()
	u := to2()
	u.Change.InitImages = map[string]string{"prep": "prep:2"}
	patch := step.Next(withSidecar(drained()), u, now).Patch
	if cmp.Diff(map[string]string{"prep": "prep:2"}, patch.InitImages) != "" || !strings.Contains(patch.Because, "prep to prep:2 (an init container: recorded, it ran already)") {
		t.Errorf("%+v", patch)
	}
	p := restart(apply(t, withSidecar(drained()), patch), "web")
	if p.Container("prep").Image != "prep:2" || !step.Prove(p, step.Update{}, now).Done {
		t.Errorf("%+v", step.Prove(p, step.Update{}, now))
	}
	resized := toCPU("2")
	resized.Change.InitImages = map[string]string{"prep": "prep:2"}
	p = withSidecar(sized())
	if step.Serves(p, resized) {
		t.Error("an init image beside a resize drains the pod")
	}
}

// B031: a webhook rewrites images. What the pod was asked to run is its label's revision, not the text of its image.
func TestB031ARewrittenImage(t *testing.T) {
	t.Parallel()
	p := serving()
	p.Containers[0].Image = "mirror.test/app:v1"
	if o := step.Next(p, step.Update{To: inplace.Revision{Name: "web-1"}}, now); o.Patch != nil || o.Wait != "" {
		t.Errorf("%+v", o)
	}
	p = apply(t, drained(), step.Next(drained(), to2(), now).Patch)
	p.Containers[0].Image = "mirror.test/app:v2"
	p = restart(p, "web")
	if !step.Prove(p, step.Update{}, now).Done {
		t.Error("not proven")
	}
}

// B033: a sidecar injected in front. Everything goes by name; the injected container is not in the patch.
func TestB033AnInjectedSidecar(t *testing.T) {
	t.Parallel()
	p := drained()
	p.Containers = append([]inplace.Container{{Name: "proxy", Image: "proxy:1", ContainerID: "x", Known: true, Running: true}}, p.Containers...)
	u := toCPU("2")
	u.Change.Images = map[string]string{"web": "app:v2"}
	patch := step.Next(p, u, now).Patch
	if cmp.Diff(map[string]string{"web": "app:v2"}, patch.Images) != "" || len(patch.Resources) != 1 || cmp.Diff([]string{"proxy", "web", "side"}, patch.Order) != "" {
		t.Errorf("%+v", patch)
	}
	if _, there := state(t, patch).LastContainerStatuses["proxy"]; there {
		t.Error("proxy is recorded")
	}
}

// B077: the environment is renewed by the one restart that the image makes, and the sentence says so.
func TestB077OneRestart(t *testing.T) {
	t.Parallel()
	u := to2()
	u.Change.Metadata = inplace.MetadataChange{Annotations: map[string]*string{"deployed": new("2024-01-02 m=+1.02")}}
	u.Change.EnvFrom = []string{"web"}
	patch := step.Next(drained(), u, now).Patch
	if *patch.Metadata.Annotations["deployed"] != "2024-01-02 m=+1.02" || !strings.Contains(patch.Because, "the environment of web reads changed metadata and is renewed with it") {
		t.Errorf("%+v", patch)
	}
	p := restart(apply(t, drained(), patch), "web")
	if o := step.Next(p, step.Update{}, now); o.Patch == nil || o.Patch.Kind != inplace.PatchReturn {
		t.Errorf("%+v", o)
	}
}

// An update of environment that OpenKruise began needs its node agent; where it gave the pod back it had its proof.
func TestEnvironmentOfOpenKruise(t *testing.T) {
	t.Parallel()
	p := acted()
	foreign(&p)
	p.State.UpdateEnvFromMetadata = true
	got := step.Prove(p, step.Update{}, now)
	if got.Done || got.Hopeless || !strings.Contains(got.Missing, "node agent") {
		t.Errorf("%+v", got)
	}
	if !step.Prove(p, step.Update{}, now.Add(2*time.Minute)).Hopeless {
		t.Error("it waits for ever")
	}
	p.Gate = inplace.GateTrue
	if !step.Prove(p, step.Update{}, now).Done {
		t.Error("a pod in service is doubted")
	}
}

// B067: without the gate a pod is patched in service only where its workload allows it, and that is said.
func TestB067Undrained(t *testing.T) {
	t.Parallel()
	p := serving()
	p.Gate = inplace.GateNone
	u := to2()
	if o := step.Next(p, u, now); !strings.Contains(o.Obstacle, "no readiness gate") {
		t.Errorf("%+v", o)
	}
	u.Undrained = true
	if o := step.Next(p, u, now); o.Patch == nil || !o.Undrained || !strings.Contains(o.Patch.Because, "patched in service, as its workload allows") {
		t.Errorf("%+v", o)
	}
	if o := step.Next(with(p, func(p *inplace.Pod) { p.Containers[0].Resources = cpu("1") })(), toCPU("2"), now); o.Patch == nil || o.Undrained {
		t.Errorf("a resize without a restart needs no gate: %+v", o)
	}
}

package step_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podview"
	"github.com/underway-dev/underway/inplace/step"
)

// serving is a pod of web-1 in service.
func serving() inplace.Pod {
	p := patched()
	p.Revision, p.State, p.Gate, p.Ready, p.Available = "web-1", nil, inplace.GateTrue, true, true
	p.Generation, p.ObservedGeneration, p.Containers[0].Image, p.Seen = 1, 1, "app:v1", inplace.Seen{SameSince: ago(time.Hour)}
	return p
}

// drained is the same pod, out of service.
func drained() inplace.Pod {
	p := serving()
	p.Gate, p.Ready, p.Available, p.GateSince = inplace.GateFalse, false, false, ago(20*time.Second)
	p.Seen.NotReadySince, p.Seen.DrainedSince = ago(20*time.Second), ago(20*time.Second)
	return p
}

func to2() step.Update {
	return step.Update{To: inplace.Revision{Name: "web-2", Hash: "2"}, Change: inplace.Change{Images: map[string]string{"web": "app:v2"}}}
}

func with(p inplace.Pod, change func(*inplace.Pod)) func() inplace.Pod {
	change(&p)
	return func() inplace.Pod { return p }
}

func TestNext(t *testing.T) {
	t.Parallel()
	stay := step.Update{}
	grace := to2()
	grace.Grace = 30 * time.Second
	labels := to2()
	labels.Change = inplace.Change{Metadata: inplace.MetadataChange{Labels: map[string]*string{"k": new("v")}}}
	undrained := to2()
	undrained.Undrained = true
	parked := inplace.Parked{Revision: "web-2", ContainerImages: map[string]string{"web": "app:v2"}, GraceSeconds: 5}
	parkedPod := func() inplace.Pod {
		p := drained()
		p.Revision, p.Parked = "web-2", &parked
		p.State = &inplace.State{Revision: "web-2", UpdateTimestamp: metav1.NewTime(ago(10 * time.Second))}
		p.Seen.DrainedSince, p.Seen.NotReadySince = ago(time.Second), ago(time.Second)
		return p
	}
	cases := map[string]struct {
		pod      func() inplace.Pod
		update   step.Update
		patch    inplace.PatchKind
		wait     inplace.HoldKind
		obstacle string
		problem  string
		warning  string
		look     time.Duration
	}{
		"O170: a pod that serves is drained first":              {pod: serving, update: to2(), patch: inplace.PatchDrain},
		"a drained pod is patched":                              {pod: drained, update: to2(), patch: inplace.PatchUpdate},
		"drained is not enough while it is Ready":               {pod: with(drained(), func(p *inplace.Pod) { p.Ready = true }), update: to2(), wait: inplace.HoldDrain, look: 100 * time.Second},
		"nor ever; after 2 minutes it is reported":              {pod: with(drained(), func(p *inplace.Pod) { p.Ready, p.GateSince = true, ago(time.Hour) }), update: to2(), wait: inplace.HoldDrain, problem: "kubelet"},
		"while an EndpointSlice names it ready":                 {pod: with(drained(), func(p *inplace.Pod) { p.ReadyIn = []string{"s"} }), update: to2(), wait: inplace.HoldDrain, look: 10 * time.Second},
		"but at most 30 s, and then with a warning":             {pod: with(drained(), func(p *inplace.Pod) { p.ReadyIn = []string{"s"}; p.Seen.NotReadySince = ago(30 * time.Second) }), update: to2(), patch: inplace.PatchUpdate, warning: "went on: s"},
		"a slice that publishes is not waited for":              {pod: with(drained(), func(p *inplace.Pod) { p.PublishedIn = []string{"p"} }), update: to2(), patch: inplace.PatchUpdate, warning: "not waited for: p"},
		"a first look at the slices waits":                      {pod: with(drained(), func(p *inplace.Pod) { p.ReadyIn = []string{"s"}; p.Seen = inplace.Seen{} }), update: to2(), wait: inplace.HoldDrain, look: 30 * time.Second},
		"the grace period":                                      {pod: drained, update: grace, wait: inplace.HoldGrace, look: 10 * time.Second},
		"the grace period, over":                                {pod: with(drained(), func(p *inplace.Pod) { p.Seen.DrainedSince = ago(30 * time.Second) }), update: grace, patch: inplace.PatchUpdate},
		"the grace period after a restart of ours":              {pod: with(drained(), func(p *inplace.Pod) { p.Seen = inplace.Seen{} }), update: grace, wait: inplace.HoldGrace, look: 30 * time.Second},
		"labels only: patched while it serves":                  {pod: serving, update: labels, patch: inplace.PatchUpdate},
		"no gate":                                               {pod: with(serving(), func(p *inplace.Pod) { p.Gate = inplace.GateNone }), update: to2(), obstacle: "no readiness gate"},
		"no gate, labels only":                                  {pod: with(serving(), func(p *inplace.Pod) { p.Gate = inplace.GateNone }), update: labels, patch: inplace.PatchUpdate},
		"no gate, allowed undrained":                            {pod: with(serving(), func(p *inplace.Pod) { p.Gate = inplace.GateNone }), update: undrained, patch: inplace.PatchUpdate},
		"O166: no gate, nothing to do: untouched":               {pod: with(serving(), func(p *inplace.Pod) { p.Gate = inplace.GateNone }), update: stay},
		"a container that the pod lacks":                        {pod: with(serving(), func(p *inplace.Pod) { p.Containers = p.Containers[1:] }), update: to2(), obstacle: "no container web"},
		"in service and nothing to do":                          {pod: serving, update: stay},
		"O165: gate there, condition absent":                    {pod: with(serving(), func(p *inplace.Pod) { p.Gate, p.Ready = inplace.GateUnset, false }), update: stay, patch: inplace.PatchReturn},
		"O165: gate there, condition False":                     {pod: drained, update: stay, patch: inplace.PatchReturn},
		"B065: a new pod that has not started":                  {pod: with(serving(), func(p *inplace.Pod) { p.Gate, p.Ready, p.Phase = inplace.GateUnset, false, inplace.PhasePending }), update: stay, patch: inplace.PatchReturn},
		"a gate never set cannot be Ready: patched":             {pod: with(serving(), func(p *inplace.Pod) { p.Gate, p.Ready = inplace.GateUnset, false }), update: to2(), patch: inplace.PatchUpdate},
		"N5: drained, and no longer to be moved":                {pod: drained, update: stay, patch: inplace.PatchReturn},
		"patched and not proven: waits":                         {pod: patched, update: stay, wait: inplace.HoldProof, look: 110 * time.Second},
		"patched and not proven: told after 2 min":              {pod: with(patched(), func(p *inplace.Pod) { p.State.UpdateTimestamp = metav1.NewTime(ago(2 * time.Minute)) }), update: stay, wait: inplace.HoldProof, problem: "observed generation"},
		"proven: returned":                                      {pod: acted, update: stay, patch: inplace.PatchReturn},
		"proven and back: nothing":                              {pod: with(acted(), func(p *inplace.Pod) { p.Gate = inplace.GateTrue }), update: stay},
		"to its own revision: stays":                            {pod: patched, update: to2(), wait: inplace.HoldProof, look: 110 * time.Second},
		"a newer target in mid-update: patched on":              {pod: patched, update: step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{Images: map[string]string{"web": "app:v3"}}}, patch: inplace.PatchUpdate},
		"terminating: untouched":                                {pod: with(drained(), func(p *inplace.Pod) { p.Phase = inplace.PhaseTerminating }), update: to2()},
		"finished: untouched":                                   {pod: with(drained(), func(p *inplace.Pod) { p.Phase = inplace.PhaseTerminal }), update: to2()},
		"a state that cannot be read is made anew":              {pod: with(acted(), func(p *inplace.Pod) { p.State, p.StateProblem = nil, "bad" }), update: stay, patch: inplace.PatchRepair},
		"a state that cannot be read, newer target":             {pod: with(drained(), func(p *inplace.Pod) { p.StateProblem = "bad" }), update: to2(), patch: inplace.PatchUpdate},
		"O168: parked, its grace period over":                   {pod: parkedPod, update: stay, patch: inplace.PatchUpdate},
		"parked, its grace period not over":                     {pod: with(parkedPod(), func(p *inplace.Pod) { p.State.UpdateTimestamp = metav1.NewTime(ago(2 * time.Second)) }), update: stay, wait: inplace.HoldGrace, look: 4 * time.Second},
		"parked, and still serving":                             {pod: with(parkedPod(), func(p *inplace.Pod) { p.Gate, p.Ready = inplace.GateTrue, true }), update: stay, patch: inplace.PatchDrain},
		"parked for another revision: dropped":                  {pod: with(parkedPod(), func(p *inplace.Pod) { p.Revision = "web-1" }), update: stay, patch: inplace.PatchRepair},
		"parked, labels only":                                   {pod: with(parkedPod(), func(p *inplace.Pod) { p.Parked = &inplace.Parked{Revision: "web-2"} }), update: stay, patch: inplace.PatchUpdate},
		"parked, unreadable: nothing was patched, it may serve": {pod: with(parkedPod(), func(p *inplace.Pod) { p.Parked = &inplace.Parked{Problem: "is bad"} }), update: stay, patch: inplace.PatchReturn},
		"parked, unreadable, in service: never called done": {pod: with(parkedPod(), func(p *inplace.Pod) {
			p.Parked, p.Gate = &inplace.Parked{Problem: "is bad"}, inplace.GateTrue
		}), update: stay, wait: inplace.HoldProof, problem: "the update that another controller parked on it is bad"},
		"parked, unreadable, newer target":           {pod: with(parkedPod(), func(p *inplace.Pod) { p.Parked = &inplace.Parked{Problem: "is bad"} }), update: step.Update{To: inplace.Revision{Name: "web-3"}}, obstacle: "parked"},
		"batches of another controller are finished": {pod: with(acted(), func(p *inplace.Pod) { p.State.NextContainerImages = map[string]string{"side": "side:v2"} }), update: stay, patch: inplace.PatchUpdate},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := tc.pod()
			got := step.Next(p, tc.update, now)
			kind := inplace.PatchKind("")
			if got.Patch != nil {
				kind = got.Patch.Kind
				if got.Patch.Ref != p.Ref || got.Patch.Because == "" || got.Patch.To == "" {
					t.Errorf("patch %+v", got.Patch)
				}
			}
			if kind != tc.patch || got.Wait != tc.wait || got.LookAgainIn != tc.look {
				t.Errorf("patch %q, wait %q (%s), look again in %s; want %q, %q, %s", kind, got.Wait, got.Because, got.LookAgainIn, tc.patch, tc.wait, tc.look)
			}
			for what, pair := range map[string][2]string{
				"obstacle": {got.Obstacle, tc.obstacle}, "problem": {got.Problem, tc.problem}, "warning": {got.Warning, tc.warning},
			} {
				if (pair[0] == "") != (pair[1] == "") || !strings.Contains(pair[0], pair[1]) {
					t.Errorf("%s %q, want %q", what, pair[0], pair[1])
				}
			}
		})
	}
}

// state is what the patch writes into the annotation, read back.
func state(t *testing.T, p *inplace.Patch) *inplace.State {
	t.Helper()
	text := p.Metadata.Annotations[appsv1alpha1.AnnotationInPlaceState]
	if text == nil {
		t.Fatal("the patch writes no state")
	}
	s, err := podview.ParseState(*text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOnePatchCarriesEverything(t *testing.T) {
	t.Parallel()
	u := to2()
	u.Change.Metadata = inplace.MetadataChange{
		Labels: map[string]*string{"k1": new("v1"), "k2": nil}, Annotations: map[string]*string{"a": new("b")},
		AddFinalizers: []string{"x/y"}, RemoveFinalizers: []string{"x/z"},
	}
	got := step.Next(drained(), u, now).Patch
	s := state(t, got)
	text := got.Metadata.Annotations[appsv1alpha1.AnnotationInPlaceState]
	want := &inplace.Patch{
		Ref: drained().Ref, Kind: inplace.PatchUpdate, At: now, To: "web-2", Images: map[string]string{"web": "app:v2"},
		Order: []string{"web", "side"},
		Metadata: inplace.MetadataChange{
			Labels: map[string]*string{
				"k1": new("v1"), "k2": nil, appsv1alpha1.LabelPodRevision: new("web-2"), appsv1alpha1.LabelPodTemplateHash: new("2"),
			},
			Annotations:   map[string]*string{"a": new("b"), appsv1alpha1.AnnotationInPlaceState: text},
			AddFinalizers: []string{"x/y"}, RemoveFinalizers: []string{"x/z"},
		},
		Because: "updated in place to web-2: web to app:v2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// The keys are upstream's and ours, frozen: clusters change hands in mid-release.
	const frozen = `{"revision":"web-2","updateTimestamp":"2026-11-29T12:00:00Z","lastContainerStatuses":{"web":{"imageID":"sha1","containerID":"c1","image":"app:v1"}},"updateImages":true,"generation":2}`
	if *text != frozen {
		t.Errorf("state\n%s\nwant\n%s", *text, frozen)
	}
	if s.Generation != drained().Generation+1 {
		t.Errorf("generation %d", s.Generation)
	}
}

func TestLabelsOnlyDoNotRaiseTheGeneration(t *testing.T) {
	t.Parallel()
	u := step.Update{To: inplace.Revision{Name: "web-2"}, Change: inplace.Change{Metadata: inplace.MetadataChange{Labels: map[string]*string{"k": nil}}}}
	s := state(t, step.Next(serving(), u, now).Patch)
	if s.Generation != 1 || s.UpdateImages || len(s.LastContainerStatuses) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestRetarget: a newer target in mid-update records what ran before the first one as long as that is not proven.
func TestRetarget(t *testing.T) {
	t.Parallel()
	to := func(image string) step.Update {
		return step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{Images: map[string]string{"web": image}}}
	}
	record := func(id, imageID, image string, unsure bool) inplace.ContainerState {
		return inplace.ContainerState{ImageID: imageID, ContainerID: new(id), Image: image, Unsure: unsure}
	}
	cases := map[string]struct {
		pod  inplace.Pod
		want inplace.ContainerState
	}{
		"the kubelet has not acted: it still runs app:v1":          {patched(), record("c1", "sha1", "app:v1", true)},
		"proven: it runs app:v2":                                   {acted(), record("c2", "sha2", "app:v2", false)},
		"replaced, not running: it will have been started from v2": {with(acted(), func(p *inplace.Pod) { p.Containers[0].Running = false })(), record("c2", "sha2", "app:v2", true)},
		"crashed before the kubelet acted: may still be app:v1":    {with(acted(), func(p *inplace.Pod) { p.Containers[0].ImageID, p.Containers[0].RunningImage = "sha1", "app:v1" })(), record("c2", "sha1", "app:v1", true)},
		"OpenKruise recorded no name: the status' name":            {with(patched(), func(p *inplace.Pod) { foreign(p); p.ObservedGeneration = 1 })(), record("c1", "sha1", "docker.io/library/app:v1", true)},
		"a state that cannot be read: what the status shows":       {with(patched(), func(p *inplace.Pod) { p.State, p.StateProblem = nil, "bad" })(), record("c1", "sha1", "docker.io/library/app:v1", true)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := state(t, step.Next(tc.pod, to("app:v3"), now).Patch)
			if diff := cmp.Diff(tc.want, s.LastContainerStatuses["web"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnotherContainersProofIsNotForgotten(t *testing.T) {
	t.Parallel()
	u := step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{Images: map[string]string{"side": "side:v2"}}}
	s := state(t, step.Next(patched(), u, now).Patch)
	if len(s.LastContainerStatuses) != 2 || *s.LastContainerStatuses["web"].ContainerID != "c1" || s.LastContainerStatuses["side"].Unsure {
		t.Errorf("%+v", s.LastContainerStatuses)
	}
	labels := step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{Metadata: inplace.MetadataChange{Labels: map[string]*string{"k": nil}}}}
	s = state(t, step.Next(patched(), labels, now).Patch)
	if *s.LastContainerStatuses["web"].ContainerID != "c1" || s.Generation != 2 {
		t.Errorf("%+v", s)
	}
}

// B027: web -> web:stable with a grace period, reverted inside it: nothing was patched, so the pod just comes back.
// B027, later: patched and reverted before the kubelet acted, the pod comes back after 5 quiet seconds.
func TestB027RollbackInsideTheGracePeriod(t *testing.T) {
	t.Parallel()
	p := drained()
	p.Containers[0].Image, p.Containers[0].RunningImage = "web", "docker.io/library/web:latest"
	u := step.Update{To: inplace.Revision{Name: "web-2"}, Change: inplace.Change{Images: map[string]string{"web": "web:stable"}}, Grace: 30 * time.Second}
	if o := step.Next(p, u, now); o.Wait != inplace.HoldGrace {
		t.Fatalf("%+v", o)
	}
	if o := step.Next(p, step.Update{To: inplace.Revision{Name: "web-1"}}, now); o.Patch == nil || o.Patch.Kind != inplace.PatchReturn {
		t.Fatalf("%+v", o)
	}
	u.Grace = 0
	patch := step.Next(p, u, now).Patch
	p = apply(t, p, patch)
	back := step.Update{To: inplace.Revision{Name: "web-1"}, Change: inplace.Change{Images: map[string]string{"web": "web"}}}
	p = apply(t, p, step.Next(p, back, now).Patch)
	p.ObservedGeneration, p.Seen.SameSince = p.Generation, now
	if o := step.Next(p, step.Update{}, now); o.Wait != inplace.HoldProof || o.LookAgainIn != 5*time.Second {
		t.Fatalf("%+v", o)
	}
	if o := step.Next(p, step.Update{}, now.Add(5*time.Second)); o.Patch == nil || o.Patch.Kind != inplace.PatchReturn {
		t.Fatalf("%+v", o)
	}
}

// apply is the API server for one update patch.
func apply(t *testing.T, p inplace.Pod, patch *inplace.Patch) inplace.Pod {
	t.Helper()
	if patch == nil || patch.Kind != inplace.PatchUpdate {
		t.Fatalf("no update: %+v", patch)
	}
	p.State, p.StateProblem, p.Revision = state(t, patch), "", patch.To
	p.Generation++
	p.Containers = slices.Clone(p.Containers)
	for _, images := range []map[string]string{patch.Images, patch.InitImages} {
		for name, image := range images {
			p.Container(name).Image = image
		}
	}
	return p
}

// A crash of the kubelet's container before it acted, then a rollback: the pod comes back (no state is a dead end).
func TestCrashThenRollbackComesBack(t *testing.T) {
	t.Parallel()
	p := patched()
	p.Containers[0].ContainerID = "c2" // still app:v1
	back := step.Update{To: inplace.Revision{Name: "web-1"}, Change: inplace.Change{Images: map[string]string{"web": "app:v1"}}}
	p = apply(t, p, step.Next(p, back, now).Patch)
	p.ObservedGeneration, p.Seen.SameSince = p.Generation, ago(5*time.Second)
	if o := step.Next(p, step.Update{}, now); o.Patch == nil || o.Patch.Kind != inplace.PatchReturn {
		t.Fatalf("%+v", o)
	}
}

func TestRepairProvesFromWhatRuns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod  inplace.Pod
		want bool
	}{
		"it runs the image it should":                   {with(acted(), func(p *inplace.Pod) { p.State, p.StateProblem = nil, "bad" })(), true},
		"the kubelet has not acted on the image change": {with(patched(), func(p *inplace.Pod) { p.State, p.StateProblem = nil, "bad" })(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := tc.pod
			p.State, p.StateProblem = state(t, step.Next(p, step.Update{}, now).Patch), ""
			p.ObservedGeneration, p.Seen.SameSince = p.Generation, ago(time.Minute)
			if got := step.Prove(p, step.Update{}, now); got.Done != tc.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAParkedUpdateCarriesItsMetadata(t *testing.T) {
	t.Parallel()
	p := drained()
	p.Revision = "web-2"
	p.State = &inplace.State{Revision: "web-2", UpdateTimestamp: metav1.NewTime(ago(time.Minute))}
	p.Parked = &inplace.Parked{
		Revision: "web-2", ContainerImages: map[string]string{"web": "app:v2"},
		MetaDataPatch: json.RawMessage(`{"metadata":{"labels":{"k1":"v1","k2":null}}}`),
	}
	u := step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{
		Images: map[string]string{"side": "side:v2"}, Metadata: inplace.MetadataChange{Labels: map[string]*string{"k1": new("v3")}},
	}}
	got := step.Next(p, u, now).Patch
	if diff := cmp.Diff(map[string]string{"web": "app:v2", "side": "side:v2"}, got.Images); diff != "" {
		t.Error(diff)
	}
	grace, written := got.Metadata.Annotations[appsv1alpha1.AnnotationInPlaceGrace]
	k2, has := got.Metadata.Labels["k2"]
	if *got.Metadata.Labels["k1"] != "v3" || !has || k2 != nil || !written || grace != nil {
		t.Errorf("%+v", got.Metadata)
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	labels := step.Update{To: inplace.Revision{Name: "web-2"}}
	for name, tc := range map[string]struct {
		pod  inplace.Pod
		u    step.Update
		want bool
	}{
		"in service":              {serving(), to2(), true},
		"labels only":             {serving(), labels, false},
		"drained, Ready lagging":  {with(drained(), func(p *inplace.Pod) { p.Ready = true })(), to2(), false},
		"down":                    {with(serving(), func(p *inplace.Pod) { p.Ready, p.Down = false, true })(), to2(), false},
		"not ready, and not down": {with(serving(), func(p *inplace.Pod) { p.Ready = false })(), to2(), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := step.Serves(tc.pod, tc.u); got != tc.want {
				t.Error(got)
			}
		})
	}
}

package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/test/seeds"
)

// TestRandomStories: users who change everything, images that cannot be pulled, pods that crash, vanish and never end, late
// observations, lost writes; in order and in parallel, in place and recreated. After every step the invariants of doc.go; in
// the end, without any help, the pods that are wanted on the revision that is wanted, and nothing left to write.
func TestRandomStories(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, 150)
	var next atomic.Uint64
	next.Store(from)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < to && !t.Failed(); seed = next.Add(1) - 1 {
				if err := tell(t, seed, ""); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
	wg.Wait()
}

// fault is a mistake planted into the answer, to see that it is caught.
type fault string

// TestPlantedFaultsAreCaught: each invariant is able to fail.
func TestPlantedFaultsAreCaught(t *testing.T) {
	t.Parallel()
	for f, want := range map[fault]string{
		"always new": "grant", "one pod less": "budget", "no order": "order", "another ordinal": "slot", "too early": "before it",
		"lowest first": "above it", "claims go": "claim", "shrink": "shrink", "small volumes": "volume", "never quiet": "quiet",
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(400) {
				if err := tell(t, seed, f); err != nil && strings.Contains(err.Error(), want) {
					return
				}
			}
			t.Errorf("not caught in 400 stories")
		})
	}
}

// story is one StatefulSet with a user who changes everything.
type story struct {
	tb  testing.TB
	w   *world
	rng *rand.Rand
	// what the spec says.
	replicas, partition, start int
	reserved                   []string
	parallel, unordered        bool
	policy                     string
	maxUnavailable             int
	deleteScaled, resize       bool
	size                       int
	hooked, paused, volumes    bool
	minReady                   time.Duration
	update, current            string
	revisions                  []string
	// grants are the most pods of a revision that were ever allowed while it was the update revision.
	grants map[string]int
	// marked are claims that were given to a pod that was not wanted then, with the policy Delete.
	marked map[string]bool
	fault  fault
	faults bool
}

func tell(tb testing.TB, seed uint64, f fault) error {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 5))
	s := &story{
		tb: tb, rng: rng, fault: f, faults: true, grants: map[string]int{"r0": 1 << 20}, marked: map[string]bool{},
		w:      &world{rng: rng, now: at(), claims: map[string]*Claim{}, bad: map[string]bool{}},
		update: "r0", current: "r0", revisions: []string{"r0"}, replicas: 1 + rng.IntN(5), size: 1, maxUnavailable: 1,
		parallel: rng.IntN(2) == 0, volumes: rng.IntN(2) == 0, hooked: rng.IntN(3) == 0,
		policy: []string{"ReCreate", "InPlaceIfPossible", "InPlaceOnly"}[rng.IntN(3)],
	}
	s.minReady = []time.Duration{0, 0, 20 * time.Second}[rng.IntN(3)]
	s.w.removed = func(name string) error {
		if !s.marked[name] {
			return fmt.Errorf("claim %s went", name)
		}
		delete(s.marked, name)
		return nil
	}
	for range 60 + rng.IntN(80) {
		s.event()
		if s.w.collect(); s.w.err != nil {
			return s.explain(s.w.err)
		}
		if rng.IntN(3) == 0 {
			continue
		}
		if _, err := s.pass(); err != nil {
			return s.explain(err)
		}
	}
	return s.explain(s.end())
}

func (s *story) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s\n%s", err, s.spec(), strings.Join(s.w.log[max(len(s.w.log)-60, 0):], "\n"))
}

// spec is the YAML of the set as it is.
func (s *story) spec() string {
	management, unordered, volumes, life := "OrderedReady", "", "", ""
	budget := 1
	if s.parallel {
		management, budget = "Parallel", s.maxUnavailable
		if s.unordered {
			unordered = ", unorderedUpdate: {}"
		}
	}
	if s.volumes {
		keep, strategy := "Retain", "OnDelete"
		if s.deleteScaled {
			keep = "Delete"
		}
		if s.resize {
			strategy = "OnPodRollingUpdate"
		}
		volumes = fmt.Sprintf(", persistentVolumeClaimRetentionPolicy: {whenScaled: %s}, volumeClaimUpdateStrategy: {type: %s}, "+
			"volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: %dGi}}}}]", keep, strategy, s.size)
	}
	if s.hooked {
		life = ", lifecycle: {preDelete: {finalizersHandler: [x.io/y]}}"
	}
	return fmt.Sprintf("{replicas: %d, podManagementPolicy: %s, ordinals: {start: %d}, reserveOrdinals: [%s], updateStrategy: {rollingUpdate: "+
		"{podUpdatePolicy: %s, partition: %d, maxUnavailable: %d, paused: %t%s}}%s%s}",
		s.replicas, management, s.start, strings.Join(s.reserved, ", "), s.policy, s.partition, budget, s.paused, unordered, volumes, life)
}

func (s *story) input() Input {
	in := input(s.tb, s.spec())
	in.Intent.Update, in.Intent.Current, in.Intent.Revisions = rev(s.update), rev(s.current), nil
	for _, name := range s.revisions {
		in.Intent.Revisions = append(in.Intent.Revisions, rev(name))
	}
	in.Now, in.Expandable = s.w.now, map[string]bool{"fast": true}
	in.Pods, in.Claims = s.w.observe(s.faults, s.minReady)
	s.grants[s.update] = max(s.grants[s.update], int(in.Intent.Grant()))
	return in
}

// event is one thing that happens beside the agent.
func (s *story) event() {
	w := s.w
	var p *simPod
	if live := w.live(); len(live) > 0 {
		p = live[s.rng.IntN(len(live))]
	}
	k := s.rng.IntN(100)
	if k < 72 && p == nil {
		k = 99
	}
	switch {
	case k < 55:
		w.kubelet(p)
	case k < 60:
		s.release(p)
	case k < 63:
		p.crashing = !p.crashing
	case k < 65:
		w.logf("vanishes: %s", p.truth().Name)
		w.end(p)
	case k < 67 && p.truth().Phase == inplace.PhaseRunning:
		w.logf("evicted: %s", p.truth().Name)
		w.write(p, func(pod *inplace.Pod) { pod.Phase, pod.Ready = inplace.PhaseTerminal, false })
	case k < 69 && p.truth().Active():
		w.logf("asked to go: %s", p.truth().Name)
		w.write(p, func(pod *inplace.Pod) { pod.Labels[appsv1alpha1.LabelSpecifiedDelete], pod.SpecifiedDelete = "", true })
	case k < 72 && p.stuck && p.truth().Phase == inplace.PhaseTerminating:
		p.stuck = false
	case k < 80:
		w.now = w.now.Add(time.Duration(s.rng.IntN(40)) * time.Second)
	case k < 85:
		for _, c := range w.claims {
			w.storage(c)
		}
	case k < 92:
		s.change()
		w.logf("spec: %s", s.spec())
	case k < 96:
		s.retarget()
	}
}

// change draws one part of the spec anew.
func (s *story) change() {
	switch s.rng.IntN(10) {
	case 0, 1:
		s.replicas = s.rng.IntN(7)
	case 2, 3:
		s.partition = s.rng.IntN(s.replicas + 2)
	case 4:
		s.reserved = [][]string{nil, {"1", "3"}, {"0"}, {`"2-4"`}}[s.rng.IntN(4)]
	case 5:
		s.start = s.rng.IntN(3)
	case 6:
		s.maxUnavailable, s.unordered = 1+s.rng.IntN(3), s.rng.IntN(3) == 0
	case 7:
		s.paused = s.rng.IntN(3) == 0
	case 8:
		s.deleteScaled, s.resize = s.rng.IntN(2) == 0, s.rng.IntN(2) == 0
	case 9:
		s.size = 1 + s.rng.IntN(3)
	}
}

// release is whoever owns the hook.
func (s *story) release(p *simPod) {
	if state, _ := hooks.Of(p.truth().Labels); state == hooks.PreparingDelete {
		s.w.write(p, func(pod *inplace.Pod) { pod.Finalizers = nil })
	}
}

// retarget is a new template, good or bad, or an old one again.
func (s *story) retarget() {
	if s.rng.IntN(3) == 0 {
		s.update = s.revisions[s.rng.IntN(len(s.revisions))]
	} else {
		s.update = fmt.Sprint("r", len(s.revisions))
		s.revisions = append(s.revisions, s.update)
		s.w.bad["app:"+s.update] = s.rng.IntN(3) == 0
	}
	s.grants[s.update] = max(s.grants[s.update], s.running(s.update))
	s.w.logf("retarget: %s, bad %t", s.update, s.w.bad["app:"+s.update])
}

// running counts the pods of a revision.
func (s *story) running(revision string) int {
	n := 0
	for _, p := range s.w.live() {
		if p.truth().Active() && p.truth().Revision == revision {
			n++
		}
	}
	return n
}

// pass is one pass of the agent.
func (s *story) pass() (quiet bool, err error) {
	in := s.input()
	r, d := next(in)
	s.plant(&in, &r, &d)
	if err := check(in, r, d, s.grants[s.update]); err != nil {
		return false, fmt.Errorf("%w\npods %+v\npatches %v, deletes %v, creates %d, holds %v", err, in.Pods, d.Patches, d.Deletes, len(d.Creates), d.Holds)
	}
	for _, x := range r.ClaimPatches {
		for _, o := range x.Owners {
			s.marked[x.Name] = s.marked[x.Name] || o.Kind == "Pod"
		}
	}
	s.w.act(r, d, s.faults, s.hooked)
	s.w.collect()
	return d.Quiet() && len(r.ClaimPatches) == 0, s.w.err
}

// end is quiet: nothing fails any more, the user wants a good revision everywhere, and nobody deletes anything by hand.
func (s *story) end() error {
	s.faults, s.paused, s.partition = false, false, 0
	if s.w.bad["app:"+s.update] {
		s.update = fmt.Sprint("r", len(s.revisions))
		s.revisions = append(s.revisions, s.update)
	}
	s.w.logf("end: %s %s", s.update, s.spec())
	quiet := 0
	for range 600 {
		for _, p := range s.w.live() {
			p.crashing, p.stuck = false, false
			s.w.kubelet(p)
			if p.truth() != nil {
				s.release(p)
			}
		}
		for _, c := range s.w.claims {
			s.w.storage(c)
		}
		s.w.collect()
		s.w.now = s.w.now.Add(10 * time.Second)
		still, err := s.pass()
		if err != nil {
			return err
		}
		if quiet++; !still {
			quiet = 0
		}
		if quiet > 3 {
			return s.settled()
		}
	}
	in := s.input()
	r, d := next(in)
	return fmt.Errorf("never quiet: %v; %v; %v", d.Holds, d.Patches, r.ClaimPatches)
}

// settled compares what there is with what is wanted.
func (s *story) settled() error {
	in := s.input()
	var want, got []string
	for _, n := range in.Strategy.Ordinals.First(int64(s.replicas)) {
		want = append(want, PodName("web", n)+" "+s.update)
	}
	for _, p := range s.w.live() {
		pod := p.truth()
		got = append(got, pod.Name+" "+pod.Revision)
		if !pod.Ready || pod.Containers[0].RunningImage != "app:"+s.update {
			return fmt.Errorf("%s is not up: %+v", pod.Name, *pod)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		r, d := next(in)
		return fmt.Errorf("there are %v, wanted %v; %v %v", got, want, d.Holds, r.Warnings)
	}
	return nil
}

// plant makes the mistake.
func (s *story) plant(in *Input, r *Result, d *inplace.Decision) {
	switch s.fault {
	case "always new":
		for i := range d.Creates {
			d.Creates[i].Revision = s.update
		}
	case "one pod less":
		for i := range in.Pods {
			if p := &in.Pods[i]; p.Available && len(d.Deletes) > 0 && s.wanted(in, p.Name) {
				d.Deletes = append(d.Deletes, inplace.Delete{Ref: p.Ref})
			}
		}
	case "no order":
		for i := range in.Pods {
			if p := &in.Pods[i]; p.Name == PodName("web", in.Strategy.Ordinals.At(0)) && p.Revision != s.update && p.InService() && len(r.Deletes)+len(d.Deletes) == 0 {
				d.Deletes = append(d.Deletes, inplace.Delete{Ref: p.Ref})
			}
		}
	case "another ordinal":
		for i := range d.Creates {
			d.Creates[i].Object.SetName("web-99")
		}
	case "too early":
		if len(d.Creates) == 1 {
			more := d.Creates[0]
			more.Object = more.Object.DeepCopy()
			n, _ := OrdinalOf("web", more.Object.GetName())
			more.Object.SetName(PodName("web", in.Strategy.Ordinals.At(mustPosition(in, n)+1)))
			d.Creates = append(d.Creates, more)
		}
	case "lowest first":
		if len(r.Condemned) > 1 && len(d.Deletes) > 0 {
			for i := range in.Pods {
				if in.Pods[i].Name == r.Condemned[0] {
					d.Deletes = append(d.Deletes, inplace.Delete{Ref: in.Pods[i].Ref})
				}
			}
		}
	case "claims go":
		for i := range in.Claims {
			for j := range in.Pods {
				if p := &in.Pods[j]; in.Claims[i].Name == "data-"+p.Name && s.wanted(in, p.Name) {
					r.ClaimPatches = []ClaimPatch{{Ref: in.Claims[i].Ref, Owners: []metav1.OwnerReference{{Kind: "Pod", Name: p.Name, UID: p.UID}}}}
				}
			}
		}
	case "shrink":
		for i := range in.Claims {
			less := in.Claims[i].Request.DeepCopy()
			less.Set(1)
			r.ClaimPatches = append(r.ClaimPatches, ClaimPatch{Ref: in.Claims[i].Ref, Request: &less})
		}
	case "small volumes":
		if len(r.Fixed) > 0 {
			for i := range in.Pods {
				if r.Fixed[in.Pods[i].Name] != "" {
					d.Deletes = append(d.Deletes, inplace.Delete{Ref: in.Pods[i].Ref})
					break
				}
			}
		}
	case "never quiet":
		if !s.faults && len(in.Pods) > 0 {
			d.Patches = append(d.Patches, inplace.Patch{Ref: in.Pods[0].Ref, Kind: inplace.PatchState})
		}
	}
}

func (s *story) wanted(in *Input, name string) bool {
	n, ok := OrdinalOf("web", name)
	return ok && mustPosition(in, n) < int64(s.replicas)
}

// mustPosition is the position of an ordinal, beyond all of them without one.
func mustPosition(in *Input, ordinal int64) int64 {
	position, ok := in.Strategy.Ordinals.Position(ordinal)
	if !ok {
		return 1 << 40
	}
	return position
}

// check judges one decision by what was seen.
func check(in Input, r Result, d inplace.Decision, granted int) error {
	v := newView(in, r, d)
	return errors.Join(v.grant(granted), v.creates(), v.budget(), v.order(), v.condemned(), v.claims())
}

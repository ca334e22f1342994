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

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
	"github.com/underway-dev/underway/inplace/hooks"
	engine "github.com/underway-dev/underway/inplace/plan"
	"github.com/underway-dev/underway/test/seeds"
)

// TestRandomStories: users who change everything, pods that crash, vanish, never become ready and never end, late
// observations, lost writes. After every step: never two pods of one id, never more pods than replicas and surge, no pod
// that serves taken down while what was seen shows the budget spent, pods of the update revision never beyond the largest
// grant, no claim lost but by a scale-in or without reuse, no step undone by the next; and in the end the pods that are
// wanted, and nothing left to write.
func TestRandomStories(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, 600)
	var next atomic.Uint64
	next.Store(from)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < to && !t.Failed(); seed = next.Add(1) - 1 {
				if err := tell(seed, fault("")); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
	wg.Wait()
}

// fault is a mistake planted into the planner's answer, to see that it is caught.
type fault string

// TestPlantedFaultsAreCaught: each invariant is able to fail.
func TestPlantedFaultsAreCaught(t *testing.T) {
	t.Parallel()
	for f, want := range map[fault]string{
		"one pod more": "more than", "an id twice": "id", "one pod less": "serve", "always new": "grant", "claims go": "claim", "undo": "undone",
		"never quiet": "quiet",
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(300) {
				if err := tell(seed, f); err != nil && strings.Contains(err.Error(), want) {
					return
				}
			}
			t.Errorf("not caught in 300 stories")
		})
	}
}

// story is one CloneSet with a user who changes everything.
type story struct {
	w        *world
	rng      *rand.Rand
	in       Input
	minReady time.Duration
	// grants are the most pods of a revision that were ever allowed while it was the update revision.
	grants map[string]int
	fault  fault
	faults bool
}

func tell(seed uint64, f fault) error {
	rng := rand.New(rand.NewPCG(seed, 4))
	s := &story{
		w:   &world{rng: rng, now: start, claims: map[string]*inplace.Claim{}},
		rng: rng, grants: map[string]int{"r0": 1 << 20}, fault: f, faults: true,
	}
	s.begin()
	for range 40 + rng.IntN(60) {
		s.event()
		if rng.IntN(3) > 0 {
			continue
		}
		if err := s.pass(true); err != nil {
			return s.explain(err)
		}
	}
	return s.explain(s.end())
}

func (s *story) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s", err, strings.Join(s.w.log[max(len(s.w.log)-50, 0):], "\n"))
}

func (s *story) begin() {
	first := rev("r0")
	s.in = Input{Owner: owner(), Namespace: "ns", Strategy: Strategy{ReuseClaims: s.rng.IntN(2) == 0}}
	s.in.Intent = inplace.Intent{
		Replicas: int32(1 + s.rng.IntN(7)), Update: first, Current: first, Revisions: []inplace.Revision{first}, Policy: inplace.PolicyReCreate,
	}
	if s.rng.IntN(2) == 0 {
		s.volumes("1Gi")
	}
	if s.rng.IntN(2) == 0 {
		s.in.Intent.Lifecycle = preDelete(s.rng.IntN(2) == 0)
	}
	s.minReady = []time.Duration{0, 0, 20 * time.Second}[s.rng.IntN(3)]
	s.in.Strategy.ExcludePreparingDelete = s.rng.IntN(3) == 0
	s.numbers()
}

func (s *story) volumes(size string) {
	for i := range claimTemplates() {
		if claimTemplates()[i] == size {
			s.in.Templates = cachedTemplates()[i]
		}
	}
}

func claimTemplates() []string { return []string{"1Gi", "2Gi"} }

// cachedTemplates reads the two templates; a failure shows as pods without claims.
func cachedTemplates() [][]claims.Template {
	var out [][]claims.Template
	for _, size := range claimTemplates() {
		raw := appsv1alpha1.RawObject{}
		raw.Raw = fmt.Appendf(nil, volume, size)
		read, err := claims.Read([]appsv1alpha1.RawObject{raw})
		if err != nil {
			panic(err)
		}
		out = append(out, read)
	}
	return out
}

// numbers draws replicas, partition and budgets anew.
func (s *story) numbers() {
	in, strategy := &s.in.Intent, &s.in.Strategy
	if s.rng.IntN(2) == 0 {
		in.Replicas = int32(s.rng.IntN(8))
	}
	in.Partition = int32(s.rng.IntN(int(in.Replicas) + 1))
	strategy.MaxSurge = int32(max(s.rng.IntN(5)-2, 0))
	strategy.MaxUnavailable = int32(s.rng.IntN(3))
	if strategy.MaxSurge == 0 {
		strategy.MaxUnavailable = max(strategy.MaxUnavailable, 1)
	}
	strategy.CreateMaxUnavailable = nil
	if s.rng.IntN(5) == 0 {
		strategy.CreateMaxUnavailable = new(int32(1 + s.rng.IntN(3)))
	}
	in.Paused = s.rng.IntN(10) == 0
	in.OnDelete = s.rng.IntN(20) == 0
	in.PartitionRollback = s.rng.IntN(5) == 0
	s.granted()
}

func (s *story) granted() {
	name := s.in.Intent.Update.Name
	s.grants[name] = max(s.grants[name], int(s.in.Intent.Grant()))
}

// event is one thing that happens beside the agent.
func (s *story) event() {
	w := s.w
	var p *simPod
	if live := w.live(); len(live) > 0 {
		p = live[s.rng.IntN(len(live))]
	}
	k := s.rng.IntN(100)
	if k < 80 && p == nil {
		k = 99
	}
	switch {
	case k < 50:
		w.kubelet(p, s.minReady)
	case k < 60:
		s.release(p)
	case k < 64:
		p.healthy = !p.healthy
	case k < 66:
		w.end(p)
	case k < 68 && p.truth().Phase == inplace.PhaseRunning:
		w.write(p, func(pod *inplace.Pod) { pod.Phase, pod.Ready, pod.Available = inplace.PhaseTerminal, false, false })
	case k < 70 && p.truth().Active():
		w.logf("asked to go: %s", p.truth().Name)
		w.write(p, func(pod *inplace.Pod) {
			pod.Labels[appsv1alpha1.LabelSpecifiedDelete], pod.SpecifiedDelete = "", true
		})
	case k < 72:
		s.in.Strategy.PodsToDelete = []string{p.truth().Name}
	case k < 84:
		w.now = w.now.Add(time.Duration(s.rng.IntN(60)) * time.Second)
	case k < 90:
		s.numbers()
		w.logf("numbers: R%d P%d MU%d MS%d", s.in.Intent.Replicas, s.in.Intent.Partition, s.in.Strategy.MaxUnavailable, s.in.Strategy.MaxSurge)
	case k < 94:
		s.retarget()
	case k < 95 && len(s.in.Templates) > 0:
		s.volumes(claimTemplates()[s.rng.IntN(2)])
	}
}

// release is whoever owns the hook.
func (s *story) release(p *simPod) {
	if state, _ := hooks.Of(p.truth().Labels); state == hooks.PreparingDelete {
		s.w.write(p, func(pod *inplace.Pod) { pod.Finalizers = nil })
	}
}

// retarget is a new template, or an old one again.
func (s *story) retarget() {
	in := &s.in.Intent
	if s.rng.IntN(3) == 0 {
		in.Update = in.Revisions[s.rng.IntN(len(in.Revisions))]
	} else {
		in.Update = rev(fmt.Sprint("r", len(in.Revisions)))
		in.Revisions = append(slices.Clip(in.Revisions), in.Update)
	}
	if s.rng.IntN(2) == 0 {
		in.Current = in.Revisions[s.rng.IntN(len(in.Revisions))]
	}
	s.w.logf("retarget: %s, current %s", in.Update.Name, in.Current.Name)
	n := 0
	for _, p := range s.w.live() {
		n += one(p.truth().Active() && p.truth().Revision == in.Update.Name)
	}
	s.grants[in.Update.Name] = max(s.grants[in.Update.Name], n)
	s.granted()
}

// decide is what the reconciler does with the two plans.
func (s *story) decide(late bool) (Input, inplace.Decision) {
	in := s.in
	in.Now = s.w.now
	in.Pods, in.Claims = s.w.observe(late, s.minReady)
	in.MustRecreate = Recreates{}
	for i := range in.Pods {
		if p := &in.Pods[i]; p.Active() && p.Revision == in.Intent.Update.Name {
			in.MustRecreate.ToCurrent++
		} else if p.Active() {
			in.MustRecreate.ToUpdate++
		}
	}
	if in.Strategy.MaxSurge > 0 {
		in.Intent.MaxUnavailable = in.Strategy.Budget(0, in.MustRecreate)
	} else {
		in.Intent.MaxUnavailable = in.Strategy.MaxUnavailable
	}
	population := s.spoil(in, Scale(in))
	return in, s.move(in, population)
}

// move is inplace/plan; what it does in place is another package's story.
func (s *story) move(in Input, population inplace.Population) inplace.Decision {
	intent := in.Intent
	intent.Population = population
	d := engine.Next(intent, in.Pods, in.Now)
	d.Patches = slices.DeleteFunc(d.Patches, func(p inplace.Patch) bool {
		return p.Metadata.Labels[appsv1alpha1.LabelLifecycleState] == nil
	})
	return d
}

// pass is one reconcile, and the next one at once, which sees everything and is not carried out: when the first one saw
// everything too, the second takes nothing back.
func (s *story) pass(late bool) error {
	late = late && s.rng.IntN(2) == 0
	in, d := s.decide(late)
	if err := s.check(in, d); err != nil {
		return err
	}
	s.w.act(d, s.faults, s.in.Intent.Lifecycle != nil)
	if err := s.checkWorld(); err != nil {
		return err
	}
	if late {
		return nil
	}
	// A write that was lost leaves nothing to take back (seed 37118).
	d.Patches = slices.DeleteFunc(slices.Clone(d.Patches), func(p inplace.Patch) bool { return s.w.current(p.Ref) != nil })
	_, again := s.decide(false)
	if err := undone(d, again); err != nil {
		return fmt.Errorf("%w: %+v\n%s\nfirst %+v\nthen %+v", err, s.in.MustRecreate, s.shape(), d.Holds, again.Deletes)
	}
	return nil
}

// undone says which step of one decision the next one takes back.
func undone(d, next inplace.Decision) error {
	created, back := map[string]bool{}, map[string]bool{}
	for _, c := range d.Creates {
		created[c.Object.GetName()] = true
	}
	away := map[string]bool{}
	for _, p := range d.Patches {
		if *p.Metadata.Labels[appsv1alpha1.LabelLifecycleState] == string(hooks.PreparingDelete) {
			away[p.Name] = true
		} else {
			back[p.Name] = true
		}
	}
	for _, x := range next.Deletes {
		if created[x.Name] || back[x.Name] {
			return fmt.Errorf("undone: %s is deleted right after it was created or taken back (%s)", x.Name, x.Because)
		}
	}
	for _, p := range next.Patches {
		leaves := *p.Metadata.Labels[appsv1alpha1.LabelLifecycleState] == string(hooks.PreparingDelete)
		if leaves && (created[p.Name] || back[p.Name]) || !leaves && away[p.Name] {
			return fmt.Errorf("undone: %s is written %s right after the opposite", p.Name, *p.Metadata.Labels[appsv1alpha1.LabelLifecycleState])
		}
	}
	return nil
}

// check judges a decision on what was seen.
func (s *story) check(in Input, d inplace.Decision) error {
	gone := map[string]bool{}
	for _, x := range d.Deletes {
		if gone[x.Name] {
			return fmt.Errorf("%s is deleted twice", x.Name)
		}
		gone[x.Name] = true
	}
	for _, p := range d.Patches {
		if gone[p.Name] {
			return fmt.Errorf("%s is written twice in one pass", p.Name)
		}
		gone[p.Name] = *p.Metadata.Labels[appsv1alpha1.LabelLifecycleState] == string(hooks.PreparingDelete)
	}
	return errors.Join(s.checkNumbers(in, d), s.checkBudget(in, d, gone), s.checkClaims(in, d))
}

func (s *story) checkNumbers(in Input, d inplace.Decision) error {
	if len(d.Creates) == 0 {
		return nil
	}
	total, fresh := len(d.Creates), 0
	for i := range in.Pods {
		p := &in.Pods[i]
		state, _ := hooks.Of(p.Labels)
		asked := p.SpecifiedDelete || slices.Contains(in.Strategy.PodsToDelete, p.Name)
		if !p.Active() {
			continue
		}
		total += one(state != hooks.PreparingDelete || !in.Strategy.ExcludePreparingDelete)
		fresh += one(p.Revision == in.Intent.Update.Name && state != hooks.PreparingDelete && !asked)
	}
	most := int(in.Intent.Replicas)
	if !in.Intent.Paused {
		most += int(in.Strategy.MaxSurge)
	}
	if total > most {
		return fmt.Errorf("%d pods with those to create, more than %d replicas and %d surge", total, in.Intent.Replicas, in.Strategy.MaxSurge)
	}
	made := 0
	for _, c := range d.Creates {
		made += one(c.Revision == in.Intent.Update.Name)
	}
	if most := s.grants[in.Intent.Update.Name]; made > 0 && fresh+made > most && in.Intent.Update.Name != in.Intent.Current.Name {
		return fmt.Errorf("grant: %d pods on the update revision and %d to create, at most %d were ever granted", fresh, made, most)
	}
	return nil
}

// checkBudget recounts what is left after pods that serve are taken down. A scale-in keeps the pods that serve, everything
// else those that are available.
func (s *story) checkBudget(in Input, d inplace.Decision, gone map[string]bool) error {
	serving, available, taken, takenAvailable, total := 0, 0, 0, 0, 0
	for i := range in.Pods {
		p := &in.Pods[i]
		state, _ := hooks.Of(p.Labels)
		if !p.Active() || state == hooks.PreparingDelete {
			continue
		}
		total++
		if gone[p.Name] {
			taken += one(p.Ready)
			takenAvailable += one(p.Available)
			continue
		}
		serving += one(p.Ready)
		available += one(p.Available)
	}
	floor := int(in.Intent.Replicas - in.Intent.MaxUnavailable)
	scaleIn := total > int(in.Intent.Replicas)
	if taken > 0 && serving < floor || takenAvailable > 0 && available < floor && !scaleIn {
		return fmt.Errorf("%d pods that serve are taken, %d serve and %d are available after it, at least %d should: %v",
			taken, serving, available, floor, d.Deletes)
	}
	return nil
}

func (s *story) checkClaims(in Input, d inplace.Decision) error {
	active := 0
	for i := range in.Pods {
		active += one(in.Pods[i].Active())
	}
	for _, x := range d.Deletes {
		if len(x.Claims) > 0 && active <= int(in.Intent.Replicas) && !strings.Contains(x.Because, "preDelete") {
			return fmt.Errorf("claims of %s go with it, and %d of %d pods are there", x.Name, active, in.Intent.Replicas)
		}
	}
	for _, x := range d.ClaimDeletes {
		if c := s.w.claims[x.Name]; in.Strategy.ReuseClaims || c != nil && s.w.holds(c.ID) {
			return fmt.Errorf("claim %s is deleted, reuse %t", x.Name, in.Strategy.ReuseClaims)
		}
	}
	return nil
}

// checkWorld: never two pods of one id, and every pod has its claims.
func (s *story) checkWorld() error {
	seen := map[string]bool{}
	for _, p := range s.w.live() {
		id := idOf(p.truth())
		if seen[id] {
			return fmt.Errorf("two pods have the id %s", id)
		}
		seen[id] = true
		if volumes := p.truth().Annotations[appsv1alpha1.AnnotationClaimTemplate]; volumes != "" && s.w.claims["data-web-"+id] == nil {
			return fmt.Errorf("pod %s has lost its claim", p.truth().Name)
		}
	}
	return nil
}

// end puts everything right and waits for peace.
func (s *story) end() error {
	s.faults = false
	in := &s.in.Intent
	in.Paused, in.OnDelete, s.in.Strategy.PodsToDelete = false, false, nil
	if s.in.Strategy.MaxSurge == 0 {
		s.in.Strategy.MaxUnavailable = max(s.in.Strategy.MaxUnavailable, 1)
	}
	for range 400 {
		for _, p := range s.w.live() {
			p.healthy, p.stuck = true, false
			s.release(p)
			s.w.kubelet(p, s.minReady)
		}
		s.w.now = s.w.now.Add(20 * time.Second)
		before := len(s.w.log)
		if err := s.pass(false); err != nil {
			return err
		}
		if len(s.w.log) == before && s.settled() {
			return s.peace()
		}
	}
	return fmt.Errorf("never quiet: %s", s.shape())
}

func (s *story) shape() string {
	out := fmt.Sprintf("R%d P%d %+v update %s current %s:", s.in.Intent.Replicas, s.in.Intent.Partition, s.in.Strategy, s.in.Intent.Update.Name, s.in.Intent.Current.Name)
	for _, p := range s.w.live() {
		pod := p.truth()
		out += fmt.Sprintf("\n%s %s %s ready %t %v %v", pod.Name, pod.Revision, pod.Phase, pod.Ready, pod.Gate, pod.Labels)
	}
	return out
}

func (s *story) settled() bool {
	for _, p := range s.w.live() {
		if pod := p.truth(); !pod.Active() || !pod.Ready || pod.SpecifiedDelete {
			return false
		}
	}
	_, d := s.decide(false)
	return d.Quiet() && d.LookAgainIn == 0
}

// peace: all wanted pods are there and serve, as many new ones as were granted, and no claim is left over without reuse.
func (s *story) peace() error {
	in, n, fresh, volumes := s.in.Intent, 0, 0, 0
	for _, p := range s.w.live() {
		n++
		fresh += one(p.truth().Revision == in.Update.Name)
		volumes += one(p.truth().Annotations[appsv1alpha1.AnnotationClaimTemplate] != "")
	}
	if n != int(in.Replicas) || fresh < int(in.Grant()) && in.Update.Name != "" {
		return fmt.Errorf("%d pods, %d of them new, %d granted: %s", n, fresh, in.Grant(), s.shape())
	}
	if !s.in.Strategy.ReuseClaims && len(s.w.claims) != volumes {
		return fmt.Errorf("%d pods have claims, %d claims are there", volumes, len(s.w.claims))
	}
	return nil
}

// spoil plants a fault.
func (s *story) spoil(in Input, p inplace.Population) inplace.Population {
	switch s.fault {
	case "one pod more":
		if len(p.Creates) > 0 {
			extra := p.Creates[0]
			extra.Object = extra.Object.DeepCopy()
			extra.Object.SetName("web-extra")
			p.Creates = append(p.Creates, extra)
		}
	case "an id twice":
		for i := range p.Creates {
			p.Creates[i].Object.SetLabels(map[string]string{appsv1alpha1.LabelCloneSetInstanceID: "same"})
		}
	case "one pod less":
		for i := range in.Pods {
			if in.Pods[i].Available && len(p.Deletes) == 0 && len(p.Patches) == 0 {
				p.Deletes = []inplace.Delete{{Ref: in.Pods[i].Ref}}
			}
		}
	case "always new":
		for i := range p.Creates {
			p.Creates[i].Revision = in.Intent.Update.Name
		}
	case "claims go":
		for i := range p.Deletes {
			p.Deletes[i].Claims = append(p.Deletes[i].Claims, inplace.Ref{Name: "x"})
		}
	case "undo":
		for i := range in.Pods {
			if q := &in.Pods[i]; q.Active() && s.rng.IntN(4) == 0 && q.Created.Equal(in.Now) && len(p.Deletes) == 0 {
				p.Deletes = []inplace.Delete{{Ref: q.Ref}}
			}
		}
	case "never quiet":
		for i := range in.Pods {
			if q := &in.Pods[i]; q.Phase == inplace.PhaseRunning && len(p.Patches) == 0 && len(p.Deletes) == 0 {
				p.Patches = []inplace.Patch{{Ref: q.Ref, Kind: inplace.PatchState, Metadata: hooks.Change(hooks.Normal, in.Now)}}
			}
		}
	}
	return p
}

package simulation

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/member/cloneset"
	"github.com/underway-dev/underway/member/statefulset"
	"github.com/underway-dev/underway/member/workload"
)

// agent is a member agent on the cluster: the real reconciler behind a cache that lags and a line that loses requests.
type agent struct {
	c     *cluster
	seed  uint64
	step  int
	clock *clocktesting.FakePassiveClock
	r     *workload.Reconciler
	// view is how far the cache of each kind has come; marks are the versions it may stop at.
	view  map[string]int64
	marks []int64
	// own is the version that our last write of a kind made.
	own map[string]int64
	// unseen is the version up to which each kind was written by the process before, which this one may not see yet.
	unseen map[string]int64
	// stale processes may begin with lists that are older than what the one before wrote.
	stale bool
	// faults is off in the final phase; quota is an admission plugin that refuses pods.
	faults, quota bool
	planted       *fault
	judge         *judge
	// order is the judge of a StatefulSet, nil for a CloneSet.
	order  *orderJudge
	pass   *pass
	passes int
}

// pass is one reconcile, with what it saw and what it sent.
type pass struct {
	set        *appsv1alpha1.CloneSet
	ordered    *appsv1alpha1.StatefulSet
	pods       []*corev1.Pod
	claims     []*corev1.PersistentVolumeClaim
	population inplace.Population
	scaled     bool
	requests   []*request
	// movers are the available pods of a StatefulSet that were moved.
	movers []*corev1.Pod
	// current is set when the cache showed everything as it is.
	current bool
	// faulty is set when a request or an answer was lost, or the agent ended in the middle.
	faulty bool
	// blind is set when the cache lacked writes of the process before: what those took it cannot count.
	blind bool
	// ends is the phase of writing in which the agent ends; none when negative.
	ends int
	// before and after are the API server's versions at both ends, at is when it was.
	before, after int64
	at            time.Time
	result        ctrl.Result
	err           error
}

func newAgent(c *cluster, seed uint64, f *fault) *agent {
	a := &agent{
		c: c, seed: seed, clock: clocktesting.NewFakePassiveClock(c.now), view: map[string]int64{}, own: map[string]int64{}, unseen: map[string]int64{},
		faults: true, planted: f, marks: []int64{0},
	}
	a.judge = newJudge(a)
	if c.ordered() != nil {
		a.order = newOrderJudge(a)
	}
	a.restart()
	return a
}

// kinds are those with a cache.
func kinds() []string {
	return []string{kindPod, kindClaim, kindSlice, kindRevision, kindSet, kindNode}
}

// restart is a new process: it remembers nothing and lists everything.
func (a *agent) restart() { a.startAnew(false) }

// startAnew is restart; a stale process lists, of each kind, what an API server showed a while ago.
func (a *agent) startAnew(stale bool) {
	for _, kind := range kinds() {
		a.unseen[kind] = max(a.unseen[kind], a.own[kind])
		a.view[kind] = a.c.rv
		if stale {
			const back = 6
			recent := a.marks[max(len(a.marks)-back, 0):]
			a.view[kind] = recent[a.c.rng.IntN(len(recent))]
		}
	}
	a.own = map[string]int64{}
	see := func(kind string, objects []client.Object) { a.saw(kind, objects) }
	shuffle := func(objects []client.Object) {
		rand.New(rand.NewPCG(a.seed, uint64(a.step))).Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	}
	hasty := a.planted != nil && a.planted.hasty
	version := func(kind string) func() string {
		return func() string {
			if hasty {
				return strconv.FormatInt(a.c.rv, 10)
			}
			return strconv.FormatInt(a.view[kind], 10)
		}
	}
	var kind workload.Kind = &spy{a: a}
	resource := cloneset.Resource()
	if a.order != nil {
		kind, resource = &orderSpy{a: a}, statefulset.Resource()
	}
	a.r = workload.New(workload.Options{
		Kind: kind, Resource: resource, Extended: true, Clock: a.clock,
		Cache:       &reader{s: a.c.server, rv: a.view, read: see, shuffle: shuffle},
		PodsVersion: version(kindPod),
		Claims:      workload.Feed{Synced: func() bool { return true }, Version: version(kindClaim)},
		Live:        &writer{reader: reader{s: a.c.server, read: see, shuffle: shuffle}, line: a},
	})
}

// spy is the CloneSet's adapter, and notes what scaling decided. Faults are planted here and in the line.
type spy struct {
	cloneset.Kind

	a *agent
}

// Read reads the object.
func (s *spy) Read(obj client.Object) workload.Wanted {
	w := s.Kind.Read(obj)
	s.a.planted.onRead(s.a, &w)
	return w
}

// Scale says who should exist.
func (s *spy) Scale(c workload.Crowd) workload.Scaled {
	s.a.pass.set = c.Object.(*appsv1alpha1.CloneSet)
	in := s.Kind.Scale(c)
	s.a.planted.onScale(s.a, c, &in.Intent)
	s.a.pass.population, s.a.pass.scaled = in.Population, true
	return in
}

// orderSpy is the StatefulSet's adapter, likewise.
type orderSpy struct {
	statefulset.Kind

	a *agent
}

// Read reads the object.
func (s *orderSpy) Read(obj client.Object) workload.Wanted {
	w := s.Kind.Read(obj)
	s.a.planted.onRead(s.a, &w)
	return w
}

// Scale says who should exist.
func (s *orderSpy) Scale(c workload.Crowd) workload.Scaled {
	s.a.pass.ordered = c.Object.(*appsv1alpha1.StatefulSet)
	in := s.Kind.Scale(c)
	s.a.planted.onScale(s.a, c, &in.Intent)
	s.a.pass.population, s.a.pass.scaled = in.Population, true
	return in
}

// Report writes the status.
func (s *orderSpy) Report(obj client.Object, r workload.Report) bool {
	if s.a.planted != nil && s.a.planted.boasting {
		r.Summary.Updated++
	}
	return s.Kind.Report(obj, r)
}

// Report writes the status.
func (s *spy) Report(obj client.Object, r workload.Report) bool {
	if s.a.planted != nil && s.a.planted.boasting {
		r.Summary.Updated++
	}
	return s.Kind.Report(obj, r)
}

// saw notes what the pass read last of a kind.
func (a *agent) saw(kind string, objects []client.Object) {
	if a.pass == nil || a.pass.scaled {
		return
	}
	switch kind {
	case kindSet:
		a.pass.set, _ = objects[0].(*appsv1alpha1.CloneSet)
		a.pass.ordered, _ = objects[0].(*appsv1alpha1.StatefulSet)
	case kindPod:
		a.pass.pods = nil
		for _, obj := range objects {
			if ours(obj) {
				a.pass.pods = append(a.pass.pods, obj.(*corev1.Pod))
			}
		}
		slices.SortFunc(a.pass.pods, func(x, y *corev1.Pod) int { return cmp.Compare(x.Name, y.Name) })
	case kindClaim:
		a.pass.claims = nil
		for _, obj := range objects {
			if ours(obj) {
				a.pass.claims = append(a.pass.claims, obj.(*corev1.PersistentVolumeClaim))
			}
		}
	}
}

// mark lets a cache stop at what is there now.
func (a *agent) mark() {
	if a.marks[len(a.marks)-1] != a.c.rv {
		a.marks = append(a.marks, a.c.rv)
	}
}

// look lets the cache come on, each kind by itself, to now or to some version in between.
func (a *agent) look(late bool) (current bool) {
	a.mark()
	current = true
	for _, kind := range kinds() {
		to := a.c.rv
		if late && a.c.rng.IntN(3) == 0 {
			from := a.view[kind]
			// A cache that lacks our own writes makes the pass wait, which is worth a look now and then.
			if a.c.rng.IntN(8) > 0 && (a.planted == nil || !a.planted.hasty) {
				from = max(from, a.own[kind])
			}
			at := slices.IndexFunc(a.marks, func(m int64) bool { return m >= from })
			to = a.marks[at+a.c.rng.IntN(len(a.marks)-at)]
		}
		a.view[kind] = max(a.view[kind], to)
		current = current && a.view[kind] == a.c.rv
	}
	return current
}

// reconcile is one pass of the agent.
func (a *agent) reconcile(late bool) error {
	p := &pass{ends: -1, current: a.look(late), before: a.c.rv, at: a.c.now}
	if a.faults && a.c.rng.IntN(14) == 0 {
		p.ends = a.c.rng.IntN(phases)
	}
	for _, kind := range kinds() {
		p.blind = p.blind || a.view[kind] < a.unseen[kind]
	}
	a.pass = p
	a.passes++
	a.clock.SetTime(a.c.now)
	ctx := ctrl.LoggerInto(context.Background(), logr.Discard())
	p.result, p.err = a.r.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: setName}})
	a.pass, p.after = nil, a.c.rv
	a.note(p)
	a.mark()
	if p.ends >= 0 {
		stale := a.stale && a.c.rng.IntN(2) == 0
		a.c.logf("the agent ends and starts anew, stale %t", stale)
		a.startAnew(stale)
	}
	if a.order != nil {
		a.judge.last = p
		return a.order.judgePass(p)
	}
	return a.judge.judgePass(p)
}

// note writes the requests of a pass into the story, in an order that does not depend on who of many was first.
func (a *agent) note(p *pass) {
	lines := make([]string, 0, len(p.requests))
	for _, q := range p.requests {
		if q.verb != "status" {
			lines = append(lines, q.String())
		}
	}
	slices.Sort(lines)
	for _, l := range lines {
		a.c.logf("  %s", l)
	}
	if p.err != nil && !p.faulty && !a.quota {
		a.c.logf("  error: %v", p.err)
	}
}

func (q *request) String() string {
	text := q.verb + " " + q.kind + " " + q.name
	if q.body != nil {
		text += q.body.String()
	}
	if pod, ok := q.made.(*corev1.Pod); ok && q.verb == "create" {
		text += fmt.Sprintf(" build %s %s", pod.Labels[labelBuild], pod.Labels[appsv1alpha1.LabelLifecycleState])
	}
	if q.err != nil {
		text += ": " + q.err.Error()
	}
	return text
}

func (b *patchBody) String() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(b.Metadata.Labels)) {
		if k == appsv1alpha1.LabelPodTemplateHash {
			continue
		}
		v := "-"
		if b.Metadata.Labels[k] != nil {
			v = *b.Metadata.Labels[k]
		}
		parts = append(parts, k[strings.LastIndex(k, "/")+1:]+"="+v)
	}
	if b.Spec != nil {
		for _, c := range b.Spec.Containers {
			parts = append(parts, "image "+c.Image)
		}
	}
	if b.Status != nil {
		for _, c := range b.Status.Conditions {
			parts = append(parts, "gate "+string(c.Status))
		}
	}
	return " " + strings.Join(parts, ", ")
}

// Phases of writing, in podwriter's order; what is of a later phase than the one in which the agent ends is never sent.
const (
	phasePatch = iota
	phaseDelete
	phaseCreate
	phaseStatus
	phases
)

func phaseOf(q *request) int {
	switch {
	case q.kind == kindSet, q.kind == kindRevision && q.verb != "create":
		return phaseStatus
	case q.kind == kindRevision:
		return -1
	case q.verb == "delete":
		return phaseDelete
	case q.verb == "create":
		return phaseCreate
	default:
		return phasePatch
	}
}

// chance is a number below n that depends on the request and the step alone, not on which of many came first.
func (a *agent) chance(q *request, n uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %s %d", q.verb, q.kind, q.name, a.passes)
	return rand.New(rand.NewPCG(a.seed^h.Sum64(), uint64(a.step))).Uint64N(n)
}

// Fates of a request.
const (
	fateLost   = 0
	fateAnswer = 1
	fateBusy   = 2
)

// fate is what becomes of a request.
func (a *agent) fate(q *request) uint64 {
	switch phase := phaseOf(q); {
	case !a.faults:
		return phases
	case a.pass.ends >= 0 && phase > a.pass.ends:
		return fateLost
	case a.pass.ends >= 0 && phase == a.pass.ends:
		return []uint64{fateLost, fateAnswer, phases}[a.chance(q, 3)]
	default:
		return a.chance(q, 40)
	}
}

// before plays the line to the API server.
func (a *agent) before(q *request) error {
	switch a.fate(q) {
	case fateLost:
		a.pass.faulty = true
		return errLost
	case fateBusy:
		a.pass.faulty = true
		return busy(q.kind)
	}
	if a.quota && q.verb == "create" && q.kind == kindPod {
		return quota(q.kind, q.name)
	}
	return nil
}

// after plays the line back, and lets the judge look at what was done.
func (a *agent) after(q *request) error {
	a.pass.requests = append(a.pass.requests, q)
	if q.err == nil {
		a.own[q.kind] = max(a.own[q.kind], a.c.rv)
		if a.order != nil {
			a.order.written(a.pass, q)
		} else {
			a.judge.written(a.pass, q)
		}
	}
	if a.fate(q) == fateAnswer {
		a.pass.faulty = true
		return errLost
	}
	return nil
}

// settle lets everybody act on everything, without faults, until nothing is written any more. The agent looks only when
// something has changed or when it asked to: a wake-up that is lost is seen at the end.
func (a *agent) settle() error {
	a.faults, a.c.calm = false, true
	quiet, due := time.Duration(0), a.c.now
	seen := int64(-1)
	for range 400 {
		for _, pod := range a.c.pods() {
			a.c.schedule(pod.Name)
			a.c.kubelet(pod.Name)
			a.c.hook(pod.Name)
		}
		for _, claim := range a.c.claims() {
			a.c.grow(claim)
		}
		a.everybody()
		before := a.c.rv
		if a.c.rv != seen || !due.IsZero() && !a.c.now.Before(due) {
			seen, due = a.c.rv, time.Time{}
			p, err := a.last()
			if err != nil {
				return err
			}
			if after := p.result.RequeueAfter; after > 0 && (a.planted == nil || !a.planted.sleepy) {
				due = a.c.now.Add(after)
			} else if p.err != nil {
				due = a.c.now.Add(time.Second)
			}
		}
		step := 2 * time.Second
		if quiet > 10*time.Second {
			step = max(35*time.Second, due.Sub(a.c.now))
		}
		a.c.advance(step)
		quiet += step
		if a.c.rv != before {
			quiet = 0
		}
		if quiet > 200*time.Second && due.IsZero() {
			return a.lost()
		}
	}
	return fmt.Errorf("quiet: it never ends")
}

// everybody lets the endpoints controller look at all names.
func (a *agent) everybody() {
	names := map[string]bool{}
	for _, pod := range a.c.pods() {
		names[pod.Name] = true
	}
	for _, e := range a.c.slice().Endpoints {
		names[e.TargetRef.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a.c.endpoints(name)
	}
}

// last is a pass that sees everything.
func (a *agent) last() (*pass, error) {
	err := a.reconcile(false)
	return a.judge.last, err
}

// lost looks once more: a pass that has something to write now was not woken for it.
func (a *agent) lost() error {
	before := a.c.rv
	p, err := a.last()
	if err != nil {
		return err
	}
	if a.c.rv != before {
		lines := make([]string, 0, len(p.requests))
		for _, q := range p.requests {
			lines = append(lines, q.String())
		}
		return fmt.Errorf("quiet: a wake-up was lost: %s", strings.Join(lines, "; "))
	}
	return nil
}

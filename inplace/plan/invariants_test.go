package plan_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/order"
	"github.com/underway-dev/underway/inplace/podview"
	"github.com/underway-dev/underway/test/seeds"
)

// TestRandomReleases: whatever happens, pods we took down stay inside the budget as it was known, pods of a revision
// stay inside the largest grant, no pod that serves is patched, no pod returns without running what it should, and it
// ends: with every granted pod updated and nothing left to write.
func TestRandomReleases(t *testing.T) {
	t.Parallel()
	from, to := seeds.Range(t, 300)
	var next atomic.Uint64
	next.Store(from)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < to && !t.Failed(); seed = next.Add(1) - 1 {
				if err := release(seed); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
		})
	}
	wg.Wait()
}

// story is one release with a user who changes everything in the middle.
type story struct {
	a        *agent
	rng      *rand.Rand
	in       inplace.Intent
	previous inplace.Intent
	minReady int32
}

func release(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := &world{
		rng: rng, now: time.Unix(1_800_000_000, 0), pods: map[string]*simPod{},
		builds: map[string]build{}, tracked: rng.IntN(5) > 0, mute: rng.IntN(6) == 0, stamped: rng.IntN(2) == 0,
		sharedDigest: rng.IntN(3) == 0, ordered: rng.IntN(2) == 0, restarting: rng.IntN(3) == 0, gateless: rng.IntN(10) == 0,
	}
	s := &story{a: &agent{w: w, memory: podview.NewMemory(), grants: map[string]int32{}, faults: true}, rng: rng}
	s.begin()
	for range 30 + rng.IntN(60) {
		s.event()
		if s.rng.IntN(3) > 0 {
			continue
		}
		in := s.in
		if rng.IntN(8) == 0 {
			in = s.previous // the workload itself is seen late
		}
		_, err := s.a.pass(in, s.minReady)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, strings.Join(s.a.log, "\n"))
		}
	}
	if err := cmp.Or(s.end(), s.a.checkRestarts()); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.Join(s.a.log[max(len(s.a.log)-60, 0):], "\n"))
	}
	return nil
}

// fixedStay: no pod in Fixed is taken down, patched or recreated.
func fixedStay(in inplace.Intent, d inplace.Decision) error {
	for _, x := range d.Patches {
		if strings.HasPrefix(x.Because, "its deletion waits") {
			continue // scaling's, with a hook
		}
		if in.Fixed[x.Name] != "" && (x.Kind == inplace.PatchDrain || x.Kind == inplace.PatchUpdate) && x.To != in.Current.Name {
			return fmt.Errorf("fixed: %s of %s", x.Kind, x.Name)
		}
	}
	for _, x := range d.Deletes {
		// Scaling's own words are others.
		moved := strings.HasPrefix(x.Because, "recreated to get to ") || strings.HasPrefix(x.Because, "cannot be updated in place")
		if in.Fixed[x.Name] != "" && moved {
			return fmt.Errorf("fixed: %s is deleted: %s", x.Name, x.Because)
		}
	}
	return nil
}

// begin makes a workload of one revision whose pods are all there.
func (s *story) begin() {
	first := s.revision(1, build{app: 1, cpu: 1 + s.rng.IntN(2)})
	s.in = inplace.Intent{
		Where: "ns/web", Replicas: int32(1 + s.rng.IntN(7)), Update: first, Current: first, Revisions: []inplace.Revision{first},
		Policy: []inplace.Policy{inplace.PolicyInPlaceIfPossible, inplace.PolicyInPlaceIfPossible, inplace.PolicyInPlaceOnly, inplace.PolicyReCreate}[s.rng.IntN(4)],
	}
	s.minReady = []int32{0, 0, 0, 8}[s.rng.IntN(4)]
	if s.rng.IntN(3) == 0 {
		s.a.slots = &numbered{ordered: s.rng.IntN(3) > 0}
	}
	s.numbers()
	s.previous = s.in
	s.a.grants[first.Name] = 1 << 30
	s.in.Lifecycle = s.lifecycle()
	for i := range s.in.Replicas {
		name := fmt.Sprintf("p-%d", i)
		s.a.w.create(name, first, s.a.w.spec(s.a.w.builds[first.Name]))
		s.a.w.pods[name].truth().Labels["lb"], s.a.w.pods[name].truth().Labels["keep"] = "true", "true"
	}
}

// revision makes a revision of a build.
func (s *story) revision(number int, b build) inplace.Revision {
	spec := s.a.w.spec(b)
	for i := range spec.Containers {
		// The barrier is put on pods by a webhook, it is not in the template.
		spec.Containers[i].Env = []corev1.EnvVar{{Name: "E", Value: strconv.Itoa(b.env)}}
	}
	template, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{"v": strconv.Itoa(number % 3)}}, "spec": spec})
	if err != nil {
		panic(err)
	}
	r := inplace.Revision{Name: fmt.Sprintf("web-%d", number), Hash: strconv.Itoa(number), Number: int64(number), Template: template}
	s.a.w.builds[r.Name] = b
	return r
}

func object(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetName(name)
	return o
}

// numbers draws partition and budget anew.
func (s *story) numbers() {
	s.in.Partition = int32(s.rng.IntN(int(s.in.Replicas) + 1))
	s.in.MaxUnavailable = int32(s.rng.IntN(int(s.in.Replicas)/2 + 2))
	s.in.GracePeriod = []time.Duration{0, 0, 0, 4 * time.Second}[s.rng.IntN(4)]
	s.in.Paused = s.rng.IntN(10) == 0
	s.in.OnDelete = s.rng.IntN(20) == 0
	s.in.PartitionRollback = s.rng.IntN(6) == 0
	s.in.PatchUndrained = s.rng.IntN(4) > 0
	s.in.NoResize = ""
	if s.rng.IntN(12) == 0 {
		s.in.NoResize = "the API server serves no pods/resize"
	}
	s.a.w.room, s.a.w.quota = s.rng.IntN(3) > 0, s.rng.IntN(3) == 0
	if s.rng.IntN(8) == 0 {
		s.in.Lifecycle = s.lifecycle()
	}
	s.order()
	s.numbered()
	s.in.Invalid = ""
	if s.rng.IntN(20) == 0 {
		s.in.Invalid = "spec.updateStrategy.partition: nonsense"
	}
	s.granted()
}

// order draws who goes first, and who cannot be changed in place.
func (s *story) order() {
	s.in.Compare = []func(a, b inplace.Pod) int{nil, nil, order.Name, order.OrdinalDescending}[s.rng.IntN(4)]
	s.in.Scatter, s.in.RecreateOnly, s.in.Fixed = nil, nil, nil
	if s.rng.IntN(3) == 0 {
		s.in.Fixed = map[string]string{}
		for range 1 + s.rng.IntN(3) {
			s.in.Fixed[fmt.Sprintf("p-%d", s.rng.IntN(8))] = "its claims are resized first"
		}
	}
	if s.rng.IntN(4) == 0 {
		s.in.Scatter = []appsv1alpha1.UpdateScatterTerm{{Key: "lb", Value: "true"}, {Key: "seen", Value: "true"}}
	}
	if s.rng.IntN(6) == 0 {
		s.in.RecreateOnly = map[string]string{fmt.Sprintf("p-%d", s.rng.IntN(4)): "its volumes are of other templates"}
	}
}

// granted notes what the user allows now.
func (s *story) granted() {
	if s.in.Invalid == "" {
		rev := s.in.Update.Name
		s.a.grants[rev] = max(s.a.grants[rev], s.in.Grant())
	}
}

// event is one thing that happens beside the agent.
func (s *story) event() {
	w := s.a.w
	live := w.live()
	var p *simPod
	if len(live) > 0 {
		p = live[s.rng.IntN(len(live))]
	}
	switch k := s.rng.IntN(100); {
	case k < 5 && p != nil && s.rng.IntN(8) == 0:
		w.meddle(p)
	case k < 10 && p != nil:
		w.hook(p)
	case k < 45 && p != nil:
		w.kubelet(p)
	case k < 60 && p != nil:
		w.endpoints(p)
	case k < 76:
		w.advance(time.Duration(s.rng.IntN(4000)) * time.Millisecond)
	case k < 79 && p != nil:
		w.crash(p)
	case k < 81 && p != nil:
		p.healthy = !p.healthy
	case k < 82 && p != nil && w.tracked:
		p.stopped = !p.stopped && !w.owes(p)
	case k < 83 && p != nil && s.rng.IntN(2) == 0:
		w.remove(p)
	case k < 83 && p != nil:
		w.write(p, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(w.now)) })
	case k < 84 && p != nil && !w.sharedDigest:
		p.garbled = true
		w.write(p, func(pod *corev1.Pod) { pod.Annotations[appsv1alpha1.AnnotationInPlaceState] = "{nonsense" })
	case k < 88:
		s.restart()
	case k < 92:
		s.previous = s.in
		s.numbers()
	case k < 94:
		s.previous = s.in
		s.in.Replicas = int32(1 + s.rng.IntN(7))
		s.in.Partition = min(s.in.Partition, s.in.Replicas)
		s.granted()
	case k < 98:
		s.retarget()
	}
}

// restart is the agent starting anew: it forgets its marks and lists everything.
func (s *story) restart() {
	s.a.memory = podview.NewMemory()
	for _, name := range s.a.w.names() {
		p := s.a.w.pods[name]
		p.own = len(p.versions) - 1
	}
}

// retarget is a new template, or an old one again.
func (s *story) retarget() {
	s.previous = s.in
	if s.rng.IntN(3) == 0 {
		s.in.Update = s.in.Revisions[s.rng.IntN(len(s.in.Revisions))]
	} else {
		s.in.Update = s.revision(len(s.in.Revisions)+1, s.rebuild())
		s.in.Revisions = append(slices.Clip(s.in.Revisions), s.in.Update)
	}
	rev := s.in.Update.Name
	s.a.grants[rev] = max(s.a.grants[rev], s.a.count(rev))
	s.granted()
}

// rebuild changes a few things of the build that is the newest.
func (s *story) rebuild() build {
	b := s.a.w.builds[s.in.Update.Name]
	if s.rng.IntN(3) > 0 {
		b.app = 1 + s.rng.IntN(6)
	}
	if s.rng.IntN(3) == 0 {
		b.side = s.rng.IntN(2)
	}
	if s.rng.IntN(4) == 0 {
		b.log = s.rng.IntN(2)
	}
	if s.rng.IntN(5) == 0 {
		b.prep = s.rng.IntN(2)
	}
	if s.rng.IntN(3) == 0 {
		b.cpu = 1 + s.rng.IntN(9)
	}
	b.env = 0
	if s.rng.IntN(8) == 0 {
		b.env = 1
	}
	return b
}

// end puts everything right and waits for peace.
func (s *story) end() error {
	for _, p := range s.a.w.live() {
		p.healthy, p.stopped = true, false
	}
	s.restart()
	s.a.w.room, s.a.w.quota = true, false
	if s.hopeless(s.in.Update) || s.hopeless(s.in.Current) {
		s.in.Update = s.revision(len(s.in.Revisions)+1, build{app: 4, cpu: 2})
		s.in.Revisions = append(slices.Clip(s.in.Revisions), s.in.Update)
		s.a.grants[s.in.Update.Name] = 0
	}
	s.in.Invalid, s.in.Paused, s.in.OnDelete, s.in.Fixed = "", false, false, nil
	if s.a.slots != nil {
		s.a.slots.waits = false
	}
	s.in.MaxUnavailable = max(s.in.MaxUnavailable, 1)
	// A pod that never comes up, and that the partition keeps by its position, spends the budget for good: that is as asked.
	keeps := s.a.slots != nil && s.a.slots.ordered && slices.ContainsFunc(s.a.w.live(), func(p *simPod) bool { return broken(p.truth()) })
	if s.rng.IntN(2) == 0 || keeps {
		s.in.Partition = 0
	}
	s.granted()
	d, err := s.a.settle(s.in, s.minReady)
	if err != nil {
		return err
	}
	return s.peace(d)
}

// hopeless reports whether pods of a revision never come up, or never in place where only that is allowed.
func (s *story) hopeless(r inplace.Revision) bool {
	b := s.a.w.builds[r.Name]
	return b.app >= 5 || (b.cpu >= cpuInfeasible && s.in.Policy == inplace.PolicyInPlaceOnly)
}

// peace checks the end.
func (s *story) peace(d inplace.Decision) error {
	sum := d.Summary
	if sum.Replicas != s.in.Replicas {
		return fmt.Errorf("%d pods of %d: %+v", sum.Replicas, s.in.Replicas, d)
	}
	// Pods that are broken where they are, and that the user's order keeps beyond the grant, hold the budget for good.
	stuck := sum.Ready < sum.Replicas && (s.in.Compare != nil || s.in.Scatter != nil)
	if len(sum.Refused) == 0 && sum.Asked < s.in.Grant() {
		return fmt.Errorf("%d of %d granted pods moved: %+v", sum.Asked, s.in.Grant(), d)
	}
	// A pod that is broken on a revision which is neither the one nor the other may hold the budget for good.
	if s.in.PartitionRollback && !stuck && len(sum.Broken) == 0 && s.in.Current.Name != s.in.Update.Name && len(sum.Refused) == 0 && sum.Asked != s.in.Grant() {
		return fmt.Errorf("%d pods on the update revision, %d granted: %+v", sum.Asked, s.in.Grant(), d)
	}
	for _, p := range s.a.w.live() {
		pod := p.truth()
		broken := broken(pod)
		third := !slices.Contains([]string{s.in.Update.Name, s.in.Current.Name}, pod.Labels[appsv1alpha1.LabelPodRevision])
		// The model's kubelet says nothing of a new pod whose image it cannot pull.
		if broken && third && pod.Status.Phase == corev1.PodRunning && !s.in.PartitionRollback && len(sum.Refused) == 0 {
			return fmt.Errorf("%s is broken on a revision that is neither the one nor the other, and held there: %+v", pod.Name, d)
		}
		if err := unhooked(pod); err != nil && !broken {
			return fmt.Errorf("%w: %+v", err, d)
		}
		if !broken && (!isReady(pod) || (!s.a.w.gateless && gateStatus(pod) != corev1.ConditionTrue)) {
			return fmt.Errorf("%s is not back in service: %+v\n%+v\n%+v", pod.Name, d, pod.ObjectMeta, pod.Status)
		}
	}
	if int(sum.Updated) != int(sum.Asked) && len(sum.Broken) == 0 {
		return fmt.Errorf("%d asked, %d proven: %+v", sum.Asked, sum.Updated, d)
	}
	return nil
}

// broken reports whether a pod's image never comes up.
func broken(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return bad(c.Image) || crashing(c.Image) })
}

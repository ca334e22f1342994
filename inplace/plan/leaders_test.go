package plan_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podview"
)

// B141: two agents act at the same time, each on its own late view, through a whole release of 10 pods. Each pod's
// container restarts exactly once, each agent keeps the budget as it had seen it, and no state is of an older revision.
func TestB141TwoLeaders(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 141))
		w := &world{rng: rng, now: time.Unix(1_800_000_000, 0), pods: map[string]*simPod{}, tracked: true}
		in := intent(10, 0, 2)
		grants := map[string]int32{"web-1": 10, "web-2": 10}
		agents := []*agent{
			{w: w, memory: podview.NewMemory(), grants: grants, faults: true},
			{w: w, memory: podview.NewMemory(), grants: grants, faults: true},
		}
		container := func(n int) corev1.PodSpec {
			return corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: fmt.Sprintf("app:v%d", n)}}}
		}
		for i := range 10 {
			name := fmt.Sprintf("p-%d", i)
			w.create(name, app(1), container(1))
			w.kubelet(w.pods[name])
			w.write(w.pods[name], func(pod *corev1.Pod) {
				setCondition(&pod.Status, appsv1alpha1.ConditionInPlaceUpdateReady, corev1.ConditionTrue, w.now)
			})
			w.kubelet(w.pods[name])
			w.pods[name].own = len(w.pods[name].versions) - 1
		}
		first := map[string]string{}
		for _, p := range w.live() {
			first[p.name] = p.real["web"].id
		}
		ids := map[string]map[string]bool{}
		for range 1500 {
			p := w.live()[rng.IntN(10)]
			switch rng.IntN(5) {
			case 0, 1:
				w.kubelet(p)
				if ids[p.name] == nil {
					ids[p.name] = map[string]bool{}
				}
				ids[p.name][p.real["web"].id] = true
			case 2:
				w.endpoints(p)
			case 3:
				w.advance(time.Duration(rng.IntN(1000)) * time.Millisecond)
			case 4:
				a := agents[rng.IntN(2)]
				if _, err := a.pass(in, 0); err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(a.log, "\n"))
				}
			}
		}
		if _, err := agents[rng.IntN(2)].settle(in, 0); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, p := range w.live() {
			pod := p.truth()
			ids[p.name][p.real["web"].id] = true
			delete(ids[p.name], first[p.name])
			state, err := podview.ParseState(pod.Annotations[appsv1alpha1.AnnotationInPlaceState])
			if err != nil || state.Revision != "web-2" || p.real["web"].image != "app:v2" || !isReady(pod) || len(ids[p.name]) != 1 {
				t.Fatalf("seed %d: %s: state %+v (%v), runs %+v, ready %v, %d restarts", seed, p.name, state, err, p.real["web"], isReady(pod), len(ids[p.name]))
			}
		}
	}
}

// A narrative of one release, for reviewers to read: 5 pods, partition 2, one at a time. Updated by -update.
func TestNarrative(t *testing.T) {
	t.Parallel()
	w := &world{rng: rand.New(rand.NewPCG(1, 1)), now: time.Unix(1_800_000_000, 0), pods: map[string]*simPod{}, tracked: true}
	a := &agent{w: w, memory: podview.NewMemory(), grants: map[string]int32{"web-1": 5, "web-2": 5}}
	in := intent(5, 2, 1)
	for i := range 5 {
		name := fmt.Sprintf("p-%d", i)
		w.create(name, app(1), corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "app:v1"}}})
	}
	var lines []string
	tell := func(in inplace.Intent, what string) {
		lines = append(lines, "# "+what)
		for quiet := 0; quiet < 4; {
			for _, name := range w.names() {
				w.kubelet(w.pods[name])
				w.endpoints(w.pods[name])
			}
			d, err := a.pass(in, 0)
			if err != nil {
				t.Fatal(err)
			}
			quiet++
			for _, p := range d.Patches {
				lines = append(lines, fmt.Sprintf("%s %s: %s", p.Kind, p.Name, p.Because))
				quiet = 0
			}
			for _, e := range d.Events {
				lines = append(lines, fmt.Sprintf("    event %s: %s", e.Reason, e.Message))
			}
			if quiet == 4 {
				s := d.Summary
				lines = append(lines, fmt.Sprintf("    %d pods, %d available, %d updated of %d, %d in place", s.Replicas, s.Available, s.Updated, s.ExpectedUpdated, s.InPlace))
				for _, h := range d.Holds {
					lines = append(lines, fmt.Sprintf("    %s: %s", h.Kind, h.Because))
				}
			}
			w.advance(4 * time.Second)
		}
	}
	before := in
	before.Update = app(1)
	tell(before, "five new pods")
	tell(in, "app:v2, partition 2, maxUnavailable 1")
	in.Partition = 4
	tell(in, "the partition is raised to 4: nothing goes back")
	in.Partition = 0
	tell(in, "partition 0")
	back := in
	back.Update, back.Partition = app(1), 3
	tell(back, "rolled back to app:v1, partition 3")
	golden(t, "narrative.golden", strings.Join(lines, "\n")+"\n")
}

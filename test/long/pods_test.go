//go:build lab

package long

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/underway-dev/underway/test/kit"
	"github.com/underway-dev/underway/test/lab"
)

// pods and few are between how many the CloneSet is scaled. LONG_PODS makes it smaller, to try the test.
const (
	pods = 2000
	few  = 100
)

// phase is one step of the test, with what is measured of it.
type phase struct {
	name string
	// times is how often the agent is killed on the way of progress from one number to another.
	times, from, to int
	progress        func() int
	do              func()
	// done says what is missing.
	done func() string
	// moved is how many pods it is about.
	moved int
}

type run struct {
	kit.Place
	*mortal
	*tally
}

// TestTwoThousandPods: one CloneSet of 2,000 pods on simulated nodes is created, moved in place with nothing to hold it back,
// scaled to 100 and back, and moved again, while the agent is killed ten times. Never a pod too many, none lost in a move,
// each restarted exactly once for it, no two of one id.
func TestTwoThousandPods(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("takes minutes; LONG=1 runs it, and make test-long")
	}
	many := pods
	if text := os.Getenv("LONG_PODS"); text != "" {
		var err error
		if many, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	r := begin(t)
	r.start()
	patched := func(image string) func() int { return func() int { return r.on(image) } }
	ready := func(n int) func() string {
		return func() string {
			s := r.CloneSet("web").Status
			if s.ObservedGeneration != r.CloneSet("web").Generation || int(s.UpdatedAvailableReplicas) != n || int(s.Replicas) != n || r.here() != n {
				return fmt.Sprintf("%d pods, %d of them updated and available, %d are here, want %d %v", s.Replicas, s.UpdatedAvailableReplicas, r.here(), n, r.said())
			}
			return ""
		}
	}
	r.phase(phase{"create", 3, 0, many, r.here, func() {
		r.App("web", "app:v1", fmt.Sprintf("replicas: %d\nupdateStrategy: {type: InPlaceIfPossible, maxUnavailable: 100%%}", many))
	}, ready(many), many})
	r.move("app:v2", phase{"move in place", 3, 0, many, patched("app:v2"), func() { r.Image("web", "app:v2") }, ready(many), many})
	r.phase(phase{"scale in", 1, many, few, r.here, func() { r.Merge("web", fmt.Sprintf(`{spec: {replicas: %d}}`, few)) }, ready(few), many - few})
	// The simulated nodes seem to end pods by name alone, and late ones twice (seen once: 34 pods too many; not proven): wait for them.
	r.Eventually(2*time.Minute, func() string {
		if n := r.leaving(); n > 0 {
			return fmt.Sprintf("%d pods are not gone yet", n)
		}
		return ""
	})
	time.Sleep(20 * time.Second)
	r.reset()
	r.phase(phase{"scale out", 1, few, many, r.here, func() { r.Merge("web", fmt.Sprintf(`{spec: {replicas: %d}}`, many)) }, ready(many), many - few})
	r.move("app:v3", phase{"move again", 2, 0, many, patched("app:v3"), func() { r.Image("web", "app:v3") }, ready(many), many})

	_, peak := r.used()
	t.Logf("the agent was killed %d times; one of them held %d MiB at most", r.kills, peak)
	if r.kills != 10 {
		t.Errorf("the agent was killed %d times, want 10", r.kills)
	}
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	if r.most > many || r.created != many+many-few || r.deleted != many-few {
		t.Errorf("at most %d pods at once, %d created and %d deleted in all, want %d, %d and %d", r.most, r.created, r.deleted, many, many+many-few, many-few)
	}
	for _, problem := range r.problems {
		t.Error(problem)
	}
}

// begin starts a fleet of one member for the test.
func begin(t *testing.T) *run {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	binary, err := kit.BuildAgent(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := lab.Start(t.Context(), lab.Options{MemberNames: []string{"large"}, Nodes: 5, Audit: true, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.Stop() })
	c, err := kit.Connect(t.Context(), fleet, fleet.Member("large"), binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.InstallCRD(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LONG_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("LONG_SEED=%d kills at the same places", seed)
	r := &run{
		Place: kit.In(t, c), tally: newTally(),
		mortal: &mortal{T: t, cluster: c, random: rand.New(rand.NewPCG(seed, 1))},
	}
	if err := r.follow(t.Context(), c, r.NS); err != nil {
		t.Fatal(err)
	}
	return r
}

// phase carries one out and prints what it took.
func (r *run) phase(p phase) {
	t := r.Place.T
	t.Helper()
	mark, err := r.Mark()
	if err != nil {
		t.Fatal(err)
	}
	cpu, _ := r.used()
	began, kills, stop := time.Now(), r.kills, make(chan struct{})
	killed := r.killAt(p.times, p.from, p.to, p.progress, stop)
	p.do()
	r.Eventually(10*time.Minute, p.done)
	took := time.Since(began)
	close(stop)
	<-killed
	now, _ := r.used()
	here := func(e lab.AuditEvent) bool { return e.ObjectRef.Namespace == r.NS }
	all, err := r.Since(mark, here)
	if err != nil {
		t.Fatal(err)
	}
	// Who made and deleted pods, with the API server's answers.
	who := map[string]int{}
	var events []lab.AuditEvent
	for _, e := range all {
		if e.Resource() == "pods" && (e.Verb == "create" || e.Verb == "delete") {
			who[fmt.Sprintf("%s by %s: %d", e.Verb, e.User.Username, e.ResponseStatus.Code)]++
		}
		if e.User.Username == kit.User {
			events = append(events, e)
		}
	}
	created, deleted := r.soFar()
	t.Logf("%s: %v; so far %d pods came and %d went", p.name, who, created, deleted)
	verbs, conflicts, onPods := map[string]int{}, 0, 0
	for _, e := range events {
		if e.ResponseStatus.Code == 409 {
			conflicts++
		}
		verbs[e.Verb+" "+e.Resource()]++
		if e.ObjectRef.Resource == "pods" {
			onPods++
		}
	}
	perPod := float64(onPods) / float64(p.moved)
	t.Logf("%-13s %5d pods in %5.1f s: %6.1f pods/s, %.2f requests a pod, %.1f ms of the agent's CPU a pod, %d kills, %d conflicts; %v",
		p.name, p.moved, took.Seconds(), float64(p.moved)/took.Seconds(), perPod,
		(now-cpu).Seconds()*1000/float64(p.moved), r.kills-kills, conflicts, verbs)
	// Three writes a pod and no read (design.md 9); a killed agent's successor does again what it did not see the end of.
	if perPod > 4 {
		t.Errorf("%s: %.2f requests a pod", p.name, perPod)
	}
}

// move is a phase in which no pod may be lost, and each is restarted exactly once.
func (r *run) move(image string, p phase) {
	t := r.Place.T
	t.Helper()
	before := r.sights()
	r.phase(p)
	after := r.sights()
	lost, twice := 0, 0
	for uid, was := range before {
		now, still := after[uid]
		switch {
		case !still || now.image != image:
			lost++
		case now.restarts != was.restarts+1:
			twice++
		}
	}
	if lost+twice > 0 || len(after) != len(before) {
		t.Errorf("%s: of %d pods %d are lost, %d did not restart exactly once, %d are there", p.name, len(before), lost, twice, len(after))
	}
}

// sights are the pods as they are, read anew.
func (r *run) sights() map[types.UID]sight {
	r.Place.Helper()
	out := map[types.UID]sight{}
	for _, pod := range r.Pods() {
		out[pod.UID] = sight{name: pod.Name, image: pod.Spec.Containers[0].Image, restarts: kit.Restarts(pod)}
	}
	return out
}

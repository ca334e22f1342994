package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// calm is a story in which nothing fails and the user does what the test says.
func calm(t *testing.T, change func(*story)) *story {
	t.Helper()
	s := &story{
		tb: t, rng: rand.New(rand.NewPCG(1, 1)), grants: map[string]int{"r0": 1 << 20}, marked: map[string]bool{},
		w:      &world{rng: rand.New(rand.NewPCG(2, 2)), now: at(), claims: map[string]*Claim{}, bad: map[string]bool{}},
		update: "r0", current: "r0", revisions: []string{"r0"}, size: 1, maxUnavailable: 1, policy: "InPlaceIfPossible", volumes: true,
	}
	s.w.removed = func(name string) error {
		if !s.marked[name] {
			return fmt.Errorf("claim %s went", name)
		}
		return nil
	}
	change(s)
	return s
}

// run passes until nothing changes any more, and returns what was done in the meantime. Every pass is judged.
func (s *story) run() []string {
	s.tb.Helper()
	from := len(s.w.log)
	quiet := 0
	for range 200 {
		if quiet >= 4 {
			return s.w.log[from:]
		}
		before := s.w.serial
		for _, p := range s.w.live() {
			p.crashing, p.stuck = false, false
			s.w.kubelet(p)
		}
		for _, c := range s.w.claims {
			s.w.storage(c)
		}
		s.w.collect()
		s.w.now = s.w.now.Add(testPass)
		if _, err := s.pass(); err != nil {
			s.tb.Fatal(s.explain(err))
		}
		if quiet++; s.w.serial != before {
			quiet = 0
		}
	}
	s.tb.Fatal(s.explain(errors.New("no end")))
	return nil
}

// testPass is the time from one pass to the next.
const testPass = 7 * time.Second

// target is a new template.
func (s *story) target(name string, bad bool) {
	s.update = name
	if !slices.Contains(s.revisions, name) {
		s.revisions = append(s.revisions, name)
	}
	s.w.bad["app:"+name] = bad
	s.grants[name] = max(s.grants[name], s.running(name))
}

// there are the pods with what they run, by name.
func (s *story) there() string {
	var out []string
	for _, p := range s.w.live() {
		pod := p.truth()
		state := ""
		if !pod.Ready {
			state = "!"
		}
		out = append(out, strings.TrimPrefix(pod.Name, "web-")+":"+pod.Revision+state)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// containers are the ids of what runs, by pod; uids those of the pods.
func (s *story) containers() (ids, uids map[string]string) {
	ids, uids = map[string]string{}, map[string]string{}
	for _, p := range s.w.live() {
		ids[p.truth().Name], uids[p.truth().Name] = p.truth().Containers[0].ContainerID, string(p.truth().UID)
	}
	return ids, uids
}

func (s *story) expect(want string) {
	s.tb.Helper()
	if got := s.there(); got != want {
		s.tb.Fatal(s.explain(fmt.Errorf("there are %q, want %q", got, want)))
	}
}

// moved are the pods that were drained or recreated, in order.
func moved(log []string) string {
	var out []string
	for _, line := range log {
		for _, kind := range []string{"Drain ", "delete "} {
			if rest, ok := strings.CutPrefix(line, kind); ok {
				name, _, _ := strings.Cut(rest, " ")
				out = append(out, strings.TrimPrefix(name, "web-"))
			}
		}
	}
	return strings.Join(out, " ")
}

// TestASetOfFiveInPlace: 4, 3, 2, 1, 0, one at a time, and every pod and claim is the one it was.
func TestASetOfFiveInPlace(t *testing.T) {
	t.Parallel()
	s := calm(t, func(s *story) { s.replicas = 5 })
	s.run()
	s.expect("0:r0 1:r0 2:r0 3:r0 4:r0")
	_, before := s.containers()
	claims := len(s.w.claims)
	s.target("r1", false)
	if got := moved(s.run()); got != "4 3 2 1 0" {
		t.Errorf("moved %q", got)
	}
	s.expect("0:r1 1:r1 2:r1 3:r1 4:r1")
	if _, after := s.containers(); cmp.Diff(before, after) != "" || claims != 5 || len(s.w.claims) != 5 {
		t.Errorf("%d claims, %d now (-before +after):\n%s", claims, len(s.w.claims), cmp.Diff(before, after))
	}
}

// TestB075Recovers: OrderedReady with an image that cannot be pulled at ordinal 2, then the one before or another one. Nobody
// deletes anything; who was never broken is not restarted on the way back.
func TestB075Recovers(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"InPlaceIfPossible", "InPlaceOnly", "ReCreate"} {
		for _, next := range []string{"r0", "r2"} {
			t.Run(policy+" to "+next, func(t *testing.T) {
				t.Parallel()
				s := calm(t, func(s *story) { s.replicas, s.policy = 3, policy })
				s.run()
				before, _ := s.containers()
				s.target("r1", true)
				s.run()
				s.expect("0:r0 1:r0 2:r1!")
				s.target(next, false)
				s.run()
				s.expect(fmt.Sprintf("0:%[1]s 1:%[1]s 2:%[1]s", next))
				after, _ := s.containers()
				if next == "r0" && (after["web-0"] != before["web-0"] || after["web-1"] != before["web-1"]) {
					t.Errorf("restarted: %v, before %v", after, before)
				}
			})
		}
	}
	t.Run("the first of all", func(t *testing.T) {
		t.Parallel()
		s := calm(t, func(s *story) { s.replicas, s.w.bad["app:r0"] = 3, true })
		s.run()
		s.expect("0:r0!")
		s.target("r1", false)
		s.run()
		s.expect("0:r1 1:r1 2:r1")
	})
}

// TestReserveAndScale: reserve {1,3}, 4 to 6 to 2, in order, with claims that go and claims that stay.
func TestReserveAndScale(t *testing.T) {
	t.Parallel()
	for keep, want := range map[bool]string{
		false: "data-web-0 data-web-2", true: "data-web-0 data-web-1 data-web-2 data-web-3 data-web-4 data-web-5 data-web-6 data-web-7",
	} {
		s := calm(t, func(s *story) { s.replicas, s.deleteScaled = 4, !keep })
		s.run()
		s.expect("0:r0 1:r0 2:r0 3:r0")
		s.reserved = []string{"1", "3"}
		s.run()
		s.expect("0:r0 2:r0 4:r0 5:r0")
		s.replicas = 6
		s.run()
		s.expect("0:r0 2:r0 4:r0 5:r0 6:r0 7:r0")
		s.replicas = 2
		if got := moved(s.run()); got != "7 6 5 4" {
			t.Errorf("deleted %q", got)
		}
		s.expect("0:r0 2:r0")
		var names []string
		for name := range s.w.claims {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("kept %t: claims %q, want %q", keep, got, want)
		}
	}
}

// TestPartitionsDown: a release in steps; each step moves the next ordinals, and a lost pod comes back on its own side.
func TestPartitionsDown(t *testing.T) {
	t.Parallel()
	s := calm(t, func(s *story) { s.replicas, s.reserved, s.partition = 5, []string{"1"}, 5 })
	s.run()
	s.target("r1", false)
	if got := moved(s.run()); got != "" {
		t.Errorf("held: moved %q", got)
	}
	s.partition = 2
	if got := moved(s.run()); got != "5 4 3" {
		t.Errorf("partition 2: moved %q", got)
	}
	s.expect("0:r0 2:r0 3:r1 4:r1 5:r1")
	for _, name := range []string{"web-0", "web-4"} {
		s.w.end(s.w.named(name))
	}
	s.run()
	s.expect("0:r0 2:r0 3:r1 4:r1 5:r1")
	s.partition = 0
	if got := moved(s.run()); got != "2 0" {
		t.Errorf("partition 0: moved %q", got)
	}
	s.expect("0:r1 2:r1 3:r1 4:r1 5:r1")
}

// TestResizeThenMove: each pod's claim is grown before the pod moves, in order; afterwards all are compatible.
func TestResizeThenMove(t *testing.T) {
	t.Parallel()
	s := calm(t, func(s *story) { s.replicas, s.resize = 3, true })
	s.run()
	s.size = 2
	s.target("r1", false)
	var steps []string
	for _, line := range s.run() {
		for _, kind := range []string{"claim data-web-", "Drain web-"} {
			if rest, ok := strings.CutPrefix(line, kind); ok {
				steps = append(steps, kind[:1]+rest[:1])
			}
		}
	}
	if got := strings.Join(steps, " "); got != "c2 D2 c1 D1 c0 D0" && got != "c2 c1 D2 c0 D1 D0" {
		t.Errorf("steps %q", got)
	}
	s.expect("0:r1 1:r1 2:r1")
	r := Scale(s.input())
	if v := r.Volumes[0]; v.CompatibleReplicas != 3 || v.CompatibleReadyReplicas != 3 || len(r.Fixed) != 0 {
		t.Errorf("%+v, fixed %v", v, r.Fixed)
	}
}

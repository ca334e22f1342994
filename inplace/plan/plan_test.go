package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/plan"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func rev(n int, template string) inplace.Revision {
	return inplace.Revision{Name: fmt.Sprintf("web-%d", n), Hash: fmt.Sprint(n), Number: int64(n), Template: []byte(template)}
}

func app(n int) inplace.Revision {
	return rev(n, fmt.Sprintf(`{"spec":{"containers":[{"name":"web","image":"app:v%d"}]}}`, n))
}

// intent releases app:v2 over app:v1.
func intent(replicas, partition, maxUnavailable int32) inplace.Intent {
	return inplace.Intent{
		Replicas: replicas, Partition: partition, MaxUnavailable: maxUnavailable, Policy: inplace.PolicyInPlaceIfPossible,
		Update: app(2), Current: app(1), Revisions: []inplace.Revision{app(1), app(2)},
	}
}

// pods makes pods from a short text, one letter each: O old in service, N new in service (in place), C new in service
// (recreated), d old drained, n old not ready, x new not ready, u new patched and not proven, r old Ready and not
// available, b old neither Ready nor down, t old terminating, f old failed.
func pods(text string) []inplace.Pod {
	var out []inplace.Pod
	for i, kind := range strings.ReplaceAll(text, " ", "") {
		p := inplace.Pod{
			Ref:   inplace.Ref{Namespace: "ns", Name: fmt.Sprintf("%c%d", kind, i), UID: "u", ResourceVersion: fmt.Sprint(i)},
			Phase: inplace.PhaseRunning, Node: "n", Gate: inplace.GateTrue, Ready: true, Available: true, Revision: "web-1",
			Generation: 1, ObservedGeneration: 1,
			Containers: []inplace.Container{{Name: "web", Image: "app:v1", RunningImage: "app:v1", ImageID: "1", ContainerID: "c", Known: true, Running: true}},
		}
		if strings.ContainsRune("NCxu", kind) {
			p.Revision, p.Generation = "web-2", 2
			p.Containers[0].Image = "app:v2"
			p.State = &inplace.State{Revision: "web-2", Generation: 2, UpdateTimestamp: metav1.NewTime(now)}
			p.State.LastContainerStatuses = map[string]inplace.ContainerState{"web": {ImageID: "1", ContainerID: new("c"), Image: "app:v1"}}
		}
		if strings.ContainsRune("NCx", kind) {
			p.ObservedGeneration, p.Containers[0].ImageID, p.Containers[0].ContainerID = 2, "2", "c2"
		}
		switch kind {
		case 'C':
			p.State, p.Replaces = nil, "web-1"
		case 'd', 'u':
			p.Gate, p.Ready, p.Available = inplace.GateFalse, false, false
		case 'n', 'x':
			p.Ready, p.Available, p.Down = false, false, true
		case 'b':
			// Not Ready and not down: its kubelet starts anew, or its node is not heard from.
			p.Ready, p.Available = false, false
		case 'r':
			p.Available, p.AvailableIn = false, 7*time.Second
		case 't':
			p.Phase, p.Ready, p.Available = inplace.PhaseTerminating, false, false
		case 'f':
			p.Phase, p.Ready, p.Available = inplace.PhaseTerminal, false, false
		}
		out = append(out, p)
	}
	return out
}

// writes is a decision in short: "Drain O0".
func writes(d inplace.Decision) []string {
	var out []string
	for _, p := range d.Patches {
		out = append(out, fmt.Sprintf("%s %s", p.Kind, p.Name))
	}
	for _, x := range d.Deletes {
		out = append(out, "Delete "+x.Name)
	}
	slices.Sort(out)
	return out
}

func holds(d inplace.Decision) []string {
	var out []string
	for _, h := range d.Holds {
		out = append(out, string(h.Kind)+": "+h.Because)
	}
	return out
}

func TestWhoMovesAndWhyOthersDoNot(t *testing.T) {
	t.Parallel()
	edit := func(in inplace.Intent, f func(*inplace.Intent)) inplace.Intent { f(&in); return in }
	env := rev(2, `{"spec":{"containers":[{"name":"web","image":"app:v2","env":[{"name":"A","value":"b"}]}]}}`)
	only := func(in *inplace.Intent) { in.Policy, in.Update = inplace.PolicyInPlaceOnly, env }
	cases := map[string]struct {
		in     inplace.Intent
		pods   string
		writes []string
		holds  []string
	}{
		"O95: partition 3 of 5, one at a time": {
			in: intent(5, 3, 1), pods: "OOOOO", writes: []string{"Drain O0"},
			holds: []string{"Partition: 3 of 5 pods stay on app:v1 (partition 3)", "Budget: 1 pod waits: 1 of 5 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"O96: one there already": {in: intent(5, 3, 1), pods: "NOOOO", writes: []string{"Drain O1"}, holds: []string{"Partition: 3 of 5 pods stay on app:v1 (partition 3)"}},
		"O98: partition reached": {in: intent(5, 3, 1), pods: "NNOOO", holds: []string{"Partition: 3 of 5 pods stay on app:v1 (partition 3)"}},
		"B013: partition raised, nothing goes back": {
			in: intent(8, 7, 3), pods: "NNN OOOOO", holds: []string{"Partition: 5 of 8 pods stay on app:v1 (partition 7)"},
		},
		"with partitionRollback what is beyond goes back": {
			in: edit(intent(8, 7, 3), func(in *inplace.Intent) { in.PartitionRollback = true }), pods: "NNN OOOOO", writes: []string{"Drain N0", "Drain N1"},
		},
		"O133b: rollback takes pods that are down first, without spending": {
			in: edit(intent(8, 7, 3), func(in *inplace.Intent) { in.PartitionRollback = true }), pods: "OOO xxxxx",
			writes: []string{"Drain x3", "Drain x4", "Drain x5", "Drain x6"},
		},
		"a drained pod beyond the partition returns": {
			in: intent(3, 3, 1), pods: "dOO", writes: []string{"Return d0"}, holds: []string{"Partition: 3 of 3 pods stay on app:v1 (partition 3)"},
		},
		"a drained pod is patched before another is drained": {
			in: intent(3, 0, 1), pods: "OdO", writes: []string{"Update d1"},
			holds: []string{"Budget: 2 pods wait: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"a pod not proven holds the budget": {
			in: intent(3, 0, 1), pods: "uOO",
			holds: []string{
				"Budget: 2 pods wait: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1",
				"Proof: 1 pod is not proven to run what it was asked to; u0: the kubelet has observed generation 1 of 2",
			},
		},
		"broken pods move without budget": {in: intent(4, 0, 1), pods: "nnOO", writes: []string{"Drain n0", "Drain n1"}, holds: []string{"Budget: 2 pods wait: 2 of 4 pods are unavailable or about to be, and maxUnavailable is 1"}},
		"pods that a kubelet's restart makes blink stay where they are": {
			in: intent(3, 0, 1), pods: "bbu", holds: []string{
				"Budget: 2 pods wait: 3 of 3 pods are unavailable or about to be, and maxUnavailable is 1",
				"Proof: 1 pod is not proven to run what it was asked to; u2: the kubelet has observed generation 1 of 2",
			},
		},
		"pods to be recreated too": {
			in: edit(intent(3, 0, 1), func(in *inplace.Intent) { in.Policy = inplace.PolicyReCreate }), pods: "bbO",
			holds: []string{"Budget: 3 pods wait: 2 of 3 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"one that blinks goes inside the budget": {
			in: intent(3, 0, 1), pods: "bOO", writes: []string{"Drain b0"},
			holds: []string{"Budget: 2 pods wait: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"broken new pods hold the release": {in: intent(4, 0, 1), pods: "xOOO", holds: []string{"Budget: 3 pods wait: 1 of 4 pods are unavailable or about to be, and maxUnavailable is 1"}},
		"a pod that is missing spends budget": {
			in: intent(4, 0, 1), pods: "OOO", holds: []string{"Budget: 3 pods wait: 1 of 4 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"so does a terminating one": {in: intent(4, 0, 1), pods: "OOOt", holds: []string{"Budget: 3 pods wait: 1 of 4 pods are unavailable or about to be, and maxUnavailable is 1"}},
		"a finished one too":        {in: intent(4, 0, 1), pods: "OOOf", holds: []string{"Budget: 3 pods wait: 1 of 4 pods are unavailable or about to be, and maxUnavailable is 1"}},
		"Ready and not available: goes while the budget is not overdrawn": {
			in: intent(3, 0, 1), pods: "rOO", writes: []string{"Drain r0"}, holds: []string{"Budget: 2 pods wait: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"Ready and not available: serves, so not when it is overdrawn": {
			in: intent(3, 0, 1), pods: "rrO", holds: []string{"Budget: 3 pods wait: 2 of 3 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"maxUnavailable 0": {in: intent(2, 0, 0), pods: "OO", holds: []string{"Budget: 2 pods wait: maxUnavailable is 0, so no pod that serves may be taken down before another is there in its place; without maxSurge none comes, raise maxUnavailable then"}},
		"maxUnavailable 0 and one more pod than wanted": {
			in: intent(2, 0, 0), pods: "OOO", writes: []string{"Drain O0"}, holds: []string{"Partition: 1 of 3 pods stay on app:v1: 2 may be on app:v2, and they are there or on their way", "Budget: 1 pod waits: maxUnavailable is 0, so no pod that serves may be taken down before another is there in its place; without maxSurge none comes, raise maxUnavailable then"},
		},
		"a missing pod will come on the update revision and keeps its place in the grant": {
			in: intent(4, 3, 4), pods: "OOO", holds: []string{"Partition: 3 of 4 pods stay on app:v1 (partition 3)"},
		},
		"paused": {
			in: edit(intent(3, 0, 2), func(in *inplace.Intent) { in.Paused = true }), pods: "OdN", writes: []string{"Return d1"},
			holds: []string{"Paused: the release is paused: 2 pods stay on app:v1"},
		},
		"OnDelete": {
			in: edit(intent(2, 0, 2), func(in *inplace.Intent) { in.OnDelete = true }), pods: "OO",
			holds: []string{"OnDelete: the update type is OnDelete: 2 pods stay on app:v1 until deleted"},
		},
		"a spec that cannot be read moves nothing and returns what is drained": {
			in: edit(intent(3, 0, 2), func(in *inplace.Intent) { in.Invalid = `spec.updateStrategy.partition: "abc" is text` }), pods: "OdN", writes: []string{"Return d1"},
			holds: []string{`Invalid: the spec cannot be read, so nothing moves: spec.updateStrategy.partition: "abc" is text`},
		},
		"InPlaceOnly refuses and names the field": {
			in: edit(intent(3, 1, 2), only), pods: "OdO", writes: []string{"Return d1"},
			holds: []string{"Refused: 3 pods are not moved, the update strategy being InPlaceOnly: spec.containers[web].env: changes need a recreate"},
		},
		"InPlaceIfPossible recreates": {
			in: edit(intent(3, 1, 1), func(in *inplace.Intent) { in.Update = env }), pods: "OOO", writes: []string{"Delete O0"},
			holds: []string{"Partition: 1 of 3 pods stay on app:v1 (partition 1)", "Budget: 1 pod waits: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"ReCreate": {in: edit(intent(3, 2, 1), func(in *inplace.Intent) { in.Policy = inplace.PolicyReCreate }), pods: "OOO", writes: []string{"Delete O0"}, holds: []string{"Partition: 2 of 3 pods stay on app:v1 (partition 2)"}},
		"O150: the old revision is not kept: recreated": {
			in: edit(intent(2, 0, 1), func(in *inplace.Intent) { in.Current, in.Revisions = app(2), nil }), pods: "OO", writes: []string{"Delete O0"},
			holds: []string{"Budget: 1 pod waits: 1 of 2 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"the old revision is not kept: refused": {
			in:    edit(intent(2, 0, 1), func(in *inplace.Intent) { in.Current, in.Revisions, in.Policy = app(2), nil, inplace.PolicyInPlaceOnly }),
			pods:  "OO",
			holds: []string{`Refused: 2 pods are not moved, the update strategy being InPlaceOnly: what it runs is not known: revision "web-1" is not kept`},
		},
		"N6: labels only: all at once, nobody drained, whatever the budget": {
			in: edit(intent(3, 1, 0), func(in *inplace.Intent) {
				in.Update = rev(2, `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"web","image":"app:v1"}]}}`)
			}),
			pods: "OOO", writes: []string{"Update O0", "Update O1"}, holds: []string{"Partition: 1 of 3 pods stay on web-1 (partition 1)"},
		},
		"nothing to do": {in: intent(2, 0, 1), pods: "NN"},
		"no pods":       {in: intent(0, 0, 0)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Next(tc.in, pods(tc.pods), now)
			if diff := cmp.Diff(tc.writes, writes(d)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.holds, holds(d)); diff != "" {
				t.Errorf("holds (-want +got):\n%s", diff)
			}
			for _, p := range d.Patches {
				if p.Because == "" {
					t.Errorf("no reason: %+v", p)
				}
			}
		})
	}
}

func TestAPodWithoutTheGate(t *testing.T) {
	t.Parallel()
	in := intent(1, 0, 1)
	p := pods("O")
	p[0].Gate = inplace.GateNone
	d := plan.Next(in, p, now)
	if diff := cmp.Diff([]string{"Delete O0"}, writes(d)); diff != "" || !strings.Contains(d.Deletes[0].Because, "no readiness gate") {
		t.Errorf("%s %+v", diff, d.Deletes)
	}
	in.Policy = inplace.PolicyInPlaceOnly
	if d = plan.Next(in, p, now); !d.Quiet() || d.Summary.Refused[0].Count != 1 {
		t.Errorf("%+v", d)
	}
	in.PatchUndrained = true
	if diff := cmp.Diff([]string{"Update O0"}, writes(plan.Next(in, p, now))); diff != "" {
		t.Error(diff)
	}
}

// B065: new pods get their gate set whatever the release does.
func TestB065NewPodsComeIntoServiceThoughPausedOrOnDelete(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*inplace.Intent){
		"paused":   func(in *inplace.Intent) { in.Paused = true },
		"OnDelete": func(in *inplace.Intent) { in.OnDelete = true },
		"invalid":  func(in *inplace.Intent) { in.Invalid = "x" },
		"held":     func(in *inplace.Intent) { in.Partition = 2 },
		"recreate": func(in *inplace.Intent) { in.Policy = inplace.PolicyReCreate },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := intent(2, 0, 1)
			f(&in)
			p := pods("CC")
			for i := range p {
				p[i].Gate, p[i].Ready, p[i].Available, p[i].Phase = inplace.GateUnset, false, false, inplace.PhasePending
			}
			if diff := cmp.Diff([]string{"Return C0", "Return C1"}, writes(plan.Next(in, p, now))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPopulationCountsInTheSamePass(t *testing.T) {
	t.Parallel()
	in := intent(4, 2, 4)
	in.Population = inplace.Population{
		Creates:     []inplace.Create{{Object: object("new"), Revision: "web-2"}},
		Deletes:     []inplace.Delete{{Ref: pods("OOOO")[0].Ref, Because: "scaled in"}},
		Holds:       []inplace.Hold{{Kind: inplace.HoldScale, Because: "x"}},
		LookAgainIn: 3 * time.Second,
	}
	d := plan.Next(in, pods("OOOO"), now)
	// Two may be new; one is being created, so one moves; the one that goes is left alone.
	if diff := cmp.Diff([]string{"Delete O0", "Drain O1"}, writes(d)); diff != "" {
		t.Error(diff)
	}
	if len(d.Creates) != 1 || d.LookAgainIn != 3*time.Second || d.Holds[len(d.Holds)-1].Kind != inplace.HoldScale {
		t.Errorf("%+v", d)
	}
	// What is about to happen is not in the numbers.
	if d.Summary.Replicas != 4 || d.Summary.Available != 4 || d.Summary.Asked != 0 {
		t.Errorf("%+v", d.Summary)
	}
}

// B143: updated is what runs and is proven; expectedUpdated follows the partition at once.
func TestB143SummaryIsWhatWasSeen(t *testing.T) {
	t.Parallel()
	in := intent(9, 2, 9)
	p := pods("NNC x u d O n t f")
	got := plan.Next(in, p, now).Summary
	want := inplace.Summary{
		Replicas: 8, Ready: 4, Available: 4, Updated: 4, UpdatedReady: 3, UpdatedAvailable: 3, Current: 3, ExpectedUpdated: 7, Asked: 5, InPlace: 3, Recreated: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	in.Partition = 3
	if got := plan.Next(in, p, now).Summary.ExpectedUpdated; got != 6 {
		t.Error(got)
	}
	in.Invalid = "x"
	if got := plan.Next(in, p, now).Summary; got.ExpectedUpdated != -1 || got.Done(9) {
		t.Errorf("%+v", got)
	}
}

func TestBrokenAndRefusedAreReported(t *testing.T) {
	t.Parallel()
	p := pods("xxuOn")
	for i := range 2 {
		p[i].Containers[0].Running, p[i].Containers[0].Waiting = false, "ImagePullBackOff"
		p[i].ReadySince = now.Add(-time.Duration(i+1) * time.Minute)
	}
	p[2].State.UpdateTimestamp = metav1.NewTime(now.Add(-3 * time.Minute))
	p[4].Seen.SameSince = now.Add(-2 * time.Minute)
	got := plan.Next(intent(5, 3, 0), p, now).Summary.Broken
	since, patched := metav1.NewTime(now.Add(-2*time.Minute)), metav1.NewTime(now.Add(-3*time.Minute))
	want := []appsv1alpha1.PodProblem{
		{Reason: "ImagePullBackOff", Message: "container web waits with ImagePullBackOff for image app:v2", Pods: []string{"x0", "x1"}, Count: 2, Since: &since},
		{Reason: "NotProven", Message: "the kubelet has observed generation 1 of 2", Pods: []string{"u2"}, Count: 1, Since: &patched},
		{Reason: "NotReady", Message: "its containers run and the pod does not become Ready", Pods: []string{"n4"}, Count: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	many := plan.Next(func() inplace.Intent {
		in := intent(25, 0, 5)
		in.Policy, in.Update = inplace.PolicyInPlaceOnly, rev(2, `{"spec":{"hostNetwork":true,"containers":[{"name":"web","image":"app:v2"}]}}`)
		return in
	}(), pods(strings.Repeat("O", 25)), now).Summary.Refused
	if len(many) != 1 || many[0].Count != 25 || len(many[0].Pods) != 10 || many[0].Reason != "NotInPlace" || !strings.Contains(many[0].Message, "spec.hostNetwork") {
		t.Errorf("%+v", many)
	}
}

func TestLookAgain(t *testing.T) {
	t.Parallel()
	in := intent(3, 0, 1)
	if d := plan.Next(in, pods("NNN"), now); d.LookAgainIn != 0 {
		t.Errorf("idle looks again in %s", d.LookAgainIn)
	}
	if d := plan.Next(in, pods("rNN"), now); d.LookAgainIn != 7*time.Second {
		t.Errorf("minReadySeconds: %s", d.LookAgainIn)
	}
	in.GracePeriod = 4 * time.Second
	if d := plan.Next(in, pods("dNN"), now); d.LookAgainIn != 4*time.Second || d.Holds[0].Kind != inplace.HoldGrace {
		t.Errorf("grace: %+v", d)
	}
}

// Events: one at the start, one per ten pods, one at the end.
func TestEventsAreAggregated(t *testing.T) {
	t.Parallel()
	reasons := func(in inplace.Intent, text string) []string {
		var out []string
		for _, e := range plan.Next(in, pods(text), now).Events {
			out = append(out, e.Reason+": "+e.Message)
		}
		return out
	}
	back := func(n int) []inplace.Pod { // n proven and in service, one proven and about to return
		p := pods(strings.Repeat("N", n+1) + strings.Repeat("O", 30-n-1))
		p[n].Gate, p[n].Ready, p[n].Available = inplace.GateFalse, false, false
		return p
	}
	if diff := cmp.Diff([]string{"UpdateStarted: Began to move 28 of 30 pods from app:v1 to app:v2"}, reasons(intent(30, 2, 3), strings.Repeat("O", 30))); diff != "" {
		t.Error(diff)
	}
	if got := reasons(intent(30, 2, 3), "d"+strings.Repeat("O", 29)); got != nil {
		t.Errorf("started twice: %v", got)
	}
	for n, want := range map[int]int{0: 0, 8: 0, 9: 1, 10: 0, 18: 0, 19: 1, 27: 1} {
		if got := plan.Next(intent(30, 2, 1), back(n), now).Events; len(got) != want {
			t.Errorf("after %d pods: %+v", n+1, got)
		}
	}
}

func TestOrderIsTheKindsAndDoesNotDependOnTheObservation(t *testing.T) {
	t.Parallel()
	in := intent(6, 0, 2)
	in.Compare = func(a, b inplace.Pod) int { return -strings.Compare(a.Name, b.Name) }
	p := pods("OOOOOO")
	want := writes(plan.Next(in, p, now))
	if diff := cmp.Diff([]string{"Drain O4", "Drain O5"}, want); diff != "" {
		t.Error(diff)
	}
	slices.Reverse(p)
	if diff := cmp.Diff(want, writes(plan.Next(in, append(p, p...), now))); diff != "" {
		t.Error(diff)
	}
}

// TestPodsThatScalingDeletesKeepTheirPlaceUntilTheyAreGone: four may be new, and of five two are deleted in this pass. If
// those deletes fail, nobody has moved beyond that; who is on the way waits, drained as it is, for the next pass.
func TestPodsThatScalingDeletesKeepTheirPlaceUntilTheyAreGone(t *testing.T) {
	t.Parallel()
	in, seen := intent(5, 1, 5), pods("NNNNN dd")
	in.Population.Deletes = []inplace.Delete{{Ref: seen[3].Ref}, {Ref: seen[4].Ref}}
	d := plan.Next(in, seen, now)
	if diff := cmp.Diff([]string{"Delete N3", "Delete N4", "Return d6"}, writes(d)); diff != "" {
		t.Error(diff)
	}
	in.Population.Deletes = nil
	for i := range 2 {
		seen[3+i].Phase, seen[3+i].Ready, seen[3+i].Available = inplace.PhaseTerminating, false, false
	}
	if diff := cmp.Diff([]string{"Return d6", "Update d5"}, writes(plan.Next(in, seen, now))); diff != "" {
		t.Error(diff)
	}
}

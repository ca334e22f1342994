package crowd

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

func TestWaits(t *testing.T) {
	t.Parallel()
	w := Waits{}
	w.Add(inplace.HoldScale, 1, "b")
	w.Add(inplace.HoldBudget, 2, "z")
	w.Add(inplace.HoldScale, 3, "b")
	w.Add(inplace.HoldScale, 1, "a")
	want := []inplace.Hold{
		{Kind: inplace.HoldBudget, Pods: 2, Because: "z"},
		{Kind: inplace.HoldScale, Pods: 1, Because: "a"},
		{Kind: inplace.HoldScale, Pods: 4, Because: "b"},
	}
	if diff := cmp.Diff(want, w.Holds()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSoonest(t *testing.T) {
	t.Parallel()
	for _, tc := range [][3]time.Duration{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 3, 3}, {3, 5, 3}, {3, -1, 3}} {
		if got := Soonest(tc[0], tc[1]); got != tc[2] {
			t.Errorf("%v, %v: %v", tc[0], tc[1], got)
		}
	}
}

func TestLate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	p := &inplace.Pod{Ref: inplace.Ref{Name: "a"}, GoneBy: now.Add(-time.Minute)}
	if got := Late(p, now); got != time.Minute {
		t.Errorf("%v", got)
	}
	if got := Late(p, now.Add(time.Minute)); got > 0 {
		t.Errorf("not late: %v", got)
	}
	if got := Late(&inplace.Pod{}, now); got <= 0 {
		t.Error("late without a time")
	}
	if got := Stuck([]*inplace.Pod{p, p}); !strings.Contains(got, "a and 1 more") || !strings.Contains(got, "--force") {
		t.Error(got)
	}
	p.Finalizers = []string{"x.io/y"}
	if got := Stuck([]*inplace.Pod{p}); !strings.Contains(got, "held by x.io/y") || strings.Contains(got, "--force") {
		t.Error(got)
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	if got := (*Refusal)(nil).Wait(now); got != 0 {
		t.Errorf("no refusal: %v", got)
	}
	for times, want := range map[int]time.Duration{0: 5 * time.Second, 1: 5 * time.Second, 2: 10 * time.Second, 4: 40 * time.Second, 5: time.Minute, 99: time.Minute} {
		if got := (&Refusal{Times: times, Last: now}).Wait(now); got != want {
			t.Errorf("%d times: %v, want %v", times, got, want)
		}
	}
}

func TestNeverStarted(t *testing.T) {
	t.Parallel()
	p := inplace.Pod{Phase: inplace.PhaseTerminal, Containers: []inplace.Container{{Name: "a"}}}
	if !NeverStarted(&p) {
		t.Error("refused by its node")
	}
	p.Containers[0].Known = true
	if NeverStarted(&p) {
		t.Error("it had started")
	}
	p.Phase, p.Containers[0].Known = inplace.PhasePending, false
	if NeverStarted(&p) {
		t.Error("it has not finished")
	}
}

func TestNewLabels(t *testing.T) {
	t.Parallel()
	in := map[string]string{"app": "a", appsv1alpha1.LabelSpecifiedDelete: "", appsv1alpha1.LabelLifecycleState: "PreparingDelete"}
	if diff := cmp.Diff(map[string]string{"app": "a"}, NewLabels(in, nil)); diff != "" {
		t.Error(diff)
	}
	life := &appsv1alpha1.Lifecycle{PreNormal: &appsv1alpha1.LifecycleHook{FinalizersHandler: []string{"x.io/y"}}}
	if diff := cmp.Diff(map[string]string{"app": "a", appsv1alpha1.LabelLifecycleState: "PreparingNormal"}, NewLabels(in, life)); diff != "" {
		t.Error(diff)
	}
	if len(in) != 3 {
		t.Error("the template's labels were changed")
	}
}

func TestFew(t *testing.T) {
	t.Parallel()
	if got := Few([]string{"a", "b", "c"}); got != "a, b, c" {
		t.Error(got)
	}
	if got := Few([]string{"a", "b", "c", "d", "e"}); got != "a, b, c and 2 more" {
		t.Error(got)
	}
}

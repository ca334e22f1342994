package workload

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
)

func seenOf(in inplace.Intent) *observation {
	in.Update, in.Current = inplace.Revision{Name: "new"}, inplace.Revision{Name: "old"}
	return &observation{
		now: noon, resource: Resource{GroupVersionKind: appsv1alpha1.GroupVersion.WithKind("CloneSet"), FailedScale: "FailedScale", FailedUpdate: "FailedUpdate"}, obj: &appsv1alpha1.CloneSet{ObjectMeta: metav1.ObjectMeta{Generation: 7}},
		wanted: Wanted{Intent: in}, book: page(),
	}
}

func TestCurrentRevisionMoves(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		replicas, partition int32
		held                bool
		invalid             string
		sum                 inplace.Summary
		want                string
	}{
		"all updated":                 {replicas: 3, sum: inplace.Summary{Replicas: 3, Updated: 3}, want: "new"},
		"readiness is not asked for":  {replicas: 3, sum: inplace.Summary{Replicas: 3, Updated: 3, Ready: 0}, want: "new"},
		"one asked and not proven":    {replicas: 3, sum: inplace.Summary{Replicas: 3, Updated: 2, Asked: 3}, want: "old"},
		"one pod too many":            {replicas: 3, sum: inplace.Summary{Replicas: 4, Updated: 3}, want: "old"},
		"none at all":                 {replicas: 0, want: "new"},
		"none at all, under a hold":   {replicas: 0, held: true, want: "old"},
		"all updated, partition left": {replicas: 1, partition: 1, held: true, sum: inplace.Summary{Replicas: 1, Updated: 1}, want: "old"},
		"unreadable":                  {replicas: 0, invalid: "no", want: "old"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := seenOf(inplace.Intent{Replicas: tc.replicas, Partition: tc.partition, Invalid: tc.invalid})
			s.wanted.Held = tc.held
			if got := s.summarize(inplace.Decision{Summary: tc.sum}, failures{}).CurrentRevision; got != tc.want {
				t.Errorf("current %s, want %s", got, tc.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	done := inplace.Summary{Replicas: 4, Ready: 4, Available: 4, Updated: 2, ExpectedUpdated: 2}
	cases := map[string]struct {
		in      inplace.Intent
		d       inplace.Decision
		failure failures
		late    bool
		want    map[string]string
	}{
		"held at its partition is ready": {
			in: inplace.Intent{Replicas: 4, Partition: 2}, d: inplace.Decision{Summary: done},
			want: map[string]string{"Ready": "True/CloneSetAvailable", "Progressing": "True/ProgressPartitionAvailable"},
		},
		"moving": {
			in: inplace.Intent{Replicas: 4}, d: inplace.Decision{Summary: inplace.Summary{ExpectedUpdated: 4}},
			want: map[string]string{"Ready": "False/CloneSetUpdated", "Progressing": "True/CloneSetUpdated"},
		},
		"paused": {
			in: inplace.Intent{Replicas: 4, Paused: true}, d: inplace.Decision{Summary: inplace.Summary{ExpectedUpdated: 4}},
			want: map[string]string{"Progressing": "True/CloneSetPaused"},
		},
		"unreadable": {
			in: inplace.Intent{Replicas: 4, Invalid: "spec.x: no"}, d: inplace.Decision{Summary: inplace.Summary{ExpectedUpdated: -1}},
			want: map[string]string{"Ready": "Unknown/Invalid", "Progressing": "Unknown/Invalid", "Invalid": "True/Invalid"},
		},
		"refused": {
			in: inplace.Intent{Replicas: 4},
			d: inplace.Decision{Summary: inplace.Summary{
				ExpectedUpdated: 4, Refused: []appsv1alpha1.PodProblem{{Reason: "NotInPlace", Message: "spec.containers[0].env"}},
			}},
			want: map[string]string{"FailedUpdate": "True/Refused"},
		},
		"a create that fails": {
			in: inplace.Intent{Replicas: 4}, failure: failures{scale: "exceeded quota"},
			want: map[string]string{"FailedScale": "True/WriteFailed"},
		},
		"scaling waits for something that is no failure": {
			in: inplace.Intent{Replicas: 4, Population: inplace.Population{Holds: []inplace.Hold{{Kind: inplace.HoldBudget, Because: "wait"}}}},
		},
		"scaling that somebody should look at": {
			in: inplace.Intent{Replicas: 4, Population: inplace.Population{Holds: []inplace.Hold{
				{Kind: inplace.HoldBudget, Because: "wait"}, {Kind: inplace.HoldScale, Because: "exceeded quota"},
			}}},
			want: map[string]string{"FailedScale": "True/WriteFailed"},
		},
		"what cannot be done": {
			in:   inplace.Intent{Replicas: 4, Population: inplace.Population{Warnings: []string{"2 claims are kept"}}},
			want: map[string]string{"Warning": "True/NeedsALook"},
		},
		"late": {
			in: inplace.Intent{Replicas: 4}, d: inplace.Decision{Summary: inplace.Summary{ExpectedUpdated: 4}}, late: true,
			want: map[string]string{"Progressing": "False/ProgressDeadlineExceeded"},
		},
		"a patch that fails": {
			in: inplace.Intent{Replicas: 4}, failure: failures{update: "denied"},
			want: map[string]string{"FailedUpdate": "True/WriteFailed"},
		},
		"cpu that no node has": {
			in: inplace.Intent{Replicas: 4}, failure: failures{update: "denied"},
			d: inplace.Decision{Summary: inplace.Summary{ExpectedUpdated: 4, Broken: []appsv1alpha1.PodProblem{
				{Reason: "CrashLoopBackOff", Message: "container web"}, {Reason: "ResizeInfeasible", Message: "no room"},
			}}},
			want: map[string]string{"FailedUpdate": "True/ResizeInfeasible"},
		},
		"a pod that crashes is moved": {
			in:   inplace.Intent{Replicas: 4},
			d:    inplace.Decision{Summary: inplace.Summary{ExpectedUpdated: 4, Broken: []appsv1alpha1.PodProblem{{Reason: "CrashLoopBackOff", Message: "container web"}}}},
			want: map[string]string{"Ready": "False/CloneSetUpdated"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := seenOf(tc.in)
			s.late = tc.late
			// Left over from another time: cleared unless it holds now.
			warnings := []string{"FailedScale", "FailedUpdate", "Invalid", "Warning"}
			for _, kind := range warnings {
				meta.SetStatusCondition(&s.wanted.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Old"})
			}
			got := map[string]string{}
			for _, c := range s.conditions(tc.d, tc.failure) {
				got[c.Type] = string(c.Status) + "/" + c.Reason
				if c.ObservedGeneration != 7 {
					t.Errorf("%s is of generation %d", c.Type, c.ObservedGeneration)
				}
			}
			for kind, want := range tc.want {
				if got[kind] != want {
					t.Errorf("%s is %q, want %q", kind, got[kind], want)
				}
			}
			for _, kind := range warnings {
				if _, wanted := tc.want[kind]; !wanted && got[kind] != "" {
					t.Errorf("%s was not cleared", kind)
				}
			}
		})
	}
}

func TestFailuresHideConflicts(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "web-1", errors.New("changed"))
	if got := failuresOf(errors.Join(conflict)); got != (failures{}) {
		t.Errorf("a conflict is shown: %+v", got)
	}
	a, b := errors.New("b is forbidden"), errors.New("a is forbidden")
	patch := &podwriter.PatchError{Err: errors.New("denied")}
	got := failuresOf(errors.Join(errors.Join(conflict, a), errors.Join(b, patch)))
	if got.scale != "a is forbidden (and 1 more)" || !strings.HasSuffix(got.update, "denied") {
		t.Errorf("%+v", got)
	}
	if again := failuresOf(errors.Join(patch, b, a)); again != got {
		t.Errorf("not the same for the same errors: %+v and %+v", got, again)
	}
}

func TestSinceIsKept(t *testing.T) {
	t.Parallel()
	first := metav1.NewTime(noon.Add(-time.Hour))
	was := []appsv1alpha1.PodProblem{{Reason: "A", Message: "m", Since: &first}}
	now := []appsv1alpha1.PodProblem{{Reason: "A", Message: "m"}, {Reason: "B", Message: "m"}}
	got := sinceWhen(now, was, noon)
	if !got[0].Since.Equal(&first) || !got[1].Since.Time.Equal(noon) || now[0].Since != nil {
		t.Errorf("since %v and %v", got[0].Since, got[1].Since)
	}
}

func TestConditionEventsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	is := []metav1.Condition{{Type: appsv1alpha1.ConditionNotActedOn, Message: "a"}}
	if n := len(conditionEvents(nil, is)); n != 1 {
		t.Errorf("%d events for a new condition", n)
	}
	if n := len(conditionEvents(is, is)); n != 0 {
		t.Errorf("%d events for a condition that is known", n)
	}
	late := []metav1.Condition{{Type: appsv1alpha1.ConditionProgressing, Reason: reasonDeadline, Message: "b"}}
	if n := len(conditionEvents(is, late)); n != 1 || len(conditionEvents(late, late)) != 0 {
		t.Errorf("%d events for a release that is late", n)
	}
}

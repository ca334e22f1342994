package workload

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// TestProgressDeadline: the deadline counts from the last progress (upstream's is one for the whole release), and not while
// nothing has to get ahead.
func TestProgressDeadline(t *testing.T) {
	t.Parallel()
	type look struct {
		// after is in seconds since the first look.
		after    int
		sum      inplace.Summary
		late     bool
		intent   func(*inplace.Intent)
		deadline time.Duration
	}
	updated := func(n, available int32) inplace.Summary {
		return inplace.Summary{Replicas: 5, Available: available, Updated: n, Asked: n, ExpectedUpdated: 5}
	}
	paused := func(in *inplace.Intent) { in.Paused = true }
	onDelete := func(in *inplace.Intent) { in.OnDelete = true }
	half := func(in *inplace.Intent) { in.Partition = 3 }
	held := updated(2, 5)
	held.ExpectedUpdated = 2
	cases := map[string][]look{
		"one pod a minute is never late": {
			{sum: updated(0, 5)}, {after: 60, sum: updated(1, 4)}, {after: 120, sum: updated(2, 4)}, {after: 180, sum: updated(3, 4)},
		},
		"a pod that comes and goes is no progress": {
			{sum: updated(1, 4)},
			{after: 30, sum: updated(1, 5)},
			{after: 60, sum: updated(1, 4)},
			{after: 80, sum: updated(1, 5)},
			{after: 120, sum: updated(1, 4), late: true},
		},
		"late, and then it goes on": {
			{sum: updated(1, 4)}, {after: 90, sum: updated(1, 4), late: true}, {after: 100, sum: updated(2, 4)},
		},
		"paused":                  {{sum: updated(1, 4)}, {after: 300, sum: updated(1, 4), intent: paused}, {after: 350, sum: updated(1, 4)}},
		"paused for long":         {{sum: updated(1, 4)}, {after: 300, sum: updated(1, 4), intent: paused}, {after: 3900, sum: updated(1, 4)}, {after: 3991, sum: updated(1, 4), late: true}},
		"OnDelete":                {{sum: updated(1, 4), intent: onDelete}, {after: 300, sum: updated(1, 4), intent: onDelete}},
		"the partition is there":  {{sum: held, intent: half}, {after: 300, sum: held, intent: half}},
		"a node that dies later":  {{sum: updated(5, 5)}, {after: 300, sum: updated(5, 4)}},
		"nobody asked for it":     {{sum: updated(1, 4), deadline: -1}, {after: 9000, sum: updated(1, 4), deadline: -1}},
		"scaling gets ahead, too": {{sum: inplace.Summary{Replicas: 1}}, {after: 80, sum: inplace.Summary{Replicas: 2}}, {after: 160, sum: inplace.Summary{Replicas: 3}}},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := page()
			for _, l := range looks {
				s := seenOf(inplace.Intent{Replicas: 5})
				s.book, s.now = b, noon.Add(time.Duration(l.after)*time.Second)
				s.wanted.ProgressDeadline = 90 * time.Second
				if l.deadline < 0 {
					s.wanted.ProgressDeadline = 0
				}
				if l.intent != nil {
					l.intent(&s.wanted.Intent)
				}
				in := s.progressed(l.sum)
				if late := s.late; late != l.late || late && in != 0 || in < 0 || in > 90*time.Second {
					t.Errorf("after %d s: late %t, in %s; want %t", l.after, s.late, in, l.late)
				}
			}
		})
	}
}

// TestProgressAfterARestart: what was called late stays late until something gets ahead; what had got there is not counted.
func TestProgressAfterARestart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason     string
		generation int64
		// ago is when the status says that it last got ahead, in seconds; made when its revision was made.
		ago, made int
		late      bool
	}{
		"late":                     {reason: reasonDeadline, generation: 7, late: true},
		"late before another spec": {reason: reasonDeadline, generation: 6},
		"moving":                   {reason: "CloneSetUpdated", generation: 7},
		"moving, and stuck since":  {reason: "CloneSetUpdated", generation: 7, ago: 70, late: true},
		"moving a moment ago":      {reason: "CloneSetUpdated", generation: 7, ago: 50},
		"a clock that was ahead":   {reason: "CloneSetUpdated", generation: 7, ago: -3600},
		"of the release before":    {reason: "CloneSetUpdated", generation: 7, ago: 7200, made: 20},
		"there":                    {reason: "CloneSetAvailable", generation: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := seenOf(inplace.Intent{Replicas: 5})
			s.book, s.wanted.ProgressDeadline = page(), time.Minute
			s.wanted.Status.Conditions = []metav1.Condition{{
				Type: appsv1alpha1.ConditionProgressing, Reason: tc.reason, ObservedGeneration: tc.generation,
			}}
			ago := func(seconds int) metav1.Time { return metav1.NewTime(noon.Add(-time.Duration(seconds) * time.Second)) }
			if tc.ago != 0 {
				s.wanted.Status.Conditions[0].LastTransitionTime = ago(tc.ago)
			}
			if tc.made != 0 {
				s.revisions = map[string]*appsv1.ControllerRevision{"new": {ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(tc.made)}}}
			}
			sum := inplace.Summary{Replicas: 5, Available: 4, Updated: 1, ExpectedUpdated: 5}
			if s.progressed(sum); s.late != tc.late {
				t.Errorf("late %t, want %t", s.late, tc.late)
			}
			sum.Updated++
			s.late = false
			if s.progressed(sum); s.late {
				t.Error("late although it got ahead")
			}
		})
	}
}

// TestTheMomentOfProgressIsInTheStatus: the time of Progressing says when a release last got ahead, to a tenth of the deadline,
// so that not every pod makes a write of its own; without a deadline, and where nothing moves, it is as it was.
func TestTheMomentOfProgressIsInTheStatus(t *testing.T) {
	t.Parallel()
	b := page()
	var conditions []metav1.Condition
	for _, look := range []struct {
		after    int
		updated  int32
		deadline time.Duration
		want     int
	}{
		{0, 0, 90 * time.Second, 0},
		{20, 1, 90 * time.Second, 20},
		{25, 2, 90 * time.Second, 20},
		{60, 2, 90 * time.Second, 20},
		{80, 3, 90 * time.Second, 80},
		{85, 3, 0, 80},
	} {
		s := seenOf(inplace.Intent{Replicas: 5})
		s.book, s.now, s.wanted.ProgressDeadline = b, noon.Add(time.Duration(look.after)*time.Second), look.deadline
		s.wanted.Status.Conditions = conditions
		d := inplace.Decision{Summary: inplace.Summary{Replicas: 5, Available: 4, Updated: look.updated, Asked: look.updated, ExpectedUpdated: 5}}
		s.progressed(d.Summary)
		conditions = s.conditions(d, failures{})
		is := meta.FindStatusCondition(conditions, appsv1alpha1.ConditionProgressing)
		if got := int(is.LastTransitionTime.Sub(noon).Seconds()); got != look.want {
			t.Errorf("after %d s the status says %d s, want %d", look.after, got, look.want)
		}
	}
}

// TestRestartsGiveAStuckReleaseNoTime: each takes the moment from the status, and none writes another (review R2.12).
func TestRestartsGiveAStuckReleaseNoTime(t *testing.T) {
	t.Parallel()
	var conditions []metav1.Condition
	sum := inplace.Summary{Replicas: 5, Available: 4, Updated: 1, Asked: 1, ExpectedUpdated: 5}
	for second := range 11 {
		s := seenOf(inplace.Intent{Replicas: 5})
		s.book, s.now, s.wanted.ProgressDeadline = page(), noon.Add(time.Duration(second)*10*time.Second), 90*time.Second
		s.wanted.Status.Conditions = conditions
		s.progressed(sum)
		if late := second == 10; s.late != late {
			t.Fatalf("after %d s and as many restarts: late %t", second*10, s.late)
		}
		conditions = s.conditions(inplace.Decision{Summary: sum}, failures{})
		if got := meta.FindStatusCondition(conditions, appsv1alpha1.ConditionProgressing).LastTransitionTime; !s.late && !got.Time.Equal(noon) {
			t.Fatalf("after %d s the status says %s", second*10, got)
		}
	}
}

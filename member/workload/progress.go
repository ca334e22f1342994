package workload

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// progress is how far one generation of a workload has come, for spec.progressDeadlineSeconds. It is memory; the moment alone is
// in the status, as the time of condition Progressing, so that a restart does not count anew.
type progress struct {
	begun      bool
	generation int64
	// target is the update revision.
	target string
	// best are the most that was seen; at is when one of them grew last, by our clock.
	best marks
	at   time.Time
	// reached is set once everything wanted was there: what goes down afterwards is no release that is late.
	reached bool
	// rested is set while nothing has to get ahead: the time begins when that ends.
	rested bool
}

// progressGrain is the part of the deadline by which the moment in the status may be older than the true one: a status that says
// nothing else that is new is not written for less.
const progressGrain = 10

// moment is the time of the condition Progressing while a release moves: when it last got ahead, or what the status says,
// as long as that is near enough.
func (p *progress) moment(stored time.Time, deadline time.Duration) time.Time {
	if at := p.at.Truncate(time.Second); at.Sub(stored) > deadline/progressGrain {
		return at
	}
	return stored
}

// recall takes from the last status what it says about this release.
func (s *observation) recallProgress(was metav1.Condition) {
	p, deadline := &s.book.progress, s.wanted.ProgressDeadline
	switch was.Reason {
	case reasonDeadline:
		p.at = s.now.Add(-deadline)
	case s.reason(reasonAvailable), reasonPartition:
		p.reached = true
	case s.reason(reasonUpdated):
		p.at = s.lastAhead(was.LastTransitionTime.Time, deadline)
	}
}

// lastAhead is when the release last got ahead as far as the status tells, now if it does not: a time ahead of now is not
// believed, and one from before the revision was made (of an agent that did not write it) is not about this release.
func (s *observation) lastAhead(stored time.Time, deadline time.Duration) time.Time {
	if stored.IsZero() {
		return s.now
	}
	// It may have got ahead by a grain since; never too early.
	at := stored.Add(deadline / progressGrain)
	if made := s.revisions[s.wanted.Intent.Update.Name]; made != nil && made.CreationTimestamp.After(at) {
		at = made.CreationTimestamp.Time
	}
	if at.After(s.now) {
		return s.now
	}
	return at
}

// marks grow while a release, or scaling, gets ahead. The largest seen counts, so that a pod that comes and goes is none.
type marks [7]int32

func marksOf(sum inplace.Summary, replicas int32) marks {
	return marks{sum.Asked, sum.Updated, sum.UpdatedReady, sum.UpdatedAvailable, min(sum.Available, replicas), -max(sum.Replicas-replicas, replicas-sum.Replicas), -sum.GoBack}
}

// follow notes what a pass saw.
func (p *progress) follow(generation int64, now marks, at time.Time) {
	if !p.begun || p.generation != generation {
		*p = progress{begun: true, generation: generation, best: now, at: at}
	}
	for i := range now {
		if now[i] > p.best[i] {
			p.best[i], p.at = now[i], at
		}
	}
}

// left is how long until the deadline; not positive when it has passed.
func (p *progress) left(deadline time.Duration, at time.Time) time.Duration {
	return p.at.Add(deadline).Sub(at)
}

// progressed brings the page up to what this pass saw, notes whether the release is late, and says when it will be.
func (s *observation) progressed(sum inplace.Summary) (in time.Duration) {
	want, deadline := s.wanted.Intent, s.wanted.ProgressDeadline
	p, generation := &s.book.progress, s.obj.GetGeneration()
	first := !p.begun
	if p.begun && p.generation != generation && p.target == want.Update.Name && !p.reached {
		// An autoscaler, or anybody who edits the object, does not make a release that is stuck a new one.
		now := marksOf(sum, want.Replicas)
		p.generation, p.best[4], p.best[5] = generation, now[4], now[5]
	}
	resting := want.Invalid != "" || want.Paused || want.OnDelete
	defer func() { p.target = want.Update.Name }()
	p.follow(generation, marksOf(sum, want.Replicas), s.now)
	p.reached = p.reached || sum.Done(want.Replicas)
	was := meta.FindStatusCondition(s.wanted.Status.Conditions, appsv1alpha1.ConditionProgressing)
	if first && was != nil && was.ObservedGeneration == generation {
		s.recallProgress(*was)
	}
	if p.rested && !resting {
		p.at = s.now
	}
	p.rested = resting
	if resting || p.reached {
		p.at = s.now
		return 0
	}
	if deadline <= 0 {
		return 0
	}
	left := p.left(deadline, s.now)
	s.late = left <= 0
	return max(left, 0)
}

// deadlinePassed is the sentence about a release that is late.
func deadlinePassed(deadline time.Duration, d inplace.Decision) string {
	text := fmt.Sprintf("nothing has got ahead for %d s (progressDeadlineSeconds)", int64(deadline.Seconds()))
	if because := d.Because(); because != "" {
		text += ": " + because
	}
	return text
}

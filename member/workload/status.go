package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
	"github.com/underway-dev/underway/inplace/step"
)

// Reasons of the conditions, upstream's where it has some.
const (
	// The first three follow the name of the kind.
	reasonAvailable        = "Available"
	reasonUpdated          = "Updated"
	reasonPaused           = "Paused"
	reasonDeadline         = "ProgressDeadlineExceeded"
	reasonPartition        = "ProgressPartitionAvailable"
	reasonInvalid          = "Invalid"
	reasonFieldsNotActedOn = "NotImplemented"
	reasonUnknownFields    = "NewerThanAgent"
	reasonRefused          = "Refused"
	reasonFailed           = "WriteFailed"
	reasonWarning          = "NeedsALook"
)

// statusEvery is the least time between two writes of one status while a release moves; what a person or the hub waits
// for (a new generation, the end) is written at once.
const statusEvery = 250 * time.Millisecond

// report writes the status if it changed. again is when a write that was put off is due.
func (r *Reconciler) report(ctx context.Context, seen *observation, d inplace.Decision, failed failures) (again time.Duration, err error) {
	lateIn := seen.progressed(d.Summary)
	next := seen.summarize(d, failed)
	next.Extended = r.Extended
	after, ok := seen.obj.DeepCopyObject().(client.Object)
	if !ok || !r.Kind.Report(after, next) {
		return lateIn, nil
	}
	if wait := statusEvery - seen.now.Sub(seen.book.reported); wait > 0 && seen.mayWait(next) {
		return wait, nil
	}
	// The whole status, held to the version that was judged: a merge patch would leave out the zeros that the schema
	// requires and that the object does not have yet.
	if err := r.Live.Status().Update(ctx, after, client.FieldOwner(appsv1alpha1.FieldManagerMember)); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return 0, nil
		}
		return 0, fmt.Errorf("writing the status: %w", err)
	}
	seen.book.reported = seen.now
	seen.book.wroteObject(after.GetResourceVersion(), r.Clock.Now())
	r.tellConditions(seen, next.Conditions)
	return lateIn, nil
}

// mayWait reports whether a status may be put off: nothing but numbers changed, and more of them will.
func (s *observation) mayWait(next Report) bool {
	was := s.wanted.Status
	return was.ObservedGeneration == next.ObservedGeneration && was.CurrentRevision == next.CurrentRevision &&
		!next.Summary.Done(s.wanted.Intent.Replicas)
}

// summarize is the status as seen: nothing in it is a prediction.
func (s *observation) summarize(d inplace.Decision, failed failures) Report {
	in := s.wanted.Intent
	r := Report{
		ObservedGeneration: s.obj.GetGeneration(),
		Summary:            d.Summary,
		UpdateRevision:     in.Update.Name,
		CurrentRevision:    in.Current.Name,
		CollisionCount:     s.history.CollisionCount,
		Selector:           s.wanted.Selector,
		Volumes:            s.volumesSeen,
	}
	r.Summary.Refused = sinceWhen(d.Summary.Refused, s.told().Refused, s.now)
	r.Summary.Broken = sinceWhen(d.Summary.Broken, s.told().Broken, s.now)
	if s.finished(d.Summary) {
		r.CurrentRevision = in.Update.Name
	}
	if s.unstored {
		// A status that named it would outlive this pass: the next one may store the template under another name, and
		// pods of a revision that is named and not kept cannot be created.
		was := s.wanted.Status
		r.UpdateRevision, r.CurrentRevision = "", ""
		r.ObservedGeneration, r.CollisionCount = was.ObservedGeneration, was.CollisionCount
	}
	r.Conditions = s.conditions(d, failed)
	return r
}

func (s *observation) told() appsv1alpha1.WorkloadReport {
	if s.wanted.Status.Underway == nil {
		return appsv1alpha1.WorkloadReport{}
	}
	return *s.wanted.Status.Underway
}

// finished reports whether the release of the update revision is over: every wanted pod is there and proven to run it,
// and the spec holds nothing back. At 0 replicas under a partition "all pods are updated" would be true of nothing.
func (s *observation) finished(sum inplace.Summary) bool {
	in := s.wanted.Intent
	return in.Invalid == "" && !s.wanted.Held && in.Partition == 0 &&
		sum.Updated == in.Replicas && sum.Replicas == in.Replicas
}

// sinceWhen keeps the time at which a problem was first reported.
func sinceWhen(now, before []appsv1alpha1.PodProblem, at time.Time) []appsv1alpha1.PodProblem {
	out := slices.Clone(now)
	for i := range out {
		if out[i].Since == nil {
			out[i].Since = &metav1.Time{Time: at.Truncate(time.Second)}
		}
		for _, b := range before {
			if b.Reason == out[i].Reason && b.Message == out[i].Message && b.Since != nil && b.Since.Before(out[i].Since) {
				out[i].Since = b.Since
			}
		}
	}
	return out
}

// conditions are the stored ones, made to say what was seen. Warnings exist only while they hold.
func (s *observation) conditions(d inplace.Decision, failed failures) []metav1.Condition {
	conditions := slices.Clone(s.wanted.Status.Conditions)
	set := func(c metav1.Condition) {
		c.ObservedGeneration = s.obj.GetGeneration()
		c.LastTransitionTime = metav1.NewTime(s.now.Truncate(time.Second))
		meta.SetStatusCondition(&conditions, c)
	}
	set(s.ready(d))
	moving := s.progressing(d)
	if s.late {
		moving.Status, moving.Reason = metav1.ConditionFalse, reasonDeadline
		moving.Message = deadlinePassed(s.wanted.ProgressDeadline, d)
	}
	set(moving)
	s.keepMoment(conditions, moving)
	for _, w := range s.warnings(d, failed) {
		if w.Message == "" {
			meta.RemoveStatusCondition(&conditions, w.Type)
			continue
		}
		w.Status = metav1.ConditionTrue
		set(w)
	}
	return conditions
}

// keepMoment makes the time of condition Progressing say when a release last got ahead, where there is a deadline for it.
func (s *observation) keepMoment(conditions []metav1.Condition, moving metav1.Condition) {
	deadline := s.wanted.ProgressDeadline
	if deadline <= 0 || moving.Reason != s.reason(reasonUpdated) || s.book.progress.reached {
		return
	}
	is := meta.FindStatusCondition(conditions, moving.Type)
	stored := is.LastTransitionTime.Time
	if was := meta.FindStatusCondition(s.wanted.Status.Conditions, moving.Type); was == nil || was.Reason != moving.Reason {
		// It says something else: what comes now has a beginning of its own.
		stored = time.Time{}
	}
	is.LastTransitionTime = metav1.NewTime(s.book.progress.moment(stored, deadline))
}

// reason is one that begins with the name of the kind.
func (s *observation) reason(what string) string {
	return s.resource.Kind + what
}

// ready is True when every pod that should be updated is updated and available. A held release is ready.
func (s *observation) ready(d inplace.Decision) metav1.Condition {
	in, sum := s.wanted.Intent, d.Summary
	c := metav1.Condition{Type: appsv1alpha1.ConditionReady}
	counts := fmt.Sprintf("%d of %d pods are on the update revision, %d of %d available", sum.Updated, in.Replicas, sum.Available, in.Replicas)
	if sum.Updated < in.Replicas && in.Partition > 0 {
		counts += fmt.Sprintf(", partition %d", in.Partition)
	}
	switch {
	case in.Invalid != "":
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, reasonInvalid, "nothing moves: "+in.Invalid
	case sum.Done(in.Replicas):
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, s.reason(reasonAvailable), counts
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, s.reason(reasonUpdated), counts
		if len(d.Holds) > 0 {
			c.Reason, c.Message = string(d.Holds[0].Kind), counts+": "+d.Because()
		}
	}
	return c
}

// progressing has upstream's reasons.
func (s *observation) progressing(d inplace.Decision) metav1.Condition {
	in := s.wanted.Intent
	c := metav1.Condition{
		Type: appsv1alpha1.ConditionProgressing, Status: metav1.ConditionTrue,
		Reason: s.reason(reasonUpdated), Message: cmp.Or(d.Because(), "pods are being updated"),
	}
	sum := d.Summary
	switch {
	case in.Invalid != "":
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, reasonInvalid, in.Invalid
	case in.Paused:
		c.Reason, c.Message = s.reason(reasonPaused), "the release is paused"
	case sum.Done(in.Replicas) && in.Partition > 0 && sum.Updated < in.Replicas:
		c.Reason, c.Message = reasonPartition, fmt.Sprintf("%d pods are updated, partition %d holds the rest", sum.Updated, in.Partition)
	case sum.Done(in.Replicas):
		c.Reason, c.Message = s.reason(reasonAvailable), "all pods are updated and available"
	}
	return c
}

// warnings are the conditions that exist only while they are True; an empty message is one that does not hold.
func (s *observation) warnings(d inplace.Decision, failed failures) []metav1.Condition {
	invalid := metav1.Condition{Type: appsv1alpha1.ConditionInvalid, Reason: reasonInvalid, Message: s.wanted.Intent.Invalid}
	scale := metav1.Condition{Type: s.resource.FailedScale, Reason: reasonFailed, Message: failed.scale}
	for _, h := range s.wanted.Intent.Population.Holds {
		if h.Kind == inplace.HoldScale {
			scale.Message = cmp.Or(scale.Message, h.Because)
		}
	}
	update := failedUpdate(d.Summary, failed)
	update.Type = s.resource.FailedUpdate
	ignored := metav1.Condition{Type: appsv1alpha1.ConditionNotActedOn, Reason: reasonFieldsNotActedOn}
	if fields := s.wanted.NotActedOn; len(fields) > 0 {
		ignored.Message = "accepted and not acted on by this version: " + strings.Join(fields, ", ")
	}
	unknown := metav1.Condition{Type: appsv1alpha1.ConditionUnknownFields, Reason: reasonUnknownFields}
	if fields := s.wanted.UnknownFields; len(fields) > 0 {
		unknown.Message = "not known to this version, passed on as written: " + strings.Join(fields, ", ")
	}
	warning := metav1.Condition{Type: appsv1alpha1.ConditionWarning, Reason: reasonWarning}
	said := slices.Clone(s.wanted.Intent.Population.Warnings)
	if stay := s.struck.warning(); stay != "" {
		said = append(said, stay)
	}
	for _, uid := range slices.Sorted(maps.Keys(s.book.unclaimable)) {
		said = append(said, s.book.unclaimable[uid])
	}
	warning.Message = strings.Join(said, "; ")
	return []metav1.Condition{invalid, scale, update, ignored, unknown, warning}
}

// failedUpdate tells what keeps pods from being moved as the policy demands: a change that is refused, cpu or memory that
// they do not get (a node without room for now is a wait, and no failure), a patch that fails. A pod that does not come up on its new revision is moved, and is told elsewhere.
func failedUpdate(sum inplace.Summary, failed failures) metav1.Condition {
	c := metav1.Condition{}
	if len(sum.Refused) > 0 {
		c.Reason, c.Message = reasonRefused, sum.Refused[0].Message
		return c
	}
	for _, p := range sum.Broken {
		if slices.Contains([]string{step.ReasonResizeRefused, step.ReasonResizeInfeasible, step.ReasonResizeFailing}, p.Reason) {
			c.Reason, c.Message = p.Reason, p.Message
			return c
		}
	}
	c.Reason, c.Message = reasonFailed, failed.update
	return c
}

// failures are the parts of an error that conditions may show: deterministic, without conflicts.
type failures struct {
	// scale is of creates, deletes and revisions; update of patches, of claims too.
	scale, update string
}

func failuresOf(err error) failures {
	var scale, update []string
	for _, e := range flatten(err) {
		if apierrors.IsConflict(e) || errors.Is(e, context.Canceled) {
			continue
		}
		if patch := (*podwriter.PatchError)(nil); errors.As(e, &patch) {
			update = append(update, e.Error())
			continue
		}
		if claim := (*podwriter.ClaimError)(nil); errors.As(e, &claim) {
			update = append(update, e.Error())
			continue
		}
		scale = append(scale, e.Error())
	}
	return failures{scale: firstOf(scale), update: firstOf(update)}
}

func firstOf(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	slices.Sort(lines)
	if len(lines) > 1 {
		return fmt.Sprintf("%s (and %d more)", lines[0], len(lines)-1)
	}
	return lines[0]
}

package united

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/underway-dev/underway/hub/united/plan"
)

// short is what is remembered of a child whose pods are looked at.
type short struct {
	// mark was first seen at since; a change of it means that something moves.
	mark  string
	since time.Time
	// look is under way; nil: none. The last one was begun at lookedAt, and found pods if known.
	look     *look
	lookedAt time.Time
	pods     []corev1.Pod
	known    bool
	// unscheduled and ready are since when pods have been seen to be so.
	unscheduled, ready map[types.UID]time.Time
}

// wanted is why, and how often, the pods of a child are looked at.
type wanted struct {
	child *plan.Child
	at    plan.Target
	// stuck: it has been short of ready pods for a while with nothing moving. scarce: its replicas may move.
	stuck, scarce bool
}

func (w wanted) every() time.Duration {
	if w.scarce {
		return plan.WaitingEvery
	}
	return plan.PodsEvery
}

// lookWait is how long a pass waits for looks at pods; what comes later is used in the next one, so that a slow member
// delays nobody.
const lookWait = 250 * time.Millisecond

// observePods looks at the pods of children that are short of ready pods: by one list each, now and then. What cannot be
// read is looked at again; nothing is said of it meanwhile.
func (r *Reconciler) observePods(ctx context.Context, seen *observation) {
	now := r.Clock.Now()
	list, shorts := wantedPods(seen, now)
	for _, w := range list {
		s := shorts[w.at]
		if s.look == nil && now.Sub(s.lookedAt) >= w.every() {
			s.look, s.lookedAt = r.lookAt(ctx, seen.United, w.child), now
		}
	}
	timeout := time.NewTimer(lookWait)
	defer timeout.Stop()
	late := false
	for _, w := range list {
		if s := shorts[w.at]; s.look != nil && !late {
			select {
			case <-s.look.done:
			case <-timeout.C:
				late = true
			}
		}
	}
	seen.Pods, seen.Waiting = map[plan.Target][]plan.Pod{}, map[plan.Target][]plan.Waiting{}
	for _, w := range list {
		s := shorts[w.at]
		seen.lookAgain = soonest(seen.lookAgain, s.take(ctx, w, now))
		if w.stuck {
			seen.Pods[w.at] = podsOf(s.pods, now)
		}
		if w.scarce && s.known {
			seen.Waiting[w.at] = s.waiting()
		}
	}
	seen.memory.shorts = shorts
}

// wantedPods are the children whose pods are to be looked at, and what is remembered of them.
func wantedPods(seen *observation, now time.Time) ([]wanted, map[plan.Target]*short) {
	var out []wanted
	shorts := map[plan.Target]*short{}
	for i := range seen.Children {
		c := &seen.Children[i]
		mark := plan.Short(&c.Report)
		if c.Unreadable != "" {
			mark = ""
		}
		w := wanted{child: c, at: plan.Target{Member: c.Member, Kind: c.Report.Kind, Name: c.Report.Name}, scarce: plan.Scarce(seen.United, c)}
		if mark == "" && !w.scarce {
			continue
		}
		s := seen.memory.shorts[w.at]
		if s == nil {
			s = &short{mark: mark, since: now}
		}
		if s.mark != mark {
			s.mark, s.since = mark, now
		}
		shorts[w.at] = s
		left := s.since.Add(plan.ShortFor).Sub(now)
		w.stuck = mark != "" && left <= 0
		if mark != "" && left > 0 {
			seen.lookAgain = soonest(seen.lookAgain, left)
		}
		if w.stuck || w.scarce {
			out = append(out, w)
		}
	}
	return out, shorts
}

// take takes what a look found, if it is back; it returns when to look again.
func (s *short) take(ctx context.Context, w wanted, now time.Time) time.Duration {
	if s.look == nil {
		return s.lookedAt.Add(w.every()).Sub(now)
	}
	select {
	case <-s.look.done:
	default:
		return time.Second
	}
	if err := s.look.err; err != nil {
		klog.FromContext(ctx).V(2).Info("Pods of a child cannot be read", "MemberCluster", klog.KRef("", w.at.Member), "reason", err.Error())
	} else {
		s.pods, s.known = s.look.pods, true
		s.unscheduled = sinceWhen(s.unscheduled, s.pods, now, unscheduled)
		s.ready = sinceWhen(s.ready, s.pods, now, isReady)
	}
	s.look = nil
	return max(s.lookedAt.Add(w.every()).Sub(now), time.Millisecond)
}

// sinceWhen keeps the time at which each pod was first seen to be so.
func sinceWhen(was map[types.UID]time.Time, pods []corev1.Pod, now time.Time, is func(*corev1.Pod) bool) map[types.UID]time.Time {
	out := map[types.UID]time.Time{}
	for i := range pods {
		if pod := &pods[i]; is(pod) {
			out[pod.UID] = now
			if at, known := was[pod.UID]; known {
				out[pod.UID] = at
			}
		}
	}
	return out
}

func unscheduled(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

const (
	// maxEntries bounds the lists of a status, and the names in one entry.
	maxEntries = 10
	// notReadyAfter is when a pod whose containers run and do not change, and that is not Ready, is called broken.
	notReadyAfter = 2 * time.Minute
	// crashLook is when to look again at a container that runs between two crashes: longer than podview calls it calm.
	crashLook = 11 * time.Second
)

// summary counts what was seen.
func (r *round) summary() inplace.Summary {
	s := inplace.Summary{ExpectedUpdated: r.in.Grant()}
	if r.in.Invalid != "" {
		s.ExpectedUpdated = -1
	}
	broken, refused := problems{}, problems{}
	for _, m := range r.members {
		if !m.pod.Active() {
			continue
		}
		// Pods that go are still seen: what this pass is about to do is not predicted.
		s.Replicas++
		s.Ready += one(m.pod.Ready)
		s.Available += one(m.pod.Available)
		r.countUpdated(&s, m)
		if t := r.broken(m); t.reason != "" {
			broken.add(t, m.pod.Name)
		}
	}
	for _, m := range r.refused {
		refused.add(trouble{reason: "NotInPlace", message: m.refusal, since: m.pod.ReadySince}, m.pod.Name)
	}
	if r.in.PartitionRollback && r.releasing() && !r.standstill() {
		s.GoBack = max(s.Asked-r.in.Grant(), 0)
	}
	s.Broken, s.Refused = broken.list(), refused.list()
	return s
}

func (r *round) countUpdated(s *inplace.Summary, m *member) {
	s.Current += one(m.proof.Done && m.pod.Revision != "" && m.pod.Revision == r.in.Current.Name)
	if m.pod.Revision != r.in.Update.Name {
		return
	}
	s.Asked++
	if !m.proof.Done {
		return
	}
	s.Updated++
	s.UpdatedReady += one(m.pod.Ready)
	s.UpdatedAvailable += one(m.pod.Available)
	inPlace := m.pod.State != nil && m.pod.State.Revision == r.in.Update.Name
	s.InPlace += one(inPlace)
	s.Recreated += one(!inPlace && m.pod.Replaces != "" && m.pod.Replaces != r.in.Update.Name)
}

// trouble is what keeps one pod from coming up; the texts are equal for pods in the same trouble.
type trouble struct {
	reason, message string
	since           time.Time
}

// broken says what keeps a pod from coming up.
func (r *round) broken(m *member) trouble {
	if t := r.stuck(m); t.reason != "" {
		return t
	}
	if m.outcome.Problem != "" {
		return trouble{reason: m.outcome.Reason, message: m.outcome.Problem, since: problemSince(m)}
	}
	return r.notReady(m)
}

// problemSince is when a reported wait began.
func problemSince(m *member) time.Time {
	switch {
	case m.pod.Seen.ResizeRefused != nil:
		return m.pod.Seen.ResizeRefused.Since
	case m.pod.State != nil:
		return m.pod.State.UpdateTimestamp.Time
	default:
		return m.pod.GateSince
	}
}

// stuck is what the kubelet or the scheduler says about a pod or a container. What may pass by itself counts when it has
// lasted a while by our clock: a container that starts up, a node that is being made, a launch barrier.
func (r *round) stuck(m *member) trouble {
	p := &m.pod
	t := p.Seen.Trouble
	if t.Reason == "" {
		t = p.TroubleNow()
	}
	c := p.Container(t.Container)
	if r.mayPass(t, c) {
		if t.Since.IsZero() {
			return trouble{}
		}
		if left := t.Since.Add(notReadyAfter).Sub(r.now); left > 0 {
			r.later(left)
			return trouble{}
		}
	}
	since := t.Since
	if since.IsZero() {
		since = p.ReadySince
	}
	out := trouble{reason: t.Reason, since: since}
	switch {
	case t.Reason == "":
		return trouble{}
	case t.Reason == inplace.TroubleUnschedulable:
		first, _, _ := strings.Cut(p.Unschedulable, ". ")
		out.message = "the scheduler finds no node for it: " + first
	case c == nil:
		return trouble{}
	case t.Reason == inplace.TroubleStartup:
		out.message = fmt.Sprintf("container %s runs image %s, and its startup probe does not succeed", c.Name, c.Image)
	case t.Reason == inplace.TroubleNotStarted:
		out.message = fmt.Sprintf("container %s has not started with image %s: the kubelet waits after the end of the one before", c.Name, c.Image)
	case t.Reason == inplace.TroubleCrash:
		if c.Waiting == "" {
			r.later(crashLook)
		}
		out.message = fmt.Sprintf("container %s ends again and again%s with image %s", c.Name, ended(c), c.Image)
	default:
		out.message = fmt.Sprintf("container %s waits with %s for image %s", c.Name, t.Reason, c.Image)
	}
	return out
}

func (r *round) mayPass(t inplace.Trouble, c *inplace.Container) bool {
	barrier := c != nil && c.Priority != nil && t.Reason == "CreateContainerConfigError"
	return t.Reason == inplace.TroubleStartup || t.Reason == inplace.TroubleNotStarted || t.Reason == inplace.TroubleUnschedulable || barrier
}

func ended(c *inplace.Container) string {
	if c.LastExit == "" {
		return ""
	}
	return " (" + c.LastExit + ")"
}

// notReady reports a pod that has run unchanged for a while, by our clock, and is not Ready although we let it.
func (r *round) notReady(m *member) trouble {
	p := &m.pod
	held := p.Gate != inplace.GateTrue && p.Gate != inplace.GateNone
	if p.Phase != inplace.PhaseRunning || p.Ready || held || p.Seen.SameSince.IsZero() {
		return trouble{}
	}
	if left := p.Seen.SameSince.Add(notReadyAfter).Sub(r.now); left > 0 {
		r.later(left)
		return trouble{}
	}
	return trouble{reason: "NotReady", message: "its containers run and the pod does not become Ready", since: p.ReadySince}
}

// problems groups pods by what is wrong with them.
type problems map[[2]string]*appsv1alpha1.PodProblem

func (p problems) add(t trouble, pod string) {
	key := [2]string{t.reason, t.message}
	entry := p[key]
	if entry == nil {
		entry = &appsv1alpha1.PodProblem{Reason: t.reason, Message: t.message}
		p[key] = entry
	}
	entry.Count++
	entry.Pods = append(entry.Pods, pod)
	since := t.since
	if !since.IsZero() && (entry.Since == nil || since.Before(entry.Since.Time)) {
		t := metav1.NewTime(since)
		entry.Since = &t
	}
}

// list is sorted, so that a status does not change without reason.
func (p problems) list() []appsv1alpha1.PodProblem {
	if len(p) == 0 {
		return nil
	}
	out := make([]appsv1alpha1.PodProblem, 0, len(p))
	for _, entry := range p {
		slices.Sort(entry.Pods)
		entry.Pods = entry.Pods[:min(len(entry.Pods), maxEntries)]
		out = append(out, *entry)
	}
	slices.SortFunc(out, func(a, b appsv1alpha1.PodProblem) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return out[:min(len(out), maxEntries)]
}

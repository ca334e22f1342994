package plan

import (
	"cmp"
	"fmt"
	"slices"
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
)

// summary counts what was seen.
func (r *round) summary() inplace.Summary {
	s := inplace.Summary{
		Replicas: r.tally.active, Ready: r.tally.ready, Available: r.tally.available, ExpectedUpdated: r.in.Grant(),
	}
	if r.in.Invalid != "" {
		s.ExpectedUpdated = -1
	}
	broken, refused := problems{}, problems{}
	for _, m := range r.members {
		if !m.pod.Active() {
			continue
		}
		if m.leaving {
			// It is still seen: what this pass is about to do is not predicted.
			s.Replicas++
			s.Ready += one(m.pod.Ready)
			s.Available += one(m.pod.Available)
		}
		r.countUpdated(&s, m)
		if reason, message := r.broken(m); reason != "" {
			broken.add(reason, message, m)
		}
	}
	for _, m := range r.refused {
		refused.add("NotInPlace", m.refusal, m)
	}
	s.Broken, s.Refused = broken.list(), refused.list()
	return s
}

func (r *round) countUpdated(s *inplace.Summary, m *member) {
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

// broken says what keeps a pod from coming up; both texts are equal for pods in the same trouble.
func (r *round) broken(m *member) (reason, message string) {
	for i := range m.pod.Containers {
		c := &m.pod.Containers[i]
		if c.Waiting != "" && c.Waiting != "ContainerCreating" && c.Waiting != "PodInitializing" {
			return c.Waiting, fmt.Sprintf("container %s waits with %s for image %s", c.Name, c.Waiting, c.Image)
		}
	}
	if m.outcome.Problem != "" {
		return "NotProven", m.outcome.Problem
	}
	return r.notReady(m)
}

// notReady reports a pod that has run unchanged for a while, by our clock, and is not Ready although we let it.
func (r *round) notReady(m *member) (reason, message string) {
	p := m.pod
	if p.Phase != inplace.PhaseRunning || p.Ready || p.Gate != inplace.GateTrue || p.Seen.SameSince.IsZero() {
		return "", ""
	}
	if left := p.Seen.SameSince.Add(notReadyAfter).Sub(r.now); left > 0 {
		r.later(left)
		return "", ""
	}
	return "NotReady", "its containers run and the pod does not become Ready"
}

// problems groups pods by what is wrong with them.
type problems map[[2]string]*appsv1alpha1.PodProblem

func (p problems) add(reason, message string, m *member) {
	key := [2]string{reason, message}
	entry := p[key]
	if entry == nil {
		entry = &appsv1alpha1.PodProblem{Reason: reason, Message: message}
		p[key] = entry
	}
	entry.Count++
	entry.Pods = append(entry.Pods, m.pod.Name)
	since := m.pod.ReadySince
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

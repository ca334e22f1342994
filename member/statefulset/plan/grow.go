package plan

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/crowd"
	"github.com/underway-dev/underway/inplace/podseed"
)

// maxHostName is the longest host name, which a pod's name is here.
const maxHostName = 63

// takenFor is when to look again at a name that somebody else uses: nothing else tells when it is free.
const takenFor = 30 * time.Second

// grow creates missing pods, the lowest ordinal first: with OrderedReady one, when all before it are available, with Parallel
// as many as scaleStrategy.maxUnavailable lets.
func (s *scaling) grow() {
	c := s.staying()
	defer func() { s.out.AbsentNew = s.absentNew(c) }()
	missing := int(s.Intent.Replicas) - len(s.slots)
	if missing <= 0 || s.putOff(missing) {
		return
	}
	limit, tries := s.createLimit(), 0
	for position, ordinal := range s.Strategy.Ordinals.First(int64(s.Intent.Replicas)) {
		m := s.slots[ordinal]
		switch {
		case missing <= 0 || tries >= crowd.PerPass:
			return
		case m != nil && (s.Strategy.Parallel || m.isThere()):
			continue
		case m != nil:
			s.waits.Add(inplace.HoldScale, missing, fmt.Sprintf("OrderedReady: pods to create wait for %s, which comes before them: %s", m.pod.Name, m.why()))
			return
		case len(s.out.Creates) >= limit:
			s.waits.Add(inplace.HoldBudget, missing, fmt.Sprintf(
				"pods to create wait: scaleStrategy.maxUnavailable is %d and as many are not available, or will be", *s.Strategy.CreateMaxUnavailable))
			return
		}
		missing--
		tries++
		fresh, next := s.updates(position, c)
		if !next && s.create(ordinal, fresh) {
			c.add(position, int64(s.Intent.Partition), fresh)
		}
		if !s.Strategy.Parallel {
			return
		}
	}
}

// isThere reports whether OrderedReady need not wait for the pod. One that was asked to go and waits for the budget is there:
// it would wait for those that wait for it.
func (m *member) isThere() bool {
	return m.pod.Active() && m.available && !m.deleted && !m.preparing
}

// why says in a word what keeps the pods after this one waiting.
func (m *member) why() string {
	switch {
	case m.pod.Phase == inplace.PhaseTerminating:
		return "it is terminating"
	case m.pod.Phase == inplace.PhaseTerminal:
		return "it has finished"
	case m.deleted || m.preparing:
		return "it is to go"
	case !m.pod.Ready:
		return "it is not ready"
	default:
		return "it is not available yet"
	}
}

// createLimit is how many pods may be created now. A pod that was asked to go and waits for the budget is there: it would
// wait for those that wait for it.
func (s *scaling) createLimit() int {
	bound := s.Strategy.CreateMaxUnavailable
	if bound == nil || !s.Strategy.Parallel {
		return crowd.PerPass
	}
	limit := int(*bound)
	for _, m := range s.slots {
		stuck := m.pod.Phase == inplace.PhaseTerminating && crowd.Late(m.pod, s.Now) <= 0
		if !stuck && !m.isThere() {
			limit--
		}
	}
	return max(limit, 0)
}

// putOff reports whether creates wait: the claims cannot be read, or the API server refused the last create.
func (s *scaling) putOff(missing int) bool {
	if s.ClaimsProblem != "" {
		s.waits.Add(inplace.HoldScale, missing, "pods cannot be created: "+s.ClaimsProblem)
		return true
	}
	if s.Refused == nil {
		return false
	}
	s.waits.Add(inplace.HoldScale, missing, "pods cannot be created, which is tried again: "+s.Refused.Message)
	left := s.Refused.Wait(s.Now)
	s.later(left)
	return left > 0
}

// create adds one pod; false when it has to wait, which is said.
func (s *scaling) create(ordinal int64, fresh bool) bool {
	name, rev := PodName(s.Owner.Name, ordinal), s.Intent.Current
	if fresh {
		rev = s.Intent.Update
	}
	if len(rev.Template) == 0 {
		s.waits.Add(inplace.HoldScale, 1, fmt.Sprintf("revision %s is not kept any more, so its pods cannot be created: set the partition "+
			"to 0 to create them at the update revision, or bring its ControllerRevision back", rev.Name))
		return false
	}
	if kind, why := s.obstacle(name, ordinal); why != "" {
		s.waits.Add(kind, 1, fmt.Sprintf("pod %s cannot be created: %s", name, why))
		return false
	}
	object, err := s.object(name, ordinal, rev)
	if err != nil {
		s.waits.Add(inplace.HoldScale, 1, fmt.Sprintf("pods of revision %s cannot be created: %v", rev.Name, err))
		return false
	}
	because := fmt.Sprintf("ordinal %d has no pod", ordinal)
	if s.Lost[name] != "" {
		because += " any more"
	}
	s.out.Creates = append(s.out.Creates, inplace.Create{
		Object: object, Revision: rev.Name, Claims: s.volumes.missing(ordinal, s.Strategy.DeleteDeleted), Because: because,
	})
	return true
}

// obstacle says why the pod of an ordinal cannot be created.
func (s *scaling) obstacle(name string, ordinal int64) (kind inplace.HoldKind, why string) {
	switch {
	case s.Taken[name]:
		s.later(takenFor)
		return inplace.HoldScale, "somebody else's pod has the name, and is not touched; delete it, or reserve its ordinal"
	case len(name) > maxHostName:
		return inplace.HoldScale, fmt.Sprintf("a host name has at most %d characters; shorten the name of the StatefulSet", maxHostName)
	}
	why, passes := s.volumes.unusable(ordinal, s.Taken)
	if passes {
		return inplace.HoldClaim, why
	}
	return inplace.HoldScale, why
}

// object is the pod of an ordinal, with what makes up its identity.
func (s *scaling) object(name string, ordinal int64, rev inplace.Revision) (*unstructured.Unstructured, error) {
	object, err := podseed.Object(podseed.Seed{
		Namespace: s.Namespace, Name: name, Owner: s.Owner, Revision: rev, Replaces: s.Lost[name],
		Labels: Identity(s.Owner.Name, name),
	})
	if err != nil {
		return nil, err
	}
	spec, ok := object.Object["spec"].(map[string]any)
	if !ok {
		return nil, errors.New("its template has no spec")
	}
	spec["hostname"] = name
	delete(spec, "subdomain")
	if s.Strategy.ServiceName != "" {
		spec["subdomain"] = s.Strategy.ServiceName
	}
	if err := s.volumes.mount(object, ordinal); err != nil {
		return nil, err
	}
	object.SetLabels(crowd.NewLabels(object.GetLabels(), s.Intent.Lifecycle))
	return object, nil
}

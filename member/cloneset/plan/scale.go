package plan

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
	"github.com/underway-dev/underway/inplace/crowd"
	"github.com/underway-dev/underway/inplace/hooks"
)

// Input is what Scale decides on.
type Input struct {
	Intent inplace.Intent
	// Pods are all that the CloneSet controls, terminating and finished ones too.
	Pods []inplace.Pod
	// Owner is the CloneSet as controller reference.
	Owner     metav1.OwnerReference
	Namespace string
	// Taken are names of pods and claims that something else is known to use.
	Taken map[string]bool
	// Others are the ids that pods without a controller carry: somebody looks at them, and they use their claims.
	Others map[string]bool
	// Stays are the names in podsToDelete that are not taken out of it, because somebody applies them.
	Stays []string
	// Lost are the revisions of pods that went away and are not replaced yet.
	Lost []string
	Now  time.Time

	// Strategy is what the spec says about scaling, read by ReadStrategy. The zero value has no surge and no bounds.
	Strategy Strategy
	// MustRecreate is how many pods would be recreated when they move (W6). Without surge it is not looked at.
	MustRecreate Recreates
	// Nodes are the labels of nodes by name, as far as the keys of Strategy.Spread go. Without them only the spread over nodes
	// counts.
	Nodes map[string]map[string]string
	// Templates are spec.volumeClaimTemplates, read by claims.Read; ClaimLabels what their claims carry beside the id.
	Templates   []claims.Template
	ClaimLabels map[string]string
	// ClaimsProblem says why the templates cannot be read; then no pod is created, it would lack its volumes.
	ClaimsProblem string
	// Claims are all claims of the namespace that carry an instance id, at least those of this CloneSet.
	Claims []inplace.Claim
	// Refused is the API server's answer to the last create, nil when it was accepted.
	Refused *Refusal
}

// Refusal is a create that was refused: a quota, an admission policy.
type Refusal = crowd.Refusal

// Scale says which pods to create and delete now, and what is written to those that cannot be deleted yet.
func Scale(in Input) inplace.Population {
	s := newScaling(in)
	if in.Intent.Invalid != "" {
		// What cannot be read deletes nothing; a lost pod still comes back.
		s.grow(Diff{ScaleUp: s.missing(), ScaleUpLimit: s.missing(), ScaleUpOld: s.missingOld()})
		return s.finish()
	}
	s.clearTerminal()
	s.restore()
	d := Numbers(s.knobs(), s.census())
	s.budget(d)
	s.release()
	s.deleteAsked()
	s.shrink(d)
	s.grow(d)
	s.dropOrphans()
	s.tell()
	return s.finish()
}

// mark is one active pod with what this pass thinks of it.
type mark struct {
	pod *inplace.Pod
	// updated is on the update revision; fresh is that, or about to be moved there.
	updated, fresh bool
	// asked is asked to go by name or by label.
	asked bool
	// preparing is in PreparingDelete; restored is on its way back from it in this pass.
	preparing, restored bool
	// serves and available are false for pods in PreparingDelete.
	serves, available bool
	// picked is chosen by a scale-in.
	picked bool
}

// scaling is one run of Scale.
type scaling struct {
	Input

	set      claims.Set
	marks    []*mark
	terminal []inplace.Pod
	// away are the terminating pods.
	away []inplace.Pod
	ids  ids
	// spareAvailable and spareServing are how many of either may still be taken; ready is OpenKruise's deleteReadyLimit.
	spareAvailable, spareServing, ready int
	// surplus is how many pods more than wanted there are: deleting that many is a scale-in, whatever chose them.
	surplus    int
	waits      crowd.Waits
	population inplace.Population
}

func newScaling(in Input) *scaling {
	s := &scaling{
		Input: in, waits: crowd.Waits{},
		set: claims.Set{Templates: in.Templates, Namespace: in.Namespace, Owner: in.Owner, Labels: in.ClaimLabels},
	}
	s.sort()
	s.transit()
	s.ids = s.readIDs()
	return s
}

// sort sorts the pods. A terminating pod is not counted: its replacement need not wait for it. Its name and id are.
func (s *scaling) sort() {
	seen := make(map[string]bool, len(s.Pods))
	for i := range s.Pods {
		p := &s.Pods[i]
		if seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		switch p.Phase {
		case inplace.PhaseTerminating:
			s.away = append(s.away, *p)
		case inplace.PhaseTerminal:
			s.terminal = append(s.terminal, *p)
		case inplace.PhasePending, inplace.PhaseRunning:
			s.marks = append(s.marks, s.mark(p))
		}
	}
	// The order of the observation decides nothing.
	slices.SortFunc(s.marks, func(a, b *mark) int { return byName(a.pod, b.pod) })
	slices.SortFunc(s.terminal, func(a, b inplace.Pod) int { return byName(&a, &b) })
	slices.SortFunc(s.away, func(a, b inplace.Pod) int { return byName(&a, &b) })
}

func (s *scaling) mark(p *inplace.Pod) *mark {
	state, _ := hooks.Of(p.Labels)
	m := &mark{
		pod: p, preparing: state == hooks.PreparingDelete,
		asked: p.SpecifiedDelete || slices.Contains(s.Strategy.PodsToDelete, p.Name),
	}
	m.updated = p.Revision != "" && p.Revision == s.Intent.Update.Name
	m.fresh = m.updated
	// A drained pod is out of service, whatever its kubelet still says.
	m.serves = p.Ready && p.Gate != inplace.GateFalse && !m.preparing
	m.available = p.Available && hooks.Settled(p.Labels)
	return m
}

// transit lets pods that are about to be moved count as new, as many as the grant has room for.
func (s *scaling) transit() {
	in := s.Intent
	if in.Invalid != "" || in.Paused || in.OnDelete || in.Update.Name == "" {
		return
	}
	room := int(in.Grant())
	for _, m := range s.marks {
		if m.updated && !m.preparing {
			room--
		}
	}
	for _, m := range s.marks {
		state, _ := hooks.Of(m.pod.Labels)
		moving := state == hooks.PreparingUpdate || state == hooks.Updating || m.pod.Gate == inplace.GateFalse
		if room > 0 && moving && !m.updated && !m.preparing {
			m.fresh = true
			room--
		}
	}
}

func (s *scaling) knobs() Knobs {
	in, strategy := s.Intent, s.Strategy
	k := Knobs{
		Replicas: int(in.Replicas), Partition: int(in.Partition), MaxUnavailable: int(in.MaxUnavailable),
		MaxSurge: int(strategy.MaxSurge), Paused: in.Paused, CreateMaxUnavailable: -1,
		ExcludePreparingDelete: strategy.ExcludePreparingDelete, MustRecreate: s.MustRecreate,
		Rollback: in.PartitionRollback && in.Current.Name != "" && in.Current.Name != in.Update.Name,
	}
	if strategy.MaxSurge > 0 {
		k.MaxUnavailable = int(strategy.MaxUnavailable)
	}
	if strategy.CreateMaxUnavailable != nil {
		k.CreateMaxUnavailable = int(*strategy.CreateMaxUnavailable)
	}
	if in.OnDelete {
		// Nothing is moved, so there is nothing to surge for.
		k.MustRecreate = Recreates{}
	}
	return k
}

func (s *scaling) census() Census {
	var c Census
	for _, m := range s.marks {
		side := &c.Old
		if m.fresh {
			side = &c.New
		}
		side.Total++
		switch {
		case m.preparing && !m.restored:
			side.Preparing++
		case m.asked:
			side.Asked++
		case m.available && !m.restored:
		case m.serves && hooks.Settled(m.pod.Labels) && m.pod.Gate != inplace.GateFalse && !m.restored:
			side.Young++
		default:
			side.Unavailable++
		}
	}
	return c
}

// budget says how many pods that serve may go. OpenKruise's limit does not count pods that are asked to go and do not serve;
// ours does, so that no pod goes while what is known shows the budget spent.
func (s *scaling) budget(d Diff) {
	k := s.knobs()
	floor := k.Replicas - k.MaxUnavailable
	s.spareAvailable, s.spareServing, s.ready = -floor, -floor, d.DeleteReady
	total := 0
	for _, m := range s.marks {
		s.spareAvailable += one(m.available)
		s.spareServing += one(m.serves)
		total += one(!k.ExcludePreparingDelete || !m.preparing || m.restored)
	}
	surge := d.Surge
	if s.Strategy.ReuseClaims {
		// What surge has made, or was about to replace, is no scale-in either when surge has become less meanwhile.
		surge = max(surge, int(s.Strategy.MaxSurge))
	}
	s.surplus = max(total-k.Replicas-surge, 0)
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// hold notes that so many pods wait for something; equal sentences are one hold.
func (s *scaling) hold(kind inplace.HoldKind, pods int, because string) {
	s.waits.Add(kind, pods, because)
}

func (s *scaling) later(d time.Duration) {
	s.population.LookAgainIn = crowd.Soonest(s.population.LookAgainIn, d)
}

func (s *scaling) finish() inplace.Population {
	s.population.Holds = s.waits.Holds()
	return s.population
}

// missing is how many pods are missing where the spec cannot be read, missingOld how many of them at the current revision.
func (s *scaling) missing() int {
	return max(int(s.Intent.Replicas)-len(s.marks), 0)
}

func (s *scaling) missingOld() int {
	old := 0
	for _, m := range s.marks {
		old += one(!m.fresh)
	}
	return max(int(s.Intent.Partition)-old, 0)
}

// sorted are the keys of a set.
func sorted(set map[string]bool) []string {
	return slices.Sorted(maps.Keys(set))
}

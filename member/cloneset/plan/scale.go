package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podseed"
	"github.com/underway-dev/underway/inplace/revision"
)

const (
	// idLength is the length of an instance id.
	idLength = 5
	// maxBase is how much of the CloneSet's name a pod's name keeps: with the id it is then a host name (63).
	maxBase = 63 - 1 - idLength
)

// Input is what Scale decides on.
type Input struct {
	Intent inplace.Intent
	// Pods are all that the CloneSet controls, terminating and finished ones too.
	Pods []inplace.Pod
	// Owner is the CloneSet as controller reference.
	Owner     metav1.OwnerReference
	Namespace string
	// Taken are pod names that something else is known to use.
	Taken map[string]bool
	// Lost are the revisions of pods that went away and are not replaced yet.
	Lost []string
	Now  time.Time
}

// Scale says which pods to create and delete now.
func Scale(in Input) inplace.Population {
	s := scaling{Input: in}
	s.count()
	if in.Intent.Invalid == "" {
		s.clearTerminal()
	}
	wanted := int(in.Intent.Replicas)
	switch {
	case len(s.active) < wanted:
		s.grow(wanted - len(s.active))
	case len(s.active) > wanted && in.Intent.Invalid == "":
		s.shrink(len(s.active) - wanted)
	}
	return s.population
}

// scaling is one run of Scale.
type scaling struct {
	Input

	active     []inplace.Pod
	terminal   []inplace.Pod
	old, fresh int
	names      map[string]bool
	// next is the smallest number that may be free: all below it are in use.
	next       int
	population inplace.Population
}

// count sorts the pods. A terminating pod is not counted: its replacement need not wait for it. Its name is.
func (s *scaling) count() {
	s.names = make(map[string]bool, len(s.Pods))
	for i := range s.Pods {
		p := s.Pods[i]
		s.names[p.Name] = true
		switch {
		case p.Active() && s.isNew(&p):
			s.active = append(s.active, p)
			s.fresh++
		case p.Active():
			s.active = append(s.active, p)
			s.old++
		case p.Phase == inplace.PhaseTerminal:
			s.terminal = append(s.terminal, p)
		}
	}
}

func (s *scaling) isNew(p *inplace.Pod) bool {
	return p.Revision != "" && p.Revision == s.Intent.Update.Name
}

// perPass bounds the pods of one plan: what is left over is planned anew when these exist, so that a mistyped number of
// replicas costs neither a long plan nor its memory.
const perPass = 250

// grow creates missing pods: first what the partition wants old, the rest new. Old pods still missing plus new pods
// still granted are never fewer than the missing ones, so the rest is inside the grant:
// (partition-old) + (replicas-partition-new) = replicas-old-new.
func (s *scaling) grow(missing int) {
	if wait := s.backoff(); wait > 0 {
		s.hold(missing, "pods were refused by their nodes, the next try waits")
		s.population.LookAgainIn = wait
		return
	}
	atCurrent := min(max(int(s.Intent.Partition)-s.old, 0), missing)
	for i := range min(missing, perPass) {
		rev := s.Intent.Update
		if i < atCurrent {
			rev = s.Intent.Current
		}
		if len(rev.Template) == 0 {
			s.hold(missing-i, fmt.Sprintf("revision %s is not kept any more, so its pods cannot be created: set the partition "+
				"to 0 to create them at the update revision, or bring its ControllerRevision back", rev.Name))
			return
		}
		if !s.create(rev, i) {
			return
		}
	}
}

// create adds one pod; i is how many were created before it in this pass.
func (s *scaling) create(rev inplace.Revision, i int) bool {
	name, id := s.freeName()
	seed := podseed.Seed{
		Namespace: s.Namespace, Name: name, Owner: s.Owner, Revision: rev,
		Labels: map[string]string{appsv1alpha1.LabelCloneSetInstanceID: id},
	}
	because := fmt.Sprintf("%d of %d pods exist", len(s.active)+len(s.population.Creates), s.Intent.Replicas)
	if i < len(s.Lost) {
		seed.Replaces = s.Lost[i]
		because += ", this one replaces one that went away"
	}
	object, err := podseed.Object(seed)
	if err != nil {
		s.hold(1, err.Error())
		return false
	}
	s.names[name] = true
	s.population.Creates = append(s.population.Creates, inplace.Create{Object: object, Revision: rev.Name, Because: because})
	return true
}

// freeName derives the first name that no pod uses.
func (s *scaling) freeName() (name, id string) {
	for n := s.next; ; n++ {
		id = ID(string(s.Owner.UID), n)
		name = PodName(s.Owner.Name, id)
		if !s.names[name] && !s.Taken[name] {
			s.next = n + 1
			return name, id
		}
	}
}

// ID is the n-th instance id of a CloneSet: 5 characters that anybody derives alike from its UID.
func ID(uid string, n int) string {
	return revision.Short(uid+"/"+strconv.Itoa(n), idLength)
}

// PodName is the name of the pod with that id. A long CloneSet name is cut, so that the pod's name is a host name; the
// id tells pods of CloneSets apart that begin alike, and a name in use by another is passed over.
func PodName(cloneSet, id string) string {
	if len(cloneSet) > maxBase {
		cloneSet = strings.TrimRight(cloneSet[:maxBase], "-.")
	}
	return cloneSet + "-" + id
}

func (s *scaling) hold(pods int, because string) {
	s.population.Holds = append(s.population.Holds, inplace.Hold{
		Kind: inplace.HoldScale, Pods: int32(pods), Because: because, //nolint:gosec // at most replicas
	})
}

func (s *scaling) remove(p *inplace.Pod, because string) {
	s.population.Deletes = append(s.population.Deletes, inplace.Delete{Ref: p.Ref, Because: because})
}

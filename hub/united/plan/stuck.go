package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/underway-dev/underway/propagation/feedback"
	"github.com/underway-dev/underway/propagation/render"
)

// Kubernetes' StatefulSet waits for a pod that is not ready before it goes on, also when the pod is of a revision that it
// is to leave: a broken template that was corrected stays stuck until somebody deletes the pod. That is for a person to
// do: it is named here, with the command.

const (
	// ShortFor is how long a child must be short of ready pods, with nothing moving, before its pods are looked at.
	ShortFor = time.Minute
	// PodsEvery is the time between two looks.
	PodsEvery = 30 * time.Second
)

// Pod is what is looked at of a child's pod.
type Pod struct {
	Name string
	// Revision is the member's name of its revision, label controller-revision-hash.
	Revision string
	Ready    bool
	// Deleting is true once it has a deletionTimestamp.
	Deleting bool
	// Reason and Message say what keeps it from coming up, as Trouble does; empty while nothing is known to. Trouble's words
	// do not change from try to try: the status would be written for ever.
	Reason, Message string
}

// Short is a text that changes with everything that moves in a child of which pods may be stuck; "" when there is no
// reason to look at its pods: none is missing, or the member's own report says why.
func Short(r *feedback.Report) string {
	if r.Workload != nil || !r.Fresh || r.Deleting || r.Ready >= ptr.Deref(r.SpecReplicas, 1) {
		return "" // a member's agent says itself what keeps pods from coming up
	}
	return fmt.Sprintf("%s %d %d %d %d %d %s %s", r.UID, r.Generation, r.Replicas, r.Ready, r.Available, r.Updated, r.UpdateRevision, r.CurrentRevision)
}

// Stuck are the pods that keep a StatefulSet from going on and that would come back with another revision if they were
// deleted, the first to delete first: those that are not ready and of another revision than the one they are to have.
func Stuck(r *feedback.Report, pods []Pod) []Pod {
	ordered := slices.SortedFunc(slices.Values(pods), func(a, b Pod) int { return cmp.Compare(ordinalOf(a.Name), ordinalOf(b.Name)) })
	old, err := strconv.Atoi(cmp.Or(r.Partition, "0"))
	if err != nil {
		return nil
	}
	var out []Pod
	for i, pod := range ordered {
		wanted := r.UpdateRevision
		if i < old {
			wanted = r.CurrentRevision
		}
		if !pod.Ready && !pod.Deleting && pod.Revision != "" && wanted != "" && pod.Revision != wanted {
			out = append(out, pod)
		}
	}
	return out
}

// ordinalOf is the number at the end of a pod's name; -1 for none.
func ordinalOf(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

// stuck says which pods of a place's StatefulSet hold it up.
func (p *pass) stuck(pl *place) {
	if pl.child.Report.Kind != KindName(render.StatefulSet()) {
		return
	}
	pods := Stuck(&pl.child.Report, p.Pods[pl.childTarget()])
	if len(pods) == 0 {
		return
	}
	first := pods[0]
	more := ""
	if len(pods) > 1 {
		more = fmt.Sprintf(", and %d more", len(pods)-1)
	}
	pl.say(stateStuck, fmt.Sprintf("pod %s%s is not ready and of another revision than it is to have, and Kubernetes' StatefulSet waits for it; nothing is deleted behind your back: kubectl %s-n %s delete pod %s",
		first.Name, more, contextFlag(pl.cluster), p.United.Namespace, first.Name))
}

// contextFlag names the member in a command that a person pastes; "" for a subset of the hub's own cluster.
func contextFlag(cluster string) string {
	if cluster == "" {
		return ""
	}
	return "--context " + cluster + " "
}

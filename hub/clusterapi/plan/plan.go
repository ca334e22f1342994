package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
)

// PollReady is how often a member that is fine is looked at.
const PollReady = 5 * time.Minute

const (
	// pollReady and pollNot are how often Cluster API's kubeconfig is read of a member that is fine, and of one that is not.
	pollReady = PollReady
	pollNot   = 30 * time.Second
	// installTime is the longest that making the account takes; installBackoff is the wait after the first try that failed.
	installTime       = time.Minute
	installBackoff    = 5 * time.Second
	installBackoffMax = 5 * time.Minute
)

// Next decides.
func Next(o Observation, now time.Time) Decision {
	switch {
	case o.Cluster == nil && o.Member == nil:
		return Decision{}
	case o.Cluster == nil:
		return gone(o, now)
	case o.Member == nil:
		return join(o)
	}
	return follow(o, now)
}

// join makes a MemberCluster of a Cluster that asks for it by its label and can be reached.
func join(o Observation) Decision {
	c := o.Cluster
	if !c.Selected || c.Paused || c.Deleting || !c.Initialized {
		return Decision{}
	}
	return Decision{Create: MemberName(o.Namespace, o.Name, o.Taken)}
}

// gone decides for a member whose Cluster is not there.
func gone(o Observation, now time.Time) Decision {
	if o.KindGoing || !o.ProvenGone {
		return Decision{LookAgain: pollNot}
	}
	if was := find(o.Member.Status.Conditions, fleetv1alpha1.ConditionClusterFollowed); was != nil && was.Reason == fleetv1alpha1.ReasonClusterDeleting {
		return Decision{Remove: true}
	}
	w := newWriter(o, now)
	w.set(fleetv1alpha1.ConditionClusterFollowed, metav1.ConditionFalse, fleetv1alpha1.ReasonClusterNotFound, fmt.Sprintf(
		"Cluster %s/%s does not exist, and the hub did not see it being deleted: the member stays as it is; kubectl underway unjoin %s takes it out",
		o.Namespace, o.Name, o.Member.Name))
	return Decision{Status: w.changed(), LookAgain: pollReady}
}

// follow keeps a member as its Cluster says.
func follow(o Observation, now time.Time) Decision {
	c, w := o.Cluster, newWriter(o, now)
	w.upgrading(c.Upgrade)
	var d Decision
	switch {
	case c.Deleting && o.KindGoing:
		// The CRD takes all Clusters with it: no person asked for this one to go.
		d.LookAgain = pollNot
	case c.Deleting && c.Paused:
		// `clusterctl move` takes a Cluster away so: its machines live on, and so does the membership.
		w.followed(fleetv1alpha1.ReasonClusterPaused, "the Cluster is paused and is being deleted, as when it moves to another management cluster: the membership stays as it is")
		d.LookAgain = pollReady
	case c.Deleting:
		w.followed(fleetv1alpha1.ReasonClusterDeleting, "the Cluster is being deleted: the member gets no new grants, its workloads stay as they are, and it is forgotten when the Cluster is gone")
		d.LookAgain = pollReady
	case c.Paused:
		w.followed(fleetv1alpha1.ReasonClusterPaused, "the Cluster is paused: the membership stays as it is")
	case !c.Selected:
		w.followed(fleetv1alpha1.ReasonDeselected, "the Cluster lost the label chosen at install: the member stays as it is; the label again follows it again, kubectl underway unjoin "+
			o.Member.Name+" takes it out")
	case !c.Initialized:
		w.followed(fleetv1alpha1.ReasonNotInitialized, "its control plane is not initialised yet")
	default:
		active(o, w, &d, now)
	}
	d.Status = w.changed()
	return d
}

// active is for a Cluster that is followed: its labels, and the hub's account there.
func active(o Observation, w *writer, d *Decision, now time.Time) {
	if labels := copied(&o); !sameLabels(labels, o) {
		d.Labels = labels
	}
	why := needed(o)
	in := o.Install
	switch {
	case why != "" && in.Unusable != "":
		w.followed(fleetv1alpha1.ReasonNotInstalled, in.Unusable)
		d.LookAgain = pollNot
		return
	case in.Running:
		d.LookAgain = installTime
	case why != "":
		if wait := in.wait(now); wait > 0 {
			d.LookAgain = wait
		} else {
			d.Install, d.LookAgain = why, installTime
		}
	default:
		w.status.ClusterUID = o.Cluster.UID
		d.LookAgain = pollReady
		if !isTrue(o.Member.Status.Conditions, fleetv1alpha1.ConditionReady) {
			d.LookAgain = pollNot
		}
	}
	switch {
	case why != "" && in.Failures > 0:
		w.followed(fleetv1alpha1.ReasonNotInstalled, in.Why)
	case why != "" && !in.Stored:
		w.followed(fleetv1alpha1.ReasonNotInstalled, "the hub's account is being made there")
	default:
		w.set(fleetv1alpha1.ConditionClusterFollowed, metav1.ConditionTrue, fleetv1alpha1.ReasonFollowed, "")
	}
}

// needed says why the hub's account is to be made on the member; empty: it is there and good.
func needed(o Observation) string {
	in := o.Install
	switch {
	case !in.Stored:
		return "the hub has no credential"
	case in.Refused:
		return "the member refuses the hub's credential"
	case in.Source != "" && in.From != in.Source:
		return "the address or the authority in Cluster API's kubeconfig changed"
	case in.For != o.Cluster.UID:
		return "the Cluster is another one than before"
	case o.Options.Reinstall && in.By != o.Options.Version:
		return "another version of the hub made the account"
	}
	return ""
}

// wait is how long the next try has to wait. A new credential that the member refuses, too, is not replaced at once: whether
// it is refused is another controller's word, which comes late, and a member may refuse every token that it makes.
func (in Install) wait(now time.Time) time.Duration {
	switch {
	case in.Failures > 0:
		return in.Failed.Add(backoff(in.Failures)).Sub(now)
	case in.Refused && !in.Done.IsZero() && (in.Source == "" || in.Source == in.From):
		return in.Done.Add(installBackoffMax).Sub(now)
	}
	return 0
}

func backoff(failures int) time.Duration {
	wait := installBackoff
	for range failures - 1 {
		if wait *= 2; wait >= installBackoffMax {
			return installBackoffMax
		}
	}
	return wait
}

// sameLabels is true when the member has exactly the copied labels that it should have.
func sameLabels(want map[string]string, o Observation) bool {
	for key := range o.OwnLabels {
		if _, ok := want[key]; !ok {
			return false
		}
	}
	for key, value := range want {
		if o.Member.Labels[key] != value || !o.OwnLabels[key] {
			return false
		}
	}
	return true
}

func find(list []metav1.Condition, kind string) *metav1.Condition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

func isTrue(list []metav1.Condition, kind string) bool {
	c := find(list, kind)
	return c != nil && c.Status == metav1.ConditionTrue
}

// writer writes the two conditions of this package into a copy of the status; the others are package cluster's.
type writer struct {
	was, status *fleetv1alpha1.MemberClusterStatus
	generation  int64
	now         time.Time
}

func newWriter(o Observation, now time.Time) *writer {
	return &writer{was: &o.Member.Status, status: o.Member.Status.DeepCopy(), generation: o.Member.Generation, now: now}
}

// upgrading keeps a True that Cluster API cannot confirm or deny: an upgrade that cannot be read is not over.
func (w *writer) upgrading(u Upgrade) {
	status, reason, message := u.Of()
	if status == metav1.ConditionUnknown && isTrue(w.was.Conditions, fleetv1alpha1.ConditionUpgrading) {
		return
	}
	w.set(fleetv1alpha1.ConditionUpgrading, status, reason, message)
}

func (w *writer) followed(reason, message string) {
	w.set(fleetv1alpha1.ConditionClusterFollowed, metav1.ConditionFalse, reason, message)
}

func (w *writer) set(kind string, status metav1.ConditionStatus, reason, message string) {
	c := metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: w.generation,
		LastTransitionTime: metav1.NewTime(w.now.UTC().Truncate(time.Second)),
	}
	old := find(w.status.Conditions, kind)
	if old == nil {
		w.status.Conditions = append(w.status.Conditions, c)
		slices.SortFunc(w.status.Conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
		return
	}
	if old.Status == status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}

// changed is the status when it differs from what is there.
func (w *writer) changed() *fleetv1alpha1.MemberClusterStatus {
	if apiequality.Semantic.DeepEqual(w.was, w.status) {
		return nil
	}
	return w.status
}

package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/render"
)

// credentials writes CredentialsValid. What an answer of the member proves goes before what a clock says.
func (w *writer) credentials(o observation) {
	set := func(status metav1.ConditionStatus, reason, message string) {
		w.set(fleetv1alpha1.ConditionCredentialsValid, status, reason, message)
	}
	c := o.credential
	switch {
	case o.refused != "":
		set(metav1.ConditionFalse, "FieldNotAllowed", o.refused)
		return
	case o.missing != "":
		set(metav1.ConditionFalse, "NoCredential", o.missing)
		return
	case o.connected && o.view.Block == clusters.BlockUnauthorized && ended(c, w.now):
		set(metav1.ConditionFalse, "Expired", fmt.Sprintf("the %s ended at %s: %s", c.kind, stamp(c.expires), o.remedy()))
		return
	case o.connected && o.view.Block == clusters.BlockUnauthorized:
		set(metav1.ConditionFalse, "Unauthorized", "the member refuses the "+string(c.kind)+": "+o.remedy())
		return
	case !o.connected || !o.view.Reachable:
		w.unproven(o)
		return
	}
	reason, message := lasting(o, w.now)
	set(metav1.ConditionTrue, reason, message)
}

// unproven is CredentialsValid of a member that does not answer: what was known stays, but for an end that has passed.
func (w *writer) unproven(o observation) {
	at := slices.IndexFunc(w.status.Conditions, func(c metav1.Condition) bool {
		return c.Type == fleetv1alpha1.ConditionCredentialsValid
	})
	switch {
	case ended(o.credential, w.now):
		w.set(fleetv1alpha1.ConditionCredentialsValid, metav1.ConditionUnknown, "Expired", fmt.Sprintf(
			"the %s ended at %s by the hub's clock, and the member does not answer: %s", o.credential.kind, stamp(o.credential.expires), o.remedy()))
	case at >= 0 && w.status.Conditions[at].Status == metav1.ConditionTrue:
		w.status.Conditions[at].ObservedGeneration = w.generation
	default:
		w.set(fleetv1alpha1.ConditionCredentialsValid, metav1.ConditionUnknown, "NotTried", "the member has not answered yet")
	}
}

// lasting says how long an accepted credential lasts and who renews it.
func lasting(o observation, now time.Time) (reason, message string) {
	c := o.credential
	switch {
	case c.expires.IsZero() && c.kind == aToken:
		return "Permanent", "the token has no end; one that the hub renews by itself replaces it: " + o.remedy()
	case c.expires.IsZero():
		return "Permanent", "the " + string(c.kind) + " does not say when it ends"
	case c.renewable && o.attempts.failures > 0:
		return "Expiring", fmt.Sprintf("the token ends at %s and could not be renewed: %s; else: %s", stamp(c.expires), o.attempts.why, o.remedy())
	case c.renewable && o.renewedByHub:
		return "Renewed", "the hub renewed it; it ends at " + stamp(c.expires) + " and is renewed before"
	case c.renewable:
		return "Bounded", "it ends at " + stamp(c.expires) + " and the hub renews it before"
	case c.expires.Sub(now) < warnBefore(c):
		return "Expiring", fmt.Sprintf("the %s ends at %s and nobody renews it: %s", c.kind, stamp(c.expires), o.remedy())
	}
	return "Bounded", fmt.Sprintf("the %s ends at %s; the hub cannot renew it", c.kind, stamp(c.expires))
}

func warnBefore(c credential) time.Duration {
	if c.issued.IsZero() {
		return certificateWarning
	}
	return min(certificateWarning, c.expires.Sub(c.issued)/2)
}

func ended(c credential, now time.Time) bool { return !c.expires.IsZero() && !now.Before(c.expires) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// remedy is the command that makes a new credential.
func (o *observation) remedy() string {
	if o.member.Spec.ClusterRef != nil {
		return "the hub makes a new one by Cluster API's kubeconfig, see condition " + fleetv1alpha1.ConditionClusterFollowed
	}
	return "kubectl underway join " + o.member.Name + " --kubeconfig FILE --upgrade"
}

// agent writes AgentReady: who reconciles the kinds that only an agent can. While the member is not ready, what was known
// stays.
func (w *writer) agent(o observation) {
	known := slices.ContainsFunc(w.status.Conditions, func(c metav1.Condition) bool { return c.Type == fleetv1alpha1.ConditionAgentReady })
	if !o.connected || o.view.State != clusters.StateReady {
		if !known {
			w.set(fleetv1alpha1.ConditionAgentReady, metav1.ConditionUnknown, "NotSeen", "the member has not been read yet")
		}
		return
	}
	status, reason, message := agentOf(o.view.Kinds, o.member.Name)
	w.set(fleetv1alpha1.ConditionAgentReady, status, reason, message)
}

func agentOf(kinds []clusters.KindView, member string) (status metav1.ConditionStatus, reason, message string) {
	by := map[clusters.Reconciler][]string{}
	for _, k := range kinds {
		if kind, _ := render.KindOf(k.GVK); k.Served && kind.NeedsAgent {
			by[k.Reconciler] = append(by[k.Reconciler], k.GVK.GroupKind().String())
		}
	}
	names := func(r clusters.Reconciler) string {
		slices.Sort(by[r])
		return strings.Join(by[r], ", ")
	}
	switch {
	case len(by) == 0:
		return metav1.ConditionFalse, "NotServed", "the member serves none of Underway's kinds: kubectl underway join " + member + " --kubeconfig FILE --upgrade"
	case len(by[clusters.ReconcilerNobody]) > 0:
		return metav1.ConditionFalse, string(clusters.ReconcilerNobody), "nobody reconciles " + names(clusters.ReconcilerNobody) +
			" there: run underway-member (kubectl underway join " + member + " --kubeconfig FILE --agent-image IMAGE --upgrade)"
	case len(by[clusters.ReconcilerUnknown]) > 0:
		return metav1.ConditionUnknown, string(clusters.ReconcilerUnknown), "the hub cannot see who reconciles " + names(clusters.ReconcilerUnknown)
	case len(by) > 1:
		return metav1.ConditionTrue, "Both", "OpenKruise reconciles " + names(clusters.ReconcilerOpenKruise) + ", underway-member " + names(clusters.ReconcilerUnderway)
	case len(by[clusters.ReconcilerOpenKruise]) > 0:
		return metav1.ConditionTrue, string(clusters.ReconcilerOpenKruise), ""
	}
	return versionOf(kinds, member)
}

// oldestAgent is the oldest release of underway-member that this hub works with.
const oldestAgent = "v0.1.0"

// versionOf says which agent reconciles there, and whether it is too old. A build that is no release (v0.0.0, devel) is not
// known to be.
func versionOf(kinds []clusters.KindView, member string) (status metav1.ConditionStatus, reason, message string) {
	says := ""
	for _, k := range kinds {
		says = cmp.Or(says, k.Version)
	}
	upgrade := ": kubectl underway join " + member + " --kubeconfig FILE --agent-image IMAGE --upgrade"
	switch v, err := version.ParseGeneric(says); {
	case says == "":
		return metav1.ConditionTrue, string(clusters.ReconcilerUnderway), "underway-member does not say its version, so it is older than this hub" + upgrade
	case err == nil && v.GreaterThan(version.MustParseGeneric("0.0.0")) && v.LessThan(version.MustParseGeneric(oldestAgent)):
		return metav1.ConditionFalse, "AgentTooOld", "underway-member " + says + " is older than " + oldestAgent + ", the oldest that this hub works with" + upgrade
	}
	return metav1.ConditionTrue, string(clusters.ReconcilerUnderway), "underway-member " + says
}

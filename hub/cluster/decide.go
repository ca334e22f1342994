package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// observation is what one pass saw of a member.
type observation struct {
	member *fleetv1alpha1.MemberCluster
	hubID  string
	config *rest.Config
	// missing says why there is no credential, refused why it is not used.
	missing, refused string
	// credential is what the configuration says of itself; secret is where it is stored, renewedByHub whether the hub wrote
	// its token; attempts is what is remembered of renewing it.
	credential   credential
	secret       *corev1.Secret
	renewedByHub bool
	attempts     attempts
	view         clusters.View
	connected    bool
	// settleLeft is how much longer the member may be on its way before that is written down.
	settleLeft time.Duration
	stops      []outbox.StopReason
}

// settling is true while nothing is known yet and nothing has failed.
func (o *observation) settling() bool {
	return !o.connected || ((o.view.State == clusters.StateConnecting || o.view.State == clusters.StateSyncing) && o.view.Block == "")
}

// decision is what is to be done.
type decision struct {
	status fleetv1alpha1.MemberClusterStatus
	// write is true when the status differs in more than a time.
	write bool
	// confirmed is the stop that a person accepted; dropConfirm takes the annotation off, which is used up.
	confirmed   *outbox.StopReason
	dropConfirm bool
	// renew asks for a new token now.
	renew     bool
	lookAgain time.Duration
}

// next decides; it is pure.
func next(o observation, now time.Time) decision {
	d := decision{status: *o.member.Status.DeepCopy()}
	s := &d.status
	s.ObservedGeneration = o.member.Generation
	s.HubID = o.hubID
	confirm := o.member.Annotations[appsv1alpha1.AnnotationConfirm]
	for i := range o.stops {
		if confirm == valueOf(o.stops[i]) {
			d.confirmed = &o.stops[i]
		}
	}
	if confirmsStop(confirm) {
		d.dropConfirm = true // used, or of a stop that is over: it is no confirmation of the next one
	}
	if o.connected {
		d.identity(o, confirm)
		d.seen(o)
	}
	s.CredentialExpiresAt = nil
	if !o.credential.expires.IsZero() {
		at := metav1.NewTime(o.credential.expires)
		s.CredentialExpiresAt = &at
	}
	w := writer{status: s, generation: o.member.Generation, now: now}
	w.conditions(o, d.confirmed)
	d.token(o, now)
	known := o.member.Status.ObservedGeneration == o.member.Generation && len(o.member.Status.Conditions) > 0
	if o.config != nil && o.settling() && o.settleLeft > 0 && known && s.Identity == o.member.Status.Identity {
		d.lookAgain = o.settleLeft
		d.renew = false
		return d
	}
	d.write = differs(s, &o.member.Status)
	if d.write && !o.view.LastHeard.IsZero() {
		at := metav1.NewTime(o.view.LastHeard.UTC().Truncate(time.Second))
		s.LastHeardAt = &at
	}
	return d
}

// token decides whether the credential is renewed now, and when to look at it again. Only a member that is ready is asked:
// it has proven who it is.
func (d *decision) token(o observation, now time.Time) {
	at, ok := renewalAt(o.member.Name, o.credential, o.attempts)
	switch {
	case !ok:
		for _, at := range []time.Time{o.credential.expires.Add(-warnBefore(o.credential)), o.credential.expires} {
			if now.Before(at) {
				d.lookAgain = at.Sub(now)
				break
			}
		}
	case o.attempts.running:
		d.lookAgain = renewTimeout
	case !now.Before(at) && o.connected && o.view.State == clusters.StateReady:
		d.renew, d.lookAgain = true, renewTimeout
	case now.Before(at):
		d.lookAgain = at.Sub(now)
	}
}

// identity stores the first one, and another one when a person accepted exactly that one.
func (d *decision) identity(o observation, confirm string) {
	s := &d.status
	s.SeenIdentity = ""
	switch o.view.Block {
	case clusters.BlockIdentityUnstored:
		s.Identity = o.view.SeenIdentity
	case clusters.BlockIdentityChanged:
		if confirm == fleetv1alpha1.ConditionIdentityChanged+"/"+o.view.SeenIdentity {
			s.Identity = o.view.SeenIdentity
			d.dropConfirm = true
			return
		}
		s.SeenIdentity = o.view.SeenIdentity
	case clusters.BlockIdentityTaken:
		s.SeenIdentity = o.view.SeenIdentity
	case clusters.BlockUnauthorized, clusters.BlockUnreachable:
		s.SeenIdentity = o.member.Status.SeenIdentity
	}
}

// seen copies what the fleet knows; what it does not know any more stays as it was.
func (d *decision) seen(o observation) {
	s := &d.status
	s.Server = o.view.Server
	if o.view.Version != "" {
		s.KubernetesVersion = o.view.Version
	}
	if o.view.State != clusters.StateReady {
		return
	}
	s.WorkloadKinds, s.AgentVersion = nil, ""
	for _, k := range o.view.Kinds {
		if _, workload := render.KindOf(k.GVK); k.Served && workload {
			s.WorkloadKinds = append(s.WorkloadKinds, fleetv1alpha1.WorkloadKind{
				Kind: k.GVK.Kind + "." + k.GVK.Group, Reconciler: string(k.Reconciler), Version: k.Version,
			})
			s.AgentVersion = cmp.Or(s.AgentVersion, k.Version)
		}
	}
	slices.SortFunc(s.WorkloadKinds, func(a, b fleetv1alpha1.WorkloadKind) int { return cmp.Compare(a.Kind, b.Kind) })
}

// differs compares all but the time of the last answer.
func differs(a, b *fleetv1alpha1.MemberClusterStatus) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	x.LastHeardAt, y.LastHeardAt = nil, nil
	return !apiequality.Semantic.DeepEqual(x, y)
}

// confirmsStop is true for a value that a person wrote to let writes go on.
func confirmsStop(value string) bool {
	return strings.HasPrefix(value, fleetv1alpha1.ConditionHubBehind+"/") || strings.HasPrefix(value, fleetv1alpha1.ConditionTwoHubs+"/")
}

// valueOf is what a person confirms of a stop.
func valueOf(stop outbox.StopReason) string { return stop.Condition + "/" + stop.Seen }

// writer writes conditions.
type writer struct {
	status     *fleetv1alpha1.MemberClusterStatus
	generation int64
	now        time.Time
}

func (w *writer) conditions(o observation, confirmed *outbox.StopReason) {
	w.setIf(fleetv1alpha1.ConditionCredentialRefused, "FieldNotAllowed", o.refused)
	w.credentials(o)
	w.agent(o)
	changed := ""
	if o.connected && o.view.Block == clusters.BlockIdentityChanged && w.status.SeenIdentity != "" {
		changed = fmt.Sprintf("another cluster answers under this name: kube-system has UID %s, the stored one is %s; nothing is written to it. If that is meant: kubectl underway confirm cluster %s (annotation %s: %s/%s)",
			w.status.SeenIdentity, w.status.Identity, o.member.Name, appsv1alpha1.AnnotationConfirm, fleetv1alpha1.ConditionIdentityChanged, w.status.SeenIdentity)
	}
	w.setIf(fleetv1alpha1.ConditionIdentityChanged, "AnotherCluster", changed)
	stops := w.stops(o, confirmed)
	w.reachable(o)
	reason, message := readiness(o, changed)
	if reason == "" && len(stops) > 0 {
		reason, message = stops[0].Condition, "all writes to members are stopped: kubectl underway confirm hub"
	}
	if reason == "" {
		w.set(fleetv1alpha1.ConditionReady, metav1.ConditionTrue, "Connected", "")
		return
	}
	w.set(fleetv1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
}

// stops writes HubBehind and TwoHubs on every member, whichever member showed it, and returns those in force.
func (w *writer) stops(o observation, confirmed *outbox.StopReason) []outbox.StopReason {
	var left []outbox.StopReason
	for _, kind := range []string{fleetv1alpha1.ConditionHubBehind, fleetv1alpha1.ConditionTwoHubs} {
		at := slices.IndexFunc(o.stops, func(r outbox.StopReason) bool { return r.Condition == kind })
		if at < 0 || (confirmed != nil && confirmed.Condition == kind) {
			w.clear(kind)
			continue
		}
		stop := o.stops[at]
		left = append(left, stop)
		w.set(kind, metav1.ConditionTrue, "WritesStopped", stopMessage(stop))
	}
	return left
}

// stopMessage ends with the value that a person confirms.
func stopMessage(stop outbox.StopReason) string {
	what := "another hub with this hub's id renews its Lease on a member"
	if stop.Condition == fleetv1alpha1.ConditionHubBehind {
		what = "members carry a newer intent than this hub remembers (was it restored from a backup?)"
	}
	return fmt.Sprintf("%s: %s; nothing is written to any member. If this hub is the one to go on: kubectl underway confirm hub (annotation %s: %s)",
		what, stop.Seen, appsv1alpha1.AnnotationConfirm, valueOf(stop))
}

// seenIn reads the value back from a condition's message.
func seenIn(c metav1.Condition) (string, bool) {
	_, rest, ok := strings.Cut(c.Message, "(annotation "+appsv1alpha1.AnnotationConfirm+": "+c.Type+"/")
	if !ok {
		return "", false
	}
	return strings.TrimSuffix(rest, ")"), true
}

func (w *writer) reachable(o observation) {
	switch {
	case o.config == nil:
		w.set(fleetv1alpha1.ConditionReachable, metav1.ConditionUnknown, "NotTried", "there is no usable credential")
	case !o.connected:
		w.set(fleetv1alpha1.ConditionReachable, metav1.ConditionUnknown, "NotTried", "the connection is being set up")
	case o.view.Block == clusters.BlockUnauthorized:
		w.set(fleetv1alpha1.ConditionReachable, metav1.ConditionFalse, string(o.view.Block), "it refuses the credential")
	case o.view.Block == clusters.BlockUnreachable:
		reason, message := unreachable(o)
		w.set(fleetv1alpha1.ConditionReachable, metav1.ConditionFalse, reason, message)
	case !o.view.Reachable:
		w.set(fleetv1alpha1.ConditionReachable, metav1.ConditionUnknown, "Connecting", "it has not answered yet")
	default:
		w.set(fleetv1alpha1.ConditionReachable, metav1.ConditionTrue, "Answers", "")
	}
}

// unreachable tells a member that does not answer from one that is not who the kubeconfig says: only a person can help there.
func unreachable(o observation) (reason, message string) {
	if words := o.view.Message; o.view.Untrusted {
		return "CertificateNotTrusted", fmt.Sprintf("what answers there has a certificate that the stored kubeconfig does not trust (%s); "+
			"if the cluster or its authority was replaced: %s", words, o.remedy())
	}
	return string(clusters.BlockUnreachable), "it does not answer"
}

// readiness says why a member is not ready; "" when it is. The words do not change from look to look.
func readiness(o observation, changed string) (reason, message string) {
	switch {
	case o.refused != "":
		return fleetv1alpha1.ConditionCredentialRefused, o.refused
	case o.missing != "":
		return "NoCredential", o.missing
	case changed != "":
		return fleetv1alpha1.ConditionIdentityChanged, changed
	case !o.connected:
		return "Connecting", "the connection is being set up"
	}
	switch o.view.Block {
	case clusters.BlockUnauthorized:
		return "Unauthorized", "it refuses the credential: " + o.remedy()
	case clusters.BlockUnreachable:
		reason, message = unreachable(o)
		return reason, message + "; its workloads keep their last known numbers"
	case clusters.BlockIdentityTaken:
		return "IdentityTaken", o.view.Message
	case clusters.BlockIdentityUnstored:
		return "Registering", "its identity is being stored"
	case clusters.BlockIdentityChanged:
		return "Registering", "its new identity is being stored"
	}
	if o.view.State != clusters.StateReady {
		if o.view.Message != "" {
			return string(o.view.State), "its workloads are being read: " + o.view.Message
		}
		return string(o.view.State), "its workloads are being read"
	}
	return "", ""
}

// longestMessage bounds a condition's message, in bytes; the CRD takes 32768.
const longestMessage = 4096

func (w *writer) set(kind string, status metav1.ConditionStatus, reason, message string) {
	if len(message) > longestMessage {
		message = strings.ToValidUTF8(message[:longestMessage], "") + "..."
	}
	c := metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: w.generation,
		LastTransitionTime: metav1.NewTime(w.now.UTC().Truncate(time.Second)),
	}
	list := &w.status.Conditions
	at := slices.IndexFunc(*list, func(c metav1.Condition) bool { return c.Type == kind })
	if at < 0 {
		*list = append(*list, c)
		slices.SortFunc(*list, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
		return
	}
	if (*list)[at].Status == status {
		c.LastTransitionTime = (*list)[at].LastTransitionTime
	}
	(*list)[at] = c
}

func (w *writer) setIf(kind, reason, message string) {
	if message == "" {
		w.clear(kind)
		return
	}
	w.set(kind, metav1.ConditionTrue, reason, message)
}

func (w *writer) clear(kind string) {
	w.status.Conditions = slices.DeleteFunc(w.status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
}

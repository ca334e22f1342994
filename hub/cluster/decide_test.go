package cluster

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
)

func at(minute int) time.Time { return time.Date(2026, 11, 29, 12, minute, 0, 0, time.UTC) }

func named(name, identity string) *fleetv1alpha1.MemberCluster {
	return &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1},
		Status:     fleetv1alpha1.MemberClusterStatus{Identity: identity},
	}
}

func ready(mc *fleetv1alpha1.MemberCluster) observation {
	return observation{
		member: mc, hubID: "0123456789abcdef", config: &rest.Config{}, connected: true,
		view: clusters.View{
			Name: mc.Name, State: clusters.StateReady, Synced: true, Reachable: true, LastHeard: at(1), Version: "v1.37.2",
			Identity: "uid-1", SeenIdentity: "uid-1", Server: "https://eu-1",
			Kinds: []clusters.KindView{cloneSets(clusters.ReconcilerUnderway, "")},
		},
	}
}

// after writes a decision down, as the next pass finds it.
func after(mc *fleetv1alpha1.MemberCluster, d decision) *fleetv1alpha1.MemberCluster {
	out := mc.DeepCopy()
	out.Status = d.status
	return out
}

func conditionOf(t *testing.T, d decision, kind string) *metav1.Condition {
	t.Helper()
	return meta.FindStatusCondition(d.status.Conditions, kind)
}

func TestFirstContactIsStoredBeforeItIsBelieved(t *testing.T) {
	t.Parallel()
	o := ready(named("eu-1", ""))
	o.view.State, o.view.Block, o.view.Identity = clusters.StateConnecting, clusters.BlockIdentityUnstored, ""
	d := next(o, at(0))
	if d.status.Identity != "uid-1" || !d.write {
		t.Errorf("identity %q, write %v", d.status.Identity, d.write)
	}
	if c := conditionOf(t, d, "Ready"); c.Status != metav1.ConditionFalse || c.Reason != "Registering" {
		t.Errorf("%+v", c)
	}
}

func TestIdleWritesNothing(t *testing.T) {
	t.Parallel()
	mc := named("eu-1", "uid-1")
	d := next(ready(mc), at(0))
	if !d.write || conditionOf(t, d, "Ready").Status != metav1.ConditionTrue || d.status.LastHeardAt == nil {
		t.Fatalf("%+v", d)
	}
	mc = after(mc, d)
	later := ready(mc)
	later.view.LastHeard = at(30)
	if d := next(later, at(30)); d.write {
		t.Errorf("a time alone is written: %s", cmp.Diff(mc.Status, d.status))
	}
	// A hub that has just started knows nothing, and says nothing new.
	start := ready(mc)
	start.view = clusters.View{Name: "eu-1", State: clusters.StateConnecting}
	start.settleLeft = 20 * time.Second
	if d := next(start, at(31)); d.write || d.lookAgain != 20*time.Second {
		t.Errorf("after a restart: %+v", d)
	}
	start.settleLeft = 0
	if d := next(start, at(32)); !d.write || conditionOf(t, d, "Ready").Status != metav1.ConditionFalse {
		t.Errorf("a member that never comes is not said: %+v", d)
	}
}

func TestIdentityChanged(t *testing.T) {
	t.Parallel()
	mc := named("eu-1", "uid-1")
	mc = after(mc, next(ready(mc), at(0)))
	o := ready(mc)
	o.view.State, o.view.Block, o.view.SeenIdentity = clusters.StateBlocked, clusters.BlockIdentityChanged, "uid-2"
	d := next(o, at(1))
	c := conditionOf(t, d, "IdentityChanged")
	if c == nil || d.status.Identity != "uid-1" || d.status.SeenIdentity != "uid-2" || conditionOf(t, d, "Ready").Status != metav1.ConditionFalse {
		t.Fatalf("%+v", d.status)
	}
	if !strings.HasSuffix(c.Message, "(annotation fleet.underway.dev/confirm: IdentityChanged/uid-2)") {
		t.Errorf("the message does not say how to confirm: %s", c.Message)
	}
	for value, want := range map[string]string{
		"IdentityChanged/uid-2": "uid-2", "IdentityChanged/uid-3": "uid-1", "HubBehind/uid-2": "uid-1", "": "uid-1",
	} {
		o.member = after(mc, d)
		o.member.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: value}
		got := next(o, at(2))
		used := want == "uid-2" || strings.HasPrefix(value, "HubBehind/") // one of a stop that is over goes too
		if got.status.Identity != want || got.dropConfirm != used {
			t.Errorf("confirmed with %q: identity %q, used up %v", value, got.status.Identity, got.dropConfirm)
		}
	}
}

func TestStops(t *testing.T) {
	t.Parallel()
	stop := outbox.StopReason{Condition: outbox.StopHubBehind, Member: "us-1", Seen: "3/uid/12/44"}
	o := ready(named("eu-1", "uid-1"))
	o.stops = []outbox.StopReason{stop}
	d := next(o, at(0))
	c := conditionOf(t, d, "HubBehind")
	if c == nil || c.Status != metav1.ConditionTrue || conditionOf(t, d, "Ready").Reason != "HubBehind" {
		t.Fatalf("every member says so, whichever showed it: %+v", d.status.Conditions)
	}
	if seen, ok := seenIn(*c); !ok || seen != stop.Seen {
		t.Errorf("after a restart the condition reads back as %q", seen)
	}
	o.member = after(o.member, d)
	o.member.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: "HubBehind/3/uid/12/43"}
	if d := next(o, at(1)); d.confirmed != nil || !d.dropConfirm {
		t.Errorf("another value counted as confirmed, or stays: %+v", d)
	}
	o.member.Annotations[appsv1alpha1.AnnotationConfirm] = "HubBehind/3/uid/12/44"
	d = next(o, at(1))
	if d.confirmed == nil || !d.dropConfirm || conditionOf(t, d, "HubBehind") != nil || conditionOf(t, d, "Ready").Status != metav1.ConditionTrue {
		t.Errorf("confirmed: %+v", d)
	}
}

// TestNoMessageIsTooLongToBeStored: the stop of one member stands on all of them.
func TestNoMessageIsTooLongToBeStored(t *testing.T) {
	t.Parallel()
	endless := strings.Repeat("\u00e9", 1<<19)
	for _, o := range []observation{
		{member: named("eu-1", "uid-1"), refused: endless}, {member: named("eu-1", "uid-1"), missing: endless},
	} {
		o.config = &rest.Config{}
		o.stops = []outbox.StopReason{{Condition: outbox.StopTwoHubs, Member: "us-1", Seen: endless}}
		for _, c := range next(o, at(0)).status.Conditions {
			if len(c.Message) > 32768 || !utf8.ValidString(c.Message) {
				t.Errorf("%s has %d bytes", c.Type, len(c.Message))
			}
		}
	}
}

// TestOneConfirmationOneUse: a confirmation of a stop that is over does not wait for the next one.
func TestOneConfirmationOneUse(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"": false, "HubBehind/3/uid/12/44": true, "TwoHubs/holder": true, "IdentityChanged/uid-2": false, "other": false,
	} {
		o := ready(named("eu-1", "uid-1"))
		o.member.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: value}
		if d := next(o, at(0)); d.dropConfirm != want || d.confirmed != nil {
			t.Errorf("%q: taken off %v, want %v; confirmed %v", value, d.dropConfirm, want, d.confirmed)
		}
	}
}

func TestCredential(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]observation{
		"refused": {refused: "users[0].user.exec: a kubeconfig must not run programs"},
		"missing": {missing: "Secret underway-system/member-eu-1 does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.member = named("eu-1", "uid-1")
			d := next(o, at(0))
			c := conditionOf(t, d, "Ready")
			if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, o.refused+o.missing) || !d.write {
				t.Errorf("%+v", c)
			}
			if refused := conditionOf(t, d, "CredentialRefused"); (refused != nil) != (name == "refused") {
				t.Errorf("%+v", refused)
			}
			if d.status.Identity != "uid-1" {
				t.Error("the identity is forgotten")
			}
		})
	}
}

func TestUnreachableKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	mc := named("eu-1", "uid-1")
	mc = after(mc, next(ready(mc), at(0)))
	o := ready(mc)
	o.view = clusters.View{
		Name: "eu-1", State: clusters.StateDegraded, Block: clusters.BlockUnreachable, LastHeard: at(1), Server: "https://eu-1",
		Message: "dial tcp 127.0.0.1:41234: connection refused", Identity: "uid-1", SeenIdentity: "uid-1",
	}
	d := next(o, at(2))
	if d.status.KubernetesVersion != "v1.37.2" || len(d.status.WorkloadKinds) != 1 || d.status.Identity != "uid-1" {
		t.Errorf("%+v", d.status)
	}
	o.member = after(mc, d)
	o.view.Message = "dial tcp 127.0.0.1:41999: connection refused"
	if d := next(o, at(3)); d.write {
		t.Error("the words of the last try are written again and again")
	}
}

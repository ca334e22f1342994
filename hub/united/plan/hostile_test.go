package plan

import (
	"testing"
	"time"

	travels "github.com/underway-dev/underway/propagation/content"
)

// What a hostile reading of the plan found.

// half is a release that was granted 3 of 10 pods, and is there.
func half(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, united("web", 10, "web:1", sub("west", "west", "")))
	w.turns(40)
	partitions(w.ud, map[string]string{"west": "7"})
	setImage(w.ud, "web:2")
	w.turns(40)
	if got := w.ud.Status.Release.Grants["west"]; got != 3 {
		t.Fatalf("granted %d", got)
	}
	return w
}

// turns are so many passes, each carried out and answered by the members' agents.
func (w *world) turns(n int) {
	for range n {
		for _, p := range w.pass() {
			w.deliver(p)
		}
		w.agents()
	}
}

func (w *world) agents() {
	for _, m := range w.members {
		for _, c := range m.children {
			if !m.down {
				c.agent()
			}
		}
	}
	w.now = w.now.Add(2 * time.Second)
}

// TestScalingReleasesNothing: what is left when a subset is scaled below its grant is not all that it was granted of, also
// while its grants are kept because the member is being upgraded.
func TestScalingReleasesNothing(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]string{"a member like any": "", "one that is being upgraded": "it is being upgraded"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := half(t)
			w.members["west"].noGrants = why
			for _, n := range []int32{3, 10} {
				w.ud.Spec.Replicas = &n
				w.ud.Generation++
				w.turns(40)
			}
			w.check()
			if w.ud.Status.CurrentRevision == w.ud.Status.UpdatedRevision {
				t.Error("a held release is finished by scaling")
			}
			if c := w.child("west"); c.count(c.label) > 3 {
				t.Errorf("%d pods of the new revision, 3 were granted", c.count(c.label))
			}
		})
	}
}

// TestScalingBelowARefusedTemplate: the same for the release before a template that API servers refuse.
func TestScalingBelowARefusedTemplate(t *testing.T) {
	t.Parallel()
	w := half(t)
	partitions(w.ud, map[string]string{"west": "0"})
	setImage(w.ud, "web:3")
	w.edited()
	w.spoil(5)
	for _, n := range []int32{3, 10} {
		w.ud.Spec.Replicas = &n
		w.ud.Generation++
		w.edited()
		w.spoil(40)
	}
	if c := w.child("west"); c.count(c.label) > 3 {
		t.Errorf("%d pods of the release before, 3 were granted", c.count(c.label))
	}
}

// TestUnreadContentIsNotUnwanted: one read on the hub that fails takes nothing away from members.
func TestUnreadContentIsNotUnwanted(t *testing.T) {
	t.Parallel()
	l := newLuggage(t, sub("west", "west", "3"))
	l.hub["settings"] = 1
	l.names("web:1", "settings")
	l.edited()
	l.steps(20)
	o := l.look()
	delete(o.Travel.Hub, travels.Ref{Kind: travels.KindConfigMap, Name: "settings"})
	d := Next(o, l.now)
	for i := range d.Contents {
		if c := &d.Contents[i]; c.Want == ContentReleased {
			t.Errorf("released: %+v", *c)
		}
	}
}

// TestPullSecretOfAnAccountThatStays: a ServiceAccount that is excluded on the hub, or deleted there, stays on the member, and
// with it the pull Secrets that it names.
func TestPullSecretOfAnAccountThatStays(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]HubObject{
		"excluded": {Found: true, UID: "sa", Version: "2", Excluded: "managed elsewhere"}, "deleted on the hub": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLuggage(t, sub("west", "west", "3"))
			setSpec(l.ud, `{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"serviceAccountName":"runner","containers":[{"name":"web","image":"web:1"}]}}}`)
			l.edited()
			l.withAccount(HubObject{Found: true, UID: "sa", Version: "1", Needs: []travels.Ref{{Kind: travels.KindSecret, Name: "pull", Optional: true}}}, true, 16)
			l.withAccount(later, false, 9)
		})
	}
}

// withAccount runs so many turns with the account runner as the hub has it, and with the Secret pull read or not.
func (l *luggage) withAccount(account HubObject, pullRead bool, turns int) {
	l.t.Helper()
	runner := travels.Ref{Kind: travels.KindServiceAccount, Name: "runner"}
	pull := travels.Ref{Kind: travels.KindSecret, Name: "pull"}
	for range turns {
		o := l.observe()
		o.Travel = Travel{
			On: true, Kinds: []string{travels.KindSecret, travels.KindServiceAccount}, Deliveries: map[Target]ContentDelivery{},
			Hub:    map[travels.Ref]HubObject{runner: account},
			Marked: map[string]Marked{"west": {Known: true, Refs: []travels.Ref{pull, runner}}},
		}
		if pullRead {
			o.Travel.Hub[pull] = HubObject{Found: true, UID: "pull", Version: "1"}
		}
		for i := range l.last.Contents {
			c := &l.last.Contents[i]
			o.Travel.Deliveries[c.Target()] = ContentDelivery{Posted: c.Fingerprint(), Ready: true}
		}
		for _, p := range l.passOn(o) {
			l.deliver(p)
		}
		for i := range l.last.Contents {
			if c := &l.last.Contents[i]; c.Want == ContentReleased {
				l.t.Fatalf("released: %+v", *c)
			}
		}
		l.agents()
	}
}

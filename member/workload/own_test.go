package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podwriter"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func page() *book {
	return newLedger().open(types.NamespacedName{Namespace: "default", Name: "web"}, "uid")
}

func TestOwnWritesAreAwaited(t *testing.T) {
	t.Parallel()
	pods := func(uids ...types.UID) map[types.UID]bool {
		active := map[types.UID]bool{}
		for _, uid := range uids {
			active[uid] = true
		}
		return active
	}
	t.Run("a patch is there when the cache has come to its version", func(t *testing.T) {
		t.Parallel()
		b := page()
		b.wrote(podwriter.Result{Written: []podwriter.Written{{ResourceVersion: "99"}, {ResourceVersion: "100"}}}, noon)
		if b.caughtUp("99", "1", nil) || !b.caughtUp("100", "1", nil) || !b.caughtUp("1000", "1", nil) {
			t.Error("versions are numbers, not texts")
		}
	})
	t.Run("a cache that cannot tell its version has not caught up", func(t *testing.T) {
		t.Parallel()
		b := page()
		b.wrote(podwriter.Result{Written: []podwriter.Written{{ResourceVersion: "100"}}}, noon)
		if b.caughtUp("", "1", nil) {
			t.Error("caught up")
		}
	})
	t.Run("a deleted pod is there until it is seen going", func(t *testing.T) {
		t.Parallel()
		b := page()
		b.wrote(podwriter.Result{Written: []podwriter.Written{{UID: "a", ResourceVersion: "5", Deleted: true}}}, noon)
		if b.caughtUp("1000", "1", pods("a", "b")) || !b.caughtUp("1000", "1", pods("b")) {
			t.Error("the cache still shows it")
		}
	})
	t.Run("a status write counts", func(t *testing.T) {
		t.Parallel()
		b := page()
		b.wroteObject("7", noon)
		if b.caughtUp("1000", "6", nil) || !b.caughtUp("1000", "7", nil) {
			t.Error("the object is older than our write")
		}
	})
	t.Run("a write without an answer wants a live read, at once, and then the cache to follow", func(t *testing.T) {
		t.Parallel()
		b := page()
		b.wrote(podwriter.Result{Unsure: []inplace.Ref{{Name: "a"}}}, noon)
		if b.caughtUp("1000", "1", nil) || b.patienceLeft(&b.pods, noon) != 0 {
			t.Error("it would have waited")
		}
		b.settle("1005", "1")
		if b.caughtUp("1004", "1", nil) || !b.caughtUp("1005", "1", nil) {
			t.Error("the cache is older than the live read")
		}
	})
	t.Run("versions that ran backwards are forgotten by a live read", func(t *testing.T) {
		t.Parallel()
		b := page()
		b.wrote(podwriter.Result{Written: []podwriter.Written{{ResourceVersion: "5000"}}}, noon)
		b.settle("300", "1")
		if !b.caughtUp("300", "1", nil) {
			t.Error("it waits for a version that will not come")
		}
	})
}

// TestOwnWritesToClaimsAreAwaited: on their own watch, whose versions say nothing about that of pods.
func TestOwnWritesToClaimsAreAwaited(t *testing.T) {
	t.Parallel()
	b := page()
	b.wrote(podwriter.Result{Claims: []podwriter.Written{{ResourceVersion: "100"}, {UID: "c", Deleted: true}}}, noon)
	if !b.caughtUp("1", "1", nil) {
		t.Error("the view of the pods waits for a write to a claim")
	}
	gone, there := map[types.UID]bool{}, map[types.UID]bool{"c": true}
	if b.claims.caughtUp("99", gone) || b.claims.caughtUp("100", there) || !b.claims.caughtUp("100", gone) {
		t.Error("a claim's version, or its going, is not awaited")
	}
	b.wrote(podwriter.Result{UnsureClaims: []inplace.Ref{{Name: "a"}}}, noon)
	if b.pods.unsure || b.claims.caughtUp("1000", nil) {
		t.Error("a claim whose fate is not known is not read live")
	}
}

// TestRefusals: they count up until a create is accepted, and another generation is tried at once.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := page()
	b.refuse("exceeded quota", 1, noon)
	b.refuse("exceeded quota", 1, noon.Add(time.Second))
	if diff := cmp.Diff(&Refusal{Message: "exceeded quota", Times: 2, Last: noon.Add(time.Second)}, b.refusedFor(1)); diff != "" {
		t.Error(diff)
	}
	if b.refusedFor(2) != nil {
		t.Error("another template may be accepted")
	}
	b.roomMade()
	if got := b.refusedFor(1); !got.Last.IsZero() || got.Times != 2 {
		t.Errorf("a pod is gone: %+v", got)
	}
	b.refuse("no such class", 2, noon)
	if got := b.refusedFor(2); got.Times != 1 {
		t.Errorf("%+v", got)
	}
}

func proven(inplace.Pod) bool { return true }

func revisions(b *book) []string       { all, _ := b.lostAs("none"); return all }
func byName(b *book) map[string]string { _, all := b.lostAs("none"); return all }

// TestB085ALostPodOfARelease: a pod that a release recreated, and that its node lost, is replaced as what it came from; so the
// release counts all its pods. Not after it was changed in place, nor when its revision is not the one asked for any more.
func TestB085ALostPodOfARelease(t *testing.T) {
	t.Parallel()
	recreated := inplace.Pod{Ref: inplace.Ref{Name: "web-0", UID: "a"}, Phase: inplace.PhaseRunning, Revision: "new", Replaces: "old"}
	moved := recreated
	moved.State = &inplace.State{Revision: "new"}
	for name, tc := range map[string]struct {
		pod          inplace.Pod
		update, want string
	}{
		"lost in its release":         {recreated, "new", "old"},
		"changed in place since":      {moved, "new", "new"},
		"the template went back":      {recreated, "old", "new"},
		"the next release":            {recreated, "newer", "new"},
		"made by scaling, not by one": {inplace.Pod{Ref: recreated.Ref, Phase: recreated.Phase, Revision: "new"}, "new", "new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := page()
			for _, look := range [][]inplace.Pod{{tc.pod}, nil} {
				b.follow(look, 1-len(look), proven)
				b.followNames(look, 1-len(look))
			}
			lost, lostBy := b.lostAs(tc.update)
			if len(lost) != 1 || lost[0] != tc.want || lostBy["web-0"] != tc.want {
				t.Errorf("replaced as %v, %v; want %s", lost, lostBy, tc.want)
			}
		})
	}
}

func TestLostPods(t *testing.T) {
	t.Parallel()
	pod := func(uid types.UID, revision string, phase inplace.Phase) inplace.Pod {
		return inplace.Pod{Ref: inplace.Ref{UID: uid}, Revision: revision, Phase: phase}
	}
	running, terminating := inplace.PhaseRunning, inplace.PhaseTerminating
	b := page()
	b.follow([]inplace.Pod{pod("a", "old", running), pod("b", "new", running)}, 0, proven)
	gone := b.follow([]inplace.Pod{pod("b", "new", running)}, 1, proven)
	if diff := cmp.Diff([]string{"old"}, revisions(b)); diff != "" || len(gone) != 1 || gone[0] != "a" {
		t.Errorf("lost %v, gone %v", b.lost, gone)
	}
	b.replaced(1)
	b.follow([]inplace.Pod{pod("b", "new", terminating), pod("c", "new", running)}, 1, proven)
	if diff := cmp.Diff([]string{"new"}, revisions(b)); diff != "" {
		t.Error(diff)
	}
	// One that was asked to run the new revision and did not get there is replaced as one of the old.
	moving := page()
	moving.follow([]inplace.Pod{pod("a", "old", running)}, 0, proven)
	for range 2 {
		moving.follow([]inplace.Pod{pod("a", "new", running)}, 0, func(inplace.Pod) bool { return false })
	}
	moving.follow(nil, 1, proven)
	if diff := cmp.Diff([]string{"old"}, revisions(moving)); diff != "" {
		t.Error(diff)
	}
	// A scale-in: nothing is missing, so nothing is to be replaced.
	b.follow(nil, 0, proven)
	if len(b.lost) != 0 {
		t.Errorf("lost %v", b.lost)
	}
	fresh := page()
	fresh.follow([]inplace.Pod{pod("a", "old", terminating), pod("b", "new", running)}, 1, proven)
	if diff := cmp.Diff([]string{"old"}, revisions(fresh)); diff != "" {
		t.Error("a restart sees the terminating ones: " + diff)
	}
}

func TestLedgerFollowsTheObject(t *testing.T) {
	t.Parallel()
	l := newLedger()
	name := types.NamespacedName{Name: "web"}
	l.open(name, "one").pods.version = "5"
	if second := l.open(name, "two"); second.pods.version != "" || l.open(name, "two") != second {
		t.Error("a re-created object has the page of the one before")
	}
	l.open(name, "two").follow([]inplace.Pod{{Ref: inplace.Ref{UID: "p"}, Phase: inplace.PhaseRunning}}, 0, proven)
	if gone := l.close(name); len(gone) != 1 || len(l.books) != 0 || len(l.names) != 0 {
		t.Errorf("gone %v, %d pages left", gone, len(l.books))
	}
}

// TestLostPodsByName: a pod that went is known by its name until one of the name is there again.
func TestLostPodsByName(t *testing.T) {
	t.Parallel()
	pod := func(name string, uid types.UID, revision string, phase inplace.Phase) inplace.Pod {
		return inplace.Pod{Ref: inplace.Ref{Name: name, UID: uid}, Revision: revision, Phase: phase}
	}
	b := &book{}
	look := func(missing int, pods ...inplace.Pod) {
		b.follow(pods, missing, proven)
		b.followNames(pods, missing)
	}
	look(1, pod("web-0", "a", "old", inplace.PhaseRunning), pod("web-1", "b", "old", inplace.PhaseRunning), pod("web-2", "c", "older", inplace.PhaseTerminating))
	if diff := cmp.Diff(map[string]string{"web-2": "older"}, byName(b)); diff != "" {
		t.Error(diff)
	}
	look(2, pod("web-0", "a", "old", inplace.PhaseRunning))
	if diff := cmp.Diff(map[string]string{"web-1": "old", "web-2": "older"}, byName(b)); diff != "" {
		t.Error(diff)
	}
	look(1, pod("web-0", "a", "old", inplace.PhaseRunning), pod("web-2", "d", "new", inplace.PhaseRunning))
	if diff := cmp.Diff(map[string]string{"web-1": "old"}, byName(b)); diff != "" {
		t.Error(diff)
	}
	look(0, pod("web-0", "a", "old", inplace.PhaseRunning))
	if len(b.lostBy) != 0 {
		t.Errorf("who is not wanted any more is not lost: %v", b.lostBy)
	}
}

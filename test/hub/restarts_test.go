//go:build lab

package hub

import (
	"context"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/underway-dev/underway/test/lab"
)

// storm is a release during which the hub is killed again and again while every list, on the hub and on the members, takes
// a random time.
type storm struct {
	kills int
	// lists is the longest that a list takes, life the longest that a hub lives.
	lists, life time.Duration
	// after is the longest that a list takes once the last hub is there; it says only how long the test waits.
	after time.Duration
}

// B139: nothing is deleted, every change is written once, and the release ends.
func (w *world) storm(s storm) {
	w.Helper()
	members := map[string]int{"east": 6, "west": 6, "north": 6}
	hub := w.startHub("hub", shortLease...)
	w.isReady("east", "west", "north")
	u := w.united(`{east: "100%", west: "100%", north: "100%"}`, members)
	w.disturb(lab.SlowLists(s.lists))
	defer w.disturb(nil)
	edits := []string{`{east: 4, west: "100%", north: 5}`, `{east: 2, west: 4, north: 5}`, `{east: 2, west: 2, north: 3}`, `{east: 0, west: 0, north: 0}`}
	changes := map[string]int{"east": 3, "west": 4, "north": 3} // west takes the template, held, with the first
	began, next := time.Now(), 0
	for i := range s.kills {
		if next < len(edits) && i >= next*s.kills/len(edits) {
			u.edit(v2, edits[next])
			next++
		}
		time.Sleep(time.Second + rand.N(s.life-time.Second))
		if i%2 == 0 {
			w.must(hub.Process().Kill())
		} else {
			w.must(hub.Process().Stop(10 * time.Second))
		}
	}
	for ; next < len(edits); next++ {
		u.edit(v2, edits[next])
	}
	w.disturb(lab.SlowLists(s.after))
	u.settled(v2)
	w.Logf("%d kills; the release ended after %s", s.kills, time.Since(began).Round(time.Second))
	for m, n := range changes {
		u.nothingDeleted(m)
		u.writtenOnce(m, n)
		w.Logf("%v", u.sent(m))
	}
	u.restartedOnce()
	hub.End()
}

// disturb is what happens to requests on the way to the hub's and to every member's API server.
func (w *world) disturb(f func(*http.Request) lab.Fault) {
	w.hubWay.Disturb(f)
	for _, way := range w.ways {
		way.Disturb(f)
	}
}

// leaders is a release during which the leading hub of two is stopped and resumed later.
type leaders struct {
	pause time.Duration
	flags []string
}

// B141: the one that is resumed writes nothing that is older, nothing is written twice, and it gives up by itself.
func (w *world) leaders(l leaders) {
	w.Helper()
	first := w.startHub("hub-1", l.flags...)
	w.isReady("east", "west", "north")
	u := w.united(`{east: "100%", west: "100%", north: "100%"}`, map[string]int{"east": 6, "west": 6, "north": 6})
	second := w.startHub("hub-2", l.flags...)
	time.Sleep(2 * time.Second) // it is a standby

	u.edit(v2, `{east: 4, west: 5, north: "100%"}`)
	w.eventually("the leader begins", func(context.Context) string {
		if len(u.sent("east")) == 0 {
			return "nothing was sent"
		}
		return ""
	})
	stopped := first.Process()
	w.must(stopped.Pause())
	began := time.Now()
	u.edit(v2, `{east: 2, west: 4, north: 5}`)
	u.reached("east", 4)
	u.reached("west", 2)
	u.reached("north", 1)
	w.Logf("the other hub had led on after %s", time.Since(began).Round(time.Second))
	time.Sleep(max(0, l.pause-time.Since(began)))

	// What it knew is old by now, and gets older while it wakes up.
	u.edit(v2, `{east: 1, west: 2, north: 3}`)
	w.must(stopped.Resume())
	w.eventually("the resumed hub gives up", func(context.Context) string {
		if stopped.Alive() {
			return "it runs"
		}
		return ""
	})
	u.reached("east", 5)
	u.edit(v2, `{east: 0, west: 0, north: 0}`)
	u.settled(v2)
	for m, n := range map[string]int{"east": 4, "west": 4, "north": 4} {
		u.nothingDeleted(m)
		u.writtenOnce(m, n)
		w.Logf("%v", u.sent(m))
	}
	u.restartedOnce()
	w.must(second.Process().Kill()) // and back again
	u.mark()
	u.edit(v3, `{east: 0, west: 0, north: 0}`)
	u.settled(v3)
	for m := range u.replicas {
		u.writtenOnce(m, 1)
	}
	first.End()
	second.End()
}

// TestLongRestarts is as long as it is in life.
func TestLongRestarts(t *testing.T) {
	long(t)
	w := newWorld(t, "east", "west", "north")
	t.Run("B139", func(t *testing.T) {
		w.in(t).storm(storm{kills: 20, lists: 10 * time.Second, life: 20 * time.Second, after: 10 * time.Second})
	})
	t.Run("B141", func(t *testing.T) { w.in(t).leaders(leaders{pause: time.Minute}) })
}

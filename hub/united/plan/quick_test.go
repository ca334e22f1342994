package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// mail is a model of the outbox: one item per object, the last post wins, each is carried out after a while, and what was
// taken back may be on its way already.
type mail struct {
	push Push
	due  time.Time
	done bool
}

// TestB129: a subset that is added and taken out within 50 ms leaves nothing behind, in fifty runs with answers after 0 to
// 500 ms, caches that lag, and a hub that forgets what it posted.
func TestB129(t *testing.T) {
	t.Parallel()
	for seed := range 50 {
		r := rand.New(rand.NewPCG(uint64(seed), 129))
		w := newWorld(t, united("web", 4, "app:v1", sub("a", "east", "4")))
		w.run()
		w.members["west"] = &member{name: "west", children: map[string]*cloneSet{}}
		w.ud.Spec.Topology.Subsets = append(w.ud.Spec.Topology.Subsets, sub("extra", "west", "2"))
		w.ud.Spec.Replicas = new(int32(6))
		w.ud.Generation++
		box := map[Target]*mail{}
		outAt := w.now.Add(time.Duration(1+r.IntN(8)) * 50 * time.Millisecond)
		restartAt := w.now.Add(time.Duration(r.IntN(20)) * 50 * time.Millisecond)
		was := w.members["west"].children
		for range 160 {
			w.now = w.now.Add(50 * time.Millisecond)
			if len(w.ud.Spec.Topology.Subsets) == 2 && !w.now.Before(outAt) {
				w.ud.Spec.Topology.Subsets = w.ud.Spec.Topology.Subsets[:1]
				w.ud.Spec.Replicas = new(int32(4))
				w.ud.Generation++
				w.edited()
			}
			if seed%3 == 0 && w.now.Equal(restartAt) {
				box = map[Target]*mail{} // what was sent may arrive all the same: it was carried out, or it was not
			}
			w.members["west"].shown = was // the cache is one step behind
			w.postTo(box, r)
			was = map[string]*cloneSet{}
			for key, c := range w.members["west"].children {
				was[key] = c.clone()
			}
			w.carryOut(box)
		}
		w.members["west"].shown = nil
		if got := w.members["west"].children; len(got) > 0 {
			t.Errorf("run %d leaves %s behind", seed, fmt.Sprint(got))
		}
		if n := len(w.ud.Status.SubsetStatuses); n != 1 {
			t.Errorf("run %d: the status lists %d subsets", seed, n)
		}
	}
}

// postTo runs a pass and posts what it wants.
func (w *world) postTo(box map[Target]*mail, r *rand.Rand) {
	o := w.observe()
	for at, m := range box {
		o.Deliveries[at] = Delivery{Gone: m.done && m.push.Want == WantDeleted}
	}
	pushes := w.passOn(o)
	if w.last.StoreFirst || w.last.AddFinalizer || w.last.Keep {
		return
	}
	keep := map[Target]bool{}
	for _, p := range pushes {
		at := Target{p.Member, KindName(p.Kind), p.Name}
		keep[at] = true
		if m := box[at]; m != nil && m.push.Want == p.Want && m.push.Judged == p.Judged && m.push.Input.Intent == p.Input.Intent {
			continue
		}
		box[at] = &mail{push: p, due: w.now.Add(time.Duration(r.IntN(500)) * time.Millisecond)}
	}
	for at, m := range box {
		if keep[at] {
			continue
		}
		if !m.done && r.IntN(2) == 0 {
			w.deliver(m.push) // it was on its way when it was taken back
		}
		delete(box, at)
	}
}

// carryOut does what is due, and lets the agents act.
func (w *world) carryOut(box map[Target]*mail) {
	for _, m := range box {
		if !m.done && !w.now.Before(m.due) {
			w.deliver(m.push)
			m.done = true
		}
	}
	for _, m := range w.members {
		for _, c := range m.children {
			c.agent()
		}
	}
}

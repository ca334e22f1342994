package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/seeds"
)

// TestReleases runs random releases with everything that goes wrong on the way: caches that show the past, plans that
// arrive late, twice or never, members that are down, children deleted by hand, replicas that change, templates that
// replace unfinished ones and rollbacks. The promise is checked after every step, and at the end everything arrives.
func TestReleases(t *testing.T) {
	t.Parallel()
	runs := uint64(60)
	if testing.Short() {
		runs = 30
	}
	for seed, to := seeds.Range(t, runs); seed < to; seed++ {
		release(t, seed)
	}
}

func release(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	names := []string{"a", "b", "c"}[:1+r.IntN(3)]
	ud := united("web", 0, "web:1")
	for _, n := range names {
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, sub(n, n, ""))
	}
	ud.Spec.Replicas = new(int32(1 + r.IntN(20)))
	w := newWorld(&failure{TB: t, seed: seed}, ud)
	w.randomPartitions(r, names)
	d := dresser{r: r, kinds: []string{"cloneSet"}}
	if seed%2 == 1 {
		d.kinds = []string{"cloneSet", "deployment", []string{"statefulSet", "advancedStatefulSet"}[r.IntN(2)]}
		d.dress(w.ud, "web:1", 0)
	}
	w.run()
	image := 1
	var late []Push
	for range 60 {
		switch r.IntN(14) {
		case 0:
			image++
			d.dress(w.ud, fmt.Sprintf("web:%d", image), image)
		case 1:
			n := 1 + r.IntN(image)
			d.dress(w.ud, fmt.Sprintf("web:%d", n), n)
		case 2, 3:
			w.randomPartitions(r, names)
		case 4:
			w.ud.Spec.Replicas = new(int32(1 + r.IntN(20)))
			w.ud.Generation++
			w.edited()
		case 5:
			m := w.members[names[r.IntN(len(names))]]
			m.down = !m.down
		case 6:
			m := w.members[names[r.IntN(len(names))]]
			if c := w.child(m.name); c != nil && r.IntN(2) == 0 {
				delete(m.children, c.key())
				delete(w.had, m.name)
			}
		case 7:
			m := w.members[names[r.IntN(len(names))]]
			m.agentOff = !m.agentOff
		case 8:
			w.freezeCache(names[r.IntN(len(names))])
		case 9:
			for _, n := range names {
				w.members[n].shown = nil
			}
		default:
			late = append(late, w.pass()...)
		}
		for _, p := range shuffled(r, late) {
			if r.IntN(3) > 0 {
				w.deliver(p)
			}
		}
		if len(late) > 12 {
			late = late[len(late)-12:]
		}
		for _, n := range names {
			for _, c := range w.members[n].children {
				if !w.members[n].agentOff && r.IntN(2) == 0 {
					c.agent()
				}
			}
		}
		w.check()
		w.checkServed()
		w.now = w.now.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
	}
	for _, n := range names {
		m := w.members[n]
		m.down, m.agentOff, m.shown = false, false, nil
	}
	partitions(w.ud, zero(names))
	w.run()
	s := &w.ud.Status
	for _, n := range names {
		if got := w.kindsAt(n); !slices.Equal(got, KindsOf([]appsv1alpha1.SubsetTemplate{w.ud.Spec.Template})) {
			t.Fatalf("seed %d: everything is granted and %s has %v", seed, n, got)
		}
	}
	if s.CurrentRevision != s.UpdatedRevision || s.UpdatedReplicas != *w.ud.Spec.Replicas || s.Replicas != *w.ud.Spec.Replicas {
		t.Fatalf("seed %d: everything is granted and it ended at %+v", seed, s)
	}
}

// dresser writes templates. Half of the releases stay with one kind; in the others each image has a kind of its own, in
// some of them the kind alone differs.
type dresser struct {
	r     *rand.Rand
	kinds []string
}

func (d dresser) dress(ud *appsv1alpha1.UnitedDeployment, image string, n int) {
	if len(d.kinds) == 1 {
		setImage(ud, image)
		return
	}
	kind := d.kinds[n%len(d.kinds)]
	templateSpec(ud, kind, fmt.Sprintf(`{"template":{"metadata":{"labels":{"app":%q},"annotations":{"of":%q}},"spec":{"containers":[{"name":"web","image":%q}]}}}`,
		ud.Name, kind, image))
}

func zero(names []string) map[string]string {
	out := map[string]string{}
	for _, n := range names {
		out[n] = "0"
	}
	return out
}

func (w *world) randomPartitions(r *rand.Rand, names []string) {
	values := map[string]string{}
	for _, n := range names {
		switch r.IntN(4) {
		case 0:
		case 1:
			values[n] = fmt.Sprintf("%d%%", r.IntN(101))
		default:
			values[n] = fmt.Sprint(r.IntN(8))
		}
	}
	partitions(w.ud, values)
}

// freezeCache keeps what the hub sees of a member as it is now.
func (w *world) freezeCache(name string) {
	m := w.members[name]
	m.shown = map[string]*cloneSet{}
	for k, c := range m.children {
		m.shown[k] = c.clone()
	}
}

// failure adds the seed to what a test says.
type failure struct {
	testing.TB
	seed uint64
}

func (f *failure) Fatalf(format string, args ...any) {
	f.Helper()
	f.TB.Fatalf("seed %d: "+format, append([]any{f.seed}, args...)...)
}

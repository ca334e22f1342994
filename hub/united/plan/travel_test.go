package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	travels "github.com/underway-dev/underway/propagation/content"
)

// luggage is a world whose templates name ConfigMaps, on the hub and on its members.
type luggage struct {
	*world
	// hub has the versions of its objects; there is what members have, by name.
	hub   map[string]int
	there map[string]map[string]*piece
	// posted is what the hub was told became of what it posted.
	posted map[Target]ContentDelivery
}

// piece is one object on a member.
type piece struct {
	version         int
	foreign, marked bool
}

func newLuggage(tb testing.TB, subsets ...appsv1alpha1.Subset) *luggage {
	tb.Helper()
	l := &luggage{
		world: newWorld(tb, united("web", int32(3*len(subsets)), "web:1", subsets...)), hub: map[string]int{},
		there: map[string]map[string]*piece{}, posted: map[Target]ContentDelivery{},
	}
	for _, s := range subsets {
		l.there[s.Cluster] = map[string]*piece{}
	}
	return l
}

// names gives the template an image and ConfigMaps; one that ends in "?" is optional.
func (l *luggage) names(image string, configMaps ...string) {
	var volumes []string
	for i, name := range configMaps {
		bare, optional := strings.CutSuffix(name, "?")
		volumes = append(volumes, fmt.Sprintf(`{"name":"v%d","configMap":{"name":%q,"optional":%v}}`, i, bare, optional))
	}
	setSpec(l.ud, fmt.Sprintf(`{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"volumes":[%s],"containers":[{"name":"web","image":%q}]}},
		"updateStrategy":{"type":"ReCreate","maxUnavailable":1}}`, strings.Join(volumes, ","), image))
}

func (l *luggage) look() Observation {
	o := l.observe()
	o.Travel = Travel{On: true, Kinds: []string{travels.KindConfigMap}, Hub: map[travels.Ref]HubObject{}, Marked: map[string]Marked{}, Deliveries: l.posted}
	for _, r := range Named(o.United, o.Revisions) {
		v := l.hub[r.Name]
		o.Travel.Hub[plain(r)] = HubObject{Found: v > 0, UID: types.UID("hub-" + r.Name), Version: fmt.Sprint(v)}
	}
	for member, pieces := range l.there {
		m := Marked{Known: true}
		for _, name := range sortedKeys(pieces) {
			if pieces[name].marked {
				m.Refs = append(m.Refs, travels.Ref{Kind: travels.KindConfigMap, Name: name})
			}
		}
		o.Travel.Marked[member] = m
	}
	return o
}

// step is one pass with all that follows; children come after what they need.
func (l *luggage) step() {
	l.t.Helper()
	o := l.look()
	pushes := l.passOn(o)
	if d := l.last; !d.StoreFirst && !d.AddFinalizer && !d.Keep {
		posted := map[Target]ContentDelivery{}
		for i := range d.Contents {
			c := &d.Contents[i]
			posted[c.Target()] = l.carry(c)
		}
		l.posted = posted
	}
	for _, p := range pushes {
		l.deliver(p)
		l.checkNeeds(p)
	}
	for _, m := range l.members {
		for _, c := range m.children {
			if !m.down {
				c.agent()
			}
		}
	}
	l.now = l.now.Add(2e9)
}

// checkNeeds holds that a child that runs something has what its pods cannot start without.
func (l *luggage) checkNeeds(p Push) {
	l.t.Helper()
	if p.Want != WantApplied {
		return
	}
	for _, r := range namedIn(appsv1alpha1.SubsetTemplate{CloneSetTemplate: l.ud.Spec.Template.CloneSetTemplate}) {
		carries := strings.Contains(string(p.Input.Workload.Spec), fmt.Sprintf(`"configMap":{"name":%q,"optional":false}`, r.Name))
		if carries && l.there[p.Member][r.Name] == nil {
			l.t.Fatalf("subset %s is sent a template whose %s is not there", p.Subset, r)
		}
	}
}

// carry does what an outbox does with one content.
func (l *luggage) carry(c *Content) ContentDelivery {
	d := ContentDelivery{Posted: c.Fingerprint()}
	m := l.members[c.Member]
	if m.down {
		return d
	}
	pieces := l.there[c.Member]
	p := pieces[c.Ref.Name]
	switch c.Want {
	case ContentPresent:
		d.Ready = p != nil
		if p == nil {
			d.Problem, d.Message = ProblemOther, c.Ref.String()+" is not there"
		}
	case ContentReleased:
		if p != nil && p.marked {
			delete(pieces, c.Ref.Name)
		}
		d.Gone = true
	case ContentLetGo:
		if p != nil {
			p.marked = false
		}
		d.Gone, d.Ready = true, p != nil
	case ContentApplied:
		switch {
		case p == nil:
			var v int
			_, _ = fmt.Sscan(c.Version, &v)
			pieces[c.Ref.Name] = &piece{version: v, marked: true}
		case p.foreign:
			d.Problem, d.Message = ProblemConflict, "it is somebody else's"
			return d
		case !c.Hold:
			_, _ = fmt.Sscan(c.Version, &p.version)
		}
		pieces[c.Ref.Name].marked = true
		d.Ready = true
	}
	return d
}

func (l *luggage) steps(n int) {
	l.t.Helper()
	for range n {
		l.step()
	}
}

// has is what a member has: "a1 b2*", a star for what does not carry our mark.
func (l *luggage) has(member string) string {
	var out []string
	for _, name := range sortedKeys(l.there[member]) {
		p := l.there[member][name]
		text := fmt.Sprintf("%s%d", name, p.version)
		if !p.marked {
			text += "*"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func (l *luggage) expect(member, want string) {
	l.t.Helper()
	if got := l.has(member); got != want {
		l.t.Fatalf("%s has %q, want %q", member, got, want)
	}
}

func TestContentComesFirstAndFollows(t *testing.T) {
	t.Parallel()
	l := newLuggage(t, sub("a", "m1", ""), sub("b", "m2", ""))
	l.hub["settings"], l.hub["extra"] = 1, 1
	l.names("web:1", "settings", "extra?", "nowhere?")
	l.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Unnamed: appsv1alpha1.UnnamedUpdate}
	l.steps(12)
	l.expect("m1", "extra1 settings1")
	if c := l.child("a"); c == nil || len(c.pods) != 3 {
		t.Fatalf("the child is %+v", c)
	}
	l.hub["settings"] = 2
	l.steps(2)
	l.expect("m1", "extra1 settings2")
	l.expect("m2", "extra1 settings2")

	// It is deleted on the hub: what is optional goes, what pods need stays.
	l.hub["settings"], l.hub["extra"] = 0, 0
	l.steps(4)
	l.expect("m1", "settings2")
}

func TestContentFollowsTheGrant(t *testing.T) {
	t.Parallel()
	l := newLuggage(t, sub("a", "m1", ""), sub("b", "m2", ""))
	l.hub["settings"], l.hub["old"] = 1, 1
	l.names("web:1", "settings", "old")
	partitions(l.ud, map[string]string{"a": "0", "b": "0"})
	l.steps(12)
	partitions(l.ud, map[string]string{"a": "100%", "b": "100%"})
	l.names("web:2", "settings", "new")
	l.hub["settings"], l.hub["new"] = 2, 1
	l.steps(4)
	l.expect("m1", "old1 settings1")

	partitions(l.ud, map[string]string{"a": "1", "b": "100%"})
	l.steps(8)
	l.expect("m1", "new1 old1 settings2") // one pod may still be made of the old template
	l.expect("m2", "old1 settings1")

	partitions(l.ud, map[string]string{"a": "0", "b": "0"})
	l.steps(15)
	l.expect("m1", "new1 settings2")
	l.expect("m2", "new1 settings2")
}

func TestMissingContentHoldsOnlyTheRelease(t *testing.T) {
	t.Parallel()
	l := newLuggage(t, sub("a", "m1", ""))
	l.names("web:1")
	partitions(l.ud, map[string]string{"a": "0"})
	l.steps(8)
	l.names("web:2", "settings")
	l.steps(6)
	e := l.entry("a")
	if e.State != stateWaiting || !strings.Contains(e.Message, "ConfigMap settings is not there") || !strings.Contains(e.Message, "create it in namespace demo") {
		t.Fatalf("%s: %q", e.State, e.Message)
	}
	if c := l.child("a"); c.label != c.current || len(c.pods) != 3 {
		t.Fatalf("the child moved: %+v", c)
	}
	// What runs is scaled meanwhile.
	l.ud.Spec.Replicas = new(int32(5))
	l.ud.Generation++
	l.steps(6)
	if c := l.child("a"); len(c.pods) != 5 || c.label != c.current {
		t.Fatalf("the child was not scaled, or moved: %+v", c)
	}
	// Somebody makes it on the member: it is used as it is.
	l.there["m1"]["settings"] = &piece{version: 9, foreign: true}
	l.steps(10)
	if c := l.child("a"); c.count(c.update) != 5 || c.update != c.label || l.entry("a").State != stateCurrent {
		t.Fatalf("the release did not go on: %+v %+v", c, l.entry("a"))
	}
	l.expect("m1", "settings9*")
}

func TestForeignContentIsAConflict(t *testing.T) {
	t.Parallel()
	l := newLuggage(t, sub("a", "m1", ""))
	l.hub["settings"] = 1
	l.there["m1"]["settings"] = &piece{version: 9, foreign: true}
	l.names("web:1", "settings")
	l.steps(6)
	e := l.entry("a")
	if e.State != stateWaiting || !strings.Contains(e.Message, "spec.adopt") || !strings.Contains(e.Message, appsv1alpha1.AnnotationPropagate) {
		t.Fatalf("%s: %q", e.State, e.Message)
	}
	if l.child("a") != nil {
		t.Fatal("its child was made")
	}
	l.expect("m1", "settings9*")
}

func TestContentOfWhatLeavesAndEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ending Ending
		opt    bool
		want   string
	}{
		"deleted":   {EndingDelete, false, ""},
		"orphaned":  {EndingOrphan, false, "settings1*"},
		"opted out": {EndingDelete, true, "settings1*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLuggage(t, sub("a", "m1", ""), sub("b", "m2", ""), sub("c", "m3", ""), sub("d", "m4", ""), sub("e", "m5", ""))
			l.hub["settings"] = 1
			l.names("web:1", "settings")
			l.steps(12)
			l.expect("m2", "settings1")

			l.ud.Spec.Topology.Subsets = slices.DeleteFunc(l.ud.Spec.Topology.Subsets, func(s appsv1alpha1.Subset) bool { return s.Name == "b" })
			l.ud.Generation++
			l.steps(12)
			if l.child("b") != nil {
				t.Fatal("the child of the subset that left is still there")
			}
			l.expect("m2", "")
			l.expect("m1", "settings1")
			if tc.opt {
				l.ud.Annotations = map[string]string{appsv1alpha1.AnnotationPropagateContent: "false"}
				l.steps(3)
				l.expect("m1", tc.want)
			}

			// The object is deleted; content goes after the children.
			l.ud.DeletionTimestamp = second(l.now)
			gone := map[Target]Delivery{}
			for range 10 {
				o := l.look()
				o.Ending, o.Deliveries = tc.ending, gone
				d := Next(o, l.now)
				posted := map[Target]ContentDelivery{}
				for i := range d.Contents {
					if c := &d.Contents[i]; tc.ending == EndingDelete && len(l.members[c.Member].children) > 0 {
						t.Fatalf("%s of %s goes before its child", c.Ref, c.Member)
					} else {
						posted[c.Target()] = l.carry(c)
					}
				}
				l.posted = posted
				for _, p := range d.Pushes {
					if p.Want == WantDeleted {
						clear(l.members[p.Member].children)
					}
					gone[Target{p.Member, KindName(p.Kind), p.Name}] = Delivery{Gone: true}
				}
				if d.DropFinalizer {
					l.expect("m1", tc.want)
					return
				}

			}
			t.Fatalf("the finalizer stays: %+v", l.ud.Status.Conditions)
		})
	}
}

// TestTravelProperties edits, grants, fails and deletes at random: no child is ever sent a template whose content is not
// there (checkNeeds), content stays where nothing is granted, and everything comes to rest.
func TestTravelProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := newLuggage(t, sub("a", "m1", ""), sub("b", "m2", ""))
		l.hub["ca"] = 1
		l.names("web:1", "ca")
		partitions(l.ud, map[string]string{"a": "0", "b": "0"})
		l.steps(10)
		all := []string{"ca", "cb", "cc?"}
		for range rapid.IntRange(1, 12).Draw(rt, "edits") {
			switch rapid.IntRange(0, 5).Draw(rt, "edit") {
			case 0:
				l.names(fmt.Sprintf("web:%d", rapid.IntRange(1, 4).Draw(rt, "image")), rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 3, rapid.ID[string]).Draw(rt, "names")...)
			case 1:
				partitions(l.ud, map[string]string{"a": rapid.SampledFrom([]string{"0", "2", "100%"}).Draw(rt, "a"), "b": rapid.SampledFrom([]string{"0", "1", "100%"}).Draw(rt, "b")})
			case 2:
				l.hub[rapid.SampledFrom([]string{"ca", "cb", "cc"}).Draw(rt, "object")] = rapid.IntRange(0, 9).Draw(rt, "version")
			case 3:
				m := l.members[rapid.SampledFrom([]string{"m1", "m2"}).Draw(rt, "member")]
				m.down = !m.down
			case 4:
				l.posted = map[Target]ContentDelivery{} // the hub restarts
			case 5:
				clear(l.members["m1"].children) // by hand
			}
			before := map[string]string{"m1": l.has("m1"), "m2": l.has("m2")}
			l.step()
			for i, member := range []string{"m1", "m2"} {
				held := l.entry([]string{"a", "b"}[i]).Granted == 0 && l.last.Status.CurrentRevision != l.last.Status.UpdatedRevision
				if held && !l.members[member].down && newer(before[member], l.has(member)) {
					rt.Fatalf("%s had %q and has %q while nothing is granted there", member, before[member], l.has(member))
				}
			}
		}
		for _, m := range l.members {
			m.down = false
		}
		l.hub = map[string]int{"ca": 9, "cb": 9, "cc": 9}
		partitions(l.ud, map[string]string{"a": "0", "b": "0"})
		l.steps(40)
		for i, member := range []string{"m1", "m2"} {
			var want []string
			for _, r := range namedIn(l.ud.Spec.Template) {
				want = append(want, r.Name+"9")
			}
			if diff := cmp.Diff(strings.Join(want, " "), l.has(member)); diff != "" {
				rt.Fatalf("%s at rest (-want +got):\n%s%+v", member, diff, l.entry([]string{"a", "b"}[i]))
			}
		}
	})
}

// newer is true when an object that was there has another version.
func newer(before, after string) bool {
	for p := range strings.FieldsSeq(before) {
		for q := range strings.FieldsSeq(after) {
			if strings.TrimRight(q, "0123456789*") == strings.TrimRight(p, "0123456789*") && strings.Trim(p, "*") != strings.Trim(q, "*") {
				return true
			}
		}
	}
	return false
}

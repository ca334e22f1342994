package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/travel/plan"
)

// site is a member as it is, and as the hub sees it.
type site struct {
	region string
	// copy is "" for none, "ours" for a marked one, "foreign" for one that the hub did not make.
	copy string
	// seen is copy as the hub's cache has it: one step behind.
	seen    string
	away    bool
	allowed bool
	// forgotten: the hub has restarted while the member was away.
	forgotten bool
	// forgone: what was posted was withdrawn, and may have been carried out.
	forgone  bool
	posted   plan.Want
	delivery plan.Delivery
}

// story is an object, its members, and an outbox that carries out what it is asked for when a member is there.
type story struct {
	*rapid.T

	object plan.Object
	ending plan.Ending
	gone   bool
	// owed: it was released while copies may have been left.
	owed bool
	// leftFor is how long ago members were left, as the hub knows.
	leftFor time.Duration
	members map[string]*site
}

func (s *story) observation() plan.Observation {
	out := plan.Observation{Object: s.object, Ending: s.ending, Members: map[string]plan.Member{}}
	for name, m := range s.members {
		v := plan.Member{
			Labels: map[string]string{"region": m.region}, Ready: !m.away, Known: !m.forgotten, Posted: m.posted, Delivery: m.delivery,
		}
		v.Marked = v.Known && m.seen == "ours"
		v.LeftFor = s.leftFor
		if !m.allowed {
			v.NotAllowed = "no"
		}
		out.Members[name] = v
	}
	return out
}

func (s *story) wish() plan.Wish {
	wish, _ := plan.WishOf(&s.object, s.ending)
	return wish
}

func (s *story) selected(m *site) bool {
	selector, err := plan.SelectorOf(s.object.Annotations)
	if err != nil {
		s.Fatal(err)
	}
	return selector.Matches(regionOf(m.region))
}

// pass plans, checks what may never be, and posts.
func (s *story) pass() {
	if s.owed {
		s.collect()
	}
	if s.gone {
		return
	}
	o := s.observation()
	d := plan.Next(o)
	s.check(o, d)
	if d.Hold {
		s.object.Finalized, s.owed = true, false
	}
	if d.Confirm != nil {
		s.object.Annotations[appsv1alpha1.AnnotationConfirm] = *d.Confirm
	}
	if d.Release {
		s.owed = d.Owed
		s.released()
		return
	}
	if d.Stay {
		return
	}
	asked := map[string]bool{}
	for _, i := range d.Items {
		asked[i.Member] = true
		if m := s.members[i.Member]; m.posted != i.Want || m.forgone {
			m.posted, m.delivery, m.forgone = i.Want, plan.Delivery{Moving: true}, false
		}
	}
	for name, m := range s.members {
		if !asked[name] {
			was := o.Members[name]
			m.posted, m.delivery, m.forgone = was.Remembered(), plan.Delivery{Moving: true}, true
		}
	}
}

// collect takes back what is owed.
func (s *story) collect() {
	o := s.observation()
	items, open := plan.Collect(o.Members)
	asked := map[string]bool{}
	for _, i := range items {
		site := s.members[i.Member]
		if asked[i.Member] = true; i.Want != plan.WantDeleted || (site.seen != "ours" && site.posted == plan.WantNothing) {
			s.Fatalf("%s is asked for %s, and has nothing of ours", i.Member, i.Want)
		}
		if site.posted == plan.WantNothing {
			site.posted, site.delivery, site.forgone = i.Want, plan.Delivery{Moving: true}, false
		}
	}
	for name, m := range s.members {
		if was := o.Members[name]; !asked[name] && !was.Done() {
			m.posted, m.delivery = plan.WantNothing, plan.Delivery{}
		}
	}
	s.owed = open
}

func (s *story) check(o plan.Observation, d plan.Decision) {
	wish := s.wish()
	if d.Stay != (wish == plan.WishKeep) || (d.Stay && len(d.Items) > 0) {
		s.Fatalf("stay %v of wish %s with items %v", d.Stay, wish, d.Items)
	}
	going, places := 0, 0
	for _, m := range s.members {
		if s.wish() == plan.WishTravel && s.selected(m) {
			places++
		}
	}
	for _, i := range d.Items {
		m, there := o.Members[i.Member]
		site := s.members[i.Member]
		known := m.Marked || m.Posted != plan.WantNothing
		switch {
		case !there:
			s.Fatalf("%s is no member", i.Member)
		case i.Want == plan.WantApplied && (wish != plan.WishTravel || !s.selected(site) || !site.allowed || !s.object.Finalized):
			s.Fatalf("%s gets what it must not get", i.Member)
		case i.Want == plan.WantApplied:
		case wish == plan.WishTravel && s.selected(site):
			s.Fatalf("%s is selected and is left", i.Member)
		case !known && (wish == plan.WishTravel || m.Known):
			s.Fatalf("%s is left, and has nothing of ours", i.Member)
		default:
			going++
		}
	}
	confirmed := strings.HasPrefix(s.object.Annotations[appsv1alpha1.AnnotationConfirm], plan.ConfirmRemoval)
	if wish == plan.WishTravel && !confirmed && going > 0 && (places == 0 || (going > 1 && 4*going >= going+places)) {
		s.Fatalf("%d of %d are left at once, and nobody confirmed it", going, going+places)
	}
}

// released checks that nothing is left where the hub could see it.
func (s *story) released() {
	for name, m := range s.members {
		if m.copy == "ours" && !m.away && !m.forgotten {
			s.Fatalf("released while %s has a copy (posted %q, %+v)", name, m.posted, m.delivery)
		}
		if m.copy == "ours" && m.away && s.ending != plan.EndingOrphan && (!m.forgotten || s.selected(m)) {
			s.Fatalf("released while %s, which is away, may have a copy", name)
		}
	}
	for _, m := range s.members {
		m.posted, m.delivery = plan.WantNothing, plan.Delivery{}
	}
	s.object.Finalized = false
	s.gone = s.object.Deleting
}

// carryOut lets the outbox act on one member, as it does by fresh reads.
func (s *story) carryOut(m *site) {
	if m.away || m.forgone || m.posted == plan.WantNothing {
		return
	}
	m.seen = m.copy
	wish := plan.WishRemove
	if m.posted == plan.WantLetGo {
		wish = plan.WishLetGo
	}
	switch {
	case m.posted == plan.WantApplied && m.copy == "foreign":
		m.delivery = plan.Delivery{Problem: "Conflict", Message: "foreign"}
		return
	case m.posted == plan.WantApplied:
		m.copy, m.delivery = "ours", plan.Delivery{Done: true}
		return
	case !s.gone && !plan.Leaves(&s.object, s.ending, regionOf(m.region), wish):
		m.delivery = plan.Delivery{Moving: true}
		return
	case m.copy == "ours" && m.posted == plan.WantLetGo:
		m.copy = "foreign"
	case m.copy == "ours":
		m.copy = ""
	}
	m.delivery = plan.Delivery{Done: true, Gone: true}
}

func regionOf(region string) labels.Set { return labels.Set{"region": region} }

// TestStories plays random lives of an object: relabelled members, members that are away, restarts, typos, deletion. Nothing
// is taken away that is not ours or still wanted, and at the end, with everybody there, copies are where they are to be.
func TestStories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &story{T: rt, members: map[string]*site{}, object: service(func(o *plan.Object) { o.Finalized = false })}
		regions := rapid.SampledFrom([]string{"eu", "us"})
		for i := range rapid.IntRange(0, 6).Draw(rt, "members") {
			s.members[fmt.Sprintf("m%d", i)] = &site{
				region: regions.Draw(rt, "region"), copy: rapid.SampledFrom([]string{"", "", "foreign"}).Draw(rt, "copy"), allowed: rapid.IntRange(0, 5).Draw(rt, "allowed") > 0,
			}
		}
		if rapid.Bool().Draw(rt, "left behind") {
			// It has a copy, was relabelled while it was away, and the hub has restarted since.
			s.object.Finalized, s.members["behind"] = true, &site{region: "us", copy: "ours", seen: "ours", away: true, forgotten: true, allowed: true}
		}
		names := slices.Sorted(maps.Keys(s.members))
		s.leftFor = rapid.SampledFrom([]time.Duration{0, plan.LeaveAfter}).Draw(rt, "left for")
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			s.step(names, regions)
			s.pass()
		}
		s.quiesce(names)
	})
}

func (s *story) step(names []string, regions *rapid.Generator[string]) {
	if len(names) > 0 {
		m := s.members[rapid.SampledFrom(names).Draw(s.T, "member")]
		switch rapid.IntRange(0, 6).Draw(s.T, "what") {
		case 0:
			m.region = regions.Draw(s.T, "region")
		case 1:
			m.away = !m.away
			m.forgotten = m.forgotten && m.away
		case 2, 3, 4:
			s.carryOut(m)
		case 5:
			m.seen = m.copy
		}
	}
	switch rapid.IntRange(0, 14).Draw(s.T, "object") {
	case 0:
		s.object.Annotations[appsv1alpha1.AnnotationClusters] = rapid.SampledFrom([]string{"region=eu", "region=us", "region", "", "a b"}).Draw(s.T, "selector")
	case 1:
		s.object.Labels[appsv1alpha1.LabelPropagate] = rapid.SampledFrom([]string{"true", "true", "false", "ture"}).Draw(s.T, "label")
	case 2:
		s.object.Annotations[appsv1alpha1.AnnotationConfirm] = "RemovalHeld/" + strings.Join(names, ",")
	case 3: // the hub restarts
		for _, m := range s.members {
			m.posted, m.delivery, m.forgotten, m.seen = plan.WantNothing, plan.Delivery{}, m.away, m.copy
		}
	case 4:
		if rapid.IntRange(0, 3).Draw(s.T, "delete") == 0 && s.object.Finalized {
			s.object.Deleting = true
			s.ending = rapid.SampledFrom([]plan.Ending{plan.EndingDelete, plan.EndingDelete, plan.EndingOrphan}).Draw(s.T, "ending")
		}
	}
}

// quiesce lets everybody come back and everything be carried out, with a person who confirms.
func (s *story) quiesce(names []string) {
	before := map[string]string{}
	s.leftFor = plan.LeaveAfter
	for range 6 {
		for _, name := range names {
			m := s.members[name]
			m.away, m.forgotten = false, false
			s.carryOut(m)
			m.seen = m.copy
		}
		if !s.object.Deleting {
			s.object.Annotations[appsv1alpha1.AnnotationConfirm] = "RemovalHeld/" + strings.Join(names, ",")
		}
		for _, name := range names {
			before[name] = s.members[name].copy
		}
		s.pass()
	}
	wish := s.wish()
	for _, name := range names {
		m := s.members[name]
		switch {
		case m.copy != before[name]:
			s.Fatalf("%s does not come to rest", name)
		case wish == plan.WishTravel && m.copy == "ours" && !s.selected(m):
			s.Fatalf("%s is not selected and has a copy", name)
		case wish == plan.WishTravel && m.copy == "" && s.selected(m) && m.allowed:
			s.Fatalf("%s is selected and has no copy", name)
		case wish == plan.WishRemove && m.copy == "ours":
			s.Fatalf("%s has a copy that nobody asks for", name)
		}
	}
	if s.object.Deleting && !s.gone {
		s.Fatalf("it is not released: %s", asked(plan.Next(s.observation())))
	}
}

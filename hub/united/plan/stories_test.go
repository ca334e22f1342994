package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/seeds"
)

// TestSelectedStories tells random stories of a fleet by selector: members join, leave, are relabelled, come back, are
// upgraded, taken off and joined again, at any step of a release, beside all that TestReleases does.
func TestSelectedStories(t *testing.T) {
	t.Parallel()
	runs := uint64(50)
	if testing.Short() {
		runs = 30
	}
	for seed, to := seeds.Range(t, runs); seed < to; seed++ {
		tell(t, seed)
	}
}

// story is a world with what its invariants remember.
type story struct {
	*world

	r    *rand.Rand
	d    dresser
	late []Push
	// away are members whose MemberCluster was deleted.
	away map[string]*member
	// last seen of the passes: the entries, the release, and the shares of a total.
	before *appsv1alpha1.UnitedDeploymentStatus
	shares map[string]int32
	closed map[string]bool
}

var tiers = []string{"tier=a", "tier=b", "tier=c", ""}

func tell(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	s := &story{r: r, d: dresser{r: r, kinds: []string{"cloneSet"}}, away: map[string]*member{}, shares: map[string]int32{}, closed: map[string]bool{}}
	ud := united("web", int32(1+r.IntN(30)), "web:1")
	for i := range 1 + r.IntN(3) {
		ud.Spec.Topology.SubsetTemplates = append(ud.Spec.Topology.SubsetTemplates, s.template(i))
	}
	if r.IntN(3) == 0 {
		ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, sub("listed", "m0", ""))
	}
	s.world = newWorld(&failure{TB: t, seed: seed}, ud)
	for i := range 2 + r.IntN(5) {
		s.join(fmt.Sprintf("m%d:%s", i, tiers[r.IntN(3)]))
	}
	if s.members["m0"] == nil {
		s.join("m0:tier=a")
	}
	if seed%3 == 1 {
		s.d.kinds = []string{"cloneSet", "deployment", []string{"statefulSet", "advancedStatefulSet"}[r.IntN(2)]}
		s.d.dress(s.ud, "web:1", 0)
	}
	s.partition()
	s.settleAll()
	image := 1
	for range 70 {
		switch r.IntN(9) {
		case 0:
			image++
			s.d.dress(s.ud, fmt.Sprintf("web:%d", image), image)
		case 1:
			if n := 1 + r.IntN(image); r.IntN(2) == 0 {
				s.d.dress(s.ud, fmt.Sprintf("web:%d", n), n)
			}
		case 2:
			s.partition()
		case 3:
			s.ud.Spec.Replicas = new(int32(1 + r.IntN(30)))
			s.ud.Generation++
			s.edited()
		case 4, 5:
			s.fleetChanges()
		case 6:
			s.confirm()
		default:
		}
		s.step()
	}
	s.end(seed)
}

// template is a random one; the tiers differ, so that one is nobody's now and then.
func (s *story) template(i int) appsv1alpha1.SubsetSelector {
	t := tmpl(tiers[i], "")
	if s.r.IntN(3) == 0 {
		t.WhenUnselected = appsv1alpha1.UnselectedDrain
	}
	if s.r.IntN(3) == 0 {
		t.Patch = rawJSON(fmt.Sprintf(`{"metadata":{"annotations":{"of":"template-%d"}}}`, i))
	}
	return t
}

// someone is a random member.
func (s *story) someone() *member {
	names := s.memberNames()
	return s.members[names[s.r.IntN(len(names))]]
}

// fleetChanges is one thing that happens to a member.
func (s *story) fleetChanges() {
	m := s.someone()
	switch s.r.IntN(12) {
	case 0, 1, 2:
		if m.name != "" {
			m.relabel(tiers[s.r.IntN(len(tiers))])
		}
	case 3:
		if len(s.members)+len(s.away) < 9 {
			s.join(fmt.Sprintf("m%d:%s", len(s.members)+len(s.away)+3, tiers[s.r.IntN(3)]))
		}
	case 4:
		if m.name != "" && m.name != "m0" {
			delete(s.members, m.name)
			s.away[m.name] = m
		}
	case 5:
		for _, name := range sortedKeys(s.away) {
			s.members[name] = s.away[name]
			s.members[name].deleting = false
			delete(s.away, name)
			break
		}
	case 6:
		m.deleting = m.name != "" && !m.deleting
	case 7:
		m.noGrants = []string{"", "it is being upgraded"}[s.r.IntN(2)]
	case 8:
		m.down = !m.down
	case 9:
		m.agentOff = !m.agentOff
	case 10:
		if m.shown != nil {
			m.shown = nil
		} else {
			s.freezeCache(m.name)
		}
	case 11:
		s.editTemplates(m)
	}
}

// editTemplates is a person's change of the list of templates, or of who takes workloads.
func (s *story) editTemplates(m *member) {
	list := &s.ud.Spec.Topology.SubsetTemplates
	switch s.r.IntN(4) {
	case 0:
		m.notAllowed = []string{"", "not for you"}[s.r.IntN(2)]
	case 1:
		t := &(*list)[s.r.IntN(len(*list))]
		t.WhenUnselected = []string{"", appsv1alpha1.UnselectedDrain}[s.r.IntN(2)]
	case 2:
		*list = append(*list, s.template(s.r.IntN(3)))
	case 3:
		if len(*list) > 1 {
			*list = slices.Delete(slices.Clone(*list), 0, 1)
		}
	}
	s.ud.Generation++
	s.edited()
}

func (s *story) partition() {
	m := &appsv1alpha1.ManualUpdate{}
	switch s.r.IntN(4) {
	case 0:
		m.Partition = new(intstr.FromString(fmt.Sprintf("%d%%", s.r.IntN(101))))
	case 1:
		m.Partition = new(intstr.FromInt32(int32(s.r.IntN(20))))
	case 2:
		m.Unnamed = appsv1alpha1.UnnamedUpdate
	}
	if s.r.IntN(2) == 0 {
		m.Partitions = map[string]intstr.IntOrString{}
		for range 1 + s.r.IntN(3) {
			m.Partitions[fmt.Sprintf("m%d", s.r.IntN(8))] = intstr.FromInt32(int32(s.r.IntN(6)))
		}
	}
	s.ud.Spec.UpdateStrategy.ManualUpdate = m
	s.ud.Generation++
}

// confirm says yes to a removal that waits.
func (s *story) confirm() {
	c := s.condition(appsv1alpha1.ConditionRemovalHeld)
	if c == nil {
		return
	}
	_, value, _ := strings.Cut(c.Message, "(annotation "+appsv1alpha1.AnnotationConfirm+": ")
	s.ud.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: strings.TrimSuffix(value, ")")}
}

// step is one pass, some deliveries and some work of the members.
func (s *story) step() {
	s.late = append(s.late, s.judged()...)
	for _, p := range shuffled(s.r, s.late) {
		if s.r.IntN(3) > 0 {
			s.send(p)
		}
	}
	if len(s.late) > 12 {
		s.late = s.late[len(s.late)-12:]
	}
	s.work(func() bool { return s.r.IntN(2) == 0 })
	s.now = s.now.Add(time.Duration(s.r.IntN(2000)) * time.Millisecond)
}

// work lets the members' controllers, those of members that were taken off, too, do something.
func (s *story) work(does func() bool) {
	for _, fleet := range []map[string]*member{s.members, s.away} {
		for _, name := range sortedKeys(fleet) {
			m := fleet[name]
			for _, key := range sortedKeys(m.children) {
				if !m.agentOff && does() {
					m.children[key].agent()
				}
			}
		}
	}
	s.check()
	here := s.members
	s.members = s.away
	s.check()
	s.members = here
}

// judged is a pass and what holds of it.
func (s *story) judged() []Push {
	s.t.Helper()
	s.before = s.ud.Status.DeepCopy()
	o := s.observe()
	pushes := s.passOn(o)
	s.leftAlone(pushes)
	s.placed()
	s.grantsKept()
	s.sharesKept()
	s.closed = map[string]bool{}
	for name, m := range s.members {
		s.closed[name] = m.noGrants != ""
	}
	return pushes
}

// leftAlone: nothing is written to a member that is not selected any more.
func (s *story) leftAlone(pushes []Push) {
	s.t.Helper()
	for _, e := range s.ud.Status.SubsetStatuses {
		if e.State != stateUnselected && e.State != stateJoining {
			continue
		}
		if slices.ContainsFunc(pushes, func(p Push) bool { return p.Member == e.Cluster && p.Subset == e.Name }) {
			s.t.Fatalf("%s is %s and is pushed to", e.Name, e.State)
		}
	}
}

// placed: what is allotted is at least what is wanted, unless it is said, and in sum exactly that where nothing waits.
func (s *story) placed() {
	s.t.Helper()
	sum, places := int32(0), 0
	for _, n := range s.ud.Status.SubsetReplicas {
		sum += n
	}
	for _, e := range s.ud.Status.SubsetStatuses {
		if e.State != stateUnselected && e.State != stateJoining && e.State != stateLeaving {
			places++
		}
	}
	if places > 0 && sum < *s.ud.Spec.Replicas && s.condition(appsv1alpha1.ConditionAllocation) == nil {
		s.t.Fatalf("%d of %d replicas are placed: %v", sum, *s.ud.Spec.Replicas, s.states())
	}
}

// grantsKept: a member that takes nothing new keeps what it was granted of the release.
func (s *story) grantsKept() {
	s.t.Helper()
	was, now := s.before.Release, s.ud.Status.Release
	if was == nil || was.Revision != now.Revision || s.ud.Status.CurrentRevision == now.Revision || s.condition(appsv1alpha1.ConditionRefused) != nil {
		return
	}
	for name, n := range now.Grants {
		m, had := s.members[name], was.Grants[name]
		if m == nil || m.noGrants == "" || !s.closed[name] {
			continue
		}
		full := had > 0 && had >= s.before.SubsetReplicas[name]
		want := had
		if had >= s.ud.Status.SubsetReplicas[name] {
			want = 0 // scaled below its grant: held, because it must never look whole
		}
		if n != want && !full {
			s.t.Fatalf("%s is upgraded and was granted %d of %d, now %d of %d", name, had, s.before.SubsetReplicas[name], n, s.ud.Status.SubsetReplicas[name])
		}
	}
}

// sharesKept: while neither the release nor the spec changes, the share of a total stays, whoever comes or goes.
func (s *story) sharesKept() {
	s.t.Helper()
	release, manual := s.ud.Status.Release, s.ud.Spec.UpdateStrategy.ManualUpdate
	if manual.Partition == nil || s.ud.Status.CurrentRevision == release.Revision || s.condition(appsv1alpha1.ConditionRefused) != nil || len(s.d.kinds) > 1 {
		return
	}
	for name, grant := range release.Grants {
		_, named := manual.Partitions[name]
		all := s.ud.Status.SubsetReplicas[name]
		if m := s.members[name]; named || m == nil || m.noGrants != "" || grant <= 0 || grant >= all || slices.Contains([]string{stateUnselected, stateLeaving}, s.stateOf(name)) {
			continue
		}
		share := min(release.Replicas[name], all) - grant
		key := fmt.Sprintf("%s %s %s %v", release.Revision, name, manual.Partition.String(), manual.Partitions)
		if !slices.Contains(release.Order, name) {
			s.t.Fatalf("%s joined after the beginning and is granted %d of %d", name, grant, all)
		}
		if had, ok := s.shares[key]; ok && had != share && release.StartedAt.Equal(s.before.Release.StartedAt) {
			s.t.Fatalf("the share of %s was %d and is %d", key, had, share)
		}
		s.shares[key] = share
	}
	if s.before.Release == nil || !release.StartedAt.Equal(s.before.Release.StartedAt) || release.Revision != s.before.Release.Revision {
		clear(s.shares)
	}
}

func (s *story) stateOf(name string) string {
	for _, e := range s.ud.Status.SubsetStatuses {
		if e.Name == name {
			return e.State
		}
	}
	return ""
}

// send delivers a push; a delete is judged by what a person would say of it.
func (s *story) send(p Push) {
	s.t.Helper()
	m := s.members[p.Member]
	if m == nil {
		return
	}
	before := len(m.children)
	s.deliver(p)
	if p.Want != WantDeleted || len(m.children) == before || p.After != nil {
		return
	}
	for i, t := range s.ud.Spec.Topology.SubsetTemplates {
		matches := len(t.ClusterSelector.MatchLabels) == 0
		for k, v := range t.ClusterSelector.MatchLabels {
			matches = m.labels[k] == v
		}
		if matches && p.Subset == p.Member {
			s.t.Fatalf("%s is deleted and template %d selects it", p.Subset, i)
		}
	}
	keeps := !slices.ContainsFunc(s.ud.Spec.Topology.SubsetTemplates, func(t appsv1alpha1.SubsetSelector) bool { return t.WhenUnselected == appsv1alpha1.UnselectedDrain })
	if keeps {
		s.t.Fatalf("%s is deleted and no template drains", p.Subset)
	}
}

// settleAll lets everything come to rest.
func (s *story) settleAll() {
	s.t.Helper()
	for range 300 {
		before := s.fingerprint()
		for _, p := range s.judged() {
			s.send(p)
		}
		s.work(func() bool { return true })
		s.now = s.now.Add(time.Second)
		if before == s.fingerprint() && s.last.LookAgainIn == 0 && !s.last.StoreFirst {
			s.idle()
			return
		}
	}
	s.t.Fatalf("does not come to rest:\n%s", s.fingerprint())
}

// end heals everything, grants all and confirms what waits: then the release is finished, and all replicas are there.
func (s *story) end(seed uint64) {
	s.t.Helper()
	for _, m := range s.members {
		m.down, m.agentOff, m.shown, m.noGrants, m.notAllowed, m.deleting = false, false, nil, "", "", false
	}
	if s.r.IntN(2) == 0 {
		s.members["m0"].relabel("tier=a")
	}
	if seed%2 == 0 {
		for name, m := range s.away {
			s.members[name], m.deleting = m, false
			m.down, m.agentOff, m.shown, m.noGrants, m.notAllowed = false, false, nil, "", ""
		}
		clear(s.away)
	}
	s.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Partition: new(intstr.FromInt32(0))}
	s.ud.Generation++
	s.settleAll()
	for range 3 {
		if s.condition(appsv1alpha1.ConditionRemovalHeld) == nil {
			break
		}
		s.confirm()
		s.settleAll()
	}
	status := &s.ud.Status
	sum, places := int32(0), 0
	for _, e := range status.SubsetStatuses {
		if e.State == stateLeaving || e.State == stateJoining {
			s.t.Fatalf("it ends with %v", s.states())
		}
		if e.State != stateUnselected {
			places++
		}
		if e.Replicas < e.DesiredReplicas || (e.Replicas != e.DesiredReplicas && e.State != stateUnselected) {
			s.t.Fatalf("%s has %d pods: %v", e.Name, e.Replicas, s.states())
		}
		sum += e.DesiredReplicas
	}
	if places == 0 {
		return
	}
	if status.CurrentRevision != status.UpdatedRevision {
		s.t.Fatalf("everything is granted, and the release is not finished: %v", s.states())
	}
	if sum != *s.ud.Spec.Replicas && s.condition(appsv1alpha1.ConditionAllocation) == nil {
		s.t.Fatalf("%d replicas of %d: %v", sum, *s.ud.Spec.Replicas, s.states())
	}
}

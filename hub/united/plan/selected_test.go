package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// tmpl is a template of subsets that selects by one label, "key=value" or "" for every member.
func tmpl(label, replicas string) appsv1alpha1.SubsetSelector {
	t := appsv1alpha1.SubsetSelector{ClusterSelector: &metav1.LabelSelector{}}
	if key, value, ok := strings.Cut(label, "="); ok {
		t.ClusterSelector.MatchLabels = map[string]string{key: value}
	}
	if replicas != "" {
		t.Replicas = new(intstr.Parse(replicas))
	}
	return t
}

// selectedFleet is a world with an object that has templates, and with members: "name" or "name:key=value".
func selectedFleet(tb testing.TB, replicas int32, templates []appsv1alpha1.SubsetSelector, members ...string) *world {
	tb.Helper()
	ud := united("web", replicas, "web:1")
	ud.Spec.Topology.SubsetTemplates = templates
	ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Unnamed: appsv1alpha1.UnnamedUpdate}
	w := newWorld(tb, ud)
	for _, m := range members {
		w.join(m)
	}
	return w
}

// join adds a member, "name" or "name:key=value".
func (w *world) join(text string) *member {
	name, label, _ := strings.Cut(text, ":")
	m := &member{name: name, children: map[string]*cloneSet{}}
	w.members[name] = m
	m.relabel(label)
	return m
}

func (m *member) relabel(label string) {
	m.labels = nil
	if key, value, ok := strings.Cut(label, "="); ok {
		m.labels = map[string]string{key: value}
	}
}

func (w *world) hold(partition string) {
	w.ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{Partition: new(intstr.Parse(partition))}
	w.ud.Generation++
}

// states are the entries, in order, as "name state desired/pods".
func (w *world) states() []string {
	var out []string
	for _, s := range w.ud.Status.SubsetStatuses {
		out = append(out, fmt.Sprintf("%s %s %d/%d", s.Name, s.State, s.DesiredReplicas, s.Replicas))
	}
	return out
}

func (w *world) wants(states ...string) {
	w.t.Helper()
	if diff := cmp.Diff(states, w.states()); diff != "" {
		w.t.Fatalf("entries (-want +got):\n%s", diff)
	}
}

func TestSelectedMembersAreSubsets(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 10, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "c:tier=web", "a:tier=web", "d:tier=db", "b:tier=web", "e")
	w.run()
	w.wants("a Current 3/3", "b Current 3/3", "c Current 4/4")
	if got := w.entry("a"); got.Cluster != "a" || got.SelectedBy == "" {
		t.Errorf("entry %+v", got)
	}
	if c := w.condition("FieldsNotActedOn"); c != nil {
		t.Errorf("condition %+v", c)
	}
	if c := w.child("a"); c.name != w.entry("a").Workload {
		t.Errorf("child %+v", c)
	}
}

func TestTemplatesAreTakenInOrder(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 0, []appsv1alpha1.SubsetSelector{tmpl("tier=big", "5"), tmpl("tier=big", "9"), tmpl("", "2")}, "a:tier=big", "b", "c:tier=big")
	w.ud.Spec.Replicas = nil
	w.ud.Spec.Topology.Subsets = []appsv1alpha1.Subset{sub("c", "c", "1"), sub("local", "", "3")}
	w.run()
	w.wants("c Current 1/1", "local Current 3/3", "a Current 5/5", "b Current 2/2")
	if c := w.condition("AllocationCorrected"); c != nil {
		t.Errorf("condition %+v", c)
	}
}

// TestAListedNameWins: a listed subset keeps its name from the member that is called so, wherever it lives.
func TestAListedNameWins(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 9, []appsv1alpha1.SubsetSelector{tmpl("", "")}, "a", "b", "c")
	w.ud.Spec.Topology.Subsets = []appsv1alpha1.Subset{sub("a", "b", "")}
	w.run()
	w.wants("a Current 3/3", "b Current 3/3", "c Current 3/3")
	if got := w.entry("a").Cluster; got != "b" {
		t.Errorf("a lives in %s", got)
	}
	if c := w.condition("AllocationCorrected"); c == nil || !strings.Contains(c.Message, "member a gets no subset from subsetTemplates") {
		t.Errorf("condition %+v", c)
	}
}

func TestSelectorsThatCannotBeReadStopThePlan(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		template appsv1alpha1.SubsetSelector
		want     string
	}{
		"none":    {appsv1alpha1.SubsetSelector{}, "spec.topology.subsetTemplates[1].clusterSelector: must be set"},
		"cluster": {func() appsv1alpha1.SubsetSelector { s := tmpl("", ""); s.Cluster = "a"; return s }(), "spec.topology.subsetTemplates[1].cluster: "},
		"operator": {appsv1alpha1.SubsetSelector{ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: "Like", Values: []string{"web"}},
		}}}, "spec.topology.subsetTemplates[1].clusterSelector: "},
		"value": {tmpl("tier=not a value", ""), "spec.topology.subsetTemplates[1].clusterSelector: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := selectedFleet(t, 4, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "a:tier=web", "b:tier=web")
			w.run()
			w.ud.Spec.Topology.SubsetTemplates = append(w.ud.Spec.Topology.SubsetTemplates, tc.template)
			w.ud.Generation++
			if pushes := w.pass(); len(pushes) > 0 {
				t.Errorf("it pushes %v", pushes)
			}
			if c := w.condition("Invalid"); c == nil || !strings.Contains(c.Message, tc.want) {
				t.Errorf("condition %+v", c)
			}
			w.wants("a Current 2/2", "b Current 2/2")
		})
	}
}

// TestUnselectedStaysAsItIs: nobody else grows, nothing is written or deleted there, the release ends without it, and it
// comes back to where it was.
func TestUnselectedStaysAsItIs(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 9, []appsv1alpha1.SubsetSelector{tmpl("tier=web", "")}, "a:tier=web", "b:tier=web", "c:tier=web")
	w.run()
	w.hold("6")
	setImage(w.ud, "web:2")
	w.run()
	if w.ud.Status.UpdatedReplicas != 3 {
		t.Fatalf("%+v", w.ud.Status)
	}
	grants := w.ud.Status.Release.Grants
	clear(w.writes)
	w.members["b"].relabel("tier=db")
	w.run()
	w.wants("a Held 3/3", "c Held 3/3", "b Unselected 3/3")
	if len(w.writes) > 0 {
		t.Errorf("writes %v", w.writes)
	}
	if diff := cmp.Diff(grants, w.ud.Status.Release.Grants); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int32{"a": 3, "b": 3, "c": 3}, w.ud.Status.SubsetReplicas); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	if e := w.entry("b"); e.UpdatedReplicas != 1 || len(e.Conditions) != 1 || e.Conditions[0].Type != "Unselected" {
		t.Errorf("entry %+v", e)
	}
	if c := w.condition("Unselected"); c == nil || !strings.Contains(c.Message, "b: 3 replicas") {
		t.Errorf("condition %+v", c)
	}
	if c := w.condition("Ready"); c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
	w.members["b"].relabel("tier=web")
	w.run()
	w.wants("a Held 3/3", "b Held 3/3", "c Held 3/3")
	if len(w.writes) > 0 {
		t.Errorf("writes %v", w.writes)
	}
	if diff := cmp.Diff(grants, w.ud.Status.Release.Grants); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
	w.members["b"].relabel("")
	w.hold("0")
	w.run()
	if w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision || w.ud.Status.UpdatedReplicas != 7 {
		t.Errorf("the release waits for who is not in the plan: %+v", w.ud.Status)
	}
	w.ud.Spec.Replicas = ptr.To[int32](13)
	w.ud.Generation++
	w.run()
	w.wants("a Current 5/5", "c Current 5/5", "b Unselected 3/3")
	w.members["b"].relabel("tier=web")
	w.run()
	if w.ud.Status.UpdatedReplicas != 13 || w.ud.Status.Replicas != 13 {
		t.Errorf("back it is not updated: %v", w.states())
	}
}

func TestDrainIsMakeBeforeBreak(t *testing.T) {
	t.Parallel()
	drain := tmpl("tier=web", "")
	drain.WhenUnselected = appsv1alpha1.UnselectedDrain
	w := selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{drain}, "a:tier=web", "b:tier=web", "c:tier=web", "d:tier=web", "e:tier=web", "f:tier=web")
	w.run()
	w.members["b"].relabel("")
	w.members["f"].agentOff = true
	w.run()
	if e := w.entry("b"); e.State != stateLeaving || e.Replicas != 2 || !strings.Contains(e.Message, "taken over: f") {
		t.Fatalf("entry %+v", e)
	}
	w.members["f"].agentOff = false
	w.run()
	if len(w.members["b"].children) > 0 || w.ud.Status.Replicas != 12 || len(w.ud.Status.SubsetStatuses) != 5 {
		t.Errorf("%v", w.states())
	}
	// Two of five at once are asked about, and nothing is moved until they are confirmed.
	w.members["a"].relabel("")
	w.members["c"].relabel("")
	clear(w.writes)
	w.run()
	if c := w.condition("RemovalHeld"); c == nil || !strings.Contains(c.Message, "a,c leave") {
		t.Errorf("condition %+v", c)
	}
	if len(w.writes) > 0 || w.ud.Status.Replicas != 12 {
		t.Errorf("writes %v, %v", w.writes, w.states())
	}
	w.ud.Annotations = map[string]string{appsv1alpha1.AnnotationConfirm: "RemovalHeld/a,c"}
	w.run()
	w.wants("d Current 4/4", "e Current 4/4", "f Current 4/4")
	if len(w.members["a"].children)+len(w.members["c"].children) > 0 {
		t.Error("children stayed")
	}
}

// TestB135 gives the plan a list of members that is empty once, one that has shrunk to a half, and one that is short of one.
func TestB135(t *testing.T) {
	t.Parallel()
	members := []string{"a:tier=web", "b:tier=web", "c:tier=web", "d:tier=web", "e:tier=web", "f:tier=web"}
	for _, when := range []string{appsv1alpha1.UnselectedKeep, appsv1alpha1.UnselectedDrain} {
		for _, lost := range []string{"abcdef", "abc", "a"} {
			t.Run(when+" without "+lost, func(t *testing.T) {
				t.Parallel()
				template := tmpl("tier=web", "")
				template.WhenUnselected = when
				w := selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{template}, members...)
				w.run()
				w.hold("6")
				setImage(w.ud, "web:2")
				w.run()
				status, grants := w.states(), w.ud.Status.Release.Grants
				all := w.members
				short := map[string]*member{"": all[""]}
				for name, m := range all {
					if !strings.Contains(lost, name) {
						short[name] = m
					}
				}
				clear(w.writes)
				w.members = short
				for range 3 {
					for _, p := range w.pass() {
						if p.Want != WantApplied {
							t.Errorf("it wants %s %s", p.Want, p.Name)
						}
						w.deliver(p)
					}
				}
				one := len(lost) == 1
				if len(w.writes) > 0 && !one {
					t.Errorf("writes %v", w.writes)
				}
				if c := w.condition("RemovalHeld"); (c == nil) != one {
					t.Errorf("condition %+v", c)
				}
				w.members = all
				w.run()
				if one {
					return // its replicas moved on and came back
				}
				if diff := cmp.Diff(status, w.states()); diff != "" {
					t.Errorf("after the next good list (-before +after):\n%s", diff)
				}
				if diff := cmp.Diff(grants, w.ud.Status.Release.Grants); diff != "" || len(w.writes) > 0 {
					t.Errorf("writes %v, grants (-before +after):\n%s", w.writes, diff)
				}
			})
		}
	}
}

// TestB137 drops a subset and scales down in one edit: nothing is given to the one that goes, and the total is met.
func TestB137(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 6, "web:1", sub("a", "a", ""), sub("b", "b", ""), sub("c", "c", "")))
	partitions(w.ud, map[string]string{"a": "0", "b": "0", "c": "0"})
	w.run()
	w.ud.Spec.Topology.Subsets = w.ud.Spec.Topology.Subsets[:2]
	w.ud.Spec.Replicas = ptr.To[int32](4)
	w.ud.Generation++
	w.edited()
	w.run()
	w.wants("a Current 2/2", "b Current 2/2")
	if c := w.condition("UnknownSubsets"); c == nil || !strings.Contains(c.Message, "c") {
		t.Errorf("the entry of partitions that is left over is not said: %+v", c)
	}
	if len(w.members["c"].children) > 0 {
		t.Error("c has still a child")
	}
}

// TestB137Selected is the same by selector: the member that leaves while the total is lowered keeps what it has, and the
// others get the rest of the new total, or it is drained.
func TestB137Selected(t *testing.T) {
	t.Parallel()
	for when, want := range map[string][]string{
		appsv1alpha1.UnselectedKeep:  {"a Current 1/1", "b Current 1/1", "c Unselected 2/2"},
		appsv1alpha1.UnselectedDrain: {"a Current 2/2", "b Current 2/2"},
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			template := tmpl("tier=web", "")
			template.WhenUnselected = when
			w := selectedFleet(t, 6, []appsv1alpha1.SubsetSelector{template}, "a:tier=web", "b:tier=web", "c:tier=web")
			w.run()
			w.members["c"].relabel("")
			w.ud.Spec.Replicas = ptr.To[int32](4)
			w.ud.Generation++
			w.edited()
			w.run()
			w.wants(want...)
		})
	}
}

// TestJoining: who comes in mid-release is made from the completed template and held; it takes no replicas from the others
// before it can place them, and no part in the division.
func TestJoining(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{tmpl("", "")}, "a", "b")
	w.run()
	w.hold("8")
	setImage(w.ud, "web:2")
	w.run()
	if w.ud.Status.UpdatedReplicas != 4 {
		t.Fatalf("%+v", w.ud.Status)
	}
	c := w.join("c")
	c.down = true
	clear(w.writes)
	w.run()
	w.wants("a Held 6/6", "b Held 6/6", "c Joining 0/0")
	if len(w.writes) > 0 {
		t.Errorf("writes %v", w.writes)
	}
	if got := w.condition("Joining"); got == nil || !strings.Contains(got.Message, "c: member c is not heard from") {
		t.Errorf("condition %+v", got)
	}
	c.down, c.notAllowed = false, "not for you"
	w.run()
	w.wants("a Held 6/6", "b Held 6/6", "c Joining 0/0")
	c.notAllowed, c.noGrants = "", "it is being upgraded"
	w.run()
	w.wants("a Held 6/6", "b Held 6/6", "c Joining 0/0")
	c.noGrants = ""
	w.run()
	w.wants("a Held 4/4", "b Held 4/4", "c Held 4/4")
	if got := w.child("c").count(w.child("c").current); got != 4 || w.entry("c").UpdatedReplicas > 0 {
		t.Errorf("the new member has %+v", w.child("c"))
	}
	if diff := cmp.Diff([]string{"a", "b"}, w.ud.Status.Release.Order); diff != "" {
		t.Errorf("the division (-want +got):\n%s", diff)
	}
	w.hold("1")
	w.run()
	if w.entry("c").UpdatedReplicas > 0 {
		t.Errorf("the new member is granted something before everything is: %+v", w.entry("c"))
	}
	w.hold("0%")
	w.run()
	if w.ud.Status.UpdatedReplicas != 12 || w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision {
		t.Errorf("%v", w.states())
	}
}

// TestNoGrants: what an upgrading member was granted stays, whatever the spec says, and the release waits for it.
func TestNoGrants(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{tmpl("", "")}, "a", "b")
	w.run()
	w.hold("8")
	setImage(w.ud, "web:2")
	w.run()
	w.members["b"].noGrants = "the member is being upgraded"
	for _, partition := range []string{"4", "0", "12"} {
		w.hold(partition)
		w.run()
		if got := w.ud.Status.Release.Grants["b"]; got != 2 || w.entry("b").UpdatedReplicas != 2 {
			t.Fatalf("partition %s: b has %d granted and %d updated", partition, got, w.entry("b").UpdatedReplicas)
		}
	}
	w.hold("0")
	w.run()
	if w.ud.Status.CurrentRevision == w.ud.Status.UpdatedRevision {
		t.Error("the release is finished")
	}
	if e := w.entry("b"); e.State != stateHeld || !strings.Contains(e.Message, "being upgraded") || strings.Contains(e.Message, "kubectl patch") {
		t.Errorf("entry %+v", e)
	}
	w.members["b"].noGrants = ""
	w.run()
	if w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision || w.ud.Status.UpdatedReplicas != 12 {
		t.Errorf("%v", w.states())
	}
	// Going back is no grant.
	w.hold("0")
	setImage(w.ud, "web:3")
	for range 6 {
		for _, p := range w.pass() {
			w.deliver(p)
		}
		for _, m := range w.members {
			for _, c := range m.children {
				c.agent()
			}
		}
	}
	w.members["b"].noGrants = "the member is being upgraded"
	setImage(w.ud, "web:2")
	w.run()
	for _, name := range []string{"a", "b"} {
		if c := w.child(name); c.count(c.label) != 6 || c.label != w.entry(name).Revision || w.entry(name).State != stateCurrent {
			t.Errorf("%s is not back: %+v", name, w.entry(name))
		}
	}
}

// TestMemberGone: a MemberCluster that is deleted leaves its workload where it is, and its replicas to the others.
func TestMemberGone(t *testing.T) {
	t.Parallel()
	w := selectedFleet(t, 12, []appsv1alpha1.SubsetSelector{tmpl("", "")}, "a", "b", "c")
	w.run()
	b := w.members["b"]
	b.deleting = true
	clear(w.writes)
	w.run()
	w.wants("a Current 4/4", "c Current 4/4", "b Unselected 4/4")
	if e := w.entry("b"); !strings.Contains(e.Message, "its MemberCluster is being deleted") || len(w.writes) > 0 {
		t.Errorf("writes %v, entry %+v", w.writes, e)
	}
	delete(w.members, "b")
	w.run()
	w.wants("a Current 6/6", "c Current 6/6")
	if got := len(w.child2(b)); got != 1 || b.children[w.child2(b)[0]].replicas != 4 {
		t.Errorf("the member that was taken off has %v", b.children)
	}
	b.deleting = false
	w.members["b"] = b
	w.run()
	w.wants("a Current 4/4", "b Current 4/4", "c Current 4/4")
}

func (w *world) child2(m *member) []string { return sortedKeys(m.children) }

package plan

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/feedback"
)

// hostile draws what may be stored or told.
type hostile struct{ *rapid.T }

func (h hostile) yes(what string) bool { return rapid.Bool().Draw(h.T, what) }

func (h hostile) oneOf(what string, of ...string) string {
	return rapid.SampledFrom(of).Draw(h.T, what)
}

func (h hostile) name(what string) string {
	return h.oneOf(what, "a", "b", "c", "z", "", "A,B", "x/y", "\u00fc")
}

func (h hostile) kind(what string) string {
	return h.oneOf(what, "", "CloneSet.apps.kruise.io", "StatefulSet.apps", "StatefulSet.apps.kruise.io", "Deployment.apps", "Pod", "Nonsense.x.y")
}

func numbers() *rapid.Generator[int32] {
	return rapid.SampledFrom([]int32{0, 1, 2, 3, 4, 9, -1, -5, 1000, math.MaxInt32, math.MinInt32})
}

func (h hostile) number(what string) int32 { return numbers().Draw(h.T, what) }

// united is an object of every shape.
func (h hostile) united() *appsv1alpha1.UnitedDeployment {
	ud := united("web", rapid.SampledFrom([]int32{0, 1, 4, 9}).Draw(h.T, "replicas"), "web:1")
	topology := &ud.Spec.Topology
	if h.yes("list") {
		topology.Subsets = []appsv1alpha1.Subset{sub("a", "a", ""), sub("b", "b", h.oneOf("b", "", "1", "50%"))}
	}
	if h.yes("selector") {
		s := tmpl("", "")
		if h.yes("drain") {
			s.WhenUnselected = appsv1alpha1.UnselectedDrain
		}
		topology.SubsetTemplates = []appsv1alpha1.SubsetSelector{s}
	}
	if h.yes("adaptive") {
		topology.ScheduleStrategy.Type = appsv1alpha1.ScheduleAdaptive
		topology.ScheduleStrategy.Adaptive = &appsv1alpha1.AdaptiveStrategy{ReserveUnschedulablePods: h.yes("reserve"), UnreachableSeconds: new(int32(5))}
	}
	ud.Spec.UpdateStrategy.ManualUpdate = &appsv1alpha1.ManualUpdate{}
	if h.yes("partition") {
		ud.Spec.UpdateStrategy.ManualUpdate.Partition = new(intstr.Parse(h.oneOf("p", "0", "3", "50%", "-1", "200%", "999999999999", "x")))
	}
	return ud
}

// entry is one of a status that nobody of ours wrote.
func (h hostile) entry() appsv1alpha1.SubsetStatus {
	e := appsv1alpha1.SubsetStatus{
		Name: h.name("name"), Cluster: h.name("cluster"), Kind: h.kind("kind"), Workload: h.name("workload"), Revision: h.name("revision"),
		State:      h.oneOf("state", "", stateCurrent, stateHeld, stateLeaving, stateJoining, stateUnselected, stateStale, "Nonsense"),
		SelectedBy: h.oneOf("by", "", "k", selectedOnce), DesiredReplicas: h.number("desired"), Replicas: h.number("pods"), ReadyReplicas: h.number("ready"),
		AwaitedReplicas: h.number("awaited"), ReservedPods: h.number("reserved"), Granted: h.number("granted"), Partition: h.number("partition"),
	}
	if h.yes("condition") {
		e.Conditions = []metav1.Condition{{
			Type: h.oneOf("type", "Schedulable", "Reachable", "Unselected"), Status: "False",
			Reason: h.oneOf("reason", "", reasonLost, reasonComingBack, reasonNotHeard, reasonReschedule),
		}}
	}
	return e
}

// spoil writes what it likes into a status.
func (h hostile) spoil(s *appsv1alpha1.UnitedDeploymentStatus) {
	for range rapid.IntRange(0, 4).Draw(h.T, "entries") {
		s.SubsetStatuses = append(s.SubsetStatuses, h.entry())
	}
	names := rapid.SampledFrom([]string{"a", "b", "z", ""})
	if h.yes("maps") {
		s.SubsetReplicas = rapid.MapOf(names, numbers()).Draw(h.T, "replicas")
	}
	if h.yes("release") && s.Release != nil {
		s.Release.Grants = rapid.MapOf(names, numbers()).Draw(h.T, "grants")
		s.Release.Replicas = rapid.MapOf(names, rapid.Int32Range(0, math.MaxInt32)).Draw(h.T, "frozen")
		s.Release.Order = rapid.SliceOf(names).Draw(h.T, "order")
	}
	if h.yes("lost revision") {
		s.CurrentRevision = h.name("current")
	}
}

// child is one that a member tells of, with the mark of the object.
func (h hostile) child() Child {
	c := Child{Member: h.name("member"), Unreadable: h.oneOf("unreadable", "", "", "x"), Report: feedback.Report{
		Kind: h.kind("kind"), Name: h.name("name"), UID: types.UID(h.name("uid")), Subset: h.name("subset"), SubsetRevision: h.name("revision"),
		SpecReplicas: new(h.number("spec")), Replicas: h.number("pods"), Ready: h.number("ready"), Updated: h.number("updated"), Available: h.number("available"),
		Fresh: h.yes("fresh"), Intent: "1/ud-uid/1/1", Partition: h.oneOf("partition", "", "0", "100%", "x"),
	}}
	if h.yes("scaled") {
		c.Report.ScaledBy = []string{"hpa"}
	}
	return c
}

// trouble is what becomes of the members.
func (h hostile) trouble(o *Observation) {
	for _, name := range sortedKeys(o.Members) {
		m := o.Members[name]
		switch rapid.IntRange(0, 6).Draw(h.T, "member") {
		case 0:
			delete(o.Members, name)
			continue
		case 1:
			m.Ready, m.Problem = false, "away"
		case 2:
			m.Ready, m.Settling = false, true
		case 3:
			m.Draining = true
		case 4:
			m.NoGrants = "upgrading"
		default:
		}
		o.Members[name] = m
	}
}

// TestNothingThatIsStoredOrToldMakesAPanic: whatever the status says and members tell, the plan answers, twice the same, changes
// nothing of what was observed, and no child is sent a number of replicas that cannot be.
func TestNothingThatIsStoredOrToldMakesAPanic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := hostile{rt}
		w := newWorld(t, h.united())
		for _, n := range []string{"a", "b", "c", "z"} {
			w.join(n)
		}
		for range rapid.IntRange(0, 4).Draw(rt, "before") {
			for _, p := range w.pass() {
				w.deliver(p)
			}
			w.agents()
			w.now = w.now.Add(time.Second)
		}
		if h.yes("another template") {
			setImage(w.ud, "web:2")
		}
		if rapid.IntRange(0, 5).Draw(rt, "most") == 0 {
			w.ud.Spec.Replicas = new(int32(math.MaxInt32))
		}
		h.spoil(&w.ud.Status)
		o := w.observe()
		for range rapid.IntRange(0, 3).Draw(rt, "told") {
			o.Children = append(o.Children, h.child())
		}
		h.trouble(&o)
		before := o.United.DeepCopy()
		d := Next(o, w.now)
		if again := Next(o, w.now); !equal(d.Status, again.Status) || len(d.Pushes) != len(again.Pushes) || !equal(before, o.United) {
			rt.Fatal("two answers to one observation, or it was changed")
		}
		for _, p := range d.Pushes {
			if p.Want == WantApplied && p.Input.Replicas != nil && *p.Input.Replicas < 0 {
				rt.Fatalf("%s is sent %d replicas", p.Subset, *p.Input.Replicas)
			}
		}
	})
}

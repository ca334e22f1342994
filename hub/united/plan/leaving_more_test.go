package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/feedback"
	"github.com/underway-dev/underway/propagation/render"
)

// TestALeaverWaitsForASettledAllocation: numbers that contradict each other are not acted on for a moment after an edit; a
// subset that the same edit takes out is not deleted by what the others had before it.
func TestALeaverWaitsForASettledAllocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 15, "web:1", sub("a", "a", "5"), sub("b", "b", "5"), sub("c", "c", "5")))
	w.run()
	w.ud.Spec.Topology.Subsets = w.ud.Spec.Topology.Subsets[:2] // replicas stay 15: a contradiction, or the first half of an edit
	w.ud.Generation++
	w.edited()
	for range 3 {
		for _, p := range w.pass() {
			w.deliver(p)
		}
		if w.child("c") == nil {
			t.Fatalf("c went while a has %d and b %d of 15", w.child("a").replicas, w.child("b").replicas)
		}
		w.now = w.now.Add(300 * time.Millisecond)
	}
	w.run()
	if w.child("c") != nil || w.child("a").replicas+w.child("b").replicas != 15 {
		t.Errorf("c stayed, or the others have not all: %+v", w.ud.Status.SubsetStatuses)
	}
}

// TestAnUnreadableOldChildStays: what cannot be read may have any number of pods, so that no new child has taken over from it.
func TestAnUnreadableOldChildStays(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, "cloneSet", map[string]string{"a": "0", "b": "0"})
	template(w.ud, "deployment", "web:2")
	for range 200 {
		o := w.observe()
		for i := range o.Children {
			if r := &o.Children[i].Report; r.Kind == "CloneSet.apps.kruise.io" && o.Children[i].Member == "a" {
				o.Children[i] = Child{Member: "a", Unreadable: "spec.replicas is a text", Report: feedback.Report{
					Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID, Subset: r.Subset, Intent: r.Intent,
				}}
			}
		}
		for _, p := range w.passOn(o) {
			w.deliver(p)
		}
		w.agents()
		w.now = w.now.Add(time.Second)
	}
	if got := w.kindsAt("a"); len(got) != 2 {
		t.Errorf("a has %v, and what could not be read is gone", got)
	}
	if e := w.entry("a"); !strings.Contains(e.Message, "cannot be read: spec.replicas is a text") {
		t.Errorf("a says %q", e.Message)
	}
	if got := w.kindsAt("b"); len(got) != 1 {
		t.Errorf("b has %v: it could be read", got)
	}
}

// TestClaimsOfAnUnknownTemplateAreAskedAbout: a leaver whose template is not known here may have claims; where several leave,
// the person who confirms is told of the claims, too.
func TestClaimsOfAnUnknownTemplateAreAskedAbout(t *testing.T) {
	t.Parallel()
	claims := `{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}},
		"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{}}]}`
	for name, tc := range map[string]struct {
		kind     string
		template string
		unknown  bool
		leave    int
		says     []string
	}{
		"one, its template is not known": {"cloneSet", "", true, 1, []string{"claims may be deleted with the child of c, whose template is not known here"}},
		"one, without claims":            {"cloneSet", "", false, 1, nil},
		"one, with claims":               {"cloneSet", claims, false, 1, []string{"claims are deleted with the child of c"}},
		"one, whose claims are kept":     {"advancedStatefulSet", claims, false, 1, nil},
		"one whose policy deletes claims": {
			"statefulSet", strings.TrimSuffix(claims, "}") + `,"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"}}`, false, 1,
			[]string{"claims are deleted with the child of c"},
		},
		"several, with claims":                 {"cloneSet", claims, false, 2, []string{"several subsets leave at once", "claims are deleted with the child of b, c"}},
		"several, their templates not known":   {"cloneSet", "", true, 2, []string{"several subsets leave at once", "claims may be deleted with the child of b, c"}},
		"several, and nothing is lost by them": {"cloneSet", "", false, 2, []string{"several subsets leave at once"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ud := united("web", 9, "web:1", sub("a", "a", ""), sub("b", "b", ""), sub("c", "c", ""))
			if tc.template == "" {
				template(ud, tc.kind, "web:1")
			} else {
				templateSpec(ud, tc.kind, tc.template)
			}
			w := newWorld(t, ud)
			w.run()
			for _, of := range []string{"b", "c"} {
				if tc.unknown {
					w.child(of).label = "0123456789"
				}
			}
			w.ud.Spec.Topology.Subsets = w.ud.Spec.Topology.Subsets[:3-tc.leave]
			w.ud.Generation++
			w.run()
			message := ""
			if at := entryNamed(w.ud.Status.SubsetStatuses, "c"); at != nil {
				message = at.Message
			}
			for _, want := range tc.says {
				if !strings.Contains(message, want) {
					t.Errorf("c says %q, not %q", message, want)
				}
			}
			if gone := w.child("c") == nil; gone == (len(tc.says) > 0) {
				t.Errorf("gone is %t; it says %q", gone, message)
			}
		})
	}
}

// TestARenamedSubsetWithClaims: the pods of the new name, or of the other cluster, begin with empty volumes: a person is asked
// before the old ones go, also when the new ones are long ready.
func TestARenamedSubsetWithClaims(t *testing.T) {
	t.Parallel()
	const spec = `{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}},
		"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{}}]}`
	for name, tc := range map[string]struct {
		kind string
		next appsv1alpha1.Subset
		held string
	}{
		"renamed":                {"statefulSet", sub("d", "c", ""), "c"},
		"renamed, advanced":      {"advancedStatefulSet", sub("d", "c", ""), "c"},
		"moved":                  {"statefulSet", sub("c", "a", ""), "c@c"},
		"renamed without claims": {"deployment", sub("d", "c", ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ud := united("web", 9, "web:1", sub("a", "a", ""), sub("b", "b", ""), sub("c", "c", ""))
			templateSpec(ud, tc.kind, spec)
			if tc.kind == "deployment" {
				template(ud, tc.kind, "web:1")
			}
			w := newWorld(t, ud)
			w.run()
			w.ud.Spec.Topology.Subsets[2] = tc.next
			w.ud.Generation++
			w.run()
			w.run()
			c := w.condition("RemovalHeld")
			if (c != nil) != (tc.held != "") {
				t.Fatalf("%+v; %+v", c, w.ud.Status.SubsetStatuses)
			}
			if tc.held == "" {
				return
			}
			if !strings.Contains(c.Message, "stay where they are, and the pods of the new subset start with empty volumes") {
				t.Errorf("it says %q", c.Message)
			}
			if got := w.members["c"].children[kindOf(t, tc.kind)+"/"+w.ud.Status.SubsetStatuses[3].Workload]; got == nil {
				t.Fatalf("the old child is gone: %+v", w.ud.Status.SubsetStatuses)
			}
			w.ud.Annotations = map[string]string{"fleet.underway.dev/confirm": "RemovalHeld/" + tc.held}
			w.run()
			if n := len(w.ud.Status.SubsetStatuses); n != 3 {
				t.Errorf("confirmed, and still there: %+v", w.ud.Status.SubsetStatuses)
			}
		})
	}
}

func kindOf(t *testing.T, field string) string {
	t.Helper()
	for _, k := range render.Kinds() {
		if k.Template == field+"Template" {
			return KindName(k)
		}
	}
	t.Fatal(field)
	return ""
}

// TestASubsetJustMadeWaitsForAPerson: several that leave before their children have been seen are asked about as others are.
func TestASubsetJustMadeWaitsForAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 6, "web:1", sub("a", "a", "2"), sub("b", "b", "2"), sub("c", "c", "2")))
	for _, m := range w.members {
		m.shown = map[string]*cloneSet{} // the hub's cache is behind
	}
	for range 6 {
		for _, p := range w.pass() {
			w.deliver(p)
		}
		w.now = w.now.Add(time.Second)
	}
	w.ud.Spec.Topology.Subsets = w.ud.Spec.Topology.Subsets[:1]
	w.ud.Generation++
	for range 3 {
		o := w.observe()
		for _, of := range []string{"b", "c"} {
			o.Deliveries[Target{of, "CloneSet.apps.kruise.io", w.child(of).name}] = Delivery{}
		}
		d := Next(o, w.now)
		for _, p := range d.Pushes {
			if p.Want == WantDeleted {
				t.Fatalf("%s is deleted, and nobody was asked: %+v", p.Subset, d.Status.SubsetStatuses)
			}
		}
		if at := entryNamed(d.Status.SubsetStatuses, "b"); at == nil || !strings.Contains(at.Message, "several subsets leave at once") {
			t.Fatalf("b says %+v", at)
		}
	}
}

func entryNamed(all []appsv1alpha1.SubsetStatus, name string) *appsv1alpha1.SubsetStatus {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// TestAMemberThatInventsChildren: thousands of children that carry the object's mark, and that it never had, do not fill its
// status; they go bit by bit, and the message has their number.
func TestAMemberThatInventsChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 6, "web:1", sub("a", "a", ""), sub("b", "b", "")))
	w.run()
	known := w.child("b")
	for i := range 3000 {
		c := *known
		c.name, c.subset, c.uid, c.pods, c.replicas, c.ready = fmt.Sprintf("x%04d", i), fmt.Sprintf("x%04d", i), fmt.Sprintf("x-%d", i), nil, 0, 0
		w.members["b"].children[c.key()] = &c
	}
	w.turns(5)
	if n := len(w.ud.Status.SubsetStatuses); n != 2+strangers {
		t.Errorf("the status has %d subsets", n)
	}
	if text := fmt.Sprint(w.ud.Status.Conditions); !strings.Contains(text, "member b has 2990 more children") {
		t.Errorf("it does not say so: %s", text)
	}
	if w.child("a") == nil || w.child("b") == nil {
		t.Error("its own children are gone")
	}
}

// TestManyUnknownChildrenWaitForAPerson: a hub restored from an older backup finds the children of subsets that were added since.
// That only ten of a member are looked at does not make them few: nobody is asked about ten of forty-one.
func TestManyUnknownChildrenWaitForAPerson(t *testing.T) {
	t.Parallel()
	var subsets []appsv1alpha1.Subset
	for i := range 31 {
		subsets = append(subsets, sub(fmt.Sprintf("s%02d", i), "a", "1"))
	}
	w := newWorld(t, united("web", 31, "web:1", subsets...))
	w.run()
	known := w.child("s00")
	for i := range 12 {
		c := *known
		c.name, c.subset, c.uid = fmt.Sprintf("x%02d", i), fmt.Sprintf("x%02d", i), fmt.Sprintf("x-%d", i)
		w.members["a"].children[c.key()] = &c
	}
	w.turns(10)
	if n := len(w.members["a"].children); n != 31+12 {
		t.Errorf("%d of 43 children are left, and nobody was asked", n)
	}
	if text := fmt.Sprint(w.ud.Status.Conditions); !strings.Contains(text, "several subsets leave at once") {
		t.Errorf("nobody is asked: %s", text)
	}
}

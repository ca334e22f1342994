package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/underway-dev/underway/hub/check"
	"github.com/underway-dev/underway/propagation/render"
)

func fleetOf(t *testing.T, kind string, values map[string]string) *world {
	t.Helper()
	ud := united("web", 6, "web:1", sub("a", "a", "3"), sub("b", "b", "3"))
	template(ud, kind, "web:1")
	partitions(ud, values)
	w := newWorld(t, ud)
	w.run()
	return w
}

func (w *world) kindsAt(cluster string) []string {
	var out []string
	for _, key := range sortedKeys(w.members[cluster].children) {
		kind, _, _ := strings.Cut(key, "/")
		out = append(out, kind)
	}
	return out
}

// childAt is the child of a kind of a subset that has its member's name.
func (w *world) childAt(cluster, kind string) *cloneSet {
	return w.members[cluster].children[kind+"/"+render.ChildName("web", cluster)]
}

// TestEveryKindIsReleased: each kind is made, held, granted and finished; those that can be held in part are.
func TestEveryKindIsReleased(t *testing.T) {
	t.Parallel()
	for kind, tc := range map[string]struct {
		name    string
		inPart  int32
		needs   bool
		message string
	}{
		"cloneSet":            {"CloneSet.apps.kruise.io", 1, true, "partitions has 2 for it"},
		"advancedStatefulSet": {"StatefulSet.apps.kruise.io", 1, true, "partitions has 2 for it"},
		"statefulSet":         {"StatefulSet.apps", 1, false, "partitions has 2 for it"},
		"deployment":          {"Deployment.apps", 0, false, "held whole: a Deployment cannot be held in part"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := fleetOf(t, kind, map[string]string{"a": "2", "b": "3"})
			if e := w.entry("a"); e.Kind != tc.name || e.State != stateCurrent || e.ReadyReplicas != 3 {
				t.Fatalf("after the install: %+v", e)
			}
			first := w.ud.Status.CurrentRevision
			template(w.ud, kind, "web:2")
			w.run()
			a := w.entry("a")
			if a.UpdatedReplicas != tc.inPart || a.Granted != tc.inPart || a.State != stateHeld || !strings.Contains(a.Message, tc.message) {
				t.Errorf("granted in part: %+v", a)
			}
			if b := w.entry("b"); b.UpdatedReplicas != 0 || b.State != stateHeld {
				t.Errorf("held: %+v", b)
			}
			if s := &w.ud.Status; s.CurrentRevision != first || s.UpdatedRevision == first {
				t.Errorf("N13: %q and %q in mid-release", s.CurrentRevision, s.UpdatedRevision)
			}
			partitions(w.ud, map[string]string{"a": "0", "b": "0"})
			w.run()
			if s := &w.ud.Status; s.UpdatedReplicas != 6 || s.CurrentRevision != s.UpdatedRevision {
				t.Errorf("at the end %+v", s)
			}
		})
	}
}

// TestAHeldDeploymentFollowsReplicas: the completed template stays, its replicas do not.
func TestAHeldDeploymentFollowsReplicas(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, "deployment", map[string]string{"a": "3", "b": "3"})
	label := w.child("a").label
	template(w.ud, "deployment", "web:2")
	w.ud.Spec.Replicas = nil
	w.ud.Spec.Topology.Subsets[0].Replicas.IntVal = 5
	w.run()
	c := w.child("a")
	if c.replicas != 5 || c.label != label || c.paused || c.count(label) != 5 {
		t.Errorf("%+v", *c)
	}
}

// TestAHoldRaisedInMidRelease pauses the Deployment where it is, and letting go ends the pause.
func TestAHoldRaisedInMidRelease(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, "deployment", map[string]string{"a": "0", "b": "0"})
	template(w.ud, "deployment", "web:2")
	for range 4 { // the release is stored, posted, and one pod moves
		for _, p := range w.pass() {
			w.deliver(p)
		}
	}
	w.child("a").agent()
	partitions(w.ud, map[string]string{"a": "3", "b": "3"})
	w.run()
	c := w.child("a")
	if n := c.count(c.label); !c.paused || n == 0 || n == 3 || w.entry("a").State != stateHeld {
		t.Errorf("%+v, %+v", *c, w.entry("a"))
	}
	partitions(w.ud, map[string]string{"a": "0", "b": "0"})
	w.run()
	if c := w.child("a"); c.paused || w.ud.Status.UpdatedReplicas != 6 {
		t.Errorf("%+v", *c)
	}
}

// TestChangeOfKind goes from each kind to each other one that it can go to, one subset after the other.
func TestChangeOfKind(t *testing.T) {
	t.Parallel()
	kinds := []string{"cloneSet", "advancedStatefulSet", "statefulSet", "deployment"}
	for _, from := range kinds {
		for _, to := range kinds {
			if from == to || (strings.HasSuffix(strings.ToLower(from), "statefulset") && strings.HasSuffix(strings.ToLower(to), "statefulset")) {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				w := fleetOf(t, from, map[string]string{"a": "3", "b": "3"})
				before := w.kindsAt("a")
				template(w.ud, to, "web:1") // the pods are the same; the kind alone is a release
				w.run()
				if diff := cmp.Diff(before, w.kindsAt("a")); diff != "" || w.entry("a").State != stateHeld {
					t.Fatalf("held: %+v\n%s", w.entry("a"), diff)
				}
				partitions(w.ud, map[string]string{"a": "2", "b": "3"})
				w.run()
				if e := w.entry("a"); !cmp.Equal(before, w.kindsAt("a")) || !strings.Contains(e.Message, "held whole: a change of kind") || e.Granted != 0 {
					t.Fatalf("held in part: %+v", e)
				}
				partitions(w.ud, map[string]string{"a": "0", "b": "3"})
				w.run()
				after := w.kindsAt("a")
				if len(after) != 1 || cmp.Equal(before, after) || w.entry("a").State != stateCurrent || !cmp.Equal(before, w.kindsAt("b")) {
					t.Fatalf("a is granted: %v %+v, b %v", after, w.entry("a"), w.kindsAt("b"))
				}
				if w.ud.Status.CurrentRevision == w.ud.Status.UpdatedRevision {
					t.Error("the release ended while b is held")
				}
				partitions(w.ud, map[string]string{"a": "0", "b": "0"})
				w.run()
				if s := &w.ud.Status; s.CurrentRevision != s.UpdatedRevision || s.UpdatedReplicas != 6 || s.Replicas != 6 || !cmp.Equal(after, w.kindsAt("b")) {
					t.Errorf("at the end: %+v", s)
				}
			})
		}
	}
}

// TestChangeOfKindStepByStep: the old child goes only when the new one is whole, an unreachable member keeps both, and
// going back in the middle leaves the old one alone.
func TestChangeOfKindStepByStep(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *world {
		t.Helper()
		w := fleetOf(t, "cloneSet", map[string]string{"a": "0", "b": "0"})
		template(w.ud, "deployment", "web:2")
		for range 4 {
			for _, p := range w.pass() {
				w.deliver(p)
			}
		}
		if got := w.kindsAt("a"); len(got) != 2 {
			t.Fatalf("the new child is not made beside the old one: %v", got)
		}
		return w
	}
	deletes := func(w *world) (out []Push) {
		for _, p := range w.pass() {
			if p.Want == WantDeleted {
				out = append(out, p)
			}
		}
		return out
	}
	t.Run("pod by pod", func(t *testing.T) {
		t.Parallel()
		w := begin(t)
		next := w.childAt("a", "Deployment.apps")
		for range 3 {
			if got := deletes(w); len(got) > 0 {
				t.Fatalf("deleted with %d of %d ready: %+v", next.ready, next.replicas, got)
			}
			if e := w.entry("a"); !strings.Contains(e.Message, fmt.Sprintf("%d of 3 pods of its Deployment.apps are ready", next.ready)) || e.ReadyReplicas != 3+next.ready {
				t.Errorf("%+v", e)
			}
			next.agent()
		}
		got := deletes(w)
		if len(got) != 1 || KindName(got[0].Kind) != "CloneSet.apps.kruise.io" || got[0].After == nil || got[0].After.Replicas != 3 {
			t.Fatalf("the old child stays: %+v", got)
		}
		w.run()
		if w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision {
			t.Errorf("not finished: %+v", w.ud.Status)
		}
	})
	t.Run("the member is not heard from", func(t *testing.T) {
		t.Parallel()
		w := begin(t)
		for range 4 {
			w.childAt("a", "Deployment.apps").agent()
		}
		w.members["a"].down = true
		if got := deletes(w); len(got) > 0 {
			t.Errorf("%+v", got)
		}
		w.run()
		if len(w.kindsAt("a")) != 2 || w.entry("a").State != stateStale {
			t.Errorf("%v %+v", w.kindsAt("a"), w.entry("a"))
		}
		w.members["a"].down = false
		w.run()
		if got := w.kindsAt("a"); len(got) != 1 || !strings.HasPrefix(got[0], "Deployment") {
			t.Errorf("%v", got)
		}
	})
	t.Run("back to the old kind", func(t *testing.T) {
		t.Parallel()
		w := begin(t)
		uid := w.childAt("a", "CloneSet.apps.kruise.io").uid
		template(w.ud, "cloneSet", "web:1")
		w.run()
		got := w.kindsAt("a")
		if len(got) != 1 || w.child("a").uid != uid || w.entry("a").State != stateCurrent {
			t.Errorf("%v %+v", got, w.entry("a"))
		}
	})
	t.Run("held in the middle", func(t *testing.T) {
		t.Parallel()
		w := begin(t)
		partitions(w.ud, map[string]string{"a": "3", "b": "3"})
		w.run()
		if e := w.entry("a"); len(w.kindsAt("a")) != 2 || e.State != stateHeld || !strings.Contains(e.Message, "its kind was changing when it was held") {
			t.Errorf("%v %+v", w.kindsAt("a"), e)
		}
	})
	t.Run("the new child degrades between plan and delete", func(t *testing.T) {
		t.Parallel()
		w := begin(t)
		next := w.childAt("a", "Deployment.apps")
		for range 4 {
			next.agent()
		}
		got := deletes(w)
		next.ready = 1
		for _, p := range got {
			w.deliver(p)
		}
		if len(w.kindsAt("a")) != 2 {
			t.Errorf("the old child is gone: %v", w.kindsAt("a"))
		}
	})
	t.Run("somebody scaled the old child", func(t *testing.T) {
		t.Parallel()
		w := begin(t)
		old := w.childAt("a", "CloneSet.apps.kruise.io")
		old.replicas, old.scaledBy = 8, []string{"autoscaler"}
		w.run()
		if e := w.entry("a"); len(w.kindsAt("a")) != 2 || !strings.Contains(e.Message, "autoscaler scales the old one to 8") {
			t.Errorf("%v %+v", w.kindsAt("a"), e)
		}
	})
}

// TestRefusedChanges: what cannot follow what runs is refused before anything moves, with field and remedy.
func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	const pod = `"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}`
	const claims = `"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]`
	for name, tc := range map[string]struct {
		from, fromSpec, to, toSpec, want string
	}{
		"StatefulSet to the advanced one":     {"statefulSet", "{" + pod + "}", "advancedStatefulSet", "{" + pod + "}", "would have the names of the old ones"},
		"the advanced StatefulSet to apps/v1": {"advancedStatefulSet", "{" + pod + "}", "statefulSet", "{" + pod + "}", "would have the names of the old ones"},
		"claims would stay behind":            {"statefulSet", "{" + pod + "," + claims + "}", "deployment", "{" + pod + "}", "would start with empty volumes"},
		"a CloneSet's claims, too":            {"cloneSet", "{" + pod + "," + claims + "}", "deployment", "{" + pod + "}", "would start with empty volumes"},
		"serviceName":                         {"statefulSet", `{"serviceName":"a",` + pod + "}", "statefulSet", `{"serviceName":"b",` + pod + "}", "spec.template.statefulSetTemplate.spec.serviceName cannot be changed"},
		"podManagementPolicy":                 {"statefulSet", "{" + pod + "}", "statefulSet", `{"podManagementPolicy":"Parallel",` + pod + "}", "spec.template.statefulSetTemplate.spec.podManagementPolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ud := united("web", 4, "web:1", sub("a", "a", ""))
			templateSpec(ud, tc.from, tc.fromSpec)
			partitions(ud, map[string]string{"a": "0"})
			w := newWorld(t, ud)
			w.run()
			before := *w.child("a")
			clear(w.writes)
			templateSpec(w.ud, tc.to, tc.toSpec)
			w.run()
			c := w.condition("Refused")
			if c == nil || c.Reason != "CannotChange" || !strings.Contains(c.Message, tc.want) {
				t.Errorf("%+v", c)
			}
			if got := w.kindsAt("a"); len(got) != 1 || w.child("a").label != before.label || w.child("a").uid != before.uid {
				t.Errorf("something moved: %v %+v", got, *w.child("a"))
			}
			templateSpec(w.ud, tc.from, tc.fromSpec)
			w.run()
			if w.condition("Refused") != nil || w.entry("a").State != stateCurrent {
				t.Errorf("taken back: %+v", w.entry("a"))
			}
		})
	}
}

// TestB163 at the hub: a field that this build does not know is warned of and travels, in every kind.
func TestB163(t *testing.T) {
	t.Parallel()
	const spec = `{"fieldOfTomorrow":{"x":1},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"alsoNew":true,"containers":[{"name":"web","image":"web:1"}]}}}`
	for _, kind := range []string{"cloneSet", "advancedStatefulSet", "statefulSet", "deployment"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ud := united("web", 2, "web:1", sub("a", "a", ""))
			templateSpec(ud, kind, spec)
			w := newWorld(t, ud)
			w.run()
			at := "spec.template." + kind + "Template.spec."
			c := w.condition("UnknownFields")
			if c == nil || !strings.Contains(c.Message, at+"fieldOfTomorrow") || !strings.Contains(c.Message, at+"template.spec.alsoNew") {
				t.Errorf("%+v", c)
			}
			for _, p := range w.pass() {
				obj, err := render.Child(p.Input)
				if err != nil {
					t.Fatal(err)
				}
				if got := obj.Object["spec"].(map[string]any)["fieldOfTomorrow"]; got == nil {
					t.Error("the field does not travel")
				}
			}
		})
	}
}

// TestOnDelete says that grants mean nothing.
func TestOnDelete(t *testing.T) {
	t.Parallel()
	spec := func(image string) string {
		return `{"updateStrategy":{"type":"OnDelete"},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"` + image + `"}]}}}`
	}
	for _, kind := range []string{"advancedStatefulSet", "statefulSet"} {
		ud := united("web", 4, "web:1", sub("a", "a", ""))
		templateSpec(ud, kind, spec("web:1"))
		partitions(ud, map[string]string{"a": "2"})
		w := newWorld(t, ud)
		w.run()
		templateSpec(w.ud, kind, spec("web:2"))
		w.run()
		if e := w.entry("a"); !strings.Contains(e.Message, "pods move when somebody deletes them, whatever is granted") {
			t.Errorf("%s: %+v", kind, e)
		}
	}
}

// TestKindsOfMembers: a member without our kinds runs Kubernetes' own, and what is missing is said with its remedy.
func TestKindsOfMembers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind         string
		member       Member
		state, words string
		pushes       int
	}{
		"native, nothing of ours there":  {"deployment", Member{Ready: true}, stateCreating, "", 1},
		"no CRDs":                        {"cloneSet", Member{Ready: true, NotServed: []string{"CloneSet.apps.kruise.io"}}, stateNotServed, "member a does not serve CloneSets: kubectl underway join a --upgrade", 0},
		"no CRDs of the other kind only": {"cloneSet", Member{Ready: true, NotServed: []string{"StatefulSet.apps.kruise.io"}}, stateCreating, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ud := united("web", 4, "web:1", sub("a", "a", ""))
			template(ud, tc.kind, "web:1")
			w := newWorld(t, ud)
			for range 3 {
				o := w.observe()
				o.Members["a"] = tc.member
				w.passOn(o)
			}
			if e := w.entry("a"); e.State != tc.state || !strings.Contains(e.Message, tc.words) || len(w.last.Pushes) != tc.pushes {
				t.Errorf("%+v, %d pushes", e, len(w.last.Pushes))
			}
		})
	}
	t.Run("nobody reconciles", func(t *testing.T) {
		t.Parallel()
		ud := united("web", 4, "web:1", sub("a", "a", ""))
		w := newWorld(t, ud)
		w.members["a"].agentOff = true
		w.run()
		o := w.observe()
		o.Members["a"] = Member{Ready: true, Nobody: []string{"CloneSet.apps.kruise.io"}}
		w.passOn(o)
		if e := w.entry("a"); e.State != stateWaiting || !strings.Contains(e.Message, "nobody reconciles CloneSets on member a: install our agent") {
			t.Errorf("%+v", e)
		}
	})
	t.Run("nothing is made where nobody reconciles", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, united("web", 4, "web:1", sub("a", "a", "")))
		for _, nobody := range []bool{true, false} {
			for range 3 {
				o := w.observe()
				if nobody {
					o.Members["a"] = Member{Ready: true, Nobody: []string{"CloneSet.apps.kruise.io"}}
				}
				w.passOn(o)
			}
			if e := w.entry("a"); (e.State == stateNotServed) != nobody || strings.Contains(e.Message, "nobody reconciles CloneSets on member a") != nobody || (len(w.last.Pushes) == 0) != nobody {
				t.Errorf("%v: %+v, %d pushes", nobody, e, len(w.last.Pushes))
			}
		}
	})
	t.Run("nor of another kind, beside the one that is there", func(t *testing.T) {
		t.Parallel()
		ud := united("web", 4, "web:1", sub("a", "a", ""))
		template(ud, "deployment", "web:1")
		w := newWorld(t, ud)
		partitions(w.ud, map[string]string{"a": "0"})
		w.run()
		template(w.ud, "cloneSet", "web:2")
		for range 3 {
			o := w.observe()
			m := o.Members["a"]
			m.Nobody = []string{"CloneSet.apps.kruise.io"}
			o.Members["a"] = m
			for _, p := range w.passOn(o) {
				w.deliver(p)
			}
		}
		if e := w.entry("a"); len(w.members["a"].children) != 1 || e.State != stateNotServed || !strings.Contains(e.Message, "its Deployment.apps stays") {
			t.Errorf("%d children, %+v", len(w.members["a"].children), e)
		}
		w.run()
		w.wants("a Current 4/4")
	})
}

// TestTemplateCheck: a release with a new template waits for the answer; a refused one moves nothing.
func TestTemplateCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 4, "web:1", sub("a", "a", "2"), sub("b", "b", "2")))
	w.edited()
	look := func(results ...check.Result) Decision {
		o := w.observe()
		o.Checker, o.Checks = true, results
		for _, p := range w.passOn(o) {
			w.deliver(p)
		}
		return w.last
	}
	d := look()
	if d.Ask == nil || len(d.Ask.Templates) != 1 || !slices.Equal(d.Ask.Templates[0].Members, []string{"a", "b"}) || !d.Keep || d.LookAgainIn != check.HoldFor {
		t.Fatalf("nothing is asked before the first creation: %+v", d)
	}
	if w.ud.Status.Release != nil || d.Create != nil {
		t.Error("a release is open before the answer")
	}
	valid := func(d Decision) check.Result { return check.Result{Revision: d.Ask.Revision, Version: "1.37"} }
	for range 4 {
		d = look(valid(Decision{Ask: &check.Ask{Revision: cmpOr(d, w)}}))
	}
	w.run()
	first := w.ud.Status.CurrentRevision
	label := w.child("a").label

	partitions(w.ud, map[string]string{"a": "0", "b": "0"})
	setImage(w.ud, "web:2")
	w.edited()
	clear(w.writes)
	d = look()
	bad := check.Result{Revision: d.Ask.Revision, Version: "1.37", Invalid: "spec.template.cloneSetTemplate.spec.template.spec.containers[0].name: bad, says Kubernetes 1.37 (member a)"}
	for range 3 {
		d = look(bad)
		w.now = w.now.Add(check.HoldFor)
	}
	c := w.condition("TemplateInvalid")
	if c == nil || !strings.Contains(c.Message, "containers[0].name") || w.condition("Ready").Status != "False" || d.Keep || w.condition("Refused") != nil {
		t.Fatalf("%+v %+v", c, d)
	}
	if w.ud.Status.UpdatedRevision != first || w.child("a").label != label || len(w.writes) > 0 || w.ud.Status.ObservedGeneration != w.ud.Generation {
		t.Errorf("something moved: %+v, writes %v", w.ud.Status, w.writes)
	}

	// Going back to the completed template asks nobody.
	setImage(w.ud, "web:1")
	w.edited()
	if d = look(); d.Ask != nil || d.Keep || w.condition("TemplateInvalid") != nil {
		t.Errorf("going back: %+v", d)
	}

	// Nobody to ask: the release opens after a while.
	setImage(w.ud, "web:3")
	w.edited()
	if d = look(); !d.Keep {
		t.Errorf("opened without an answer: %+v", d)
	}
	w.now = w.now.Add(check.HoldFor)
	if d = look(); d.Keep || w.ud.Status.UpdatedRevision == first {
		t.Errorf("blocked for ever: %+v", d)
	}
}

// cmpOr is the revision that is asked about, or the one that is open.
func cmpOr(d Decision, w *world) string {
	if d.Ask != nil {
		return d.Ask.Revision
	}
	return w.ud.Status.UpdatedRevision
}

// TestLeavingWithClaims: a subset whose claims are deleted with its child leaves only when that is confirmed.
func TestLeavingWithClaims(t *testing.T) {
	t.Parallel()
	const claims = `"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]`
	const pod = `"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:1"}]}}`
	for name, tc := range map[string]struct {
		kind, spec string
		held       bool
	}{
		"a CloneSet's claims go with it":    {"cloneSet", "{" + pod + "," + claims + "}", true},
		"a StatefulSet's stay":              {"statefulSet", "{" + pod + "," + claims + "}", false},
		"a StatefulSet that deletes them":   {"statefulSet", `{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"},` + pod + "," + claims + "}", true},
		"an advanced one that deletes them": {"advancedStatefulSet", `{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"},` + pod + "," + claims + "}", true},
		"a Deployment has none":             {"deployment", "{" + pod + "}", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ud := united("web", 6, "web:1", sub("a", "a", ""), sub("b", "b", ""), sub("c", "c", ""))
			templateSpec(ud, tc.kind, tc.spec)
			w := newWorld(t, ud)
			w.run()
			w.ud.Spec.Topology.Subsets = w.ud.Spec.Topology.Subsets[:2]
			w.ud.Generation++
			w.run()
			c := w.condition("RemovalHeld")
			if (c != nil) != tc.held || (len(w.kindsAt("c")) > 0) != tc.held {
				t.Fatalf("%+v, %v", c, w.kindsAt("c"))
			}
			if tc.held {
				if !strings.Contains(c.Message, "claims are deleted with the child of c") {
					t.Errorf("%s", c.Message)
				}
				w.ud.Annotations = map[string]string{"fleet.underway.dev/confirm": "RemovalHeld/c"}
				w.run()
				if len(w.kindsAt("c")) > 0 {
					t.Errorf("confirmed, and it stays: %v", w.kindsAt("c"))
				}
			}
		})
	}
}

// TestAutoscaledStatefulSet: somebody else scales the child, so no number holds a part of it and it is held whole.
func TestAutoscaledStatefulSet(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"statefulSet", "advancedStatefulSet"} {
		w := fleetOf(t, kind, map[string]string{"a": "2", "b": "3"})
		c := w.child("a")
		c.replicas, c.scaledBy = 10, []string{"autoscaler"}
		w.run()
		template(w.ud, kind, "web:2")
		for range 4 {
			for _, p := range w.pass() {
				w.deliver(p)
			}
			c.observed = c.gen
		}
		for _, p := range w.pass() {
			if p.Subset == "a" && (p.Input.Replicas != nil || !p.Input.Partition.Hold) {
				t.Errorf("%s: %+v", kind, p.Input)
			}
		}
		if e := w.entry("a"); e.Granted != 0 || !strings.Contains(e.Message, "held whole: autoscaler scales it") {
			t.Errorf("%s: %+v", kind, e)
		}
	}
}

// TestTargetsOfOneName: children of one name and different kinds do not stand for one another.
func TestTargetsOfOneName(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, "cloneSet", map[string]string{"a": "0", "b": "0"})
	template(w.ud, "deployment", "web:1")
	o := w.observe()
	name := render.ChildName("web", "a")
	o.Deliveries[Target{"a", "CloneSet.apps.kruise.io", name}] = Delivery{Problem: ProblemConflict, Message: "of the CloneSet"}
	for range 3 {
		w.passOn(o)
		o.United = w.ud.DeepCopy()
		o.Revisions = slices.Clone(w.revs)
	}
	if e := w.entry("a"); e.State != stateCreating {
		t.Errorf("the Deployment is judged by the CloneSet's delivery: %+v", e)
	}
}

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// health is what a tool that reads kstatus makes of an object (the rules of sigs.k8s.io/cli-utils v0.37, restated): being
// deleted, then a generation that is not observed, then the first of Reconciling and Stalled that is True, then Ready, and
// Current for an object that says nothing.
func health(ud *appsv1alpha1.UnitedDeployment) string {
	switch s := &ud.Status; {
	case ud.DeletionTimestamp != nil:
		return "Terminating"
	case s.ObservedGeneration != 0 && s.ObservedGeneration != ud.Generation:
		return "InProgress"
	}
	for _, c := range ud.Status.Conditions {
		if c.Status == metav1.ConditionTrue && c.Type == "Reconciling" {
			return "InProgress"
		}
		if c.Status == metav1.ConditionTrue && c.Type == "Stalled" {
			return "Failed"
		}
	}
	if c := meta.FindStatusCondition(ud.Status.Conditions, "Ready"); c != nil && c.Status != metav1.ConditionTrue {
		return "InProgress"
	}
	return "Current"
}

// wait lets time pass, with a look when the plan asked for one.
func (w *world) wait(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		step := time.Minute
		if in := w.last.LookAgainIn; in > 0 && in < step {
			step = in
		}
		w.now = w.now.Add(step)
		w.pass()
	}
}

func TestKstatus(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(w *world)
		// want is what tools see at once, later what they see when it has lasted 11 minutes; reason is Ready's or Stalled's.
		want, later, reason string
	}{
		"all is as it should be": {edit: func(*world) {}, want: "Current", later: "Current", reason: "Current"},
		"an edit that the hub has not seen": {edit: func(w *world) {
			w.pass()
			w.ud.Generation++
			w.ud.Status.ObservedGeneration = w.ud.Generation - 1
		}, want: "InProgress"},
		"a canary that is held is healthy, and stays so": {edit: func(w *world) {
			partitions(w.ud, map[string]string{"a": "2", "b": "100%"})
			setImage(w.ud, "app:v2")
			w.run()
		}, want: "Current", later: "Current", reason: "Held"},
		"a release under way": {edit: func(w *world) {
			partitions(w.ud, map[string]string{"a": "0", "b": "0"})
			setImage(w.ud, "app:v2")
			w.pass()
			w.pass()
		}, want: "InProgress", reason: "NotAsGranted"},
		"a partition that cannot be read": {edit: func(w *world) {
			partitions(w.ud, map[string]string{"a": "12x"})
			w.pass()
		}, want: "Failed", later: "Failed", reason: "Invalid"},
		"a change that the strategy forbids": {edit: func(w *world) {
			partitions(w.ud, map[string]string{"a": "0", "b": "0"})
			setSpec(w.ud, `{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"hostNetwork":true,"containers":[{"name":"web","image":"app:v2"}]}},"updateStrategy":{"type":"InPlaceOnly"}}`)
			w.run()
		}, want: "Failed", later: "Failed", reason: "Refused"},
		"all subsets leave, which nobody confirmed": {edit: func(w *world) {
			w.ud.Spec.Topology.Subsets = nil
			w.ud.Generation++
			w.run()
		}, want: "Failed", later: "Failed", reason: "RemovalHeld"},
		"a member that is not heard from": {edit: func(w *world) {
			w.members["west"].down = true
			w.run()
		}, want: "InProgress", later: "Failed", reason: "Stale"},
		"a MemberCluster that was deleted": {edit: func(w *world) {
			delete(w.members, "west")
			w.run()
		}, want: "InProgress", later: "Failed", reason: "Waiting"},
		"an object that is being deleted": {edit: func(w *world) {
			now := metav1.NewTime(w.now)
			w.ud.DeletionTimestamp = &now
			w.pass()
		}, want: "Terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 8, "app:v1", sub("a", "east", "4"), sub("b", "west", "4")))
			w.run()
			tc.edit(w)
			if got := health(w.ud); got != tc.want {
				t.Errorf("tools see %s, want %s: %+v", got, tc.want, w.ud.Status.Conditions)
			}
			for _, kind := range []string{"Reconciling", "Stalled"} {
				if c := w.condition(kind); c != nil && (c.Status != metav1.ConditionTrue || c.Reason == "" || c.ObservedGeneration != w.ud.Generation) {
					t.Errorf("%s is there while it does not apply: %+v", kind, c)
				}
			}
			if tc.later == "" {
				return
			}
			w.wait(11 * time.Minute)
			if got := health(w.ud); got != tc.later {
				t.Errorf("after 11 minutes tools see %s, want %s", got, tc.later)
			}
			c := w.condition("Stalled")
			if c == nil {
				c = w.condition("Ready")
			}
			if c.Reason != tc.reason {
				t.Errorf("reason %s, want %s: %s", c.Reason, tc.reason, c.Message)
			}
		})
	}
}

// TestStalledEnds: what stalled goes on by itself when the member is back.
func TestStalledEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "app:v1", sub("a", "east", "4"), sub("b", "west", "4")))
	w.run()
	w.members["west"].down = true
	w.run()
	w.wait(11 * time.Minute)
	w.members["west"].down = false
	w.run()
	if got := health(w.ud); got != "Current" || w.condition("Stalled") != nil || w.condition("Reconciling") != nil {
		t.Errorf("%s: %+v", got, w.ud.Status.Conditions)
	}
}

// TestSince: a state's time is that of its beginning, through a restart and through numbers that change.
func TestSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "app:v1", sub("a", "east", "4"), sub("b", "west", "4")))
	w.run()
	current := w.entry("a").Since
	if current == nil {
		t.Fatal("no time")
	}
	w.wait(3 * time.Minute)
	if got := w.entry("a").Since; !got.Equal(current) {
		t.Errorf("nothing happened, and Since went from %v to %v", current, got)
	}
	partitions(w.ud, map[string]string{"a": "3", "b": "100%"})
	setImage(w.ud, "app:v2")
	w.run()
	held := w.entry("a").Since
	if !held.After(current.Time) || w.entry("a").State != stateHeld {
		t.Errorf("held since %v, current since %v", held, current)
	}
	w.now = w.now.Add(time.Minute)
	partitions(w.ud, map[string]string{"a": "2", "b": "100%"})
	w.run()
	if e := w.entry("a"); e.State != stateHeld || !strings.HasPrefix(e.Message, "2 of 4") || e.Since.Time.Before(held.Time) {
		t.Errorf("%+v", e)
	}
	if b := w.entry("b"); b.State != stateHeld || b.Since.After(held.Time) {
		t.Errorf("b was held all the time: %+v", b)
	}
	w.members["east"].down = true
	w.run()
	stale := w.entry("a").Since
	w.wait(time.Hour)
	if got := w.entry("a"); got.State != stateStale || !got.Since.Equal(stale) {
		t.Errorf("stale since %v, told %+v", stale, got)
	}
}

// TestIdleWritesNothing: a hundred looks at a world that stands still, by hubs that are restarted in between, decide the
// status that is stored, byte for byte: in a held release, with a member that is not heard from, with pods that do not come up.
func TestIdleWritesNothing(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(w *world){
		"current": func(*world) {},
		"held": func(w *world) {
			partitions(w.ud, map[string]string{"a": "2", "b": "100%"})
			setImage(w.ud, "app:v2")
		},
		"stale":   func(w *world) { w.members["west"].down = true },
		"removal": func(w *world) { w.ud.Spec.Topology.Subsets = nil; w.ud.Generation++ },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, united("web", 8, "app:v1", sub("a", "east", "4"), sub("b", "west", "4")))
			w.run()
			edit(w)
			w.run()
			look := func() Observation {
				if name == "current" {
					return w.observe()
				}
				return breaks(w.observe())
			}
			w.passOn(look())
			w.now = w.now.Add(12 * time.Minute) // what lasts is stalled by then
			w.passOn(look())
			stored := w.ud.Status.DeepCopy()
			for i := range 100 {
				w.now = w.now.Add(7 * time.Second)
				o := look()
				if i%3 == 0 {
					o.GenerationSeenAt = w.now // a hub that has just started
				}
				d := Next(o, w.now)
				if !equal(d.Status, *stored) {
					t.Fatalf("look %d writes:\n%+v\nstored:\n%+v", i, d.Status, *stored)
				}
			}
		})
	}
}

// breaks has two pods of subset a in trouble, in words that a kubelet alternates.
func breaks(o Observation) Observation {
	for i := range o.Children {
		if r := &o.Children[i].Report; r.Subset == "a" {
			r.Workload = &appsv1alpha1.WorkloadReport{Broken: []appsv1alpha1.PodProblem{{
				Reason: "ImagePullBackOff", Message: "the image app:v9 of container web cannot be pulled", Count: 2, Pods: []string{"a-1", "a-2"},
			}}}
		}
	}
	return o
}

// TestPodsFailing: what pods suffer is in the subset's message in front of its command, in a list, and in a condition; it
// stalls when it lasts, and is gone when it is over.
func TestPodsFailing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "app:v1", sub("a", "east", "4"), sub("b", "west", "4")))
	w.run()
	partitions(w.ud, map[string]string{"a": "2", "b": "100%"})
	setImage(w.ud, "app:v9")
	w.run()
	short := func() Observation {
		o := breaks(w.observe())
		for i := range o.Children {
			if r := &o.Children[i].Report; r.Subset == "a" {
				r.Ready, r.Available, r.Updated, r.UpdatedReady = 2, 2, 0, 0
			}
		}
		return o
	}
	w.passOn(short())
	e := w.entry("a")
	began := w.now
	if want := "2 pods broken since " + began.Format(time.RFC3339) + ", ImagePullBackOff: the image app:v9 of container web cannot be pulled"; !strings.Contains(e.Message, want) {
		t.Errorf("%q does not say %q", e.Message, want)
	}
	if len(e.Failing) != 1 || e.Failing[0].Count != 2 || !e.Failing[0].Since.Time.Equal(began) || (e.Report != nil && len(e.Report.Broken) > 0) {
		t.Errorf("%+v %+v", e.Failing, e.Report)
	}
	if c := w.condition("PodsFailing"); c == nil || c.Status != metav1.ConditionTrue || !strings.HasPrefix(c.Message, "a: 2 pods broken") {
		t.Errorf("%+v", c)
	}
	if got := health(w.ud); got != "InProgress" {
		t.Errorf("at once tools see %s", got)
	}
	for range 11 {
		w.now = w.now.Add(time.Minute)
		w.passOn(short())
	}
	if c := w.condition("Stalled"); c == nil || c.Reason != "PodsFailing" || !w.entry("a").Failing[0].Since.Time.Equal(began) {
		t.Errorf("after 11 minutes: %+v, %+v", c, w.entry("a").Failing)
	}
	w.run()
	if w.condition("PodsFailing") != nil || len(w.entry("a").Failing) > 0 || health(w.ud) != "Current" {
		t.Errorf("over: %+v", w.ud.Status)
	}
}

// TestB143 of the hub: the counts say what is proven, they follow a change of the partition alone, and who waits for them ends.
func TestB143HubCountsWhatIsProven(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 3, "app:v1", sub("a", "east", "3")))
	w.run()
	partitions(w.ud, map[string]string{"a": "2"})
	setImage(w.ud, "app:v2")
	w.run()
	for _, granted := range []int32{1, 2, 3} {
		partitions(w.ud, map[string]string{"a": fmt.Sprint(3 - granted)})
		w.pass()
		if e := w.entry("a"); e.Granted != granted || e.Partition != 3-granted {
			t.Errorf("granted %d is not said in the pass that sees it: %+v", granted, e)
		}
		for range 20 {
			for _, p := range w.pass() {
				w.deliver(p)
			}
			c := w.child("a")
			if s := &w.ud.Status; s.UpdatedReplicas > c.count(c.update) || s.SubsetStatuses[0].UpdatedReplicas != s.UpdatedReplicas {
				t.Fatalf("%d said to be updated, %d are", s.UpdatedReplicas, c.count(c.update))
			}
			c.agent()
			w.now = w.now.Add(time.Second)
		}
		if s := &w.ud.Status; s.UpdatedReadyReplicas != granted || s.UpdatedReplicas != granted {
			t.Errorf("a waiter for %d would not end: %+v", granted, s.SubsetStatuses[0])
		}
	}
	if c := w.condition("UnitedDeploymentUpdated"); c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}

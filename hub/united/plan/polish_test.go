package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestStatusOfAThousandFits: with the longest names, every subset in trouble and every message at its longest, the status
// of a thousand subsets leaves room for the spec in the 1.5 MiB that etcd takes in one write. The figure is the docs'.
func TestStatusOfAThousandFits(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 20, 500, 1000} {
		w := newWorld(t, united("web", 8, "app:v1"))
		long := strings.Repeat("n", 34) // 40 characters with the number; at 63 about 800 subsets fit
		for i := range n {
			name := fmt.Sprintf("%s-%05d", long, i)
			w.ud.Spec.Topology.Subsets = append(w.ud.Spec.Topology.Subsets, sub(name, name, "100"))
			w.members[name] = &member{name: name, children: map[string]*cloneSet{}}
		}
		w.ud.Spec.Replicas = new(int32(100 * n))
		o := w.observe()
		for i := range w.ud.Spec.Topology.Subsets {
			name := w.ud.Spec.Topology.Subsets[i].Name
			o.United.Status.SubsetStatuses = append(o.United.Status.SubsetStatuses, appsv1alpha1.SubsetStatus{Name: name, Cluster: name, Workload: strings.Repeat("w", 52), Kind: "StatefulSet.apps.kruise.io"})
			o.Deliveries[Target{name, "CloneSet.apps.kruise.io", childName(o.United, name)}] = Delivery{Problem: ProblemOther, Message: strings.Repeat("é very long answer of an API server ", 200)}
		}
		p := &pass{Observation: o, now: w.now, was: &o.United.Status}
		p.out.Status = *o.United.Status.DeepCopy()
		p.status = &p.out.Status
		p.index()
		limit := textLimit(n)
		for i := range p.status.SubsetStatuses {
			e := &p.status.SubsetStatuses[i]
			e.Replicas, e.DesiredReplicas, e.ReadyReplicas, e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Partition, e.Granted = 100, 100, 100, 100, 100, 100, 100
			e.State, e.Revision = stateNamespaceMissing, "abcdefghij"
			e.HeardAt, e.Since, e.Stale = second(w.now), second(w.now), true
			e.Message = strings.Repeat("é because of something ", 400) + ": kubectl underway confirm ud web -n demo"
			for k := range 10 {
				problem := appsv1alpha1.PodProblem{Reason: "CreateContainerConfigError", Message: strings.Repeat("too long, ", 80), Count: 100, Since: second(w.now)}
				for range 10 {
					problem.Pods = append(problem.Pods, strings.Repeat(fmt.Sprint(k), 63))
				}
				e.Failing = append(e.Failing, problem)
			}
			e.Report = &appsv1alpha1.WorkloadReport{UpdatedInPlace: 50, Recreated: 50, Refused: e.Failing, Broken: e.Failing}
			bound(e, limit)
			if !utf8.ValidString(e.Message) || len(e.Failing) == 0 || e.Failing[0].Count != 100 {
				t.Fatalf("%q %+v", e.Message, e.Failing)
			}
			if !strings.HasSuffix(e.Message, ": kubectl underway confirm ud web -n demo") && strings.Contains(e.Message, "kubectl") {
				t.Fatalf("the command is cut: %q", e.Message)
			}
		}
		p.status.SubsetReplicas, p.status.Release = map[string]int32{}, &appsv1alpha1.ReleaseStatus{Revision: "web-abcdefghij", Epoch: 1, Replicas: map[string]int32{}, Grants: map[string]int32{}}
		p.status.UpdateStatus = &appsv1alpha1.UpdateStatus{CurrentPartitions: map[string]int32{}}
		for _, e := range p.status.SubsetStatuses {
			p.status.SubsetReplicas[e.Name], p.status.Release.Replicas[e.Name], p.status.Release.Grants[e.Name] = 100, 100, 100
			p.status.UpdateStatus.CurrentPartitions[e.Name] = 100
			p.status.Release.Order = append(p.status.Release.Order, e.Name)
		}
		for _, kind := range []string{"Conflict", "Held", "Invalid", "LeftBehind", "NamespaceMissing", "NotAllowed", "PodsFailing", "Ready", "Reconciling", "Refused", "Stale", "Stalled", "SubsetProvisioned", "SubsetUpdated"} {
			p.set(kind, "Because", strings.Repeat("x", 100000))
		}
		raw, err := json.Marshal(p.status)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d subsets: %d bytes, %d each", n, len(raw), len(raw)/n)
		// Per subset: a name five times in maps and a list, twice in its entry; numbers, times and words; its texts. The API
		// server keeps the names of the keys of maps once more each, in managedFields.
		managed := 4 * n * (len(long) + 20)
		if n == 1000 && len(raw)+managed > 1280<<10 {
			t.Errorf("%d bytes with %d of managedFields leave no room for a spec", len(raw), managed)
		}
		Lean(p.status)
		if raw, err = json.Marshal(p.status); err != nil || n == 1000 && len(raw)+managed > 920<<10 {
			t.Errorf("lean it has %d bytes, %v", len(raw), err)
		}
	}
}

func childName(ud *appsv1alpha1.UnitedDeployment, subset string) string {
	return ud.Name + "-" + subset
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		message string
		limit   int
		want    string
	}{
		"fits":          {message: "short: kubectl get ud", limit: 100, want: "short: kubectl get ud"},
		"loses words":   {message: strings.Repeat("a", 200) + ": kubectl get ud", limit: 100, want: strings.Repeat("a", 80) + " ...: kubectl get ud"},
		"loses command": {message: strings.Repeat("a", 60) + ": kubectl " + strings.Repeat("b", 200), limit: 100, want: strings.Repeat("a", 60)},
		"no command":    {message: strings.Repeat("é", 100), limit: 101, want: strings.Repeat("é", 48) + " ..."},
	} {
		if got := shorten(tc.message, tc.limit); got != tc.want || len(got) > tc.limit {
			t.Errorf("%s: %d bytes %q, want %q", name, len(got), got, tc.want)
		}
	}
}

// TestB127: a member that is gone for good is taken off the hub by deleting its MemberCluster, which nothing holds up: the
// object has no finalizer. Whoever names it is told what is left there; nobody else is touched; and the subset goes from
// the list as soon as the spec does not name it any more, without a wait for the member and without a confirmation.
func TestB127(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 9, "app:v1", sub("a", "ma", "3"), sub("b", "mb", "3"), sub("c", "mc", "3")))
	w.run()
	w.members["mc"].down = true
	w.run()
	if e := w.entry("c"); e.State != stateStale || e.Replicas != 3 {
		t.Fatalf("plain: %+v", e)
	}
	writes := fmt.Sprint(w.writes["a"], w.writes["b"])
	child := w.child("c").name
	delete(w.members, "mc")
	w.run()
	c := w.condition("LeftBehind")
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "CloneSet.apps.kruise.io "+child+" stays there") || !strings.Contains(c.Message, "spec.topology") {
		t.Errorf("what is left is not said: %+v", c)
	}
	if e := w.entry("c"); e.Replicas+e.ReadyReplicas+e.UpdatedReplicas != 0 || e.Stale || w.ud.Status.Replicas != 6 {
		t.Errorf("a cluster that is not of the fleet is counted: %+v, total %d", e, w.ud.Status.Replicas)
	}
	w.ud.Spec.Topology.Subsets = w.ud.Spec.Topology.Subsets[:2]
	w.ud.Spec.Replicas = new(int32(6))
	w.ud.Generation++
	w.pass()
	told := ""
	for _, e := range w.last.Happened {
		told += e.Reason + " " + e.Message + "\n"
	}
	w.run()
	if len(w.ud.Status.SubsetStatuses) != 2 || w.condition("LeftBehind") != nil || w.condition("RemovalHeld") != nil {
		t.Errorf("still listed: %+v", w.ud.Status.SubsetStatuses)
	}
	if !strings.Contains(told, child) {
		t.Errorf("the last word about what is left is missing: %q", told)
	}
	if got := fmt.Sprint(w.writes["a"], w.writes["b"]); got != writes {
		t.Errorf("the others were written: %s before, %s after", writes, got)
	}
	if got := health(w.ud); got != "Current" {
		t.Errorf("tools see %s", got)
	}
}

// TestB167 of the plan: a hub that was restored from before a subset was pushed, or never knew the object, deletes nothing on
// doubt. Without the owner there is no plan at all; with an older copy of it, what a member has of a subset that the copy does
// not list carries a newer intent than the delete does, and such a delete is never sent (changeset.OpHubBehind).
func TestB167ARestoredHubsDeleteIsOlderThanWhatItWouldDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 4, "app:v1", sub("a", "ma", "4")))
	w.run()
	backup, revs := w.ud.DeepCopy(), slices.Clone(w.revs)
	w.members["mb"] = &member{name: "mb", children: map[string]*cloneSet{}}
	w.ud.Spec.Topology.Subsets = append(w.ud.Spec.Topology.Subsets, sub("b", "mb", "4"))
	w.ud.Spec.Replicas = new(int32(8))
	w.ud.Generation++
	w.run()
	live := w.child("b").intent
	w.ud, w.revs = backup, revs
	w.pass()
	deletes := 0
	for _, p := range w.pass() {
		if p.Want != WantDeleted {
			continue
		}
		deletes++
		if p.Input.Intent.String() >= live {
			t.Errorf("the delete of %s has intent %s, the child %s", p.Subset, p.Input.Intent, live)
		}
	}
	if deletes > 1 {
		t.Errorf("%d deletes", deletes)
	}
}

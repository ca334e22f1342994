package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/feedback"
	"github.com/underway-dev/underway/propagation/render"
)

func TestStuck(t *testing.T) {
	t.Parallel()
	pod := func(name, rev string, ready bool) Pod { return Pod{Name: name, Revision: rev, Ready: ready} }
	going := pod("w-2", "b", false)
	going.Deleting = true
	for name, tc := range map[string]struct {
		partition string
		pods      []Pod
		want      []string
	}{
		"a broken pod of the revision in between":                      {"0", []Pod{pod("w-2", "b", false), pod("w-0", "a", true), pod("w-1", "a", true)}, []string{"w-2"}},
		"a broken pod of the new revision is Kubernetes' own business": {"0", []Pod{pod("w-2", "c", false), pod("w-0", "a", true)}, nil},
		"one that is on its way out":                                   {"0", []Pod{going, pod("w-0", "a", true)}, nil},
		"a held pod that is not ready would come back as it is":        {"2", []Pod{pod("w-0", "a", true), pod("w-1", "a", false), pod("w-2", "c", true)}, nil},
		"a held pod of the revision in between":                        {"2", []Pod{pod("w-0", "a", true), pod("w-1", "b", false), pod("w-2", "c", true)}, []string{"w-1"}},
		"by ordinal, not by text":                                      {"0", []Pod{pod("w-10", "b", false), pod("w-9", "b", false)}, []string{"w-9", "w-10"}},
		"all ready":                                                    {"0", []Pod{pod("w-0", "b", true)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range Stuck(&feedback.Report{Partition: tc.partition, CurrentRevision: "a", UpdateRevision: "c"}, tc.pods) {
				got = append(got, p.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAStuckStatefulSetIsSaid names the pod and the command, and nothing is deleted.
func TestAStuckStatefulSetIsSaid(t *testing.T) {
	t.Parallel()
	w := fleetOf(t, "statefulSet", map[string]string{"a": "0", "b": "0"})
	c := w.child("a")
	c.ready = 2
	at := Target{Member: "a", Kind: "StatefulSet.apps", Name: render.ChildName("web", "a")}
	look := func() Decision {
		o := w.observe()
		o.Pods = map[Target][]Pod{at: {{Name: c.name + "-2", Revision: "in-between"}, {Name: c.name + "-0", Revision: c.update, Ready: true}}}
		w.passOn(o)
		return w.last
	}
	d := look()
	e := w.entry("a")
	if e.State != stateStuck || !strings.Contains(e.Message, "kubectl --context a -n demo delete pod "+c.name+"-2") {
		t.Errorf("%+v", e)
	}
	for _, p := range d.Pushes {
		if p.Want != WantApplied {
			t.Errorf("%+v", p)
		}
	}
	if c := w.condition("Ready"); c.Status != "False" || !strings.Contains(c.Message, "delete pod") {
		t.Errorf("%+v", c)
	}
	w.run()
	if e := w.entry("a"); e.State != stateCurrent {
		t.Errorf("freed: %+v", e)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	three := int32(3)
	report := feedback.Report{Kind: "StatefulSet.apps", Fresh: true, SpecReplicas: &three, Replicas: 3, Ready: 2}
	if Short(&report) == "" {
		t.Error("short of ready pods, and not said")
	}
	moved := report
	moved.Updated++
	if Short(&moved) == Short(&report) {
		t.Error("something moved, and the text is the same")
	}
	for name, edit := range map[string]func(*feedback.Report){
		"all ready":        func(r *feedback.Report) { r.Ready = 3 },
		"not fresh":        func(r *feedback.Report) { r.Fresh = false },
		"told by an agent": func(r *feedback.Report) { r.Workload = &appsv1alpha1.WorkloadReport{} },
		"being deleted":    func(r *feedback.Report) { r.Deleting = true },
	} {
		other := report
		edit(&other)
		if Short(&other) != "" {
			t.Errorf("%s: pods are looked at", name)
		}
	}
}

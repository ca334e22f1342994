package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func rev(name string) inplace.Revision {
	return inplace.Revision{
		Name: name, Hash: name,
		Template: fmt.Appendf(nil, `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"app:%s"}]}}`, name),
	}
}

// crowd makes pods: o old, n new, capitals ready, x evicted, t terminating.
func podsOf(text string) []inplace.Pod {
	pods := make([]inplace.Pod, 0, len(text))
	for i, c := range text {
		p := inplace.Pod{
			Ref:   inplace.Ref{Name: fmt.Sprintf("web-%02d", i), UID: types.UID(fmt.Sprintf("pod-%d", i))},
			Phase: inplace.PhaseRunning, Node: "node", Created: start.Add(time.Duration(i) * time.Second), Revision: "old",
			Containers: []inplace.Container{{Name: "c", Known: true, Running: true}},
		}
		switch c {
		case 'O':
			p.Ready = true
		case 'n':
			p.Revision = "new"
		case 'N':
			p.Revision, p.Ready = "new", true
		case 'x':
			p.Phase = inplace.PhaseTerminal
		case 'r':
			p.Phase, p.Containers = inplace.PhaseTerminal, []inplace.Container{{Name: "c"}}
		case 't':
			p.Phase = inplace.PhaseTerminating
		}
		if p.Ready {
			p.ReadySince, p.Available = p.Created, true
		}
		pods = append(pods, p)
	}
	return pods
}

func input(text string, replicas, partition, maxUnavailable int32) Input {
	return Input{
		Intent: inplace.Intent{
			Replicas: replicas, Partition: partition, MaxUnavailable: maxUnavailable, Update: rev("new"), Current: rev("old"),
		},
		Pods:  podsOf(text),
		Owner: metav1.OwnerReference{Name: "web", UID: "uid"}, Namespace: "default", Now: start.Add(time.Hour),
	}
}

func revisions(p inplace.Population) string {
	text := ""
	for _, c := range p.Creates {
		text += c.Revision[:1]
	}
	return text
}

func deleted(p inplace.Population) []string {
	var names []string
	for _, d := range p.Deletes {
		names = append(names, d.Name)
	}
	return names
}

func TestScale(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		in          Input
		wantCreates string
		wantDeletes []string
		wantHolds   int
	}{
		"first install creates all at the current revision, which is the new one": {
			in:          func() Input { i := input("", 3, 3, 1); i.Intent.Current = i.Intent.Update; return i }(),
			wantCreates: "nnn",
		},
		"a scale-up at a hold creates old pods only":                          {in: input("OOO", 6, 6, 1), wantCreates: "ooo"},
		"a scale-up at 50% keeps the share":                                   {in: input("OONN", 8, 4, 1), wantCreates: "oonn"},
		"B013: a lost new pod comes back old after the partition rose":        {in: input("OOOOONN", 8, 7, 1), wantCreates: "o"},
		"B015: a scale-up after the last old pod was deleted keeps the share": {in: input("N", 4, 2, 1), wantCreates: "oon"},
		"a lost old pod comes back new when the grant is open":                {in: input("OOO", 4, 1, 1), wantCreates: "n"},
		"terminating pods are replaced at once":                               {in: input("OOtt", 4, 4, 1), wantCreates: "oo"},
		"an evicted pod is deleted and replaced":                              {in: input("OOx", 3, 3, 1), wantCreates: "o", wantDeletes: []string{"web-02"}},
		"enough pods need nothing":                                            {in: input("ON", 2, 1, 1)},
		"a scale-in takes old pods down to the partition, then new": {
			in: input("OOOONNNN", 4, 2, 4), wantDeletes: []string{"web-07", "web-06", "web-03", "web-02"},
		},
		"a scale-in takes those that do not serve first": {
			in: input("oOoO", 2, 0, 0), wantDeletes: []string{"web-02", "web-00"},
		},
		"a scale-in keeps serving pods within the budget, and takes broken ones of the other revision instead": {
			in: input("OOOOOnnnnn", 5, 0, 1), wantDeletes: []string{"web-09", "web-08", "web-07", "web-06", "web-04"},
		},
		"an unreadable spec deletes nothing and creates at the current revision": {
			in: func() Input {
				i := input("NNNx", 4, 4, 0)
				i.Intent.Invalid = "spec.updateStrategy.partition: no"
				return i
			}(),
			wantCreates: "o",
		},
		"an unreadable spec does not scale in": {
			in: func() Input { i := input("NNN", 1, 1, 0); i.Intent.Invalid = "no"; return i }(),
		},
		"a current revision that is not kept any more creates nothing": {
			in:        func() Input { i := input("OO", 4, 4, 0); i.Intent.Current.Template = nil; return i }(),
			wantHolds: 1,
		},
		"pods that nodes refuse slow the next try down": {
			in:        func() Input { i := input("rrr", 1, 0, 0); i.Now = start.Add(5 * time.Second); return i }(),
			wantHolds: 1,
		},
		"and not for ever": {in: func() Input { i := input("rrr", 1, 0, 0); i.Now = start.Add(20 * time.Second); return i }(), wantCreates: "n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Scale(tc.in)
			if revisions(got) != tc.wantCreates {
				t.Errorf("creates %q, want %q", revisions(got), tc.wantCreates)
			}
			if diff := cmp.Diff(tc.wantDeletes, deleted(got)); diff != "" {
				t.Errorf("deletes (-want +got):\n%s", diff)
			}
			if len(got.Holds) != tc.wantHolds {
				t.Errorf("holds %v, want %d", got.Holds, tc.wantHolds)
			}
		})
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	t.Run("B069: the smallest number that no pod uses, the same from the same view", func(t *testing.T) {
		t.Parallel()
		in := input("", 3, 0, 1)
		first := Scale(in)
		if again := Scale(in); !cmp.Equal(first.Creates[0].Object, again.Creates[0].Object) {
			t.Error("the same view derives other names")
		}
		in.Pods = podsOf("N")
		in.Pods[0].Name = PodName("web", ID("uid", 1))
		got := Scale(in)
		for i, n := range []int{0, 2} {
			if want := PodName("web", ID("uid", n)); got.Creates[i].Object.GetName() != want {
				t.Errorf("create %d is named %s, want %s", i, got.Creates[i].Object.GetName(), want)
			}
		}
	})
	t.Run("a terminating pod keeps its name", func(t *testing.T) {
		t.Parallel()
		in := input("t", 1, 0, 1)
		in.Pods[0].Name = PodName("web", ID("uid", 0))
		if got := Scale(in).Creates[0].Object.GetName(); got != PodName("web", ID("uid", 1)) {
			t.Errorf("named %s", got)
		}
	})
	t.Run("B121: a name of 57 characters", func(t *testing.T) {
		t.Parallel()
		in := input("", 1, 0, 1)
		in.Owner.Name = "a23456789-123456789-123456789-123456789-123456789-1234567"
		pod := Scale(in).Creates[0].Object
		if len(pod.GetName()) != 63 {
			t.Errorf("name %s has %d characters", pod.GetName(), len(pod.GetName()))
		}
		if pod.GetLabels()[appsv1alpha1.LabelCloneSetInstanceID] != ID("uid", 0) {
			t.Errorf("labels %v", pod.GetLabels())
		}
	})
	t.Run("a pod says which revision it replaces", func(t *testing.T) {
		t.Parallel()
		in := input("N", 2, 0, 1)
		in.Lost = []string{"old"}
		if got := Scale(in).Creates[0].Object.GetAnnotations()[appsv1alpha1.AnnotationReplaces]; got != "old" {
			t.Errorf("replaces %q", got)
		}
	})
}

// TestScaleKeepsItsLimits draws crowds and checks the invariants of doc.go.
func TestScaleKeepsItsLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[oOnNxt]{0,20}`).Draw(t, "pods")
		replicas := rapid.Int32Range(0, 20).Draw(t, "replicas")
		partition := rapid.Int32Range(0, replicas).Draw(t, "partition")
		budget := rapid.Int32Range(0, replicas).Draw(t, "maxUnavailable")
		in := input(text, replicas, partition, budget)
		got := Scale(in)

		gone := map[string]bool{}
		for _, d := range got.Deletes {
			if gone[d.Name] {
				t.Fatalf("%s is deleted twice", d.Name)
			}
			gone[d.Name] = true
		}
		var active, fresh, serving, servingLeft int
		for _, p := range in.Pods {
			if !p.Active() {
				continue
			}
			serving += count(p.Ready)
			if gone[p.Name] {
				active--
			}
			active++
			fresh += count(p.Revision == "new")
			servingLeft += count(p.Ready && !gone[p.Name])
		}
		created := 0
		for _, c := range got.Creates {
			created += count(c.Revision == "new")
		}
		if created > 0 && fresh+created > int(replicas-partition) {
			t.Fatalf("%d new pods there, %d created, %d granted", fresh, created, replicas-partition)
		}
		if floor := int(replicas - budget); servingLeft < serving && servingLeft < floor {
			t.Fatalf("%d of %d serving pods are left, at least %d are wanted", servingLeft, serving, floor)
		}
		if n := active + len(got.Creates); len(got.Holds) == 0 && n != int(replicas) {
			t.Fatalf("%d pods after it, %d are wanted, and nothing says why", n, replicas)
		}
	})
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

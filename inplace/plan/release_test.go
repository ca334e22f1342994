package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/order"
	"github.com/underway-dev/underway/inplace/partition"
	"github.com/underway-dev/underway/inplace/plan"
	"github.com/underway-dev/underway/inplace/podview"
)

// moved carries a release out in a few words: who is drained is on the update revision, and available, in the next round.
func moved(t *testing.T, in inplace.Intent, all []inplace.Pod) []string {
	t.Helper()
	var out []string
	for range 2 * len(all) {
		d := plan.Next(in, all, now)
		if d.Quiet() {
			return out
		}
		for _, x := range d.Patches {
			i := slices.IndexFunc(all, func(p inplace.Pod) bool { return p.Name == x.Name })
			out = append(out, x.Name)
			labels := all[i].Labels
			all[i] = pods("N")[0]
			all[i].Name, all[i].Labels = x.Name, labels
		}
	}
	t.Fatalf("no end: %v", out)
	return nil
}

// labelled are old pods named by number, L with the label foo=bar.
func labelled(text string) []inplace.Pod {
	out := pods(strings.Repeat("O", len(text)))
	for i := range out {
		out[i].Name = fmt.Sprint(i)
		if text[i] == 'L' {
			out[i].Labels = map[string]string{"foo": "bar"}
		}
	}
	return out
}

// TestB097Release: the pods with the label are spread over the release, one at a time or two, and with a partition.
func TestB097Release(t *testing.T) {
	t.Parallel()
	terms := []appsv1alpha1.UpdateScatterTerm{{Key: "foo", Value: "bar"}}
	cases := map[string]struct {
		in   inplace.Intent
		pods string
		want string
	}{
		"B097: L U L U L":                   {in: intent(5, 0, 1), pods: "LLLUU", want: "03142"},
		"B097: 2 of 5 are never neighbours": {in: intent(5, 0, 1), pods: "LLUUU", want: "02341"},
		"two at a time":                     {in: intent(5, 0, 2), pods: "LLLUU", want: "03142"},
		"a partition cuts the pattern":      {in: intent(5, 2, 1), pods: "LLLUU", want: "031"},
		"O139":                              {in: intent(6, 0, 1), pods: "UUUULL", want: "401235"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.in.Scatter = terms
			if got := strings.Join(moved(t, tc.in, labelled(tc.pods)), ""); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestScatterKeepsWhoIsOnTheWay: pods that are out of service or wait for their hook go first, whatever the pattern, and
// count as the beginning of it.
func TestScatterKeepsWhoIsOnTheWay(t *testing.T) {
	t.Parallel()
	in := intent(5, 0, 5)
	in.Scatter = []appsv1alpha1.UpdateScatterTerm{{Key: "foo", Value: "bar"}}
	all := labelled("LLLUU")
	in.MaxUnavailable = 2
	all[1].Gate, all[1].Ready, all[1].Available = inplace.GateFalse, false, false
	if got := writes(plan.Next(in, all, now)); !slices.Equal(got, []string{"Drain 3", "Update 1"}) {
		t.Errorf("%v", got)
	}
}

// TestPriorityAndScatter: with any labels, weights and terms, everybody moves once, and never more than may.
func TestPriorityAndScatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("LU")), 1, 12, -1).Draw(r, "pods")
		n := int32(len(text))
		in := intent(n, rapid.Int32Range(0, n).Draw(r, "partition"), rapid.Int32Range(1, n).Draw(r, "maxUnavailable"))
		in.Scatter = []appsv1alpha1.UpdateScatterTerm{{Key: "foo", Value: "bar"}}[:rapid.IntRange(0, 1).Draw(r, "scatter")]
		compare, err := order.Priority(&appsv1alpha1.UpdatePriorityStrategy{WeightPriority: []appsv1alpha1.UpdatePriorityWeightTerm{
			{Weight: rapid.Int32Range(0, 100).Draw(r, "weight"), MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"foo": "bar"}}},
		}})
		if err != nil {
			r.Fatal(err)
		}
		in.Compare = compare
		got := moved(t, in, labelled(text))
		once := slices.Clone(got)
		slices.Sort(once)
		if int32(len(slices.Compact(once))) != in.Grant() || int32(len(got)) != in.Grant() {
			r.Fatalf("%v of %d granted", got, in.Grant())
		}
	})
}

// TestA01Release: the heavier pods first.
func TestA01Release(t *testing.T) {
	t.Parallel()
	in := intent(4, 1, 1)
	var err error
	in.Compare, err = order.Priority(&appsv1alpha1.UpdatePriorityStrategy{WeightPriority: []appsv1alpha1.UpdatePriorityWeightTerm{
		{Weight: 50, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"foo": "bar"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(moved(t, in, labelled("UULL")), ""); got != "230" {
		t.Error(got)
	}
}

// cluster is a world of pods in service at app:v1.
func cluster(seed uint64, n int) (*world, *agent) {
	w := &world{rng: rand.New(rand.NewPCG(seed, 5)), now: time.Unix(1_800_000_000, 0), pods: map[string]*simPod{}, builds: map[string]build{}, tracked: true}
	for i := range n {
		name := fmt.Sprintf("p-%d", i)
		w.create(name, app(1), corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "app:v1"}}})
		w.kubelet(w.pods[name])
		w.write(w.pods[name], func(pod *corev1.Pod) {
			setCondition(&pod.Status, appsv1alpha1.ConditionInPlaceUpdateReady, corev1.ConditionTrue, w.now)
		})
		w.kubelet(w.pods[name])
	}
	return w, &agent{w: w, memory: podview.NewMemory(), grants: map[string]int32{"web-1": 1 << 30, "web-2": 1 << 30}}
}

// drive lets second after second pass; it returns the last decision and when which pod was drained.
func drive(t *testing.T, a *agent, in inplace.Intent, minReady int32, seconds int) (inplace.Decision, map[string]time.Time) {
	t.Helper()
	drained := map[string]time.Time{}
	var last inplace.Decision
	for range seconds {
		for _, p := range a.w.live() {
			a.w.kubelet(p)
			a.w.endpoints(p)
		}
		d, err := a.pass(in, minReady)
		if err != nil {
			t.Fatal(err)
		}
		last = d
		for _, x := range d.Patches {
			if x.Kind == inplace.PatchDrain {
				drained[x.Name] = a.w.now
			}
		}
		a.w.advance(time.Second)
	}
	return last, drained
}

// B021: 10% of 4 is one pod at a time, and the budget comes back with each.
func TestB021(t *testing.T) {
	t.Parallel()
	_, a := cluster(21, 4)
	in := intent(4, 0, 0)
	in.Policy = inplace.PolicyInPlaceOnly
	var err error
	if in.MaxUnavailable, err = partition.MaxUnavailable(new(intstr.FromString("10%")), 0, 4); err != nil || in.MaxUnavailable != 1 {
		t.Fatal(in.MaxUnavailable, err)
	}
	d, drained := drive(t, a, in, 0, 120)
	if len(drained) != 4 || d.Summary.UpdatedAvailable != 4 || !d.Quiet() {
		t.Errorf("%v %+v", drained, d.Summary)
	}
	at := map[time.Time]bool{}
	for _, when := range drained {
		if at[when] {
			t.Error("two pods at once")
		}
		at[when] = true
	}
}

// B023: a pod that is broken already, and last in the order, has the budget; it is moved, for free, and no other.
func TestB023(t *testing.T) {
	t.Parallel()
	in := intent(3, 0, 1)
	in.Compare = order.Name
	d := plan.Next(in, pods("OOn"), now)
	if got := writes(d); !slices.Equal(got, []string{"Drain n2"}) {
		t.Errorf("%v, %v", got, holds(d))
	}
}

// B155: a host port that is only written down on the pod is no change; another container port is, and the old pod goes
// first, as the port is in use.
func TestB155(t *testing.T) {
	t.Parallel()
	template := func(n int, image string, port int) inplace.Revision {
		return rev(n, fmt.Sprintf(`{"spec":{"hostNetwork":true,"containers":[{"name":"web","image":"app:%s","ports":[{"containerPort":%d}]}]}}`, image, port))
	}
	in := intent(2, 0, 1)
	in.Current, in.Update = template(1, "v1", 9033), template(2, "v2", 9033)
	in.Revisions = []inplace.Revision{in.Current, in.Update}
	if got := writes(plan.Next(in, pods("OO"), now)); !slices.Equal(got, []string{"Drain O0"}) {
		t.Errorf("the image only: %v", got)
	}
	in.Update = template(2, "v2", 9034)
	in.Revisions[1] = in.Update
	d := plan.Next(in, pods("OO"), now)
	if got := writes(d); !slices.Equal(got, []string{"Delete O0"}) || len(d.Creates) != 0 {
		t.Errorf("another port: %v", got)
	}
}

// B157: with minReadySeconds 60 a minute passes between two pods that are updated in place, and what is available lags.
func TestB157(t *testing.T) {
	t.Parallel()
	_, a := cluster(157, 5)
	in := intent(5, 0, 1)
	if _, drained := drive(t, a, in, 60, 30); len(drained) != 0 {
		t.Fatalf("moved before its pods were available: %v", drained)
	}
	d, drained := drive(t, a, in, 60, 120)
	if d.Summary.UpdatedReady <= d.Summary.UpdatedAvailable {
		t.Errorf("available does not lag: %+v", d.Summary)
	}
	d, more := drive(t, a, in, 60, 400)
	var times []time.Time
	for _, m := range []map[string]time.Time{drained, more} {
		for _, when := range m {
			times = append(times, when)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	if len(times) != 5 || d.Summary.UpdatedAvailable != 5 {
		t.Fatalf("%v, %+v", times, d.Summary)
	}
	for i := 1; i < len(times); i++ {
		if gap := times[i].Sub(times[i-1]); gap < time.Minute {
			t.Errorf("the next pod after %s", gap)
		}
	}
}

// TestPartitionRollback: raised, the partition takes pods back in place, each with one more restart of the container and
// inside the budget; lowered again they move on. Without the switch nothing goes back.
func TestPartitionRollback(t *testing.T) {
	t.Parallel()
	w, a := cluster(13, 5)
	revisions := func() []string {
		var out []string
		for _, p := range w.live() {
			out = append(out, p.truth().Labels[appsv1alpha1.LabelPodRevision])
		}
		slices.Sort(out)
		return out
	}
	in := intent(5, 0, 2)
	drive(t, a, in, 0, 90)
	in.Partition = 3
	d, drained := drive(t, a, in, 0, 30)
	if len(drained) != 0 || d.Summary.Updated != 5 {
		t.Fatalf("without the switch: %v, %+v", drained, d.Summary)
	}
	uids := fmt.Sprint(w.names())
	in.PartitionRollback = true
	var told []string
	for range 90 {
		d, _ = drive(t, a, in, 0, 1)
		for _, e := range d.Events {
			told = append(told, e.Reason+": "+e.Message)
		}
	}
	if diff := cmp.Diff([]string{"web-1", "web-1", "web-1", "web-2", "web-2"}, revisions()); diff != "" || uids != fmt.Sprint(w.names()) {
		t.Errorf("%s %v", diff, d.Holds)
	}
	if d.Summary.Available != 5 || d.Summary.Updated != 2 || !d.Quiet() {
		t.Errorf("%+v", d.Summary)
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "RolledBackInPlace: 3 pods were moved back in place to app:v1, as the partition is 3; among them ") {
		t.Errorf("told %q", told)
	}
	if err := a.checkRestarts(); err != nil {
		t.Error(err)
	}
	in.Partition = 0
	if d, _ = drive(t, a, in, 0, 90); d.Summary.UpdatedAvailable != 5 {
		t.Errorf("lowered again: %+v", d.Summary)
	}
}

func TestPartitionRollbackCases(t *testing.T) {
	t.Parallel()
	back := func(in inplace.Intent, f ...func(*inplace.Intent)) inplace.Intent {
		in.PartitionRollback = true
		for _, edit := range f {
			edit(&in)
		}
		return in
	}
	recreate := func(in *inplace.Intent) { in.Policy = inplace.PolicyReCreate }
	cases := map[string]struct {
		in   inplace.Intent
		pods string
		want []string
	}{
		"recreated, inside the budget": {in: back(intent(5, 3, 1), recreate), pods: "NNNNN", want: []string{"Delete N0"}},
		"recreated, when a surge pod of the current revision is there": {
			in: back(intent(5, 3, 0), recreate), pods: "NNNNNO", want: []string{"Delete N0"},
		},
		"recreated, while it is not":             {in: back(intent(5, 3, 0), recreate), pods: "NNNNNn"},
		"who prepares to go forward goes back":   {in: back(intent(5, 3, 2)), pods: "dNNNO", want: []string{"Drain N1", "Return d0"}},
		"what is not proven goes back at once":   {in: back(intent(5, 4, 1)), pods: "uNOOO", want: []string{"Update u0"}},
		"no further than asked":                  {in: back(intent(5, 3, 5)), pods: "NNOOO"},
		"paused":                                 {in: back(intent(5, 3, 5), func(in *inplace.Intent) { in.Paused = true }), pods: "NNNNN"},
		"outside a release there is no way back": {in: back(intent(5, 3, 5), func(in *inplace.Intent) { in.Current = in.Update }), pods: "NNNNN"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Next(tc.in, pods(tc.pods), now)
			got := writes(d)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s%v", diff, holds(d))
			}
		})
	}
}

// TestW16: where the order puts a broken pod behind those that serve, the partition holds it and the budget the others. It
// takes the place when nothing else would ever move, and not before.
func TestW16(t *testing.T) {
	t.Parallel()
	recreate := func(in inplace.Intent) inplace.Intent { in.Policy = inplace.PolicyReCreate; return in }
	cases := map[string]struct {
		in   inplace.Intent
		pods string
		want []string
	}{
		"in place":                             {in: intent(3, 2, 1), pods: "OOn", want: []string{"Drain n2"}},
		"recreated, with surge (seed 1383)":    {in: recreate(intent(2, 0, 0)), pods: "NOn", want: []string{"Delete n2"}},
		"no more of them than places":          {in: intent(4, 3, 1), pods: "OOnn", want: []string{"Drain n2"}},
		"the budget is not spent":              {in: intent(3, 2, 2), pods: "OOn", want: []string{"Drain O0"}},
		"another pod is about to be available": {in: intent(4, 2, 1), pods: "OOrn"},
		"another is on its way":                {in: intent(4, 2, 1), pods: "uOOn"},
		"everything may stay":                  {in: intent(3, 3, 1), pods: "OOn"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.in.Compare = order.Name
			all := pods(tc.pods)
			for i := range all {
				all[i].Name = fmt.Sprintf("%d-%s", i, all[i].Name)
			}
			d := plan.Next(tc.in, all, now)
			var got []string
			for _, w := range writes(d) {
				verb, pod, _ := strings.Cut(w, " ")
				_, pod, _ = strings.Cut(pod, "-")
				got = append(got, verb+" "+pod)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s%v", diff, holds(d))
			}
		})
	}
}

// TestW16 again: a pod that is recreated on the revision it was asked to run has no place in the grant that a broken one
// could take (seed 4399 of the random releases: one too many was drained, and came back in the next pass).
func TestW16TakesOnlyPlacesThatAreThere(t *testing.T) {
	t.Parallel()
	all := pods("NOOn")
	hopeless := &all[1]
	hopeless.State = &inplace.State{Revision: "web-1", Generation: 1, Resources: map[string]corev1.ResourceRequirements{
		"web": {Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9")}},
	}}
	hopeless.Seen.ResizeRefused = &inplace.ResizeRefusal{Message: "too much", Final: true, Since: now, Last: now}
	d := plan.Next(intent(4, 3, 1), all, now)
	if got := writes(d); len(got) > 0 {
		t.Errorf("%v although the grant of 1 is taken; holds %v", got, holds(d))
	}
	if len(d.Holds) == 0 || !slices.ContainsFunc(d.Holds, func(h inplace.Hold) bool { return h.Kind == inplace.HoldBudget }) {
		t.Errorf("the hopeless pod is not seen to wait for the budget: %v", holds(d))
	}
}

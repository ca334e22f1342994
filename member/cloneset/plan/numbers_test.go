package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/partition"
)

// pods reads the notation of reference/oracles.md: "2O N Nd On N[PreparingDelete]d"; O and N are pods of the old and the new
// revision, ready and Normal unless n (not ready), y (ready, and not for minReadySeconds yet), d (asked to be deleted) or a
// state says otherwise.
func pods(text string) []inplace.Pod {
	var out []inplace.Pod
	for word := range strings.FieldsSeq(text) {
		n := 1
		if i := strings.IndexAny(word, "ON"); i > 0 {
			if _, err := fmt.Sscanf(word[:i], "%d", &n); err != nil {
				panic(err)
			}
			word = word[i:]
		}
		for range n {
			out = append(out, podOf(word, len(out)))
		}
	}
	return out
}

func podOf(word string, i int) inplace.Pod {
	p := podsOf(word[:1])[0]
	p.Name, p.UID, p.ResourceVersion = fmt.Sprintf("web-%02d", i), "", "1"
	p.UID = "uid-" + p.UID
	p.Gate, p.Labels = inplace.GateTrue, map[string]string{}
	rest := word[1:]
	if _, state, ok := strings.Cut(rest, "["); ok {
		state, tail, _ := strings.Cut(state, "]")
		p.Labels[appsv1alpha1.LabelLifecycleState] = state
		rest = strings.TrimSuffix(rest, "["+state+"]"+tail) + tail
	}
	p.Ready, p.Available = !strings.Contains(rest, "n"), !strings.ContainsAny(rest, "ny")
	p.Down = !p.Ready
	p.Created = start.Add(time.Duration(i) * time.Second)
	p.ReadySince = p.Created
	if p.Labels[appsv1alpha1.LabelLifecycleState] == string(hooks.PreparingDelete) && !p.Ready {
		p.Gate = inplace.GateFalse
	}
	p.SpecifiedDelete = strings.Contains(rest, "d")
	return p
}

// diffs writes a Diff as the reference does: only what is not zero.
func diffs(d Diff) string {
	var out []string
	for _, f := range []struct {
		name string
		n    int
	}{
		{"up", d.ScaleUp},
		{"upOld", d.ScaleUpOld},
		{"lim", d.ScaleUpLimit},
		{"down", d.ScaleDown},
		{"downOld", d.ScaleDownOld},
		{"dl", d.DeleteReady},
		{"s", d.Surge},
		{"sOld", d.SurgeOld},
		{"u", d.Update},
		{"mu", d.UpdateMaxUnavailable},
	} {
		if f.n != 0 {
			out = append(out, fmt.Sprintf("%s%d", f.name, f.n))
		}
	}
	return strings.Join(out, " ")
}

// strategies are (R, P, MU, MS) of a row, and its switches.
type strategies struct {
	replicas                    int32
	partition, unavailable      any
	surge                       any
	create                      *int32
	exclude, paused, noRollback bool
	// equal: the update revision is the current one.
	equal bool
	// inPlace: nothing has to be recreated.
	inPlace bool
	life    *appsv1alpha1.Lifecycle
}

func value(v any) *intstr.IntOrString {
	switch v := v.(type) {
	case int:
		return new(intstr.FromInt32(int32(v)))
	case string:
		return new(intstr.FromString(v))
	default:
		return nil
	}
}

func (s strategies) input(t *testing.T, text string) Input {
	t.Helper()
	surge, err := partition.MaxSurge(value(s.surge), s.replicas)
	if err != nil {
		t.Fatal(err)
	}
	unavailable, err := partition.MaxUnavailable(value(s.unavailable), surge, s.replicas)
	if err != nil {
		t.Fatal(err)
	}
	old, err := partition.Old(value(s.partition), s.replicas)
	if err != nil {
		t.Fatal(err)
	}
	in := input("", s.replicas, old, unavailable)
	in.Pods = pods(text)
	in.Intent.PartitionRollback, in.Intent.Paused, in.Intent.Lifecycle = !s.noRollback, s.paused, s.life
	in.Strategy = Strategy{
		MaxUnavailable: unavailable, MaxSurge: surge, CreateMaxUnavailable: s.create, ExcludePreparingDelete: s.exclude,
	}
	if s.equal {
		in.Intent.Current = in.Intent.Update
	}
	for _, p := range in.Pods {
		if p.Revision == "new" {
			in.MustRecreate.ToCurrent++
		} else {
			in.MustRecreate.ToUpdate++
		}
	}
	if s.inPlace {
		in.MustRecreate = Recreates{}
	}
	return in
}

func numbersOf(in Input) Diff {
	s := newScaling(in)
	return Numbers(s.knobs(), s.census())
}

// TestOracles: reference/oracles.md 5.3. Where we differ, ours says what and why.
func TestOracles(t *testing.T) {
	t.Parallel()
	two := new(int32(2))
	rows := []struct {
		id, pods string
		strategies
		want string
		// ours is our value where it differs, why the reason.
		ours, why string
	}{
		{id: "O89", strategies: strategies{replicas: 5, partition: 0, unavailable: 1}, want: "up5 lim5"},
		{id: "O90", pods: "Nd 4N", strategies: strategies{replicas: 5, partition: 0, unavailable: 1}, want: "dl1"},
		{id: "O91", pods: "4N", strategies: strategies{replicas: 5, partition: 0, unavailable: 1}, want: "up1 lim1"},
		{id: "O92", pods: "Nd 3N", strategies: strategies{replicas: 5, partition: 0, unavailable: 1}, want: "up1 lim1"},
		{id: "O94", pods: "2Nnd 3N", strategies: strategies{replicas: 4, partition: 0, unavailable: 1}, want: "dl2"},
		{id: "O95", pods: "5O", strategies: strategies{replicas: 5, partition: 3, unavailable: 1}, want: "u2 mu1"},
		{id: "O96", pods: "N 4O", strategies: strategies{replicas: 5, partition: 3, unavailable: 1}, want: "u1 mu1"},
		{
			id: "O98 as handed", pods: "2N 3O", strategies: strategies{replicas: 5, partition: 3, unavailable: 1}, want: "u-1 mu2",
			ours: "", why: "with partition 3 these are the pods that are wanted; u-1 mu2 is the answer to partition 4, maxUnavailable 2",
		},
		{id: "O98", pods: "2N 3O", strategies: strategies{replicas: 5, partition: 4, unavailable: 2}, want: "u-1 mu2"},
		{id: "O99: gate off", pods: "O 4N", strategies: strategies{replicas: 5, partition: 4, unavailable: 1, noRollback: true}},
		{id: "O99 with the gate on: back", pods: "O 4N", strategies: strategies{replicas: 5, partition: 4, unavailable: 1}, want: "u-3 mu1"},
		{id: "O100", pods: "Nd 4N", strategies: strategies{replicas: 5, partition: 0, unavailable: 0, surge: 1}, want: "up1 lim1 s1"},
		{id: "O101", pods: "Nd 4N Nn", strategies: strategies{replicas: 5, partition: 0, unavailable: 0, surge: 1}, want: "s1"},
		{id: "O103", pods: "5O", strategies: strategies{replicas: 5, partition: 3, unavailable: 1, surge: 1}, want: "up1 lim1 s1 u2 mu1"},
		{
			id: "O103, N6, W6: in place", pods: "5O", strategies: strategies{replicas: 5, partition: 3, unavailable: 1, surge: 1, inPlace: true},
			want: "up1 lim1 s1 u2 mu1", ours: "u2 mu1", why: "what is changed in place needs no surge pod",
		},
		{id: "O104", pods: "5O Nn", strategies: strategies{replicas: 5, partition: 3, unavailable: 1, surge: 1}, want: "s1 u1 mu2"},
		{id: "O106", pods: "4O N Nn", strategies: strategies{replicas: 5, partition: 3, unavailable: 1, surge: 1}, want: "down1 downOld1 dl1"},
		{id: "O108", pods: "4O Nn", strategies: strategies{replicas: 5, partition: 3, unavailable: 1, surge: 1}, want: "up1 lim1 s1 u1 mu1"},
		{
			id: "O109", pods: "4O 2Nn", strategies: strategies{replicas: 5, partition: 3, unavailable: 1, surge: 1}, want: "down1 downOld1",
		},
		{id: "O110", pods: "5O", strategies: strategies{replicas: 5, partition: "99%", unavailable: 3, surge: 2}, want: "up1 lim1 s1 u1 mu3"},
		{id: "O112", pods: "5O", strategies: strategies{replicas: 5, partition: "99%", unavailable: "40%", surge: "30%"}, want: "up1 lim1 s1 u1 mu2"},
		{id: "O112", pods: "5O Nn", strategies: strategies{replicas: 5, partition: "99%", unavailable: "40%", surge: "30%"}, want: "down1 downOld1 dl2"},
		{id: "O114", pods: "5N", strategies: strategies{replicas: 5, partition: 3, unavailable: 1, equal: true}},
		{id: "O114", pods: "2O 3N", strategies: strategies{replicas: 5, partition: 3, unavailable: 1, equal: true}},
		{id: "O116", pods: "2O 2N", strategies: strategies{replicas: 5, partition: 1, unavailable: 2, equal: true}, want: "up1 lim1 u1 mu1"},
		{id: "O118", strategies: strategies{replicas: 5, partition: 0, unavailable: 1, create: two}, want: "up5 lim2"},
		{id: "O120", pods: "2N N[PreparingDelete]d", strategies: strategies{replicas: 3, partition: 0, unavailable: 1}},
		{
			id: "O122", pods: "O[PreparingUpdate] 2O", strategies: strategies{replicas: 4, partition: "90%", unavailable: 1, exclude: true},
			want: "up1 upOld1 lim1",
		},
		{
			id: "O123", pods: "O[PreparingUpdate] 2O", strategies: strategies{replicas: 4, partition: 2, unavailable: 1, exclude: true},
			want: "up1 lim1",
		},
		{id: "O125", pods: "5O", strategies: strategies{replicas: 3, partition: 0, unavailable: 0, surge: 3, paused: true}, want: "down2 downOld5 dl2 u3 mu2"},

		{
			id: "W13: young pods hold up no scale-in", pods: "6Ny", strategies: strategies{replicas: 5, partition: 0, unavailable: 1},
			want: "down1", ours: "down1 dl2", why: "upstream counts pods that wait for minReadySeconds as unavailable: a long one hangs it (#1478)",
		},
		{id: "B017: no more surge than pods to move", pods: "8O", strategies: strategies{replicas: 8, partition: 6, unavailable: 0, surge: "50%"}, want: "up2 lim2 s2 u2"},
		{id: "B019: paused makes no surge", pods: "4O", strategies: strategies{replicas: 4, partition: 0, unavailable: 1, surge: "50%", paused: true}, want: "u4 mu1"},
		{id: "back with surge: at the current revision", pods: "O 4N", strategies: strategies{replicas: 5, partition: 4, unavailable: 0, surge: 2}, want: "up2 upOld5 lim2 s2 sOld2 u-3"},
	}
	for _, row := range rows {
		t.Run(row.id+" "+row.pods, func(t *testing.T) {
			t.Parallel()
			want := row.want
			if row.why != "" {
				want = row.ours
			}
			if got := diffs(numbersOf(row.input(t, row.pods))); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestO145: the rank of pods on one node.
func TestO145(t *testing.T) {
	t.Parallel()
	all := pods("11O")
	for node, of := range map[string][]int{"a": {0, 4, 10}, "b": {3, 6}, "c": {5}, "d": {7, 8, 9}} {
		for _, i := range of {
			all[i].Node = node
		}
	}
	for i := range all {
		all[i].Created, all[i].ReadySince = start, start
		if all[i].Node == "node" {
			all[i].Node = ""
		}
	}
	s := newScaling(Input{Pods: all})
	got := map[string]float64{}
	for name, rank := range s.ranks() {
		if rank != 0 {
			got[name] = rank
		}
	}
	want := map[string]float64{"web-00": 2, "web-04": 1, "web-03": 1, "web-07": 2, "web-08": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSpread: the more crowded domain goes first, over nodes and over domains.
func TestSpread(t *testing.T) {
	t.Parallel()
	in := input("", 3, 0, 3)
	in.Pods = pods("6N")
	for i, node := range []string{"a1", "a2", "a3", "a1", "b1", "b1"} {
		in.Pods[i].Node = node
		in.Pods[i].Created, in.Pods[i].ReadySince = start, start
	}
	in.Nodes = map[string]map[string]string{}
	for _, node := range []string{"a1", "a2", "a3", "b1"} {
		in.Nodes[node] = map[string]string{"zone": node[:1]}
	}
	// Over nodes alone: one of the two on a1, one of the two on b1, then by name.
	if diff := cmp.Diff([]string{"web-00", "web-01", "web-04"}, sortedDeletes(in)); diff != "" {
		t.Errorf("over nodes: %s", diff)
	}
	// Over zones: zone a has four and b two, ranks 4, 3, 2, 1 and 2, 1; a1 is the more crowded node of a; the name breaks the tie.
	in.Strategy.Spread = []string{"zone"}
	if diff := cmp.Diff([]string{"web-00", "web-01", "web-02"}, sortedDeletes(in)); diff != "" {
		t.Errorf("over zones: %s", diff)
	}
}

func sortedDeletes(in Input) []string {
	names := deleted(Scale(in))
	slices.Sort(names)
	return names
}

// TestCensusCountsStates: a pod in a state other than Normal is not available, one in PreparingDelete counts apart.
func TestCensusCountsStates(t *testing.T) {
	t.Parallel()
	in := input("", 9, 0, 1)
	in.Pods = pods("N N[Normal] N[Updated] N[PreparingNormal] Nn Ny Nd N[PreparingDelete] N[PreparingDelete]d O O[Updating]")
	got := newScaling(in).census()
	want := Census{
		New: Side{Total: 10, Preparing: 2, Asked: 1, Unavailable: 4, Young: 1}, Old: Side{Total: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s, _ := hooks.Of(in.Pods[2].Labels); s != hooks.Updated {
		t.Errorf("the notation reads %q", s)
	}
}

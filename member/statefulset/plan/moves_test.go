package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
)

// all makes n pods on r1, those named on r2.
func all(n int64, updated ...int64) []inplace.Pod {
	out := make([]inplace.Pod, 0, n)
	for i := range n {
		revision := "r1"
		if slices.Contains(updated, i) {
			revision = "r2"
		}
		out = append(out, pod(i, revision))
	}
	return out
}

// TestMoves: which pods move, in which order, by inplace/plan with what Read and Scale say.
func TestMoves(t *testing.T) {
	t.Parallel()
	const (
		parallel  = "podManagementPolicy: Parallel, "
		unordered = parallel + "replicas: 10, updateStrategy: {rollingUpdate: {maxUnavailable: 100%, partition: 6, podUpdatePolicy: InPlaceIfPossible, unorderedUpdate: {}}}"
		m007      = parallel + "replicas: 5, reserveOrdinals: [1], updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 40%, minReadySeconds: 5, partition: "
		m009      = parallel + `replicas: 4, updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1, unorderedUpdate: {priorityStrategy:
  {weightPriority: [{weight: 100, matchSelector: {matchLabels: {role: follower}}}]}}, paused: `
		a04 = parallel + `replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 2, unorderedUpdate: {priorityStrategy:
  {weightPriority: [{weight: 50, matchSelector: {matchLabels: {test-key: foo}}}, {weight: 30, matchSelector: {matchLabels: {test-key: bar}}}]}}}}`
	)
	follower, leader := labelled("role", "follower"), labelled("role", "leader")
	slots := func(change ...func(*inplace.Pod)) []inplace.Pod {
		out := pods(0, 2, 3, 4, 5)
		for _, f := range change {
			f(&out[4])
		}
		return out
	}
	for name, tc := range map[string]struct {
		spec string
		pods []inplace.Pod
		want string
	}{
		"O175: 3 old, no strategy":        {"{" + parallel + "replicas: 3, updateStrategy: {rollingUpdate: {maxUnavailable: 100%}}}", all(3), "2 1 0"},
		"O175, in order":                  {"{replicas: 3}", all(3), "2"},
		"O177: 6 and 7 are updated":       {"{" + unordered + "}", all(10, 6, 7), "9 8"},
		"O179: 0 and 1 have begun":        {"{" + unordered + "}", begunAt(all(10, 7, 8), 0, 1), "1 0"},
		"M007: at most two, partition 2":  {"{" + m007 + "2}}}", slots(), "5 4"},
		"M007: one is young":              {"{" + m007 + "2}}}", slots(func(p *inplace.Pod) { p.Revision = "r2"; young(p) }), "4"},
		"B095: 5, 4, 3 and no more":       {"{" + m007 + "2}}}", []inplace.Pod{pod(0, "r1"), pod(2, "r1"), pod(3, "r1"), pod(4, "r2"), pod(5, "r2")}, "3"},
		"B095: kept old 0 and 2":          {"{" + m007 + "2}}}", []inplace.Pod{pod(0, "r1"), pod(2, "r1"), pod(3, "r2"), pod(4, "r2"), pod(5, "r2")}, ""},
		"M007: partition 0: 2, then 0":    {"{" + m007 + "0}}}", []inplace.Pod{pod(0, "r1"), pod(2, "r1"), pod(3, "r2"), pod(4, "r2"), pod(5, "r2")}, "2 0"},
		"M009: paused":                    {"{" + m009 + "true}}}", all(4), ""},
		"M009: followers first":           {"{" + m009 + "false}}}", []inplace.Pod{pod(0, "r1", follower), pod(1, "r1", follower), pod(2, "r1", leader), pod(3, "r1", follower)}, "3"},
		"M009: then 1":                    {"{" + m009 + "false}}}", []inplace.Pod{pod(0, "r1", follower), pod(1, "r1", follower), pod(2, "r1", leader), pod(3, "r2", follower)}, "1"},
		"M009: the leader last":           {"{" + m009 + "false}}}", []inplace.Pod{pod(0, "r2", follower), pod(1, "r2", follower), pod(2, "r1", leader), pod(3, "r2", follower)}, "2"},
		"M009: one at a time":             {"{" + m009 + "false}}}", []inplace.Pod{pod(0, "r1", follower), pod(1, "r1", follower), pod(2, "r1", leader), pod(3, "r2", follower, down)}, ""},
		"A04: by weight, two at a time":   {"{" + a04 + "}", []inplace.Pod{pod(0, "r1", labelled("test-key", "bar")), pod(1, "r1", labelled("test-key", "foo")), pod(2, "r1")}, "1 0"},
		"A04: alike, by ordinal":          {"{" + a04 + "}", all(3), "2 1"},
		"B023: one is down, late in line": {"{" + parallel + "replicas: 3, updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}}", []inplace.Pod{pod(0, "r1", down), pod(1, "r1"), pod(2, "r1")}, "0"},
		"B023, held: nobody":              {"{" + parallel + "replicas: 3, updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 1}}}", []inplace.Pod{pod(0, "r1", down), pod(1, "r1"), pod(2, "r1")}, ""},
		"a missing one spends the budget": {"{replicas: 3}", []inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "r2", terminating(-time.Hour))}, ""},
		"in order a young one waits":      {"{replicas: 3}", []inplace.Pod{pod(0, "r1"), pod(1, "r1", young), pod(2, "r1")}, ""},
		"unordered it does not":           {"{" + parallel + "replicas: 3, updateStrategy: {rollingUpdate: {unorderedUpdate: {}}}}", []inplace.Pod{pod(0, "r1"), pod(1, "r1", young), pod(2, "r1")}, "1"},
		"the highest is young":            {"{replicas: 3}", []inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "r1", young)}, "2"},
		"ten comes before nine":           {"{replicas: 11}", all(11), "10"},
		"a condemned pod does not move":   {"{replicas: 2, lifecycle: {preDelete: {finalizersHandler: [x.io/y]}}}", []inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "r1", held("x.io/y"), in("PreparingDelete"))}, "1"},
		"nor stand in for another":        {"{replicas: 2, lifecycle: {preDelete: {finalizersHandler: [x.io/y]}}}", []inplace.Pod{pod(0, "r1"), pod(1, "r2", down), pod(2, "r1", held("x.io/y"))}, ""},
		"a pod asked to go does not move": {"{replicas: 3, lifecycle: {preDelete: {finalizersHandler: [x.io/y]}}}", []inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "r1", held("x.io/y"), in("PreparingDelete"), asked, young)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(t, tc.spec, tc.pods...)
			slices.Reverse(in.Pods)
			r, d := next(in)
			if got := moving(r, d); got != tc.want {
				t.Errorf("moves %q, want %q; holds %v", got, tc.want, d.Holds)
			}
		})
	}
}

// begunAt has the hooks of some pods asked already.
func begunAt(pods []inplace.Pod, ordinals ...int64) []inplace.Pod {
	for _, n := range ordinals {
		in("PreparingUpdate")(&pods[n])
	}
	return pods
}

// TestB075: a broken revision is replaced without anybody deleting pods, in OrderedReady as well, in place and recreated; back
// to the revision before, on to another one, and from a first revision that never came up.
func TestB075(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"InPlaceIfPossible", "InPlaceOnly", "ReCreate"} {
		text := "{replicas: 3, updateStrategy: {rollingUpdate: {podUpdatePolicy: " + policy + "}}}"
		for name, tc := range map[string]struct {
			pods   []inplace.Pod
			target string
			want   string
		}{
			"back":                       {[]inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "bad", down)}, "r1", "2"},
			"on":                         {[]inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "bad", down)}, "r2", "2"},
			"it never started":           {[]inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "bad", pending)}, "r2", "2"},
			"the first of all":           {[]inplace.Pod{pod(0, "bad", pending)}, "r2", "0"},
			"in the middle":              {[]inplace.Pod{pod(0, "r1"), pod(1, "bad", down), pod(2, "r1")}, "r2", "1"},
			"it still serves: its turn":  {[]inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "bad")}, "r2", "2"},
			"another one is down, too":   {[]inplace.Pod{pod(0, "r1", down), pod(1, "r1"), pod(2, "bad", down)}, "r2", "2 0"},
			"a higher one is missing":    {[]inplace.Pod{pod(0, "r1"), pod(1, "bad", down)}, "r2", "1"},
			"a higher one is being made": {[]inplace.Pod{pod(0, "bad", down), pod(1, "r1"), pod(2, "r1", terminating(time.Minute))}, "r2", "0"},
		} {
			t.Run(policy+": "+name, func(t *testing.T) {
				t.Parallel()
				in := input(t, text, tc.pods...)
				in.Intent.Update, in.Intent.Revisions = rev(tc.target), []inplace.Revision{rev("r1"), rev("bad"), rev("r2")}
				r, d := next(in)
				if got := moving(r, d); got != tc.want {
					t.Errorf("moves %q, want %q; holds %v", got, tc.want, d.Holds)
				}
				if len(r.Deletes) != 0 {
					t.Errorf("deletes %v", r.Deletes)
				}
			})
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]inplace.Intent{
		"{}":            {Replicas: 1, MaxUnavailable: 1, Policy: inplace.PolicyReCreate},
		"{replicas: 7}": {Replicas: 7, MaxUnavailable: 1, Policy: inplace.PolicyReCreate},
		"{replicas: 0}": {MaxUnavailable: 1, Policy: inplace.PolicyReCreate},
		"{replicas: 10, podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {partition: 99, maxUnavailable: 39%, podUpdatePolicy: InPlaceOnly, paused: true, inPlaceUpdateStrategy: {gracePeriodSeconds: 4}}}}": {
			Replicas: 10, Partition: 10, MaxUnavailable: 3, Policy: inplace.PolicyInPlaceOnly, Paused: true, GracePeriod: 4 * time.Second,
		},
		"{replicas: 3, podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {maxUnavailable: 5%}}}": {Replicas: 3, MaxUnavailable: 1, Policy: inplace.PolicyReCreate},
		"{replicas: 2, updateStrategy: {type: OnDelete}}":                                                     {Replicas: 2, MaxUnavailable: 1, Policy: inplace.PolicyReCreate, OnDelete: true},
	} {
		r := Read(spec(t, text))
		if r.Intent.Compare == nil {
			t.Errorf("%s: no order", text)
		}
		r.Intent.Compare = nil
		if diff := cmp.Diff(want, r.Intent); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	r := Read(spec(t, "{replicas: 4, updateStrategy: {rollingUpdate: {partition: 1, minReadySeconds: 9}}}"))
	if !r.Held || r.MinReadySeconds != 9 {
		t.Errorf("%+v", r)
	}
	if r := Read(spec(t, "{replicas: 0, updateStrategy: {rollingUpdate: {partition: 1}}}")); !r.Held {
		t.Error("a hold holds at no replicas too")
	}
}

// TestMinReadySecondsOfAnUnreadableSpec: pods come back in order, each after as long as is written.
func TestMinReadySecondsOfAnUnreadableSpec(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int32{
		"{updateStrategy: {type: Fast, rollingUpdate: {minReadySeconds: 9}}}":           9,
		"{updateStrategy: {type: OnDelete, rollingUpdate: {minReadySeconds: 9}}}":       9,
		"{reserveOrdinals: [x], updateStrategy: {rollingUpdate: {minReadySeconds: 9}}}": 9,
		"{updateStrategy: {rollingUpdate: {minReadySeconds: -1}}}":                      2147483647,
		"{updateStrategy: {type: Fast}}":                                                0,
	} {
		if r := Read(spec(t, text)); r.MinReadySeconds != want || r.Intent.Invalid == "" {
			t.Errorf("%s: %d, invalid %q", text, r.MinReadySeconds, r.Intent.Invalid)
		}
	}
}

// TestUnreadableHolds: what came through a CRD without our rules moves nothing, names the field, and keeps what it has.
func TestUnreadableHolds(t *testing.T) {
	t.Parallel()
	for text, field := range map[string]string{
		"{replicas: 5, updateStrategy: {type: Fast}}":                                          "spec.updateStrategy.type",
		"{replicas: 5, updateStrategy: {rollingUpdate: {partition: -1}}}":                      "spec.updateStrategy.rollingUpdate.partition",
		"{replicas: 5, updateStrategy: {rollingUpdate: {maxUnavailable: \"2\"}}}":              "spec.updateStrategy.rollingUpdate.maxUnavailable",
		"{replicas: 5, updateStrategy: {rollingUpdate: {maxUnavailable: 2}}}":                  "spec.updateStrategy.rollingUpdate.maxUnavailable",
		"{replicas: 5, updateStrategy: {rollingUpdate: {unorderedUpdate: {}}}}":                "spec.updateStrategy.rollingUpdate.unorderedUpdate",
		"{replicas: 5, updateStrategy: {type: OnDelete, rollingUpdate: {}}}":                   "spec.updateStrategy.rollingUpdate",
		"{replicas: 5, reserveOrdinals: [1, \"9-3\"]}":                                         "spec.reserveOrdinals[1]",
		"{replicas: 5, ordinals: {start: -1}}":                                                 "spec.ordinals.start",
		"{replicas: 5, podManagementPolicy: Random}":                                           "spec.podManagementPolicy",
		"{replicas: 5, persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}}":              "whenScaled",
		"{replicas: 5, podManagementPolicy: Parallel, scaleStrategy: {maxUnavailable: \"x\"}}": "spec.scaleStrategy.maxUnavailable",
		"{replicas: 5, podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {unorderedUpdate: {priorityStrategy: {weightPriority: [{weight: 101, matchSelector: {}}]}}}}}": "weightPriority[0].weight",
	} {
		in := input(t, text, all(7)...)
		if !strings.Contains(in.Intent.Invalid, field) || in.Intent.Grant() != 0 || in.Intent.Replicas != 5 {
			t.Errorf("%s: %+v", text, in.Intent)
		}
		r, d := next(in)
		if !d.Quiet() || len(r.ClaimPatches) != 0 {
			t.Errorf("%s: %+v", text, d)
		}
	}
}

// TestNobodyIsAskedToWriteTheGate: the readiness gate is put on by us, and not twice (A04).
func TestNobodyIsAskedToWriteTheGate(t *testing.T) {
	t.Parallel()
	in := input(t, "{replicas: 1}")
	in.Intent.Update.Template = []byte(`{"metadata":{"labels":{"app":"web"}},"spec":{"readinessGates":[{"conditionType":"InPlaceUpdateReady"}],"containers":[{"name":"c","image":"i"}]}}`)
	spec, _ := Scale(in).Creates[0].Object.Object["spec"].(map[string]any)
	want := []any{map[string]any{"conditionType": appsv1alpha1.ConditionInPlaceUpdateReady}}
	if diff := cmp.Diff(want, spec["readinessGates"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

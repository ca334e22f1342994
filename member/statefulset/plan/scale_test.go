package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/crowd"
)

// TestWhoShouldExist: which ordinals are created, at which revision, and which go.
func TestWhoShouldExist(t *testing.T) {
	t.Parallel()
	const parallel = "podManagementPolicy: Parallel, "
	type want struct{ creates, deletes, hold string }
	for name, tc := range map[string]struct {
		spec string
		pods []inplace.Pod
		want want
	}{
		"nothing is there, in order":     {"{replicas: 3}", nil, want{creates: "0:r2"}},
		"nothing is there, in parallel":  {"{" + parallel + "replicas: 3}", nil, want{creates: "0:r2 1:r2 2:r2"}},
		"the next in order":              {"{replicas: 3}", pods(0), want{creates: "1:r2"}},
		"waits for one that is young":    {"{replicas: 3}", []inplace.Pod{pod(0, "r2", young)}, want{hold: "web-0, which comes before them: it is not available yet"}},
		"waits for one that is broken":   {"{replicas: 3}", []inplace.Pod{pod(0, "r2", down)}, want{hold: "not ready"}},
		"waits for one that terminates":  {"{replicas: 3}", []inplace.Pod{pod(0, "r2", terminating(time.Minute))}, want{hold: "terminating"}},
		"parallel waits for none":        {"{" + parallel + "replicas: 3}", []inplace.Pod{pod(0, "r2", terminating(-time.Hour)), pod(1, "r2", down)}, want{creates: "2:r2", hold: "--force"}},
		"a hole is filled first":         {"{replicas: 4}", pods(0, 2), want{creates: "1:r2"}},
		"a start":                        {"{" + parallel + "replicas: 2, ordinals: {start: 5}}", nil, want{creates: "5:r2 6:r2"}},
		"one below the start goes":       {"{" + parallel + "replicas: 2, ordinals: {start: 1}}", pods(0, 1, 2), want{deletes: "0"}},
		"M007: reserved":                 {"{" + parallel + "replicas: 5, reserveOrdinals: [1]}", nil, want{creates: "0:r2 2:r2 3:r2 4:r2 5:r2"}},
		"M007: no longer reserved":       {"{" + parallel + "replicas: 5}", pods(0, 2, 3, 4, 5), want{creates: "1:r2", deletes: "5"}},
		"a range is reserved":            {`{` + parallel + `replicas: 3, reserveOrdinals: ["1-3", 5]}`, nil, want{creates: "0:r2 4:r2 6:r2"}},
		"reserved: one goes, one comes":  {"{" + parallel + "replicas: 3, reserveOrdinals: [1]}", pods(0, 1, 2), want{creates: "3:r2", deletes: "1"}},
		"reserved two: budget of one":    {"{" + parallel + "replicas: 4, reserveOrdinals: [1, 3]}", pods(0, 1, 2, 3), want{creates: "4:r2 5:r2", deletes: "3", hold: "the scale-in waits"}},
		"reserved {1,3} in order: first": {"{replicas: 4, reserveOrdinals: [1, 3]}", pods(0, 1, 2, 3), want{creates: "4:r2", deletes: "3"}},
		"4 to 6":                         {"{replicas: 6, reserveOrdinals: [1, 3]}", pods(0, 2, 4, 5), want{creates: "6:r2"}},
		"6 to 2: the highest first":      {"{replicas: 2, reserveOrdinals: [1, 3]}", pods(0, 2, 4, 5, 6, 7), want{deletes: "7"}},
		"6 to 2 in parallel":             {"{" + parallel + "replicas: 2, reserveOrdinals: [1, 3]}", pods(0, 2, 4, 5, 6, 7), want{deletes: "7 6 5 4"}},
		"in order one after the other":   {"{replicas: 1}", append(pods(0, 1, 2), pod(3, "r1", terminating(time.Minute))), want{hold: "wait for web-3 to be gone"}},
		"in order waits for the lower":   {"{replicas: 2}", []inplace.Pod{pod(0, "r1", down), pod(1, "r1"), pod(2, "r1")}, want{hold: "wait for web-0 to be ready"}},
		"a broken one goes all the same": {"{replicas: 2}", []inplace.Pod{pod(0, "r1", down), pod(1, "r1"), pod(2, "r1", down)}, want{deletes: "2"}},
		"no pods at all":                 {"{" + parallel + "replicas: 0}", pods(0, 1), want{deletes: "1 0"}},
		"O183: below the partition":      {"{replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}}", pods(1, 2), want{creates: "0:r1"}},
		"beyond the partition":           {"{replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}}", pods(0, 2), want{creates: "1:r2"}},
		"B095: positions, not ordinals":  {"{" + parallel + "replicas: 5, reserveOrdinals: [1], updateStrategy: {rollingUpdate: {partition: 2}}}", pods(3, 4), want{creates: "0:r1 2:r1 5:r2"}},
		"held whole":                     {"{" + parallel + "replicas: 3, updateStrategy: {rollingUpdate: {partition: 2147483647}}}", nil, want{creates: "0:r1 1:r1 2:r1"}},
		"OnDelete comes back updated":    {"{replicas: 3, updateStrategy: {type: OnDelete}}", pods(0, 1), want{creates: "2:r2"}},
		"the grant is a number, too": {
			"{" + parallel + "replicas: 4, reserveOrdinals: [0], updateStrategy: {rollingUpdate: {partition: 2}}}",
			[]inplace.Pod{pod(0, "r1"), pod(1, "r1"), pod(2, "r2"), pod(3, "r2")},
			want{creates: "4:r1", deletes: "0"},
		},
		"unordered: old ones are enough": {"{" + parallel + "replicas: 3, updateStrategy: {rollingUpdate: {partition: 1, unorderedUpdate: {}}}}", pods(1, 2), want{creates: "0:r2"}},
		"unordered: first the old":       {"{" + parallel + "replicas: 3, updateStrategy: {rollingUpdate: {partition: 1, unorderedUpdate: {}}}}", []inplace.Pod{pod(1, "r2")}, want{creates: "0:r1 2:r2"}},
		"B063: a drained one keeps its place": {
			"{" + parallel + "replicas: 3, updateStrategy: {rollingUpdate: {partition: 2, unorderedUpdate: {}}}}",
			[]inplace.Pod{pod(1, "r1"), pod(2, "r1", begunPod)},
			want{creates: "0:r1"},
		},
		"evicted: its name is needed": {"{replicas: 2}", []inplace.Pod{pod(0, "r1"), pod(1, "r1", evicted)}, want{deletes: "1"}},
		"evicted: its hook is asked first": {
			"{replicas: 3, lifecycle: {preDelete: {labelsHandler: {guard: \"on\"}}}}", []inplace.Pod{pod(0, "r1"), pod(1, "r1", labelled("guard", "on"), evicted)}, want{hold: "its deletion waits"},
		},
		"refused by its node: no hook": {
			"{replicas: 2, lifecycle: {preDelete: {labelsHandler: {guard: \"on\"}}}}",
			[]inplace.Pod{pod(0, "r1"), pod(1, "r1", labelled("guard", "on"), refused, func(p *inplace.Pod) { p.Created = at().Add(-time.Hour) })},
			want{deletes: "1"},
		},
		"evicted: its hook has let it go": {
			"{replicas: 3, lifecycle: {preDelete: {labelsHandler: {guard: \"on\"}}}}", []inplace.Pod{pod(0, "r1"), pod(1, "r1", in("PreparingDelete"), evicted)}, want{deletes: "1"},
		},
		"refused by its node: waits": {"{replicas: 2}", []inplace.Pod{pod(0, "r1"), pod(1, "r1", refused)}, want{hold: "refused by their nodes"}},
		"a pod that was just drained serves no more": {
			"{" + parallel + "replicas: 3}", []inplace.Pod{pod(0, "r1"), pod(1, "r1", drainedNow), pod(2, "r1", down), pod(3, "r1")}, want{hold: "the scale-in waits"},
		},
		"in order a pod that was just drained is waited for": {"{replicas: 2}", []inplace.Pod{pod(0, "r1", drainedNow), pod(1, "r1"), pod(2, "r1")}, want{hold: "wait for web-0"}},
		"what takes the place of a pod in the grant waits until it goes": {
			"{" + parallel + "replicas: 3, reserveOrdinals: [0], updateStrategy: {rollingUpdate: {partition: 2, maxUnavailable: 2}}}",
			[]inplace.Pod{pod(0, "r2"), pod(1, "r1"), pod(2, "r1")},
			want{deletes: "0"},
		},
		"and comes at the revision before where it will not go": {
			"{" + parallel + "replicas: 3, reserveOrdinals: [0], updateStrategy: {rollingUpdate: {partition: 2}}}",
			[]inplace.Pod{pod(0, "r2"), pod(1, "r1", down), pod(2, "r1")},
			want{creates: "3:r1", hold: "the scale-in waits"},
		},
		"asked to go":                        {"{replicas: 3}", []inplace.Pod{pod(0, "r1"), pod(1, "r1", asked), pod(2, "r1")}, want{deletes: "1"}},
		"asked to go, held by partition":     {"{replicas: 3, updateStrategy: {rollingUpdate: {partition: 3}}}", []inplace.Pod{pod(0, "r1", asked), pod(1, "r1"), pod(2, "r1")}, want{deletes: "0"}},
		"asked to go, budget spent":          {"{replicas: 3}", []inplace.Pod{pod(0, "r1", down), pod(1, "r1", asked), pod(2, "r1")}, want{hold: "asked to go wait"}},
		"asked to go and down":               {"{replicas: 3}", []inplace.Pod{pod(0, "r1", down), pod(1, "r1", asked, down), pod(2, "r1")}, want{deletes: "1"}},
		"asked to go, but others come first": {"{replicas: 5}", []inplace.Pod{pod(0, "r2", asked), pod(1, "r2")}, want{creates: "2:r2", hold: "asked to go wait"}},
		"creation is bounded":                {"{" + parallel + "replicas: 5, scaleStrategy: {maxUnavailable: 2}}", []inplace.Pod{pod(0, "r1", pending)}, want{creates: "1:r2", hold: "scaleStrategy.maxUnavailable is 2"}},
		"creation is bounded, 30% of 5":      {"{" + parallel + "replicas: 5, scaleStrategy: {maxUnavailable: 30%}}", nil, want{creates: "0:r2", hold: "scaleStrategy.maxUnavailable is 1"}},
		"a stuck pod does not bound it":      {"{" + parallel + "replicas: 3, scaleStrategy: {maxUnavailable: 1}}", []inplace.Pod{pod(0, "r1", terminating(-time.Hour))}, want{creates: "1:r2", hold: "--force"}},
		"an unreadable spec":                 {"{replicas: 3, updateStrategy: {type: Fast}}", pods(0, 1, 5), want{creates: "2:r1"}},
		"unreadable ordinals":                {`{replicas: 3, reserveOrdinals: ["x"]}`, pods(0, 5), want{hold: "reserveOrdinals"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Scale(input(t, tc.spec, tc.pods...))
			if got := created(r); got != tc.want.creates {
				t.Errorf("creates %q, want %q", got, tc.want.creates)
			}
			if got := deleted(r.Deletes); got != tc.want.deletes {
				t.Errorf("deletes %q, want %q", got, tc.want.deletes)
			}
			text := ""
			for _, h := range r.Holds {
				text += h.Because + "\n"
			}
			if !strings.Contains(text, tc.want.hold) || tc.want.hold == "" && tc.want.creates+tc.want.deletes == "" && text == "" {
				t.Errorf("holds %q do not say %q", text, tc.want.hold)
			}
		})
	}
}

// TestO180 and O181: upstream looks at status.currentReplicas where the rollingUpdate block is absent. Ours reads an absent
// block as partition 0, as everywhere: both are "update".
func TestO180AndO181(t *testing.T) {
	t.Parallel()
	r := Scale(input(t, "{podManagementPolicy: Parallel, replicas: 3}", pod(0, "r1"), pod(2, "r2")))
	if got := created(r); got != "1:r2" {
		t.Errorf("%q", got)
	}
}

// TestIdentity: name, host name, subdomain, labels, claims.
func TestIdentity(t *testing.T) {
	t.Parallel()
	in := input(t, "{podManagementPolicy: Parallel, replicas: 12, serviceName: db, "+dataTemplate+"}")
	in.Lost = map[string]string{"web-11": "r1"}
	r := Scale(in)
	last := r.Creates[11]
	got := map[string]any{}
	for key, path := range map[string][]string{"hostname": {"spec", "hostname"}, "subdomain": {"spec", "subdomain"}, "volumes": {"spec", "volumes"}, "gates": {"spec", "readinessGates"}} {
		got[key], _, _ = unstructured.NestedFieldNoCopy(last.Object.Object, path...)
	}
	want := map[string]any{
		"hostname": "web-11", "subdomain": "db",
		"volumes": []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data-web-11"}}},
		"gates":   []any{map[string]any{"conditionType": "InPlaceUpdateReady"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	labels := map[string]string{
		"app": "web", "statefulset.kubernetes.io/pod-name": "web-11", "apps.kubernetes.io/pod-index": "11",
		"controller-revision-hash": "r2", "pod-template-hash": "r2",
	}
	if diff := cmp.Diff(labels, last.Object.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if last.Object.GetAnnotations()[appsv1alpha1.AnnotationReplaces] != "r1" || r.Creates[10].Object.GetAnnotations()[appsv1alpha1.AnnotationReplaces] != "" {
		t.Error("which pod replaces one is not written down")
	}
	if len(last.Claims) != 1 || last.Claims[0].GetName() != "data-web-11" || len(last.Claims[0].GetOwnerReferences()) != 0 {
		t.Errorf("claims %v", last.Claims)
	}
	if diff := cmp.Diff(map[string]string{"app": "web"}, last.Claims[0].GetLabels()); diff != "" {
		t.Errorf("labels of the claim (-want +got):\n%s", diff)
	}
}

// TestATemplateCannotGiveAwayAnIdentity: what the template says about host name and subdomain, and about its end, is not used.
func TestATemplateCannotGiveAwayAnIdentity(t *testing.T) {
	t.Parallel()
	in := input(t, "{replicas: 1}")
	in.Intent.Update.Template = []byte(`{"metadata":{"labels":{"app":"web","apps.kruise.io/specified-delete":"","apps.kubernetes.io/pod-index":"7"}},` +
		`"spec":{"hostname":"a","subdomain":"b","containers":[{"name":"c","image":"i"}]}}`)
	r := Scale(in)
	object := r.Creates[0].Object
	host, _, _ := unstructured.NestedString(object.Object, "spec", "hostname")
	_, has, _ := unstructured.NestedString(object.Object, "spec", "subdomain")
	if _, asks := object.GetLabels()[appsv1alpha1.LabelSpecifiedDelete]; host != "web-0" || has || asks || object.GetLabels()[appsv1alpha1.LabelPodIndex] != "0" {
		t.Errorf("host %q, subdomain %t, labels %v", host, has, object.GetLabels())
	}
}

// TestNamesInTheWay: nobody else's pod is touched, and in parallel the others are made.
func TestNamesInTheWay(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{"Parallel": "0:r2 2:r2", "OrderedReady": ""} {
		in := input(t, "{replicas: 3, podManagementPolicy: "+policy+"}")
		in.Taken = map[string]bool{"web-1": true}
		if policy == "OrderedReady" {
			in.Pods = pods(0)
		}
		r := Scale(in)
		if got := created(r); got != want || !strings.Contains(held2(r, inplace.HoldScale), "pod web-1 cannot be created: somebody else's pod") {
			t.Errorf("%s: creates %q, holds %v", policy, got, r.Holds)
		}
	}
	stray := pod(0, "r1", func(p *inplace.Pod) { p.Name = "web-abc" })
	r := Scale(input(t, "{replicas: 1}", pod(0, "r2"), stray))
	if len(r.Deletes)+len(r.Creates) != 0 || len(r.Warnings) != 1 || len(r.Condemned) != 1 || r.Condemned[0] != "web-abc" {
		t.Errorf("%+v", r)
	}
	long := input(t, "{replicas: 1}")
	long.Owner.Name = strings.Repeat("a", 62)
	if r := Scale(long); len(r.Creates) != 0 || !strings.Contains(held2(r, inplace.HoldScale), "host name") {
		t.Errorf("%+v", r)
	}
}

func TestCreatesWait(t *testing.T) {
	t.Parallel()
	in := input(t, "{replicas: 3, podManagementPolicy: Parallel}")
	in.Refused = &crowd.Refusal{Message: "exceeded quota", Times: 1, Last: at().Add(-time.Second)}
	if r := Scale(in); len(r.Creates) != 0 || r.LookAgainIn != 4*time.Second || !strings.Contains(held2(r, inplace.HoldScale), "3: pods cannot be created, which is tried again: exceeded quota") {
		t.Errorf("%+v", r)
	}
	in.Refused.Last = at().Add(-time.Minute)
	if r := Scale(in); len(r.Creates) != 3 {
		t.Errorf("the next try: %+v", r)
	}
	in.Refused, in.ClaimsProblem = nil, "spec.volumeClaimTemplates[0]: no"
	if r := Scale(in); len(r.Creates) != 0 || !strings.Contains(held2(r, inplace.HoldScale), "volumeClaimTemplates[0]") {
		t.Errorf("%+v", r)
	}
	in.ClaimsProblem, in.Intent.Partition = "", 3
	in.Intent.Current = inplace.Revision{Name: "gone"}
	if r := Scale(in); len(r.Creates) != 0 || !strings.Contains(held2(r, inplace.HoldScale), "3: revision gone is not kept") {
		t.Errorf("%+v", r)
	}
}

// TestMistypedReplicas costs neither time nor memory.
func TestMistypedReplicas(t *testing.T) {
	t.Parallel()
	in := input(t, "{replicas: 2000000000, podManagementPolicy: Parallel, reserveOrdinals: [0, \"5-1000000\"]}", pods(1, 2)...)
	if r := Scale(in); len(r.Creates) != crowd.PerPass || r.AbsentNew != 2000000000-2-crowd.PerPass {
		t.Errorf("%d creates, %d absent", len(r.Creates), r.AbsentNew)
	}
	in.Intent.Current, in.Intent.Partition = inplace.Revision{Name: "gone"}, 2000000000
	if r := Scale(in); len(r.Creates) != 0 || len(r.Holds) != 1 {
		t.Errorf("%+v", r.Holds)
	}
}

// TestHooks: preDelete holds condemned and asked pods, and who is wanted again comes back.
func TestHooks(t *testing.T) {
	t.Parallel()
	const life = "lifecycle: {preDelete: {finalizersHandler: [x.io/y]}}"
	state := func(r Result, name string) string {
		for _, p := range r.Patches {
			if p.Name == name {
				return *p.Metadata.Labels[appsv1alpha1.LabelLifecycleState]
			}
		}
		return ""
	}
	r := Scale(input(t, "{replicas: 1, "+life+"}", pod(0, "r2"), pod(1, "r2", held("x.io/y"))))
	if len(r.Deletes) != 0 || state(r, "web-1") != "PreparingDelete" || held2(r, inplace.HoldHook) == "" || r.Condemned[0] != "web-1" {
		t.Errorf("a condemned pod: %+v", r)
	}
	r = Scale(input(t, "{replicas: 1, "+life+"}", pod(0, "r2"), pod(1, "r2", in("PreparingDelete"))))
	if deleted(r.Deletes) != "1" {
		t.Errorf("let go: %+v", r)
	}
	r = Scale(input(t, "{replicas: 2, "+life+"}", pod(0, "r2"), pod(1, "r2", held("x.io/y"), in("PreparingDelete"))))
	if len(r.Deletes) != 0 || state(r, "web-1") != "Normal" || len(r.Leaving) != 0 {
		t.Errorf("wanted again: %+v", r)
	}
	r = Scale(input(t, "{replicas: 2, "+life+"}", pod(0, "r2"), pod(1, "r2", held("x.io/y"), in("PreparingDelete"), asked)))
	if len(r.Deletes)+len(r.Patches) != 0 || cmp.Diff([]string{"web-1"}, r.Leaving) != "" || r.AbsentNew != 1 {
		t.Errorf("asked to go: %+v", r)
	}
	r = Scale(input(t, "{replicas: 1, lifecycle: {preNormal: {labelsHandler: {a: b}}}}"))
	if r.Creates[0].Object.GetLabels()[appsv1alpha1.LabelLifecycleState] != "PreparingNormal" {
		t.Errorf("new: %v", r.Creates[0].Object.GetLabels())
	}
}

// TestAbsentNew: at which revision the pods will come that are missing.
func TestAbsentNew(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec string
		pods []inplace.Pod
		want int32
	}{
		"in order, below the partition":  {"{replicas: 5, updateStrategy: {rollingUpdate: {partition: 3}}}", append(pods(1, 2, 3, 4), pod(0, "r1", terminating(time.Minute))), 0},
		"in order, beyond it":            {"{replicas: 5, updateStrategy: {rollingUpdate: {partition: 3}}}", append(pods(0, 1, 2, 3), pod(4, "r2", terminating(time.Minute))), 1},
		"one is created, two are absent": {"{replicas: 5}", pods(0, 1), 2},
		"all are there":                  {"{replicas: 2}", pods(0, 1), 0},
		"one asked to go":                {"{replicas: 2}", []inplace.Pod{pod(0, "r1"), pod(1, "r1", asked)}, 1},
		"unordered":                      {"{podManagementPolicy: Parallel, replicas: 5, updateStrategy: {rollingUpdate: {partition: 3, unorderedUpdate: {}}}}", append(pods(1, 2, 3, 4), pod(0, "r1", terminating(time.Minute))), 1},
		"unordered, too few old":         {"{podManagementPolicy: Parallel, replicas: 5, updateStrategy: {rollingUpdate: {partition: 3, unorderedUpdate: {}}}}", append(pods(1, 2), pod(0, "r1", terminating(time.Minute)), pod(3, "r2"), pod(4, "r2")), 0},
	} {
		if got := Scale(input(t, tc.spec, tc.pods...)).AbsentNew; got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

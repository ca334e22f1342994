package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
	"github.com/underway-dev/underway/inplace/hooks"
	engine "github.com/underway-dev/underway/inplace/plan"
)

// told is a population in one line: "create o; delete web-01+claims; PreparingDelete web-02 out; drop data-x; Hook 1".
func told(p inplace.Population) string {
	var out []string
	for _, c := range p.Creates {
		out = append(out, "create "+c.Revision[:1])
	}
	for _, d := range p.Deletes {
		text := "delete " + d.Name
		if len(d.Claims) > 0 {
			text += "+claims"
		}
		out = append(out, text)
	}
	for _, patch := range p.Patches {
		text := *patch.Metadata.Labels[appsv1alpha1.LabelLifecycleState] + " " + patch.Name
		if patch.Kind == inplace.PatchDrain {
			text += " out"
		}
		out = append(out, text)
	}
	for _, c := range p.ClaimDeletes {
		out = append(out, "drop "+c.Name)
	}
	for _, h := range p.Holds {
		out = append(out, fmt.Sprintf("%s %d", h.Kind, h.Pods))
	}
	return strings.Join(out, "; ")
}

func preDelete(mark bool) *appsv1alpha1.Lifecycle {
	return &appsv1alpha1.Lifecycle{PreDelete: &appsv1alpha1.LifecycleHook{FinalizersHandler: []string{"fin"}, MarkPodNotReady: mark}}
}

// held puts the finalizer on every pod.
func held(in Input) Input {
	for i := range in.Pods {
		in.Pods[i].Finalizers = []string{"fin"}
	}
	return in
}

// TestAskedToGo: specified-delete and podsToDelete replace a pod, and are the first to go in a scale-in.
func TestAskedToGo(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pods string
		strategies
		names []string
		want  string
	}{
		"at the right replicas, inside the budget": {pods: "Nd 4N", strategies: strategies{replicas: 5, unavailable: 1}, want: "delete web-00"},
		"by name":                                        {pods: "5N", strategies: strategies{replicas: 5, unavailable: 1}, names: []string{"web-03"}, want: "delete web-03"},
		"not one more than the budget":                   {pods: "2Nd 3N", strategies: strategies{replicas: 5, unavailable: 1}, want: "delete web-01; Budget 1"},
		"who does not serve always":                      {pods: "Nnd Nd 3N", strategies: strategies{replicas: 5, unavailable: 1}, want: "delete web-00; Budget 1"},
		"O94: with one replica less, who is ready stays": {pods: "2Nnd 3N", strategies: strategies{replicas: 4, unavailable: 1}, want: "delete web-01; delete web-00"},
		"a scale-in takes them and no others":            {pods: "4N Nd", strategies: strategies{replicas: 4, unavailable: 1}, want: "delete web-04"},
		"O100: surge makes the next pod first":           {pods: "Nd 4N", strategies: strategies{replicas: 5, unavailable: 0, surge: 1}, want: "create n; Budget 1"},
		"O101: and waits for it":                         {pods: "Nd 4N Nn", strategies: strategies{replicas: 5, unavailable: 0, surge: 1}, want: "Budget 1"},
		"then it goes":                                   {pods: "Nd 5N", strategies: strategies{replicas: 5, unavailable: 0, surge: 1}, want: "delete web-00"},
		"the gone one is replaced":                       {pods: "4N", strategies: strategies{replicas: 5, unavailable: 1}, want: "create n"},
		"a pod Ready for too short a time takes nothing": {pods: "Nyd 4N", strategies: strategies{replicas: 5, unavailable: 1}, want: "delete web-00"},
		"but waits while the budget is overdrawn":        {pods: "Nyd 3N Nn", strategies: strategies{replicas: 5, unavailable: 1}, want: "Budget 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := tc.input(t, tc.pods)
			in.Strategy.PodsToDelete = tc.names
			if got := told(Scale(in)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	t.Run("A01, B161: names that no pod has are told", func(t *testing.T) {
		t.Parallel()
		in := input("N", 1, 0, 1)
		in.Strategy.PodsToDelete = []string{"sample-data-9m4hp", "a"}
		got := Scale(in)
		if diff := cmp.Diff([]string{"a", "sample-data-9m4hp"}, got.NoSuchPods); diff != "" || len(got.Warnings) != 0 || told(got) != "" {
			t.Errorf("%s %v %s", diff, got.Warnings, told(got))
		}
	})
}

// TestB161: a pod that waits in PreparingDelete comes back when it is wanted again.
func TestB161(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pods string
		strategies
		mark bool
		want string
	}{
		"5 to 4: it waits":                                             {pods: "4N Nn", strategies: strategies{replicas: 4, unavailable: 1}, want: "PreparingDelete web-04; Hook 1"},
		"nobody else is taken while it waits":                          {pods: "4N N[PreparingDelete]", strategies: strategies{replicas: 4, unavailable: 1}, want: "Hook 1"},
		"back to 5: it returns, nothing is created":                    {pods: "4N N[PreparingDelete]", strategies: strategies{replicas: 5, unavailable: 1}, want: "Normal web-04"},
		"with the switch: it returns too":                              {pods: "4N N[PreparingDelete]", strategies: strategies{replicas: 5, unavailable: 1, exclude: true}, want: "Normal web-04"},
		"with the switch, asked to go: a new pod at once":              {pods: "4N N[PreparingDelete]d", strategies: strategies{replicas: 5, unavailable: 1, exclude: true}, want: "create n; Hook 1"},
		"without it, asked to go: the new pod waits":                   {pods: "4N N[PreparingDelete]d", strategies: strategies{replicas: 5, unavailable: 1}, want: "Hook 1"},
		"taken out of service: it does not return":                     {pods: "4N Nn[PreparingDelete]", strategies: strategies{replicas: 5, unavailable: 1}, mark: true, want: "Hook 1"},
		"only as many return as are wanted, the best":                  {pods: "4N N[PreparingDelete] Nn[PreparingDelete]", strategies: strategies{replicas: 5, unavailable: 1}, want: "Normal web-04; Hook 1"},
		"M005: taken out of service when it begins":                    {pods: "5N", strategies: strategies{replicas: 4, unavailable: 1}, mark: true, want: "PreparingDelete web-04 out; Hook 1"},
		"and again when somebody put it back":                          {pods: "4N N[PreparingDelete]", strategies: strategies{replicas: 4, unavailable: 1}, mark: true, want: "PreparingDelete web-04 out; Hook 1"},
		"a replaced pod of the release does not return over the grant": {pods: "3N N[PreparingDelete]", strategies: strategies{replicas: 4, partition: 1, unavailable: 1}, want: "Hook 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.life = preDelete(tc.mark)
			in := held(tc.input(t, tc.pods))
			if got := told(Scale(in)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	t.Run("M005: deleted when the finalizer is gone", func(t *testing.T) {
		t.Parallel()
		in := strategies{replicas: 4, unavailable: 1, life: preDelete(true)}.input(t, "4N Nn[PreparingDelete]")
		if got := told(Scale(in)); got != "delete web-04" {
			t.Errorf("%q", got)
		}
	})
	t.Run("an unreadable spec writes nothing to them", func(t *testing.T) {
		t.Parallel()
		in := strategies{replicas: 5, unavailable: 1, life: preDelete(false)}.input(t, "4N N[PreparingDelete]")
		in.Intent.Invalid = "no"
		if got := told(Scale(in)); got != "" {
			t.Errorf("%q", got)
		}
	})
}

// TestCreateLimit: scaleStrategy.maxUnavailable bounds the pods that are not available while more are created.
func TestCreateLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":         "create n; create n; Budget 3",
		"2Nn":      "Budget 3",
		"2N Nn":    "create n; Budget 1",
		"N 2Ny":    "Budget 2",
		"3N Nn Nd": "",
	} {
		in := strategies{replicas: 5, unavailable: 0, create: new(int32(2))}.input(t, text)
		got := told(Scale(in))
		if text == "3N Nn Nd" {
			want = "Budget 1"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestB063: what replaces a lost pod leaves its place in the grant to the pod that is drained for it already.
func TestB063(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"in PreparingUpdate": {func(in *Input) { in.Pods = pods("O[PreparingUpdate] O") }, "create o"},
		"drained":            {func(in *Input) { in.Pods[0].Gate, in.Pods[0].Ready = inplace.GateFalse, false }, "create o"},
		"not when nothing moves, because it then goes back": {func(in *Input) {
			in.Pods = pods("O[PreparingUpdate] O")
			in.Intent.Paused = true
		}, "create n"},
		"not beyond the grant": {func(in *Input) {
			in.Pods = pods("2O[PreparingUpdate] O N")
			in.Intent.Replicas, in.Intent.Partition = 5, 3
		}, "create o"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := strategies{replicas: 3, partition: 2, unavailable: 1, noRollback: true}.input(t, "2O")
			tc.change(&in)
			if got := told(Scale(in)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestSurge: whole steps of a release with surge.
func TestSurge(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pods string
		strategies
		want string
	}{
		"B017: as many as may be updated, not more":          {pods: "8O", strategies: strategies{replicas: 8, partition: 6, unavailable: 0, surge: "50%"}, want: "create n; create n"},
		"B017: they are not taken back before they serve":    {pods: "8O 2Nn", strategies: strategies{replicas: 8, partition: 6, unavailable: 0, surge: "50%"}, want: "Scale 2"},
		"B017: then old ones go":                             {pods: "8O 2N", strategies: strategies{replicas: 8, partition: 6, unavailable: 0, surge: "50%"}, want: "delete web-07; delete web-06"},
		"B017: and that is the end":                          {pods: "6O 2N", strategies: strategies{replicas: 8, partition: 6, unavailable: 0, surge: "50%"}},
		"B019: nothing is created while it is paused":        {pods: "4O", strategies: strategies{replicas: 4, unavailable: 1, surge: "50%", paused: true}},
		"B019: scaling goes on":                              {pods: "4O", strategies: strategies{replicas: 5, partition: 5, unavailable: 1, surge: "50%", paused: true}, want: "create o"},
		"paused in the middle: surge pods that do not serve": {pods: "4O 2Nn", strategies: strategies{replicas: 4, unavailable: 0, surge: 2, paused: true}, want: "delete web-05; delete web-04"},
		"B119 b, N6: nothing for a change in place":          {pods: "O", strategies: strategies{replicas: 1, unavailable: 0, surge: 1, inPlace: true}},
		"broken pods beyond any surge go":                    {pods: "5O 5Nn", strategies: strategies{replicas: 5, unavailable: 1, surge: 1}, want: "delete web-09; delete web-08; delete web-07; delete web-04; Scale 1"},
		"back: at the current revision":                      {pods: "O 4N", strategies: strategies{replicas: 5, partition: 4, unavailable: 0, surge: 1}, want: "create o"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := told(Scale(tc.input(t, tc.pods))); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	t.Run("OnDelete makes no surge for an update", func(t *testing.T) {
		t.Parallel()
		in := strategies{replicas: 4, unavailable: 0, surge: 2}.input(t, "4O")
		in.Intent.OnDelete = true
		if got := told(Scale(in)); got != "" {
			t.Errorf("%q", got)
		}
	})
}

// TestB119: a create that the API server refused is said and tried again more and more seldom; the pods that are there stay.
func TestB119(t *testing.T) {
	t.Parallel()
	in := strategies{replicas: 1, unavailable: 0, surge: 1}.input(t, "O")
	for times, wait := range map[int]time.Duration{1: 5 * time.Second, 2: 10 * time.Second, 4: 40 * time.Second, 5: time.Minute, 99: time.Minute} {
		in.Refused = &Refusal{Message: "exceeded quota: pods, requested: pods=1, used: pods=1, limited: pods=1", Times: times, Last: in.Now}
		got := Scale(in)
		if told(got) != "Scale 1" || got.LookAgainIn != wait || !strings.Contains(got.Holds[0].Because, "exceeded quota") {
			t.Errorf("%d times: %s, again in %s, want %s: %v", times, told(got), got.LookAgainIn, wait, got.Holds)
		}
		in.Refused.Last = in.Now.Add(-wait)
		if got := told(Scale(in)); got != "create n; Scale 1" {
			t.Errorf("%d times, %s later: %s", times, wait, got)
		}
	}
	t.Run("(a) the old pod stays", func(t *testing.T) {
		t.Parallel()
		intent := strategies{replicas: 1, unavailable: 0, surge: 1}.input(t, "O").Intent
		intent.Policy, intent.MaxUnavailable = inplace.PolicyReCreate, Strategy{MaxSurge: 1}.Budget(0, Recreates{ToUpdate: 1})
		if d := engine.Next(intent, pods("O"), start); len(d.Deletes) > 0 {
			t.Errorf("deleted: %v", d.Deletes)
		}
	})
	t.Run("(b) in place: the budget is one pod at a time", func(t *testing.T) {
		t.Parallel()
		s := Strategy{MaxSurge: 1}
		if s.Budget(0, Recreates{}) != 1 || s.Budget(0, Recreates{ToUpdate: 1}) != 0 || s.Budget(0, Recreates{ToCurrent: 1}) != 0 {
			t.Error("the budget of a surge that nothing needs, and of one that is needed")
		}
		if (Strategy{}).Budget(3, Recreates{}) != 3 || (Strategy{MaxSurge: 1, MaxUnavailable: 2}).Budget(3, Recreates{}) != 2 {
			t.Error("the budget as written")
		}
	})
}

const volume = `{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"%s"}}}}`

func templates(t *testing.T, size string) []claims.Template {
	t.Helper()
	out, err := claims.Read([]appsv1alpha1.RawObject{{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil, volume, size)}}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withVolumes gives every pod an id and its claim.
func withVolumes(t *testing.T, in Input, reuse bool) Input {
	t.Helper()
	in.Templates, in.Strategy.ReuseClaims = templates(t, "1Gi"), reuse
	for i := range in.Pods {
		id := ID("uid", i)
		in.Pods[i].Labels = map[string]string{appsv1alpha1.LabelCloneSetInstanceID: id}
		in.Pods[i].Name = PodName("web", id)
		in.Claims = append(in.Claims, claimOf(in.Templates[0], i))
	}
	return in
}

func claimOf(t claims.Template, n int) inplace.Claim {
	id := ID("uid", n)
	return inplace.Claim{
		Ref: inplace.Ref{Name: "data-web-" + id, UID: "c", ResourceVersion: "1"}, ID: id, Owner: "uid", Template: t.Hash, Created: start,
	}
}

func idsOf(p inplace.Population) []string {
	var out []string
	for _, c := range p.Creates {
		out = append(out, c.Object.GetLabels()[appsv1alpha1.LabelCloneSetInstanceID])
	}
	return out
}

// TestClaims: what becomes of the claims, by cause (package claims has the table).
func TestClaims(t *testing.T) {
	t.Parallel()
	simple := strategies{replicas: 3, unavailable: 1}
	t.Run("A01: one claim per pod, before it", func(t *testing.T) {
		t.Parallel()
		got := Scale(withVolumes(t, simple.input(t, ""), true))
		for _, c := range got.Creates {
			id := c.Object.GetLabels()[appsv1alpha1.LabelCloneSetInstanceID]
			if len(c.Claims) != 1 || c.Claims[0].GetName() != "data-web-"+id {
				t.Errorf("%s has the claims %v", c.Object.GetName(), c.Claims)
			}
		}
		if len(got.Creates) != 3 {
			t.Errorf("%d pods", len(got.Creates))
		}
	})
	for _, reuse := range []bool{true, false} {
		t.Run(fmt.Sprintf("a scale-in takes them along, reuse %t", reuse), func(t *testing.T) {
			t.Parallel()
			in := withVolumes(t, simple.input(t, "4N"), reuse)
			if got := told(Scale(in)); got != "delete "+in.Pods[3].Name+"+claims" {
				t.Errorf("%q", got)
			}
		})
		t.Run(fmt.Sprintf("so does one by name, reuse %t", reuse), func(t *testing.T) {
			t.Parallel()
			in := withVolumes(t, simple.input(t, "Nd 3N"), reuse)
			if got := told(Scale(in)); got != "delete "+in.Pods[0].Name+"+claims" {
				t.Errorf("%q", got)
			}
		})
		t.Run(fmt.Sprintf("a pod that is replaced does not, reuse %t", reuse), func(t *testing.T) {
			t.Parallel()
			in := withVolumes(t, simple.input(t, "Nd 2N"), reuse)
			if got := told(Scale(in)); got != "delete "+in.Pods[0].Name {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("W14: the next pod has the id and the claims", func(t *testing.T) {
		t.Parallel()
		in := withVolumes(t, simple.input(t, "3N"), true)
		in.Pods = in.Pods[1:]
		got := Scale(in)
		if diff := cmp.Diff([]string{ID("uid", 0)}, idsOf(got)); diff != "" || len(got.Creates[0].Claims) > 0 || len(got.ClaimDeletes) > 0 {
			t.Errorf("%s%s", diff, told(got))
		}
	})
	t.Run("and waits while the pod is on its way out", func(t *testing.T) {
		t.Parallel()
		in := withVolumes(t, simple.input(t, "3N"), true)
		in.Pods[0].Phase, in.Pods[0].GoneBy = inplace.PhaseTerminating, in.Now.Add(30*time.Second)
		got := Scale(in)
		if told(got) != "Claim 1" || got.LookAgainIn != 150*time.Second {
			t.Errorf("%q, again in %s", told(got), got.LookAgainIn)
		}
	})
	t.Run("no reuse: claims are deleted when their pod is gone, not before", func(t *testing.T) {
		t.Parallel()
		in := withVolumes(t, simple.input(t, "3N"), false)
		in.Pods[0].Phase, in.Pods[0].GoneBy = inplace.PhaseTerminating, in.Now
		if got := told(Scale(in)); got != "create n" {
			t.Errorf("terminating: %q", got)
		}
		in.Pods = in.Pods[1:]
		if got := told(Scale(in)); got != "create n; drop "+in.Claims[0].Name {
			t.Errorf("gone: %q", got)
		}
		in.Now = start.Add(time.Minute)
		if got := Scale(in); told(got) != "create n" || got.LookAgainIn != time.Minute {
			t.Errorf("young: %q, again in %s", told(got), got.LookAgainIn)
		}
	})
	t.Run("an id is not used again while a claim of it is there", func(t *testing.T) {
		t.Parallel()
		for name, spoil := range map[string]func(*inplace.Claim){
			"being deleted":         func(c *inplace.Claim) { c.Terminating = true },
			"somebody else's":       func(c *inplace.Claim) { c.Owner = "" },
			"of another template":   func(c *inplace.Claim) { c.Template = "x" },
			"of a volume that went": func(c *inplace.Claim) { c.Name = "log-web-" + c.ID },
		} {
			in := withVolumes(t, simple.input(t, "3N"), true)
			in.Pods = in.Pods[1:]
			spoil(&in.Claims[0])
			if diff := cmp.Diff([]string{ID("uid", 3)}, idsOf(Scale(in))); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
	t.Run("a claim whose name is known to be taken is passed over", func(t *testing.T) {
		t.Parallel()
		in := withVolumes(t, simple.input(t, ""), true)
		in.Taken = map[string]bool{"data-web-" + ID("uid", 1): true}
		if diff := cmp.Diff([]string{ID("uid", 0), ID("uid", 2), ID("uid", 3)}, idsOf(Scale(in))); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("B091: claims of another template are kept, said and not used again", func(t *testing.T) {
		t.Parallel()
		in := withVolumes(t, simple.input(t, "3N"), true)
		in.Templates = templates(t, "2Gi")
		in.Pods = in.Pods[1:]
		got := Scale(in)
		if told(got) != "create n" || idsOf(got)[0] != ID("uid", 3) || len(got.Creates[0].Claims) != 1 || len(got.Warnings) != 1 {
			t.Errorf("%q %v %v", told(got), idsOf(got), got.Warnings)
		}
	})
	t.Run("the surge pod of a release takes over, the old pod's claims are kept", func(t *testing.T) {
		t.Parallel()
		in := withVolumes(t, strategies{replicas: 3, unavailable: 0, surge: 1}.input(t, "O 3N"), true)
		if got := told(Scale(in)); got != "delete "+in.Pods[0].Name {
			t.Errorf("%q", got)
		}
	})
}

// TestB055: a pod that hangs in Terminating is told and does not block; its name and claim are nobody else's meanwhile.
func TestB055(t *testing.T) {
	t.Parallel()
	for _, reuse := range []bool{true, false} {
		in := withVolumes(t, strategies{replicas: 3, unavailable: 1}.input(t, "3N"), reuse)
		in.Pods[0].Phase, in.Pods[0].GoneBy = inplace.PhaseTerminating, in.Now.Add(-2*time.Minute)
		got := Scale(in)
		if told(got) != "create n; Scale 1" || idsOf(got)[0] != ID("uid", 3) {
			t.Errorf("reuse %t: %q %v", reuse, told(got), idsOf(got))
		}
		if because := got.Holds[0].Because; !strings.Contains(because, in.Pods[0].Name) || !strings.Contains(because, "12:58:00Z") {
			t.Errorf("%q", because)
		}
		in.Pods[0].Finalizers = []string{"example.test/unregister"}
		if because := Scale(in).Holds[0].Because; !strings.Contains(because, "held by example.test/unregister") {
			t.Errorf("%q", because)
		}
		in.Now = in.Now.Add(-time.Second)
		if got := Scale(in); got.LookAgainIn != time.Second || strings.Contains(told(got), "Scale") {
			t.Errorf("a second earlier: %q, again in %s", told(got), got.LookAgainIn)
		}
	}
}

// TestB057: a failed pod with a claim is deleted, its claim goes to the next pod, and a node that refuses pods is tried
// seldom.
func TestB057(t *testing.T) {
	t.Parallel()
	in := withVolumes(t, strategies{replicas: 3, unavailable: 1}.input(t, "3N"), true)
	in.Pods[0].Phase = inplace.PhaseTerminal
	if got := told(Scale(in)); got != "delete "+in.Pods[0].Name+"; Claim 1" {
		t.Errorf("failed: %q", got)
	}
	in.Pods[0].Containers = []inplace.Container{{Name: "c"}}
	in.Pods[0].Created = in.Now.Add(-10 * time.Second)
	if got := Scale(in); told(got) != "Scale 1" || got.LookAgainIn != 6*time.Second {
		t.Errorf("refused by its node: %q, again in %s", told(got), got.LookAgainIn)
	}
	in.Now = in.Now.Add(6 * time.Second)
	if got := told(Scale(in)); got != "delete "+in.Pods[0].Name+"; Claim 1" {
		t.Errorf("later: %q", got)
	}
}

// TestNewPodsAreClean: a template cannot make pods that are asked to go, or in the middle of a hook.
func TestNewPodsAreClean(t *testing.T) {
	t.Parallel()
	in := input("", 1, 0, 1)
	in.Intent.Update.Template = []byte(`{"metadata":{"labels":{"app":"web","apps.kruise.io/specified-delete":"true","lifecycle.apps.kruise.io/state":"PreparingDelete"}},"spec":{"containers":[]}}`)
	labels := Scale(in).Creates[0].Object.GetLabels()
	if _, asked := labels[appsv1alpha1.LabelSpecifiedDelete]; asked || labels[appsv1alpha1.LabelLifecycleState] != "" || labels["app"] != "web" {
		t.Errorf("labels %v", labels)
	}
	in.Intent.Lifecycle = &appsv1alpha1.Lifecycle{PreNormal: &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"a": "b"}}}
	if got := Scale(in).Creates[0].Object.GetLabels()[appsv1alpha1.LabelLifecycleState]; got != string(hooks.PreparingNormal) {
		t.Errorf("state %q", got)
	}
}

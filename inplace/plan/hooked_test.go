package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/plan"
)

// gateway are hooks on the labels lb (before and after an update) and keep (before a deletion).
func gateway(mark bool) *appsv1alpha1.Lifecycle {
	return &appsv1alpha1.Lifecycle{
		InPlaceUpdate: &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"lb": "true"}, MarkPodNotReady: mark},
		PreDelete:     &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"keep": "true"}, MarkPodNotReady: mark},
	}
}

// hooked are pods that their hooks hold, each in a lifecycle state: "O O:PreparingUpdate". A state ending in ! is one of
// which the hook has let the pod go.
func hooked(text string) []inplace.Pod {
	words := strings.Fields(strings.ReplaceAll(text, "|", " "))
	letters := ""
	for _, w := range words {
		letters += w[:1]
	}
	out := pods(letters)
	for i, w := range words {
		_, state, _ := strings.Cut(w, ":")
		state, free := strings.CutSuffix(state, "!")
		held := fmt.Sprint(!free)
		out[i].Labels = map[string]string{"lb": held, "keep": held}
		if state != "" {
			out[i].Labels[appsv1alpha1.LabelLifecycleState] = state
			out[i].Available = out[i].Available && state == string(hooks.Normal)
		}
	}
	return out
}

// steps are the writes of a decision with the lifecycle states they write: "State O0 PreparingUpdate".
func steps(d inplace.Decision) []string {
	out := writes(inplace.Decision{Deletes: d.Deletes})
	for _, p := range d.Patches {
		word := fmt.Sprintf("%s %s", p.Kind, p.Name)
		if to := p.Metadata.Labels[appsv1alpha1.LabelLifecycleState]; to != nil {
			word += " " + *to
		}
		out = append(out, word)
	}
	slices.Sort(out)
	return out
}

func TestHookedReleases(t *testing.T) {
	t.Parallel()
	with := func(in inplace.Intent, mark bool, f ...func(*inplace.Intent)) inplace.Intent {
		in.Lifecycle = gateway(mark)
		for _, edit := range f {
			edit(&in)
		}
		return in
	}
	recreate := func(in *inplace.Intent) { in.Policy = inplace.PolicyReCreate }
	only := func(in *inplace.Intent) {
		in.Policy = inplace.PolicyInPlaceOnly
		in.Update = rev(2, `{"spec":{"containers":[{"name":"web","image":"app:v2","env":[{"name":"A","value":"b"}]}]}}`)
	}
	recreated := func(in *inplace.Intent) { only(in); in.Policy = inplace.PolicyInPlaceIfPossible }
	paused := func(in *inplace.Intent) { in.Paused = true }
	scaled := func(p inplace.Population) func(*inplace.Intent) {
		return func(in *inplace.Intent) { in.Population = p }
	}
	cases := map[string]struct {
		in    inplace.Intent
		pods  string
		want  []string
		holds []string
	}{
		"M005: as many hooks are asked as may be unavailable": {
			in: with(intent(3, 0, 1), true), pods: "O|O|O", want: []string{"Drain O0 PreparingUpdate"},
			holds: []string{
				"Hook: 1 pod waits for a lifecycle hook; O0: its in-place update waits until somebody removes label lb=true",
				"Budget: 2 pods wait: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1",
			},
		},
		"what a hook holds has spent the budget": {
			in: with(intent(3, 0, 1), false), pods: "O O:PreparingUpdate O",
			holds: []string{
				"Hook: 1 pod waits for a lifecycle hook; O1: its in-place update waits until somebody removes label lb=true",
				"Budget: 2 pods wait: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1",
			},
		},
		"and is one of those that may move": {
			in: with(intent(3, 2, 3), false), pods: "O O:PreparingUpdate O",
			holds: []string{
				"Hook: 1 pod waits for a lifecycle hook; O1: its in-place update waits until somebody removes label lb=true",
				"Partition: 2 of 3 pods stay on app:v1 (partition 2)",
			},
		},
		"several that wait for the same are named together": {
			in: with(intent(5, 0, 4), false), pods: "O:PreparingUpdate|O:PreparingUpdate|O:PreparingUpdate|O:PreparingUpdate|N:Updated!",
			holds: []string{
				"Hook: 1 pod waits for a lifecycle hook; N4: after its in-place update it waits until somebody puts on label lb=true",
				"Hook: 4 pods wait for a lifecycle hook; O0, O1, O2 and 1 more: its in-place update waits until somebody removes label lb=true",
			},
		},
		"let go, it is drained within what it has spent": {
			in: with(intent(3, 0, 1), false), pods: "O O:PreparingUpdate! O", want: []string{"Drain O1"},
			holds: []string{"Budget: 2 pods wait: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"not while another is down meanwhile: it goes back": {
			in: with(intent(3, 2, 1), false), pods: "n O:PreparingUpdate! O", want: []string{"State O1 Updated"},
			holds: []string{
				"Hook: 1 pod waits for a lifecycle hook; O1: after its in-place update it waits until somebody puts on label lb=true",
				"Partition: 2 of 3 pods stay on app:v1 (partition 2)",
				"Budget: 1 pod waits: 2 of 3 pods are unavailable or about to be, and maxUnavailable is 1",
			},
		},
		"B061: reverted, nobody waits for the hook": {
			in:   with(intent(3, 0, 1), true, func(in *inplace.Intent) { in.Update = in.Current }),
			pods: "d:PreparingUpdate O O", want: []string{"Return d0 Normal"},
		},
		"N5: the partition was raised": {
			in: with(intent(3, 3, 1), true), pods: "d:PreparingUpdate O:PreparingUpdate O", want: []string{"Return d0 Normal", "State O1 Normal"},
			holds: []string{"Partition: 3 of 3 pods stay on app:v1 (partition 3)"},
		},
		"N5: paused": {
			in: with(intent(3, 0, 1), true, paused), pods: "d:PreparingUpdate N:Updated O", want: []string{"Return d0 Normal", "State N1 Normal"},
			holds: []string{"Paused: the release is paused: 2 pods stay on app:v1"},
		},
		"paused: nothing new is asked": {
			in: with(intent(2, 0, 1), true, paused), pods: "O O", holds: []string{"Paused: the release is paused: 2 pods stay on app:v1"},
		},
		"in place has become impossible while it waited: recreated, by way of its other hook": {
			in: with(intent(1, 0, 1), false, recreated), pods: "O:PreparingUpdate", want: []string{"State O0 PreparingDelete"},
			holds: []string{"Hook: 1 pod waits for a lifecycle hook; O0: its deletion waits until somebody removes label keep=true"},
		},
		"the same under InPlaceOnly: back to Normal": {
			in: with(intent(1, 0, 1), true, only), pods: "d:PreparingUpdate", want: []string{"Return d0 Normal"},
			holds: []string{"Refused: 1 pod is not moved, the update strategy being InPlaceOnly: spec.containers[web].env: changes need a recreate"},
		},
		"recreated by way of its hook, out of service": {
			in: with(intent(2, 0, 1), true, recreate), pods: "O O", want: []string{"Drain O0 PreparingDelete"},
			holds: []string{
				"Hook: 1 pod waits for a lifecycle hook; O0: its deletion waits until somebody removes label keep=true",
				"Budget: 1 pod waits: 1 of 2 pods are unavailable or about to be, and maxUnavailable is 1",
			},
		},
		"a pod that its hook does not hold is recreated at once": {
			in: with(intent(1, 0, 1), true, recreate), pods: "O:Normal!", want: []string{"Delete O0"},
		},
		"a pod on its way out is not moved, and spends the budget": {
			in: with(intent(3, 0, 1), false), pods: "O:PreparingDelete O O",
			holds: []string{
				"Hook: 1 pod waits for a lifecycle hook; O0: its deletion waits until somebody removes label keep=true",
				"Budget: 2 pods wait: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1",
			},
		},
		"what scaling says of a pod on its way out is said with its name": {
			in: with(intent(1, 0, 1), false, scaled(inplace.Population{
				Leaving: []string{"O0"}, Holds: []inplace.Hold{
					{Kind: inplace.HoldHook, Pods: 1, Because: "its deletion waits until somebody removes label keep=true"},
					{Kind: inplace.HoldScale, Pods: 1, Because: "x"},
				},
			})),
			pods: "O:PreparingDelete", holds: []string{
				"Hook: 1 pod waits for a lifecycle hook; O0: its deletion waits until somebody removes label keep=true", "Scale: x",
			},
		},
		"who was asked to go is not moved, and serves as long as it is there": {
			in:   with(intent(3, 0, 1), false, scaled(inplace.Population{Leaving: []string{"O0"}})),
			pods: "O O:Normal! O", want: []string{"Drain O1"},
			holds: []string{"Budget: 1 pod waits: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1"},
		},
		"what is asked to go in this very pass is down": {
			in: with(intent(3, 0, 1), false, scaled(inplace.Population{Patches: []inplace.Patch{{
				Ref: inplace.Ref{Name: "O0"}, Kind: inplace.PatchState, Metadata: hooks.Change(hooks.PreparingDelete, now),
			}}})),
			pods: "O|O|O", want: []string{"State O0 PreparingDelete"},
			holds: []string{
				"Hook: 1 pod waits for a lifecycle hook; O0: its deletion waits until somebody removes label keep=true",
				"Budget: 2 pods wait: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1",
			},
		},
		"what is taken back in this pass gets no other write": {
			in: with(intent(2, 0, 2), false, scaled(inplace.Population{Patches: []inplace.Patch{{
				Ref: inplace.Ref{Name: "d0"}, Kind: inplace.PatchState, Metadata: hooks.Change(hooks.Normal, now),
			}}})),
			pods: "d:PreparingDelete O", want: []string{"State O1 PreparingUpdate", "State d0 Normal"},
			holds: []string{"Hook: 1 pod waits for a lifecycle hook; O1: its in-place update waits until somebody removes label lb=true"},
		},
		"a state that nobody knows: left alone, and another pod takes its place": {
			in: with(intent(2, 1, 2), false), pods: "O:Sleeping O:Normal!", want: []string{"Drain O1"},
			holds: []string{"Hook: 1 pod waits for a lifecycle hook; O0: its label lifecycle.apps.kruise.io/state says \"Sleeping\", which is no state; it is left alone until somebody corrects or removes the label"},
		},
		"a spec that cannot be read writes no states": {
			in:   inplace.Intent{Replicas: 2, Partition: 2, Invalid: "spec.lifecycle: nonsense", Update: app(2), Current: app(1)},
			pods: "O:PreparingUpdate N:Updated", holds: []string{"Invalid: the spec cannot be read, so nothing moves: spec.lifecycle: nonsense"},
		},
		"a new pod is not available before its hook has let it in": {
			in:   with(intent(3, 0, 1), false, func(in *inplace.Intent) { in.Lifecycle.PreNormal = in.Lifecycle.InPlaceUpdate }),
			pods: "C:PreparingNormal! O:Normal! O", holds: []string{
				"Hook: 1 pod waits for a lifecycle hook; C0: before it counts as new it waits until somebody puts on label lb=true",
				"Budget: 2 pods wait: 1 of 3 pods are unavailable or about to be, and maxUnavailable is 1",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := plan.Next(tc.in, hooked(tc.pods), now)
			if diff := cmp.Diff(tc.want, steps(d)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.holds, holds(d)); diff != "" {
				t.Errorf("holds (-want +got):\n%s", diff)
			}
		})
	}
}

// TestB063: the partition allows one update, a pod is prepared for it, and another old pod is deleted by hand. What comes in
// its place does not take the prepared pod's, neither while it is being made nor when scaling made it old.
func TestB063(t *testing.T) {
	t.Parallel()
	in := intent(3, 2, 1)
	in.Lifecycle = gateway(true)
	for name, population := range map[string]inplace.Population{
		"its replacement waits for a claim": {Holds: []inplace.Hold{{Kind: inplace.HoldClaim, Pods: 1, Because: "x"}}},
		"its replacement comes now":         {Creates: []inplace.Create{{Object: object("web-x"), Revision: "web-1"}}},
	} {
		in.Population = population
		if d := plan.Next(in, hooked("d:PreparingUpdate O t"), now); len(d.Patches) != 0 {
			t.Errorf("%s: %v", name, steps(d))
		}
		if d := plan.Next(in, hooked("d:PreparingUpdate! O t"), now); !slices.Equal(steps(d), []string{"Update d0 Updating"}) {
			t.Errorf("%s: let go, it is not patched: %v %v", name, steps(d), holds(d))
		}
	}
	// Where somebody else made a new pod, the prepared one returns.
	in.Population = inplace.Population{}
	if d := plan.Next(in, hooked("d:PreparingUpdate O C"), now); !slices.Equal(steps(d), []string{"Return d0 Normal"}) {
		t.Errorf("%v", steps(d))
	}
}

// TestReplaceAsksForTheDeletion: a pod that is to be recreated says so on itself, or it would be taken back when it is missing.
func TestReplaceAsksForTheDeletion(t *testing.T) {
	t.Parallel()
	in := intent(1, 0, 1)
	in.Policy, in.Lifecycle = inplace.PolicyReCreate, gateway(true)
	d := plan.Next(in, hooked("O"), now)
	want := []string{appsv1alpha1.LabelSpecifiedDelete, appsv1alpha1.LabelLifecycleState}
	if len(d.Patches) != 1 || !slices.Equal(slices.Sorted(maps.Keys(d.Patches[0].Metadata.Labels)), want) {
		t.Fatalf("%+v", d.Patches)
	}
	if !strings.HasPrefix(d.Patches[0].Because, "recreated to get to web-2") {
		t.Error(d.Patches[0].Because)
	}
}

// TestPopulationIsHandedOn: with its patches and the claims that go.
func TestPopulationIsHandedOn(t *testing.T) {
	t.Parallel()
	in := intent(1, 1, 1)
	in.Population = inplace.Population{
		Patches:      []inplace.Patch{{Ref: inplace.Ref{Name: "x"}, Kind: inplace.PatchState}},
		ClaimDeletes: []inplace.ClaimDelete{{Ref: inplace.Ref{Name: "data-x"}}},
		LookAgainIn:  time.Second,
	}
	d := plan.Next(in, pods("O"), now)
	if len(d.Patches) != 1 || len(d.ClaimDeletes) != 1 || d.LookAgainIn != time.Second || d.Quiet() {
		t.Errorf("%+v", d)
	}
}

// TestLeavingPodsOnTheUpdateRevision hold the place of what replaces them: nothing else goes there, and nothing goes back.
func TestLeavingPodsOnTheUpdateRevision(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		in   inplace.Intent
		pods string
		want []string
	}{
		"a scale-in: no more new pods than granted while it is there": {in: intent(2, 1, 2), pods: "N O O"},
		"its surge pod is there: no reason to go back": {
			in: func() inplace.Intent { in := intent(3, 2, 2); in.PartitionRollback = true; return in }(), pods: "N C O O",
		},
		"what is beyond the partition without it goes back": {
			in: func() inplace.Intent { in := intent(3, 2, 2); in.PartitionRollback = true; return in }(), pods: "N C N O", want: []string{"Drain C1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.in.Population.Leaving = []string{"N0"}
			d := plan.Next(tc.in, pods(tc.pods), now)
			if diff := cmp.Diff(tc.want, steps(d)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

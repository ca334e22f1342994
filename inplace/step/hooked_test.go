package step_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/step"
)

// gateway holds a pod by the label lb before an update, out of service or not.
func gateway(mark bool) *appsv1alpha1.Lifecycle {
	return &appsv1alpha1.Lifecycle{InPlaceUpdate: &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"lb": "true"}, MarkPodNotReady: mark}}
}

// in is a pod in a lifecycle state, with the label lb at a value.
func in(p inplace.Pod, state hooks.State, lb string) inplace.Pod {
	p.Labels = map[string]string{"lb": lb}
	if state != hooks.None {
		p.Labels[appsv1alpha1.LabelLifecycleState] = string(state)
		p.Available = p.Available && state == hooks.Normal
	}
	return p
}

// short is an outcome in short: the patch with the state it writes, then what is waited for.
func short(o step.Outcome) string {
	var words []string
	if o.Patch != nil {
		words = append(words, string(o.Patch.Kind))
		if to := o.Patch.Metadata.Labels[appsv1alpha1.LabelLifecycleState]; to != nil {
			words = append(words, *to)
		}
	}
	if o.Wait != "" {
		words = append(words, "waits: "+string(o.Wait))
	}
	return strings.Join(words, " ")
}

func TestHooks(t *testing.T) {
	t.Parallel()
	labels := step.Update{To: inplace.Revision{Name: "web-2"}, Change: inplace.Change{Metadata: inplace.MetadataChange{Labels: map[string]*string{"k": new("v")}}}}
	stay := step.Update{}
	soft, hard := gateway(false), gateway(true)
	unproven := func() inplace.Pod {
		p := patched()
		p.Gate, p.Ready, p.Available, p.ObservedGeneration = inplace.GateFalse, false, false, 1
		return p
	}
	proven := func() inplace.Pod {
		p := patched()
		p.Gate, p.Ready, p.Available, p.ObservedGeneration = inplace.GateFalse, false, false, p.Generation
		p.Containers[0].ContainerID, p.Containers[0].ImageID = "new", "new"
		return p
	}
	unset := func(p inplace.Pod) inplace.Pod {
		p.Gate, p.Ready, p.Available = inplace.GateUnset, false, false
		return p
	}
	bare := func(p inplace.Pod) inplace.Pod { p.Gate = inplace.GateNone; return p }
	noHook, normal, del := (*appsv1alpha1.Lifecycle)(nil), &appsv1alpha1.Lifecycle{
		PreNormal: &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"lb": "true"}},
	}, &appsv1alpha1.Lifecycle{PreDelete: &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"lb": "true"}, MarkPodNotReady: true}}
	cases := map[string]struct {
		pod    inplace.Pod
		life   *appsv1alpha1.Lifecycle
		update step.Update
		unread bool
		want   string
	}{
		"M005: its hook is asked, in service":                          {pod: in(serving(), "", "true"), life: soft, update: to2(), want: "State PreparingUpdate waits: Hook"},
		"M005: markPodNotReady takes it out in the same request":       {pod: in(serving(), "Normal", "true"), life: hard, update: to2(), want: "Drain PreparingUpdate waits: Hook"},
		"markPodNotReady without a gate":                               {pod: bare(in(serving(), "", "true")), life: hard, update: undrained(to2()), want: "State PreparingUpdate waits: Hook"},
		"M005: it waits":                                               {pod: in(serving(), "PreparingUpdate", "true"), life: soft, update: to2(), want: "waits: Hook"},
		"out of service":                                               {pod: in(drained(), "PreparingUpdate", "true"), life: hard, update: to2(), want: "waits: Hook"},
		"markPodNotReady came later":                                   {pod: in(serving(), "PreparingUpdate", "true"), life: hard, update: to2(), want: "Drain waits: Hook"},
		"and was taken back":                                           {pod: in(drained(), "PreparingUpdate", "true"), life: soft, update: to2(), want: "Return waits: Hook"},
		"a pod that was drained before the hook was there":             {pod: in(drained(), "", "true"), life: soft, update: to2(), want: "Return PreparingUpdate waits: Hook"},
		"the same, and the hook takes it out":                          {pod: in(drained(), "", "true"), life: hard, update: to2(), want: "State PreparingUpdate waits: Hook"},
		"a pod that never served is asked too":                         {pod: unset(in(serving(), "", "true")), life: soft, update: to2(), want: "Return PreparingUpdate waits: Hook"},
		"M005: let go, it is drained":                                  {pod: in(serving(), "PreparingUpdate", "false"), life: soft, update: to2(), want: "Drain"},
		"M005: and patched, the state rides along":                     {pod: in(drained(), "PreparingUpdate", "false"), life: soft, update: to2(), want: "Update Updating"},
		"the hook does not hold it: one request as without hooks":      {pod: in(drained(), "", "false"), life: soft, update: to2(), want: "Update Updating"},
		"without hooks no state is written":                            {pod: in(drained(), "", "true"), life: noHook, update: to2(), want: "Update"},
		"the hook was taken out while it waited":                       {pod: in(drained(), "PreparingUpdate", "true"), life: noHook, update: to2(), want: "Update Updating"},
		"labels only: the hook is asked for them too":                  {pod: in(serving(), "", "true"), life: soft, update: labels, want: "State PreparingUpdate waits: Hook"},
		"labels only, let go: patched in service":                      {pod: in(serving(), "PreparingUpdate", "false"), life: soft, update: labels, want: "Update Updating"},
		"W4: a further template in the middle of an update":            {pod: in(unproven(), "Updating", "false"), life: soft, update: to3(), want: "Update"},
		"W4: the hook has taken it back meanwhile":                     {pod: in(unproven(), "Updating", "true"), life: soft, update: to3(), want: "State PreparingUpdate waits: Hook"},
		"W4: proven, it serves while it waits":                         {pod: in(proven(), "Updating", "true"), life: soft, update: to3(), want: "Return PreparingUpdate waits: Hook"},
		"W4: a further template for one that was not taken back":       {pod: in(drained(), "Updated", "false"), life: soft, update: to2(), want: "Update Updating"},
		"a pod on its way out is not moved":                            {pod: in(serving(), "PreparingDelete", "true"), life: soft, update: to2(), want: "waits: Hook"},
		"a pod in a state that nobody knows is not moved":              {pod: in(serving(), "Sleeping", "false"), life: soft, update: to2(), want: "waits: Hook"},
		"a pod that cannot become Normal is mended without asking":     {pod: in(drained(), "PreparingNormal", "true"), life: soft, update: to2(), want: "Update"},
		"B061: reverted while it prepared":                             {pod: in(drained(), "PreparingUpdate", "true"), life: hard, update: stay, want: "Return Normal"},
		"B061: in service":                                             {pod: in(serving(), "PreparingUpdate", "true"), life: soft, update: stay, want: "State Normal"},
		"N5: not to be updated any more, let go already":               {pod: in(drained(), "PreparingUpdate", "false"), life: hard, update: stay, want: "Return Updated waits: Hook"},
		"N5: then it waits for the label in service":                   {pod: in(serving(), "Updated", "false"), life: hard, update: stay, want: "waits: Hook"},
		"N5: and is Normal with it":                                    {pod: in(serving(), "Updated", "true"), life: hard, update: stay, want: "State Normal"},
		"M005: not proven":                                             {pod: in(unproven(), "Updating", "false"), life: soft, update: stay, want: "waits: Proof"},
		"M005: proven, back in service and Updated in one request":     {pod: in(proven(), "Updating", "false"), life: soft, update: stay, want: "Return Updated waits: Hook"},
		"proven, and taken back already":                               {pod: in(proven(), "Updating", "true"), life: soft, update: stay, want: "Return Normal"},
		"W4: prepared for a further template, and an earlier unproven": {pod: in(unproven(), "PreparingUpdate", "true"), life: soft, update: stay, want: "waits: Proof"},
		"OpenKruise left it Updating, the hooks are gone":              {pod: in(proven(), "Updating", "false"), life: noHook, update: stay, want: "Return Normal"},
		"OpenKruise left it Updated, the hooks are gone":               {pod: in(serving(), "Updated", "false"), life: noHook, update: stay, want: "State Normal"},
		"a new pod: it serves, and waits to count":                     {pod: unset(in(serving(), "PreparingNormal", "false")), life: normal, update: stay, want: "Return waits: Hook"},
		"a new pod: taken in at once":                                  {pod: unset(in(serving(), "PreparingNormal", "true")), life: normal, update: stay, want: "Return Normal"},
		"a new pod: taken in later":                                    {pod: in(serving(), "PreparingNormal", "true"), life: normal, update: stay, want: "State Normal"},
		"a new pod without a node":                                     {pod: with(unset(in(serving(), "PreparingNormal", "true")), func(p *inplace.Pod) { p.Node = "" })(), life: normal, update: stay, want: "Return"},
		"OpenKruise left it PreparingNormal, the hook is gone":         {pod: in(serving(), "PreparingNormal", "false"), life: noHook, update: stay, want: "State Normal"},
		"on its way out, out of service for good":                      {pod: in(drained(), "PreparingDelete", "true"), life: del, update: stay, want: ""},
		"on its way out, in service: an update is finished":            {pod: in(proven(), "PreparingDelete", "true"), life: soft, update: stay, want: "Return"},
		"restored: back in service":                                    {pod: in(drained(), "Normal", "true"), life: del, update: stay, want: "Return"},
		"a state that nobody knows is told, and it serves":             {pod: in(drained(), "Sleeping", "true"), life: soft, update: stay, want: "Return waits: Hook"},
		"a spec that cannot be read writes no state":                   {pod: in(serving(), "PreparingUpdate", "true"), update: stay, unread: true, want: ""},
		"but gives back what may serve":                                {pod: in(drained(), "PreparingUpdate", "true"), update: stay, unread: true, want: "Return"},
		"not what was to be deleted":                                   {pod: in(drained(), "PreparingDelete", "true"), update: stay, unread: true, want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.update.Lifecycle, tc.update.HooksUnread = tc.life, tc.unread
			for i := range tc.pod.Containers {
				tc.pod.Containers[i].Ready = true
			}
			tc.pod.Node, tc.pod.Phase = nodeOf(name), inplace.PhaseRunning
			o := step.Next(tc.pod, tc.update, now)
			if got := short(o); got != tc.want {
				t.Errorf("%q, want %q; %+v", got, tc.want, o)
			}
			if o.Wait == inplace.HoldHook && o.Because == "" {
				t.Error("it waits and does not say for what")
			}
		})
	}
}

func nodeOf(name string) string {
	if strings.Contains(name, "without a node") {
		return ""
	}
	return "n"
}

func undrained(u step.Update) step.Update { u.Undrained = true; return u }

func to3() step.Update {
	return step.Update{To: inplace.Revision{Name: "web-3", Hash: "3"}, Change: inplace.Change{Images: map[string]string{"web": "app:v3"}}}
}

// TestServesCountsHooks: what a hook makes unavailable needs the budget, also where nothing restarts.
func TestServesCountsHooks(t *testing.T) {
	t.Parallel()
	labels := step.Update{To: inplace.Revision{Name: "web-2"}, Change: inplace.Change{Metadata: inplace.MetadataChange{Labels: map[string]*string{"k": new("v")}}}}
	cases := map[string]struct {
		pod    inplace.Pod
		life   *appsv1alpha1.Lifecycle
		update step.Update
		want   bool
	}{
		"labels, without hooks":                          {pod: in(serving(), "", "true"), update: labels},
		"labels: the hook is asked":                      {pod: in(serving(), "", "true"), life: gateway(false), update: labels, want: true},
		"labels: Updating counts as unavailable":         {pod: in(serving(), "", "false"), life: gateway(false), update: labels, want: true},
		"an image, waiting for its hook in service":      {pod: in(serving(), "PreparingUpdate", "true"), life: gateway(false), update: to2()},
		"an image, let go":                               {pod: in(serving(), "PreparingUpdate", "false"), life: gateway(false), update: to2(), want: true},
		"waiting, and taken out of service now":          {pod: in(serving(), "PreparingUpdate", "true"), life: gateway(true), update: to2(), want: true},
		"waiting, out of service":                        {pod: in(drained(), "PreparingUpdate", "true"), life: gateway(true), update: to2()},
		"asked again while it waits to be taken back":    {pod: in(serving(), "Updated", "true"), life: gateway(false), update: labels, want: true},
		"labels, while it waits to be taken back anyway": {pod: in(serving(), "Updated", "false"), life: gateway(false), update: labels},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.update.Lifecycle = tc.life
			if got := step.Serves(tc.pod, tc.update); got != tc.want {
				t.Errorf("%t, want %t", got, tc.want)
			}
		})
	}
}

// TestTemplateCannotChangeWhoAPodIs: labels and annotations that make a pod go, or another one, are no part of an update.
func TestTemplateCannotChangeWhoAPodIs(t *testing.T) {
	t.Parallel()
	u := to2()
	u.Change.Metadata.Labels = map[string]*string{
		appsv1alpha1.LabelSpecifiedDelete: new("true"), appsv1alpha1.LabelLifecycleState: new("PreparingDelete"),
		appsv1alpha1.LabelCloneSetInstanceID: new("x"), "app": new("web"),
	}
	u.Change.Metadata.Annotations = map[string]*string{
		appsv1alpha1.AnnotationReplaces: new("x"), appsv1alpha1.AnnotationClaimTemplate: nil, "note": new("n"),
		appsv1alpha1.AnnotationInPlaceGrace: new("{}"), appsv1alpha1.AnnotationLifecycleTimestamp: new("x"),
	}
	o := step.Next(drained(), u, now)
	if o.Patch == nil {
		t.Fatalf("%+v", o)
	}
	delete(o.Patch.Metadata.Annotations, appsv1alpha1.AnnotationInPlaceState)
	want := inplace.MetadataChange{
		Labels: map[string]*string{
			appsv1alpha1.LabelPodRevision: new("web-2"), appsv1alpha1.LabelPodTemplateHash: new("2"), "app": new("web"),
		},
		Annotations: map[string]*string{"note": new("n")},
	}
	if diff := cmp.Diff(want, o.Patch.Metadata); diff != "" {
		t.Error(diff)
	}
}

// TestHooksEnd: whatever state a pod is in, whatever its gate and its hooks, and whether it has a target or not: writes end
// by themselves, a pod that waits says why, and when the owner of the hooks does his part it gets where it should.
func TestHooksEnd(t *testing.T) {
	t.Parallel()
	states := []hooks.State{"", "PreparingNormal", "Normal", "PreparingUpdate", "Updating", "Updated"}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]inplace.Pod{serving(), drained()}).Draw(t, "pod")
		p = in(p, rapid.SampledFrom(states).Draw(t, "state"), rapid.SampledFrom([]string{"true", "false"}).Draw(t, "lb"))
		p.Node = "n"
		u := rapid.SampledFrom([]step.Update{{}, to2()}).Draw(t, "update")
		if !rapid.Bool().Draw(t, "no hooks") {
			u.Lifecycle = gateway(rapid.Bool().Draw(t, "mark"))
			if rapid.Bool().Draw(t, "preNormal") {
				u.Lifecycle.PreNormal = &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"seen": "true"}}
			}
		}
		p.Labels["seen"] = "false"
		for range 2 {
			if u.To.Name != "" && p.Revision == u.To.Name {
				break
			}
			p = settled(t, p, u)
			p = owner(p)
		}
		p = settled(t, p, u)
		if u.To.Name != "" {
			if p.Revision != u.To.Name {
				t.Fatalf("not moved: %+v", p)
			}
			return
		}
		p = settled(t, owner(p), u)
		if state, _ := hooks.Of(p.Labels); p.Gate != inplace.GateTrue || (state != hooks.None && state != hooks.Normal) {
			t.Fatalf("not back: %s %s", p.Gate, state)
		}
	})
}

// owner does what the hooks wait for.
func owner(p inplace.Pod) inplace.Pod {
	switch state, _ := hooks.Of(p.Labels); state {
	case hooks.PreparingUpdate:
		p.Labels["lb"] = "false"
	case hooks.Updated, hooks.Normal, hooks.None:
		p.Labels["lb"] = "true"
	case hooks.PreparingNormal:
		p.Labels["seen"] = "true"
	case hooks.Updating, hooks.PreparingDelete:
	}
	return p
}

// settled carries writes out until there are none, or the pod is patched.
func settled(t *rapid.T, p inplace.Pod, u step.Update) inplace.Pod {
	for range 8 {
		o := step.Next(p, u, now)
		if o.Patch == nil {
			if o.Wait != "" && o.Because == "" {
				t.Fatalf("it waits and does not say for what: %+v", o)
			}
			return p
		}
		for k, v := range o.Patch.Metadata.Labels {
			p.Labels[k] = *v
		}
		switch o.Patch.Kind {
		case inplace.PatchDrain:
			p.Gate, p.Ready, p.Seen.NotReadySince, p.Seen.DrainedSince = inplace.GateFalse, false, ago(time.Minute), ago(time.Minute)
		case inplace.PatchReturn:
			p.Gate, p.Ready = inplace.GateTrue, true
		case inplace.PatchUpdate:
			p.Revision = o.Patch.To
			return p
		case inplace.PatchState, inplace.PatchRepair, inplace.PatchResize:
		}
	}
	t.Fatalf("no end: %+v", p)
	return p
}

// TestKruiseHold: what OpenKruise's hooks left in its own condition is taken back with the return, or alone, and not while
// the pod waits.
func TestKruiseHold(t *testing.T) {
	t.Parallel()
	held := func(p inplace.Pod) inplace.Pod {
		p.Ready, p.Available, p.Kruise, p.Node = false, false, &inplace.KruiseReady{Ready: true}, "n"
		return p
	}
	cases := map[string]struct {
		pod    inplace.Pod
		update step.Update
		want   string
		frees  bool
	}{
		"in service as far as we go":     {pod: held(in(serving(), "Normal", "true")), want: "Return", frees: true},
		"with the return":                {pod: held(in(drained(), "PreparingUpdate", "true")), want: "Return Normal", frees: true},
		"first out of its state":         {pod: held(in(serving(), "PreparingUpdate", "true")), want: "State Normal"},
		"not while it waits":             {pod: held(in(drained(), "PreparingUpdate", "true")), update: to2(), want: "waits: Hook"},
		"nor while it goes":              {pod: held(in(serving(), "PreparingDelete", "true")), want: ""},
		"let go: the update goes first":  {pod: held(in(drained(), "PreparingUpdate", "false")), update: to2(), want: "Update Updating"},
		"nothing is held, nothing freed": {pod: in(serving(), "Normal", "true"), want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.update.Lifecycle = gateway(true)
			o := step.Next(tc.pod, tc.update, now)
			if got := short(o); got != tc.want || (o.Patch != nil && o.Patch.Kruise != nil) != tc.frees {
				t.Errorf("%q, want %q; %+v", got, tc.want, o.Patch)
			}
		})
	}
}

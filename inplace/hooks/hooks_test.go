package hooks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

const (
	all       = "lb=true"
	finalizer = "example.test/unregister"
)

// gateway are the hooks of M005, and a preNormal hook.
func gateway() *appsv1alpha1.Lifecycle {
	return &appsv1alpha1.Lifecycle{
		PreDelete:     &appsv1alpha1.LifecycleHook{FinalizersHandler: []string{finalizer}, MarkPodNotReady: true},
		InPlaceUpdate: &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"lb": "true"}, MarkPodNotReady: true},
		PreNormal:     &appsv1alpha1.LifecycleHook{LabelsHandler: map[string]string{"seen": "true"}},
	}
}

// pod is a scheduled pod in a state, with labels "k=v k=v" and the finalizer where "fin" stands among them.
func pod(state hooks.State, text string) *inplace.Pod {
	p := &inplace.Pod{Node: "n", Labels: map[string]string{}}
	if state != hooks.None {
		p.Labels[appsv1alpha1.LabelLifecycleState] = string(state)
	}
	for word := range strings.FieldsSeq(text) {
		if word == "fin" {
			p.Finalizers = append(p.Finalizers, finalizer)
			continue
		}
		k, v, _ := strings.Cut(word, "=")
		p.Labels[k] = v
	}
	return p
}

// short is an answer without its sentence; "?" stands for one.
func short(a hooks.Answer) string {
	var words []string
	for _, w := range []struct {
		yes  bool
		text string
	}{{a.Ready, "ready"}, {a.Write != "", string(a.Write)}, {a.Out, "out"}, {a.Because != "", "?"}} {
		if w.yes {
			words = append(words, w.text)
		}
	}
	return strings.Join(words, " ")
}

func TestBefore(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		life *appsv1alpha1.Lifecycle
		pod  *inplace.Pod
		want string
	}{
		"without hooks nothing is asked and no state is written":     {pod: pod(hooks.None, all), want: "ready"},
		"a pod that OpenKruise labelled Normal needs no other state": {pod: pod(hooks.Normal, all), want: "ready"},
		"M005: a hooked pod prepares, out of service":                {gateway(), pod(hooks.Normal, all), "PreparingUpdate out ?"},
		"the same without a label":                                   {gateway(), pod(hooks.None, all), "PreparingUpdate out ?"},
		"M005: nothing is patched while the label is there":          {gateway(), pod(hooks.PreparingUpdate, all), "out ?"},
		"M005: another value lets it go":                             {gateway(), pod(hooks.PreparingUpdate, "lb=false"), "ready Updating"},
		"a pod that the hook does not hold goes at once":             {gateway(), pod(hooks.Normal, ""), "ready Updating"},
		"a further template asks a pod anew that was updated":        {gateway(), pod(hooks.Updated, all), "PreparingUpdate out ?"},
		"and goes on with one that was not taken back yet":           {gateway(), pod(hooks.Updated, ""), "ready Updating"},
		"a further template goes on with one that is updating":       {gateway(), pod(hooks.Updating, ""), "ready"},
		"W4: and asks it when it was taken back meanwhile":           {gateway(), pod(hooks.Updating, all), "PreparingUpdate out ?"},
		"the hook was taken out while it waited":                     {pod: pod(hooks.PreparingUpdate, all), want: "ready Updating"},
		"a pod on its way out is not moved":                          {gateway(), pod(hooks.PreparingDelete, ""), "?"},
		"a pod that cannot become Normal may be mended":              {gateway(), pod(hooks.PreparingNormal, all), "ready"},
		"somebody else's label is left alone":                        {gateway(), pod("Sleeping", ""), "?"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := short(hooks.Before(tc.life, tc.pod)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestAfter(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		life     *appsv1alpha1.Lifecycle
		pod      *inplace.Pod
		unproven bool
		want     string
	}{
		"nothing to say about a pod without hooks":    {pod: pod(hooks.None, ""), want: "ready"},
		"a Normal pod without the label stays Normal": {life: gateway(), pod: pod(hooks.Normal, ""), want: "ready"},
		"not proven yet":                                                   {life: gateway(), pod: pod(hooks.Updating, all), unproven: true, want: "?"},
		"M005: proven and not taken back":                                  {life: gateway(), pod: pod(hooks.Updating, ""), want: "ready Updated ?"},
		"proven and taken back already":                                    {life: gateway(), pod: pod(hooks.Updating, all), want: "ready Normal"},
		"M005: it waits for the label":                                     {life: gateway(), pod: pod(hooks.Updated, "lb=false"), want: "ready ?"},
		"M005: Normal only after it":                                       {life: gateway(), pod: pod(hooks.Updated, all), want: "ready Normal"},
		"B061: reverted while it prepared":                                 {life: gateway(), pod: pod(hooks.PreparingUpdate, all), want: "ready Normal"},
		"N5, B063: no longer to be updated, the label is gone":             {life: gateway(), pod: pod(hooks.PreparingUpdate, ""), want: "ready Updated ?"},
		"W4: no longer to be updated, and an earlier update is not proven": {life: gateway(), pod: pod(hooks.PreparingUpdate, all), unproven: true, want: "?"},
		"the hook was taken out after the update":                          {pod: pod(hooks.Updated, ""), want: "ready Normal"},
		"the hook was taken out before it":                                 {pod: pod(hooks.PreparingUpdate, ""), want: "ready Normal"},
		"a new pod waits for preNormal":                                    {life: gateway(), pod: pod(hooks.PreparingNormal, ""), want: "ready ?"},
		"and is Normal with it":                                            {life: gateway(), pod: pod(hooks.PreparingNormal, "seen=true"), want: "ready Normal"},
		"a new pod of OpenKruise without the hook":                         {pod: pod(hooks.PreparingNormal, ""), want: "ready Normal"},
		"but not before it has a node":                                     {pod: func() *inplace.Pod { p := pod(hooks.PreparingNormal, ""); p.Node = ""; return p }(), want: "ready"},
		"a pod on its way out stays out of service":                        {life: gateway(), pod: pod(hooks.PreparingDelete, "fin"), want: "out"},
		"somebody else's label is left alone":                              {life: gateway(), pod: pod("Sleeping", ""), want: "ready ?"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := short(hooks.After(tc.life, tc.pod, !tc.unproven)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestDeleteAndRestore(t *testing.T) {
	t.Parallel()
	soft := gateway()
	soft.PreDelete.MarkPodNotReady, soft.PreNormal = false, nil
	cases := map[string]struct {
		life        *appsv1alpha1.Lifecycle
		pod         *inplace.Pod
		want        string
		wantRestore hooks.State
	}{
		"without hooks":                            {pod: pod(hooks.Normal, "fin"), want: "ready"},
		"M005: a hooked pod prepares":              {life: gateway(), pod: pod(hooks.Normal, "fin"), want: "PreparingDelete out ?"},
		"M005: and waits, out of service for good": {life: gateway(), pod: pod(hooks.PreparingDelete, "fin"), want: "out ?"},
		"M005: until the finalizer is removed":     {life: gateway(), pod: pod(hooks.PreparingDelete, ""), want: "ready"},
		"B161: it can come back":                   {life: soft, pod: pod(hooks.PreparingDelete, "fin"), want: "?", wantRestore: hooks.Normal},
		"the hook was taken out":                   {pod: pod(hooks.PreparingDelete, "fin"), want: "ready", wantRestore: hooks.Normal},
		"in the middle of an update":               {life: soft, pod: pod(hooks.Updating, "fin"), want: "PreparingDelete ?"},
		"somebody else's label, held":              {life: soft, pod: pod("Sleeping", "fin"), want: "?"},
		"somebody else's label, not held":          {life: soft, pod: pod("Sleeping", ""), want: "ready"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := short(hooks.Delete(tc.life, tc.pod)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if to, ok := hooks.Restore(tc.life, tc.pod); to != tc.wantRestore || ok != (tc.wantRestore != "") {
				t.Errorf("restored to %q (%t), want %q", to, ok, tc.wantRestore)
			}
		})
	}
	again := gateway()
	again.PreDelete.MarkPodNotReady = false
	if to, _ := hooks.Restore(again, pod(hooks.PreparingDelete, "")); to != hooks.PreparingNormal {
		t.Errorf("with a preNormal hook it comes back to %q", to)
	}
}

func TestNewAndChange(t *testing.T) {
	t.Parallel()
	if s := hooks.New(gateway()); s != hooks.PreparingNormal {
		t.Errorf("%q", s)
	}
	for _, life := range []*appsv1alpha1.Lifecycle{nil, {}, {PreNormal: &appsv1alpha1.LifecycleHook{}}} {
		if s := hooks.New(life); s != hooks.None {
			t.Errorf("%q without a hook that asks for something", s)
		}
	}
	state, at := "Updating", "2026-11-29T12:00:00Z"
	want := inplace.MetadataChange{
		Labels:      map[string]*string{"lifecycle.apps.kruise.io/state": &state},
		Annotations: map[string]*string{"lifecycle.apps.kruise.io/timestamp": &at},
	}
	if diff := cmp.Diff(want, hooks.Change(hooks.Updating, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))); diff != "" {
		t.Error(diff)
	}
}

func TestSentencesNameWhatIsMissing(t *testing.T) {
	t.Parallel()
	life := gateway()
	life.InPlaceUpdate.FinalizersHandler = []string{"b", "a", "a"}
	got := hooks.After(life, pod(hooks.Updated, ""), true).Because
	if want := "after its in-place update it waits until somebody puts on label lb=true, finalizer a, finalizer b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// walk applies one kind of answer until nothing is written any more; it fails when that does not end.
func walk(t *rapid.T, p *inplace.Pod, next func(*inplace.Pod) hooks.Answer) hooks.Answer {
	for range 7 {
		a := next(p)
		if !cmp.Equal(a, next(p)) {
			t.Fatalf("two answers for one pod")
		}
		if a.Write == hooks.None {
			return a
		}
		for k, v := range hooks.Change(a.Write, time.Unix(0, 0)).Labels {
			p.Labels[k] = *v
		}
	}
	t.Fatalf("no end: %v", p.Labels)
	return hooks.Answer{}
}

// TestEveryStateCanBeLeft: from any state, with any hooks, a pod whose hooks are all satisfied and that has no target comes
// back to Normal and into service; one that has a target is let go when its hooks release it; one that is to go is deleted.
func TestEveryStateCanBeLeft(t *testing.T) {
	t.Parallel()
	states := []hooks.State{
		hooks.None, hooks.PreparingNormal, hooks.Normal, hooks.PreparingUpdate, hooks.Updating, hooks.Updated, hooks.PreparingDelete,
	}
	rapid.Check(t, func(t *rapid.T) {
		life := drawLife(t)
		state := rapid.SampledFrom(states).Draw(t, "state")
		has := rapid.SampledFrom([]string{"", "a=1", "b=1", "a=1 b=1", "a=2 fin", "a=1 b=1 fin"}).Draw(t, "has")
		if state == hooks.PreparingDelete {
			restored, ok := hooks.Restore(life, pod(state, has))
			if !ok {
				if a := hooks.Delete(life, pod(state, "")); !a.Ready {
					t.Fatalf("neither restored nor deleted: %+v", a)
				}
				return
			}
			state = restored
		}
		before := pod(state, has)
		walk(t, before, func(p *inplace.Pod) hooks.Answer { return hooks.Before(life, p) })
		satisfied := pod(state, "a=1 b=1 fin")
		satisfied.Labels[appsv1alpha1.LabelLifecycleState] = before.Labels[appsv1alpha1.LabelLifecycleState]
		if a := walk(t, satisfied, func(p *inplace.Pod) hooks.Answer { return hooks.After(life, p, true) }); !a.Ready || !hooks.Settled(satisfied.Labels) {
			t.Fatalf("not back: %+v, %v", a, satisfied.Labels)
		}
		released := pod(hooks.State(before.Labels[appsv1alpha1.LabelLifecycleState]), "")
		if a := walk(t, released, func(p *inplace.Pod) hooks.Answer {
			a := hooks.Before(life, p)
			if a.Ready {
				a.Write = hooks.None
			}
			return a
		}); !a.Ready {
			t.Fatalf("not let go: %+v, %v", a, released.Labels)
		}
		if a := hooks.Delete(life, released); !a.Ready {
			t.Fatalf("not deleted: %+v", a)
		}
	})
}

func drawLife(t *rapid.T) *appsv1alpha1.Lifecycle {
	one := func(name string) *appsv1alpha1.LifecycleHook {
		if rapid.Bool().Draw(t, "no "+name) {
			return nil
		}
		h := &appsv1alpha1.LifecycleHook{MarkPodNotReady: rapid.Bool().Draw(t, name+" mark"), LabelsHandler: map[string]string{}}
		for _, k := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(t, name) {
			h.LabelsHandler[k] = "1"
		}
		if rapid.Bool().Draw(t, name+" finalizer") {
			h.FinalizersHandler = []string{finalizer}
		}
		return h
	}
	return &appsv1alpha1.Lifecycle{PreDelete: one("preDelete"), InPlaceUpdate: one("inPlaceUpdate"), PreNormal: one("preNormal")}
}

// FuzzLabels: no label of anybody makes a panic, an unknown state is never overwritten, and what is written is a state.
func FuzzLabels(f *testing.F) {
	for _, state := range []string{"", "Normal", "PreparingUpdate", "Updated", "PreparingDelete", "normal", "Normal ", "\x00"} {
		f.Add(state, "lb", "true", true)
	}
	f.Fuzz(func(t *testing.T, state, key, value string, proven bool) {
		p := &inplace.Pod{Node: "n", Labels: map[string]string{key: value, appsv1alpha1.LabelLifecycleState: state}}
		_, known := hooks.Of(p.Labels)
		var writes []hooks.State
		for _, life := range []*appsv1alpha1.Lifecycle{nil, gateway()} {
			answers := []hooks.Answer{hooks.Before(life, p), hooks.After(life, p, proven), hooks.Delete(life, p)}
			for _, a := range answers {
				writes = append(writes, a.Write)
				if !a.Ready && a.Because == "" && !a.Out {
					t.Errorf("it waits and does not say why: %+v", a)
				}
			}
			if to, ok := hooks.Restore(life, p); ok {
				writes = append(writes, to)
			}
		}
		for _, w := range writes {
			if _, ok := hooks.Of(map[string]string{appsv1alpha1.LabelLifecycleState: string(w)}); !ok || !known && w != hooks.None {
				t.Errorf("from %q it writes %q", state, w)
			}
		}
	})
}

// TestUnknownStatesAreTold: the sentence quotes the value.
func TestUnknownStatesAreTold(t *testing.T) {
	t.Parallel()
	p := pod("Sleeping", "fin")
	for _, a := range []hooks.Answer{hooks.Before(gateway(), p), hooks.After(gateway(), p, true), hooks.Delete(gateway(), p)} {
		if !strings.Contains(a.Because, fmt.Sprintf("%q", "Sleeping")) || a.Write != "" {
			t.Errorf("%+v", a)
		}
	}
	if slices.Contains([]bool{hooks.Settled(p.Labels), hooks.Settled(pod(hooks.Updated, "").Labels)}, true) {
		t.Error("counts as available")
	}
}

// TestDepart: the patch into PreparingDelete drains where the hook says so and the pod serves; one that is replaced asks for
// its deletion too.
func TestDepart(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		gate inplace.Gate
		pod  *inplace.Pod
		want inplace.PatchKind
	}{
		"in service":               {inplace.GateTrue, pod(hooks.Normal, "fin"), inplace.PatchDrain},
		"drained already":          {inplace.GateFalse, pod(hooks.Normal, "fin"), inplace.PatchState},
		"put back while it waits":  {inplace.GateTrue, pod(hooks.PreparingDelete, "fin"), inplace.PatchDrain},
		"waits":                    {inplace.GateFalse, pod(hooks.PreparingDelete, "fin"), ""},
		"let go":                   {inplace.GateTrue, pod(hooks.PreparingDelete, ""), ""},
		"somebody else's state":    {inplace.GateTrue, pod("Sleeping", "fin"), ""},
		"a pod without the gate":   {inplace.GateNone, pod(hooks.Normal, "fin"), inplace.PatchState},
		"one that never was ready": {inplace.GateUnset, pod(hooks.Normal, "fin"), inplace.PatchState},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.pod.Gate = tc.gate
			var kind inplace.PatchKind
			if _, patch := hooks.Depart(gateway(), tc.pod, now); patch != nil {
				kind = patch.Kind
				if _, asks := patch.Metadata.Labels[appsv1alpha1.LabelSpecifiedDelete]; asks {
					t.Error("asks for a deletion")
				}
			}
			if kind != tc.want {
				t.Errorf("%q, want %q", kind, tc.want)
			}
			if _, patch := hooks.Replace(gateway(), tc.pod, now); patch != nil && patch.Metadata.Labels[appsv1alpha1.LabelSpecifiedDelete] == nil {
				t.Error("does not ask for a deletion")
			}
		})
	}
}

package simulation

import (
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
	"github.com/underway-dev/underway/inplace/order"
	"github.com/underway-dev/underway/member/statefulset/plan"
	"github.com/underway-dev/underway/member/workload"
)

// fault is a mistake planted into the agent, to see that a rule catches it. Nothing of it is in the code that ships: it
// spoils what the adapter answers, or how the agent is driven.
type fault struct {
	name string
	// rules are those of which one must catch it.
	rules []string
	// read spoils what was read of the object, scale what scaling decided.
	read  func(a *agent, w *workload.Wanted)
	scale func(a *agent, c workload.Crowd, in *inplace.Intent)
	// sleepy agents are never woken by time, hasty ones take their cache for current.
	sleepy, hasty bool
	// boasting agents say in the status that one pod more is updated.
	boasting bool
}

func (f *fault) onRead(a *agent, w *workload.Wanted) {
	if f != nil && f.read != nil {
		f.read(a, w)
	}
}

func (f *fault) onScale(a *agent, c workload.Crowd, in *inplace.Intent) {
	if f != nil && f.scale != nil {
		f.scale(a, c, in)
	}
}

// faults are at least one for every rule.
func faults() []*fault {
	return []*fault{
		{name: "one pod more is taken down", rules: []string{"budget"}, scale: func(_ *agent, _ workload.Crowd, in *inplace.Intent) {
			in.MaxUnavailable++
		}},
		{name: "the budget is not looked at in a scale-in", rules: []string{"budget"}, scale: func(_ *agent, c workload.Crowd, in *inplace.Intent) {
			p := &in.Population
			for i := range c.Pods {
				if q := &c.Pods[i]; q.Available && len(p.Deletes) == 0 && len(p.Patches) == 0 {
					p.Deletes = []inplace.Delete{{Ref: q.Ref, Because: "planted"}}
				}
			}
		}},
		{name: "one pod more is moved", rules: []string{"grant"}, read: func(_ *agent, w *workload.Wanted) {
			w.Intent.Partition = max(w.Intent.Partition-1, 0)
		}},
		{name: "lost pods come back on the new revision", rules: []string{"grant"}, scale: func(_ *agent, _ workload.Crowd, in *inplace.Intent) {
			for i := range in.Population.Creates {
				c := &in.Population.Creates[i]
				c.Revision = in.Update.Name
				labels := c.Object.GetLabels()
				_, rest, _ := strings.Cut(string(in.Update.Template), `"`+labelBuild+`":"`)
				labels[labelBuild], _, _ = strings.Cut(rest, `"`)
				labels[appsv1alpha1.LabelPodRevision] = in.Update.Name
				c.Object.SetLabels(labels)
			}
		}},
		{name: "one pod more is created", rules: []string{"total"}, scale: func(_ *agent, _ workload.Crowd, in *inplace.Intent) {
			if p := &in.Population; len(p.Creates) > 0 {
				extra := p.Creates[0]
				extra.Object, extra.Claims = extra.Object.DeepCopy(), nil
				rename(extra.Object, "xtra1")
				p.Creates = append(p.Creates, extra)
			}
		}},
		{name: "an id is given away twice", rules: []string{"id"}, scale: func(_ *agent, c workload.Crowd, in *inplace.Intent) {
			for i := range in.Population.Creates {
				for j := range c.Pods {
					labels := in.Population.Creates[i].Object.GetLabels()
					labels[appsv1alpha1.LabelCloneSetInstanceID] = c.Pods[j].Labels[appsv1alpha1.LabelCloneSetInstanceID]
					in.Population.Creates[i].Object.SetLabels(labels)
				}
			}
		}},
		{name: "claims go with every pod", rules: []string{"claim"}, scale: func(_ *agent, c workload.Crowd, in *inplace.Intent) {
			for i := range in.Population.Deletes {
				d := &in.Population.Deletes[i]
				d.Claims = nil
				for j := range c.Claims {
					if strings.HasSuffix(d.Name, "-"+c.Claims[j].ID) {
						d.Claims = append(d.Claims, c.Claims[j].Ref)
					}
				}
			}
		}},
		{name: "a claim goes before its pod", rules: []string{"claim"}, scale: func(_ *agent, c workload.Crowd, in *inplace.Intent) {
			for i := range c.Claims {
				if len(in.Population.ClaimDeletes) == 0 && !c.Claims[i].Terminating {
					in.Population.ClaimDeletes = append(in.Population.ClaimDeletes, inplace.ClaimDelete{Ref: c.Claims[i].Ref, Because: "planted"})
				}
			}
		}},
		{name: "claims are not created", rules: []string{"claim"}, scale: func(_ *agent, _ workload.Crowd, in *inplace.Intent) {
			for i := range in.Population.Creates {
				in.Population.Creates[i].Claims = nil
			}
		}},
		{name: "hooks are not asked", rules: []string{"hook"}, read: func(_ *agent, w *workload.Wanted) { w.Intent.Lifecycle = nil }},
		{name: "every other pass thinks again", rules: []string{"undone"}, read: func(a *agent, w *workload.Wanted) {
			w.Intent.Paused = w.Intent.Paused || a.passes%2 == 0
		}},
		{name: "what was created is deleted", rules: []string{"undone"}, scale: func(_ *agent, c workload.Crowd, in *inplace.Intent) {
			p := &in.Population
			for i := range c.Pods {
				if q := &c.Pods[i]; q.Active() && q.Created.Equal(c.Now) && len(p.Deletes) == 0 && len(p.Patches) == 0 {
					p.Deletes = []inplace.Delete{{Ref: q.Ref, Because: "planted"}}
				}
			}
		}},
		{name: "it never rests", rules: []string{"quiet"}, scale: func(_ *agent, c workload.Crowd, in *inplace.Intent) {
			p := &in.Population
			for i := range c.Pods {
				if q := &c.Pods[i]; q.Available && len(p.Patches) == 0 && len(p.Deletes) == 0 {
					p.Patches = []inplace.Patch{{Ref: q.Ref, Kind: inplace.PatchState, Metadata: hooks.Change(hooks.Normal, c.Now)}}
				}
			}
		}},
		{name: "time does not wake it", rules: []string{"quiet", "end"}, sleepy: true},
		{name: "own writes are not awaited", rules: []string{"budget", "grant", "total", "hook", "undone"}, hasty: true},
		{name: "lost pods do not come back", rules: []string{"end"}, scale: func(_ *agent, c workload.Crowd, in *inplace.Intent) {
			if len(c.Pods) > 0 {
				in.Population.Creates = nil
			}
		}},
		{name: "the status boasts", rules: []string{"end"}, boasting: true},
	}
}

func rename(object *unstructured.Unstructured, id string) {
	labels := object.GetLabels()
	labels[appsv1alpha1.LabelCloneSetInstanceID] = id
	object.SetLabels(labels)
	object.SetName(setName + "-" + id)
	unstructured.RemoveNestedField(object.Object, "spec", "volumes")
}

// orderedFaults are at least one for every rule of a StatefulSet.
func orderedFaults() []*fault {
	return []*fault{
		{name: "in order: pods get the index of another", rules: []string{"identity"}, scale: func(_ *agent, _ workload.Crowd, in *inplace.Intent) {
			for i := range in.Population.Creates {
				labels := in.Population.Creates[i].Object.GetLabels()
				labels[appsv1alpha1.LabelPodIndex] = "9"
				in.Population.Creates[i].Object.SetLabels(labels)
			}
		}},
		{name: "in order: one pod does not wait for those before it", rules: []string{"order", "identity"}, scale: func(_ *agent, _ workload.Crowd, in *inplace.Intent) {
			if p := &in.Population; len(p.Creates) == 1 {
				next := p.Creates[0]
				next.Object = next.Object.DeepCopy()
				ordinal, _ := plan.OrdinalOf(setName, next.Object.GetName())
				next.Object.SetName(plan.PodName(setName, ordinal+1))
				labels := next.Object.GetLabels()
				maps.Copy(labels, plan.Identity(setName, next.Object.GetName()))
				next.Object.SetLabels(labels)
				p.Creates = append(p.Creates, next)
			}
		}},
		{name: "in order: from the lowest up", rules: []string{"overtake"}, scale: func(_ *agent, _ workload.Crowd, in *inplace.Intent) {
			in.Compare = func(a, b inplace.Pod) int { return order.OrdinalDescending(b, a) }
		}},
		{name: "in order: one pod more is taken down", rules: []string{"budget"}, scale: func(_ *agent, _ workload.Crowd, in *inplace.Intent) { in.MaxUnavailable++ }},
		{name: "in order: one pod more is moved", rules: []string{"grant"}, read: func(_ *agent, w *workload.Wanted) {
			w.Intent.Partition = max(w.Intent.Partition-1, 0)
		}},
		{name: "in order: claims are not created", rules: []string{"claim"}, scale: func(_ *agent, _ workload.Crowd, in *inplace.Intent) {
			for i := range in.Population.Creates {
				in.Population.Creates[i].Claims = nil
			}
		}},
		{name: "in order: nobody waits for a claim", rules: []string{"resize"}, scale: func(_ *agent, _ workload.Crowd, in *inplace.Intent) { in.Fixed = nil }},
		{name: "in order: everybody is recreated", rules: []string{"uid"}, read: func(_ *agent, w *workload.Wanted) {
			w.Intent.Policy = inplace.PolicyReCreate
		}},
		{name: "in order: a pause is not seen", rules: []string{"paused"}, read: func(_ *agent, w *workload.Wanted) {
			w.Intent.Paused, w.Intent.OnDelete = false, false
		}},
		{name: "in order: hooks are not asked", rules: []string{"hook"}, read: func(_ *agent, w *workload.Wanted) { w.Intent.Lifecycle = nil }},
		{name: "in order: time does not wake it", rules: []string{"quiet", "end"}, sleepy: true},
		{name: "in order: lost pods do not come back", rules: []string{"end"}, scale: func(_ *agent, c workload.Crowd, in *inplace.Intent) {
			if len(c.Pods) > 0 {
				in.Population.Creates = nil
			}
		}},
		{name: "in order: the status boasts", rules: []string{"boast"}, boasting: true},
	}
}

// TestPlantedFaults: every rule is able to fail, and catches its faults within 400 stories.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	catch(t, faults(), plot.tell, "budget", "grant", "total", "id", "claim", "hook", "undone", "quiet", "end")
}

// TestPlantedFaultsInOrder: so is every rule of a StatefulSet.
func TestPlantedFaultsInOrder(t *testing.T) {
	t.Parallel()
	catch(t, orderedFaults(), plot.tellOrdered,
		"identity", "order", "overtake", "budget", "grant", "claim", "resize", "uid", "paused", "hook", "quiet", "end", "boast")
}

// catch tells stories with each fault until a rule of its catches it; rules are all that there are.
func catch(t *testing.T, faults []*fault, tell func(plot) (*story, error), rules ...string) {
	t.Helper()
	const most = 400
	caught := map[string]bool{}
	for _, f := range faults {
		for _, r := range f.rules {
			caught[r] = true
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			others := map[string]int{}
			for seed := range uint64(most) {
				_, err := tell(plot{seed: seed, has: allFeatures, fault: f})
				for _, want := range f.rules {
					if rule(err) == want {
						t.Logf("caught by story %d (%s): %v", seed, time.Since(began).Round(time.Millisecond), strings.SplitN(err.Error(), "\n", 2)[0])
						return
					}
				}
				others[rule(err)]++
			}
			t.Errorf("not caught in %d stories; other rules: %v", most, others)
		})
	}
	for _, r := range rules {
		if !caught[r] {
			t.Errorf("no fault is planted for the rule %q", r)
		}
	}
}

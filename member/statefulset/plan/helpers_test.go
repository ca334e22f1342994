package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/claims"
	engine "github.com/underway-dev/underway/inplace/plan"
)

func at() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

func rev(name string) inplace.Revision {
	return inplace.Revision{Name: name, Hash: name, Template: fmt.Appendf(nil,
		`{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"app:%s"}]}}`, name)}
}

func owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "web", UID: "set", Controller: new(true)}
}

// spec reads YAML, with a selector.
func spec(tb testing.TB, text string) *appsv1alpha1.StatefulSetSpec {
	tb.Helper()
	out := &appsv1alpha1.StatefulSetSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		tb.Fatal(err)
	}
	if out.Selector == nil {
		out.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	}
	return out
}

// input is a set in the middle of a release from r1 to r2.
func input(tb testing.TB, text string, pods ...inplace.Pod) Input {
	tb.Helper()
	s := spec(tb, text)
	r := Read(s)
	in := Input{
		Intent: r.Intent, Strategy: r.Strategy, Pods: pods, Owner: owner(), Namespace: "ns", Now: at(), ClaimLabels: s.Selector.MatchLabels,
	}
	in.Intent.Update, in.Intent.Current, in.Intent.Revisions = rev("r2"), rev("r1"), []inplace.Revision{rev("r1"), rev("r2")}
	templates, err := claims.Read(s.VolumeClaimTemplates)
	if err != nil {
		tb.Fatal(err)
	}
	in.Templates = templates
	return in
}

// pod is one that serves on a revision.
func pod(ordinal int64, revision string, change ...func(*inplace.Pod)) inplace.Pod {
	name := PodName("web", ordinal)
	p := inplace.Pod{
		Ref:   inplace.Ref{Namespace: "ns", Name: name, UID: types.UID("u-" + name), ResourceVersion: "1"},
		Phase: inplace.PhaseRunning, Node: "n", Created: at().Add(-time.Hour), Revision: revision, Ready: true, Available: true,
		Gate: inplace.GateTrue, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{},
		Containers: []inplace.Container{{
			Name: "c", Image: "app:" + revision, RunningImage: "app:" + revision, ImageID: "id:" + revision, ContainerID: "c:" + name,
			Known: true, Running: true, Ready: true, Started: true,
		}},
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func down(p *inplace.Pod) { p.Ready, p.Available, p.Down = false, false, true }

// drainedNow is out of service, which its kubelet has not seen yet.
func drainedNow(p *inplace.Pod) { p.Gate, p.Available = inplace.GateFalse, false }

func pending(p *inplace.Pod) { down(p); p.Phase = inplace.PhasePending }

func young(p *inplace.Pod) { p.Available = false }

func asked(p *inplace.Pod) { p.SpecifiedDelete = true }

func evicted(p *inplace.Pod) { down(p); p.Phase = inplace.PhaseTerminal }

func refused(p *inplace.Pod) {
	evicted(p)
	p.Created = at().Add(-time.Second)
	p.Containers = []inplace.Container{{Name: "c"}}
}

func terminating(by time.Duration) func(*inplace.Pod) {
	return func(p *inplace.Pod) { down(p); p.Phase, p.GoneBy = inplace.PhaseTerminating, at().Add(by) }
}

func in(state string) func(*inplace.Pod) {
	return func(p *inplace.Pod) {
		p.Labels = map[string]string{"app": "web", appsv1alpha1.LabelLifecycleState: state}
	}
}

func labelled(key, value string) func(*inplace.Pod) {
	return func(p *inplace.Pod) { p.Labels = map[string]string{"app": "web", key: value} }
}

func held(finalizer string) func(*inplace.Pod) {
	return func(p *inplace.Pod) { p.Finalizers = append(p.Finalizers, finalizer) }
}

// pods are some that serve on r1.
func pods(ordinals ...int64) []inplace.Pod {
	out := make([]inplace.Pod, 0, len(ordinals))
	for _, n := range ordinals {
		out = append(out, pod(n, "r1"))
	}
	return out
}

// claim is one of the template data, made for the set.
func claim(ordinal int64, request, capacity string, change ...func(*Claim)) Claim {
	name := fmt.Sprintf("data-web-%d", ordinal)
	c := Claim{
		Claim:  inplace.Claim{Ref: inplace.Ref{Namespace: "ns", Name: name, UID: types.UID("c-" + name), ResourceVersion: "1"}, Created: at()},
		Labels: map[string]string{"app": "web"}, Request: resource.MustParse(request), Class: "fast",
	}
	if capacity != "" {
		c.Capacity = resource.MustParse(capacity)
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func ofPod(ordinal int64) func(*Claim) {
	name := PodName("web", ordinal)
	return func(c *Claim) {
		c.Owners = append(c.Owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID("u-" + name)})
	}
}

func ofSet(c *Claim) { c.Owners = append(c.Owners, owner()); c.Owner = "set" }

const dataTemplate = `volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}]`

// created are the creates as "ordinal:revision".
func created(r Result) string {
	out := make([]string, 0, len(r.Creates))
	for _, c := range r.Creates {
		out = append(out, strings.TrimPrefix(c.Object.GetName(), "web-")+":"+c.Revision)
	}
	return strings.Join(out, " ")
}

func deleted(ds []inplace.Delete) string {
	out := make([]string, 0, len(ds))
	for _, d := range ds {
		out = append(out, strings.TrimPrefix(d.Name, "web-"))
	}
	return strings.Join(out, " ")
}

func held2(r Result, kind inplace.HoldKind) string {
	var out []string
	for _, h := range r.Holds {
		if h.Kind == kind {
			out = append(out, fmt.Sprintf("%d: %s", h.Pods, h.Because))
		}
	}
	return strings.Join(out, "\n")
}

// next does what the adapter and the reconciler do: who should exist, then who moves.
func next(in Input) (Result, inplace.Decision) {
	r := Scale(in)
	intent := in.Intent
	intent.RecreateOnly, intent.Fixed, intent.Outside = Outdated(in.Templates, in.Pods), r.Fixed, r.Outside
	intent.Population = r.Population
	intent.Population.Condemned, intent.Population.AbsentNew, intent.Population.ClaimPatches = r.Condemned, &r.AbsentNew, r.ClaimPatches
	return r, engine.Next(intent, in.Pods, in.Now)
}

// moving are the pods that a decision moves, in its order, without those that scaling deletes.
func moving(r Result, d inplace.Decision) string {
	var out []string
	for _, x := range d.Patches {
		if x.Kind == inplace.PatchDrain || x.Kind == inplace.PatchUpdate {
			out = append(out, strings.TrimPrefix(x.Name, "web-"))
		}
	}
	for _, x := range d.Deletes {
		if !slices.ContainsFunc(r.Deletes, func(y inplace.Delete) bool { return y.Name == x.Name }) {
			out = append(out, strings.TrimPrefix(x.Name, "web-"))
		}
	}
	return strings.Join(out, " ")
}

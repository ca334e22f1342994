package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/plan"
	"github.com/underway-dev/underway/inplace/podview"
)

// All pods of a bad release flap: 8 s Ready, 8 s not, minReadySeconds 60. None is ever Available, none is ever Down.
func TestReadinessThatFlapsIsDown(t *testing.T) {
	t.Parallel()
	m := podview.NewMemory()
	ready := false
	for i := range 100 {
		at := now.Add(time.Duration(i) * 8 * time.Second)
		ready = !ready
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		var seen []inplace.Pod
		for n := range 3 {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p", n), UID: types.UID(fmt.Sprint(n)), ResourceVersion: "1", Generation: 1, Labels: map[string]string{appsv1alpha1.LabelPodRevision: "web-1"}},
				Spec: corev1.PodSpec{
					NodeName: "n", Containers: []corev1.Container{{Name: "web", Image: "app:v1"}},
					ReadinessGates: []corev1.PodReadinessGate{{ConditionType: appsv1alpha1.ConditionInPlaceUpdateReady}},
				},
				Status: corev1.PodStatus{
					Phase: corev1.PodRunning, ObservedGeneration: 1,
					Conditions: []corev1.PodCondition{
						{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(at)},
						{Type: corev1.ContainersReady, Status: status},
						{Type: appsv1alpha1.ConditionInPlaceUpdateReady, Status: corev1.ConditionTrue},
					},
					ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Image: "app:v1", ImageID: "1", ContainerID: "c", Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
				},
			}
			seen = append(seen, podview.From(pod, podview.Around{Now: at, MinReadySeconds: 60, Seen: m.Look(pod, podview.Endpoints{}, at)}))
		}
		d := plan.Next(intent(3, 0, 1), seen, at)
		if len(d.Patches) > 0 {
			t.Logf("moved at pass %d", i)
			return
		}
		if i == 99 {
			t.Errorf("after %s nothing has moved: %v", at.Sub(now), holds(d))
		}
	}
}

// OpenKruise gave the pod back (gate True), having proven it by its node agent: two tags of one digest. After a takeover
// it counts as not updated for ever.
func TestOpenKruisesProofIsBelieved(t *testing.T) {
	t.Parallel()
	p := pods("NNN")
	for i := range p {
		p[i].Containers[0].ImageID, p[i].Containers[0].RunningImage = "1", "app:v1"
		p[i].State = &inplace.State{Revision: "web-2", UpdateTimestamp: metav1.NewTime(now.Add(-time.Hour)), LastContainerStatuses: map[string]inplace.ContainerState{"web": {ImageID: "1"}}}
		p[i].Seen.SameSince = now.Add(-time.Hour)
	}
	d := plan.Next(intent(3, 0, 1), p, now)
	if d.Summary.Updated != 3 {
		t.Errorf("updated %d, broken %+v", d.Summary.Updated, d.Summary.Broken)
	}
}

// Nothing that is written into annotations panics.
func TestNoStateOfOthersPanics(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(all ...string) string { return all[rng.IntN(len(all))] }
	some := func(f func()) {
		if rng.IntN(2) == 0 {
			f()
		}
	}
	names := []string{"web", "side", "log", "prep", "ghost", ""}
	req := func() corev1.ResourceRequirements {
		if rng.IntN(4) == 0 {
			return corev1.ResourceRequirements{}
		}
		return cpu(pick("1", "2", "0", "9"))
	}
	resources := func() map[string]corev1.ResourceRequirements {
		out := map[string]corev1.ResourceRequirements{}
		for range rng.IntN(3) {
			out[pick(names...)] = req()
		}
		return out
	}
	images := func() map[string]string {
		out := map[string]string{}
		for range rng.IntN(3) {
			out[pick(names...)] = pick("app:v1", "app:v2", "", "x@sha256:1")
		}
		return out
	}
	refs := func() map[string]inplace.RefMetadata {
		out := map[string]inplace.RefMetadata{}
		some(func() { out[pick(names...)] = inplace.RefMetadata{Labels: map[string]string{"a": "b"}} })
		return out
	}
	records := func() map[string]inplace.ContainerState {
		out := map[string]inplace.ContainerState{}
		for range rng.IntN(3) {
			r := inplace.ContainerState{ImageID: pick("", "1", "2"), Image: pick("", "app:v1", "app:v2"), Unsure: rng.IntN(2) == 0}
			some(func() { r.ContainerID = new(pick("", "c", "c2")) })
			some(func() { r.Resources = new(req()) })
			out[pick(names...)] = r
		}
		return out
	}
	for i := range 20000 {
		func() {
			var p []inplace.Pod
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("%d: %v\n%+v", i, r, p)
				}
			}()
			p = pods(pick("OO", "NO", "du", "nx", "br", "uu"))
			for i := range p {
				c := &p[i].Containers[0]
				some(func() { c.Priority = new(int32(rng.IntN(3))) })
				some(func() { c.Resources, c.RunningResources = req(), new(req()) })
				some(func() { c.ResizeRestarts = []corev1.ResourceName{"cpu"} })
				p[i].Containers = append(p[i].Containers,
					inplace.Container{Name: "side", Image: "app:v1", Known: true, Running: rng.IntN(2) == 0, Ready: rng.IntN(2) == 0, ContainerID: "s", Priority: new(int32(rng.IntN(3)))},
					inplace.Container{Name: "log", Kind: inplace.KindSidecar, Image: "app:v1", Known: rng.IntN(2) == 0, Running: true},
					inplace.Container{Name: "prep", Kind: inplace.KindInit, Image: "app:v1"})
				some(func() {
					s := &inplace.State{Revision: pick("web-1", "web-2", "z"), Generation: int64(rng.IntN(4)), UpdateTimestamp: metav1.NewTime(now)}
					some(func() { s.LastContainerStatuses = records() })
					some(func() { s.OtherContainerStatuses = records() })
					some(func() { s.Resources = resources() })
					some(func() { s.NextContainerImages = images() })
					some(func() { s.NextContainerResources = resources() })
					some(func() { s.NextContainerRefMetadata = refs() })
					some(func() { s.PreCheckBeforeNext = &inplace.PreCheck{ContainersRequiredReady: names[:rng.IntN(6)]} })
					s.UpdateResources = rng.IntN(2) == 0
					s.UpdateEnvFromMetadata = rng.IntN(2) == 0
					p[i].State = s
				})
				if rng.IntN(6) == 0 {
					p[i].State, p[i].StateProblem = nil, "bad"
				}
				if rng.IntN(3) == 0 {
					p[i].Parked = &inplace.Parked{Revision: pick("web-1", "web-2", "z"), ContainerImages: images(), ContainerResources: resources(), ContainerRefMetadata: refs(), MetaDataPatch: []byte(pick("", "null", `{"metadata":null}`, `[]`, `{"metadata":{"labels":{"a":null}}}`)), GraceSeconds: int32(rng.IntN(3) - 1)}
					some(func() { p[i].Parked.Problem = pick("", "bad") })
				}
				p[i].Gate = []inplace.Gate{inplace.GateNone, inplace.GateUnset, inplace.GateFalse, inplace.GateTrue}[rng.IntN(4)]
				some(func() {
					p[i].Seen.ResizeRefused = &inplace.ResizeRefusal{Final: rng.IntN(2) == 0, Last: now.Add(-time.Duration(rng.IntN(100)) * time.Second)}
				})
				some(func() { p[i].Resize = inplace.Resize{Pending: pick("", "Deferred", "Infeasible", "Odd")} })
				some(func() { p[i].Seen.SameSince = now.Add(-time.Hour) })
				some(func() { p[i].Seen.NotReadySince, p[i].Seen.DrainedSince = now.Add(-time.Hour), now.Add(-time.Hour) })
			}
			in := intent(2, 0, 1)
			in.PatchUndrained = rng.IntN(2) == 0
			in.Policy = []inplace.Policy{inplace.PolicyInPlaceIfPossible, inplace.PolicyInPlaceOnly, inplace.PolicyReCreate, ""}[rng.IntN(4)]
			in.Paused, in.OnDelete = rng.IntN(5) == 0, rng.IntN(5) == 0
			plan.Next(in, p, now)
		}()
	}
}

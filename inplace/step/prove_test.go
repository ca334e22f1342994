package step_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podview"
	"github.com/underway-dev/underway/inplace/step"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// patched is a pod a moment after its patch from app:v1 to app:v2: the kubelet has not acted.
func patched() inplace.Pod {
	return inplace.Pod{
		Ref: inplace.Ref{Namespace: "ns", Name: "web-a", UID: "u", ResourceVersion: "9"}, Phase: inplace.PhaseRunning,
		Revision: "web-2", Gate: inplace.GateFalse, Generation: 2, ObservedGeneration: 1,
		Containers: []inplace.Container{
			{Name: "web", Image: "app:v2", RunningImage: "docker.io/library/app:v1", ImageID: "sha1", ContainerID: "c1", Known: true, Running: true},
			{Name: "side", Image: "side:v1", RunningImage: "side:v1", ImageID: "shaS", ContainerID: "s1", Known: true, Running: true},
		},
		State: &inplace.State{
			Revision: "web-2", Generation: 2, UpdateImages: true, UpdateTimestamp: metav1.NewTime(ago(10 * time.Second)),
			LastContainerStatuses: map[string]inplace.ContainerState{"web": {ImageID: "sha1", ContainerID: new("c1"), Image: "app:v1"}},
		},
		Seen: inplace.Seen{SameSince: ago(time.Second), NotReadySince: ago(20 * time.Second), DrainedSince: ago(20 * time.Second)},
	}
}

// acted is the same pod when the kubelet has replaced the container.
func acted() inplace.Pod {
	p := patched()
	p.ObservedGeneration = 2
	p.Containers[0].ContainerID, p.Containers[0].ImageID, p.Containers[0].RunningImage = "c2", "sha2", "app:v2"
	return p
}

func TestProve(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pod     func() inplace.Pod
		want    bool
		missing string
		look    time.Duration
	}{
		"replaced by another image": {pod: acted, want: true},
		"not observed yet":          {pod: patched, missing: "observed generation 1 of 2"},
		"observed 0.2 s before it acts, as real kubelets do: observedGeneration alone proves nothing": {
			pod: func() inplace.Pod { p := patched(); p.ObservedGeneration = 2; return p }, missing: "still the one from before",
		},
		"and stays unproven however long that lasts": {
			pod: func() inplace.Pod {
				p := patched()
				p.ObservedGeneration, p.Seen.SameSince = 2, ago(time.Hour)
				return p
			}, missing: "still the one from before",
		},
		"a patch that did not raise the generation, as admission pinned both tags to one digest": {
			pod: func() inplace.Pod {
				p := patched()
				p.Generation, p.ObservedGeneration = 1, 1
				p.Containers[0].Image = p.State.LastContainerStatuses[p.Containers[0].Name].Image
				p.Seen.SameSince = ago(5 * time.Second)
				return p
			}, want: true,
		},
		"replaced, and not observed": {
			pod: func() inplace.Pod { p := acted(); p.ObservedGeneration = 1; return p }, missing: "observed generation 1 of 2",
		},
		"not running yet": {
			pod: func() inplace.Pod {
				p := acted()
				p.Containers[0].Running, p.Containers[0].Waiting = false, "ImagePullBackOff"
				return p
			}, missing: "waits with ImagePullBackOff for image app:v2",
		},
		"died": {pod: func() inplace.Pod { p := acted(); p.Containers[0].Running = false; return p }, missing: "not running"},
		"O162: absent from the status": {
			pod: func() inplace.Pod { p := acted(); p.Containers[0].Known = false; return p }, missing: "not in the status",
		},
		"absent from the pod": {pod: func() inplace.Pod { p := acted(); p.Containers = p.Containers[1:]; return p }, missing: "not in the pod"},
		"B025, N4: two tags of one digest, status.image goes on naming the old one": {
			pod: func() inplace.Pod {
				p := acted()
				p.Containers[0].ImageID, p.Containers[0].RunningImage = "sha1", "app:v1"
				return p
			}, missing: "must stay as they are for 5 s", look: 4 * time.Second,
		},
		"B025: the same after 5 quiet seconds": {
			pod: func() inplace.Pod {
				p := acted()
				p.Containers[0].ImageID, p.Containers[0].RunningImage = "sha1", "app:v1"
				p.Seen.SameSince = ago(5 * time.Second)
				return p
			}, want: true,
		},
		"two tags of one digest, status.image names the new one, normalised: at once": {
			pod: func() inplace.Pod {
				p := acted()
				p.Containers[0].ImageID, p.Containers[0].RunningImage = "sha1", "docker.io/library/app:v2"
				return p
			}, want: true,
		},
		"B027: app and app:latest are the same name": {
			pod: func() inplace.Pod {
				p := acted()
				p.Containers[0].ImageID, p.Containers[0].RunningImage, p.Containers[0].Image = "sha1", "docker.io/library/app:latest", "app"
				return p
			}, want: true,
		},
		"a first look begins the quiet time": {
			pod: func() inplace.Pod {
				p := acted()
				p.Containers[0].ImageID, p.Containers[0].RunningImage, p.Seen = "sha1", "app:v1", inplace.Seen{}
				return p
			}, missing: "5 s", look: 5 * time.Second,
		},
		"rolled back before the kubelet acted: 5 quiet seconds": {
			pod: func() inplace.Pod {
				p := patched()
				p.ObservedGeneration, p.Containers[0].Image, p.Seen.SameSince = 2, "app:v1", ago(5*time.Second)
				return p
			}, want: true,
		},
		"rolled back before the kubelet acted: too early": {
			pod: func() inplace.Pod {
				p := patched()
				p.ObservedGeneration, p.Containers[0].Image = 2, "app:v1"
				return p
			}, missing: "5 s", look: 4 * time.Second,
		},
		"a kubelet that never sets observedGeneration: the containerID decides, after 5 s": {
			pod: func() inplace.Pod { p := acted(); p.ObservedGeneration = 0; return p }, missing: "5 s", look: 4 * time.Second,
		},
		"a kubelet that never sets observedGeneration, 5 s later": {
			pod: func() inplace.Pod {
				p := acted()
				p.ObservedGeneration, p.Seen.SameSince = 0, ago(6*time.Second)
				return p
			}, want: true,
		},
		"a kubelet that never sets observedGeneration, old container": {
			pod: func() inplace.Pod {
				p := patched()
				p.ObservedGeneration, p.Seen.SameSince = 0, ago(time.Hour)
				return p
			}, missing: "still the one from before",
		},
		"nothing had started before the patch: an imageID out of nothing proves nothing at once": {
			pod: func() inplace.Pod {
				p := acted()
				p.State.LastContainerStatuses["web"] = inplace.ContainerState{ContainerID: new("")}
				p.Containers[0].RunningImage = "app:v1"
				return p
			}, missing: "5 s", look: 4 * time.Second,
		},
		"recorded while an earlier update was not proven: other id and other image may be of that one": {
			pod: func() inplace.Pod {
				p := acted()
				r := p.State.LastContainerStatuses["web"]
				r.Unsure = true
				p.State.LastContainerStatuses["web"] = r
				return p
			}, missing: "5 s", look: 4 * time.Second,
		},
		"one of two containers is missing": {
			pod: func() inplace.Pod {
				p := acted()
				p.State.LastContainerStatuses["side"] = inplace.ContainerState{ImageID: "shaS", ContainerID: new("s1"), Image: "side:v0"}
				return p
			}, missing: "container side is still the one",
		},
		"O159: OpenKruise's state, imageID changed, generation observed": {
			pod: func() inplace.Pod { p := acted(); foreign(&p); return p }, want: true,
		},
		"O159: not while the generation is not observed": {
			pod: func() inplace.Pod { p := acted(); foreign(&p); p.ObservedGeneration = 1; return p }, missing: "observed generation 1 of 2",
		},
		"O160: OpenKruise's state, imageID equal, names differ": {
			pod: func() inplace.Pod {
				p := acted()
				foreign(&p)
				p.Containers[0].ImageID, p.Containers[0].RunningImage, p.Seen.SameSince = "sha1", "app:v1", ago(time.Hour)
				return p
			}, missing: "neither another imageID nor image app:v2",
		},
		"O163: resources differ, and nobody asked for resources": {pod: acted, want: true},
		"OpenKruise's state with a batch to come": {
			pod: func() inplace.Pod {
				p := acted()
				p.State.NextContainerImages = map[string]string{"side": "x"}
				return p
			}, missing: "further containers",
		},
		"OpenKruise's state with empty leftovers": {
			pod: func() inplace.Pod {
				p := acted()
				p.State.NextContainerResources = map[string]corev1.ResourceRequirements{}
				return p
			}, want: true,
		},
		"parked by OpenKruise": {
			pod: func() inplace.Pod { p := acted(); p.Parked = &inplace.Parked{Revision: "web-2"}; return p }, missing: "parked",
		},
		"a state that cannot be read": {
			pod: func() inplace.Pod { p := acted(); p.State, p.StateProblem = nil, "annotation x: is not JSON"; return p }, missing: "not JSON",
		},
		"created at its revision":              {pod: func() inplace.Pod { p := acted(); p.State = nil; return p }, want: true},
		"created at its revision, not started": {pod: func() inplace.Pod { p := acted(); p.State, p.Phase = nil, inplace.PhasePending; return p }, missing: "not started"},
		"labels only":                          {pod: func() inplace.Pod { p := patched(); p.State.LastContainerStatuses = nil; return p }, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := step.Prove(tc.pod(), step.Update{}, now)
			if got.Done != tc.want || (got.Missing == "") != tc.want || !strings.Contains(got.Missing, tc.missing) || got.LookAgainIn != tc.look {
				t.Errorf("%+v, want done %v, missing %q, look again in %s", got, tc.want, tc.missing, tc.look)
			}
		})
	}
}

// foreign makes the state one that OpenKruise wrote.
func foreign(p *inplace.Pod) {
	p.State.Generation = 0
	p.State.LastContainerStatuses = map[string]inplace.ContainerState{"web": {ImageID: "sha1"}}
}

// TestANameShownAlreadyProvesNothing: two tags of one digest, and a runtime that names the container by the other tag before
// it is patched. A crash before the kubelet acts changes the containerID; only the quiet time tells.
func TestANameShownAlreadyProvesNothing(t *testing.T) {
	t.Parallel()
	p := patched()
	p.State, p.Revision, p.ObservedGeneration = nil, "web-1", 2
	p.Containers[0].Image, p.Containers[0].RunningImage = "app:v1", "docker.io/library/app:v2"
	to := inplace.Revision{Name: "web-2", Hash: "2"}
	o := step.Next(p, step.Update{To: to, Change: inplace.Change{Images: map[string]string{"web": "app:v2"}}}, now)
	if o.Patch == nil || o.Patch.Kind != inplace.PatchUpdate {
		t.Fatalf("%+v, want the update", o)
	}
	state, err := podview.ParseState(*o.Patch.Metadata.Annotations[appsv1alpha1.AnnotationInPlaceState])
	if err != nil {
		t.Fatal(err)
	}
	p.State, p.Revision, p.Generation, p.ObservedGeneration = state, "web-2", 3, 3
	p.Containers[0].Image, p.Containers[0].ContainerID = "app:v2", "crashed-and-back"
	p.Seen.SameSince = ago(time.Second)
	if proof := step.Prove(p, step.Update{}, now); proof.Done {
		t.Error("the container that crashed is taken for the new one")
	}
	p.Seen.SameSince = ago(5 * time.Second)
	if proof := step.Prove(p, step.Update{}, now); !proof.Done {
		t.Errorf("after 5 quiet seconds: %s", proof.Missing)
	}
}

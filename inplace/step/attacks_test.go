package step_test

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/step"
)

// Set back by a VPA: we do not send again, so nothing restarts; the pod stays out of service for ever.
func TestAResizeSetBackGoesBackToService(t *testing.T) {
	t.Parallel()
	p := asked(t, out(restarting()), toCPU("2"), "1", "1")
	p.Generation += 2
	p.ObservedGeneration = p.Generation
	for _, at := range []time.Duration{0, time.Hour, 24 * time.Hour} {
		o := step.Next(p, step.Update{}, now.Add(at))
		if o.Patch != nil {
			return
		}
		t.Logf("%s: %s, look %s", at, o.Because, o.LookAgainIn)
	}
	t.Errorf("gate False for ever; proof %+v", step.Prove(p, step.Update{}, now.Add(24*time.Hour)))
}

// A quota refuses; meanwhile two updates of an injected sidecar (or kubectl debug) raise the generation: never tried again.
func TestAQuotaIsTriedAgainWhateverElseChanges(t *testing.T) {
	t.Parallel()
	p := asked(t, sized(), toCPU("2"), "1", "1")
	p.Seen.ResizeRefused = &inplace.ResizeRefusal{Message: "exceeded quota", Last: ago(time.Hour)}
	if o := step.Next(p, step.Update{}, now); o.Patch == nil {
		t.Fatalf("%+v", o)
	}
	p.Generation += 2
	p.ObservedGeneration = p.Generation
	if o := step.Next(p, step.Update{}, now); o.Patch == nil {
		t.Errorf("not tried: %q, reason %s", o.Because, o.Reason)
	}
}

// A quota refuses a resize that would restart: nothing restarts until we send it again, and the pod is out for as long.
func TestAPodServesWhileAQuotaRefusesItsRestart(t *testing.T) {
	t.Parallel()
	p := asked(t, out(restarting()), toCPU("2"), "1", "1")
	p.Seen.ResizeRefused = &inplace.ResizeRefusal{Message: "maximum cpu usage per Container is 1, but limit is 2", Last: ago(20 * time.Second)}
	if o := step.Next(p, step.Update{}, now); o.Patch == nil || o.Patch.Kind != inplace.PatchReturn {
		t.Errorf("out of service: %+v", o)
	}
}

// An unreadable grace annotation on a pod of the present revision: no way back, no recreate.
func TestAnUnreadableParkedUpdateIsNoDeadEnd(t *testing.T) {
	t.Parallel()
	p := drained()
	p.Parked = &inplace.Parked{Problem: "is not the JSON expected"}
	o := step.Next(p, step.Update{}, now.Add(24*time.Hour))
	if o.Patch == nil && !step.Prove(p, step.Update{}, now).Hopeless {
		t.Errorf("%+v", o)
	}
}

// O149 in a parked update: finalizers.
func TestParkedFinalizersTravel(t *testing.T) {
	t.Parallel()
	p := drained()
	p.Revision = "web-2"
	p.State = &inplace.State{Revision: "web-2", UpdateTimestamp: metav1.NewTime(ago(time.Minute))}
	p.Parked = &inplace.Parked{
		Revision: "web-2", ContainerImages: map[string]string{"web": "app:v2"},
		MetaDataPatch: json.RawMessage(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["x.io/fz1"],"finalizers":["x.io/fz3"],"labels":{"k1":"v1","k2":null}}}`),
	}
	got := step.Next(p, step.Update{}, now).Patch
	if len(got.Metadata.RemoveFinalizers) != 1 || len(got.Metadata.AddFinalizers) != 1 {
		t.Errorf("%+v", got.Metadata)
	}
}

// A resize waits for room (Deferred); another container's image is released; then a VPA sizes the first container.
func TestACarriedResizeDoesNotFightAnother(t *testing.T) {
	t.Parallel()
	p := asked(t, out(sized()), toCPU("2"), "2", "1")
	p.Resize = inplace.Resize{Pending: inplace.ResizeDeferred, Message: "m"}
	image := step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{Images: map[string]string{"side": "side:v3"}}}
	p = apply(t, p, step.Next(p, image, now).Patch)
	t.Logf("state %+v, others %+v", p.State.Resources, p.State.OtherContainerStatuses)
	side := p.Container("side")
	side.ContainerID, side.ImageID, side.RunningImage = "s9", "shaS9", "side:v3"
	web := p.Container("web")
	web.Resources, web.RunningResources = cpu("5"), new(cpu("5")) // the VPA's
	p.Resize = inplace.Resize{}
	p.Generation++
	p.ObservedGeneration = p.Generation
	if o := step.Next(p, step.Update{}, now); o.Patch != nil && o.Patch.Kind == inplace.PatchResize {
		t.Errorf("fights the VPA: %v", o.Patch.Because)
	}
	p.Generation++
	p.ObservedGeneration = p.Generation
	if got := step.Prove(p, step.Update{}, now); !got.Done {
		t.Errorf("never proven: %+v", got)
	}
}

// Launch order and a resize that is refused for good: the next batch never comes and, under InPlaceOnly, neither does the pod.
func TestAGivenUpResizeDoesNotHoldBatches(t *testing.T) {
	t.Parallel()
	p := ordered()
	p.Container("c1").Resources, p.Container("c1").RunningResources = cpu("1"), new(cpu("1"))
	u := toImages("c1", "c2")
	u.Change.Resources = map[string]corev1.ResourceRequirements{"c1": cpu("2")}
	p = restart(apply(t, p, step.Next(p, u, now).Patch), "c1")
	p.Seen.SameSince = ago(time.Hour)
	p.Seen.ResizeRefused = &inplace.ResizeRefusal{Message: "QoS", Final: true}
	if o := step.Next(p, step.Update{}, now.Add(24*time.Hour)); o.Patch == nil {
		t.Errorf("gate False for ever: %+v\n%+v", o, step.Prove(p, step.Update{}, now))
	}
}

// A batch is still to come (c2 runs c2:1 and read label a); a newer target gives c2 its old image and another label, which
// its environment reads.
func TestAnEnvironmentThatNothingRenewsIsAnObstacle(t *testing.T) {
	t.Parallel()
	p := apply(t, ordered(), step.Next(ordered(), toImages("c1", "c2"), now).Patch)
	p = restart(p, "c1")
	u := step.Update{To: inplace.Revision{Name: "web-3"}, Change: inplace.Change{
		Images: map[string]string{"c2": "c2:1"}, EnvFrom: []string{"c2"},
		Metadata: inplace.MetadataChange{Labels: map[string]*string{"a": new("third")}},
	}}
	o := step.Next(p, u, now)
	if o.Obstacle != "" || o.Patch == nil || o.Patch.Images["c2"] != "" {
		return
	}
	p = apply(t, p, o.Patch)
	p.ObservedGeneration = p.Generation
	t.Errorf("%s; then done: %v, c2 was never restarted", o.Patch.Because, step.Prove(p, step.Update{}, now).Done)
}

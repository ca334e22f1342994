package step

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/imagediff"
)

const (
	// quiet is how long containers must look the same where the evidence alone is not conclusive: a kubelet writes
	// observedGeneration about 0.2 s before it replaces the container.
	quiet = 5 * time.Second
	// reportAfter is when a wait is reported as a problem.
	reportAfter = 2 * time.Minute
)

// Proof says whether a pod runs what it was asked to run.
type Proof struct {
	// Done is set when that is proven.
	Done bool
	// Missing is one sentence about what the proof lacks.
	Missing string
	// LookAgainIn is when time alone may complete it; 0: never.
	LookAgainIn time.Duration
}

// Prove judges a pod by its state annotation and what its status shows. A pod without a state was created with the
// template it names; it is proven once it has started.
//
// Per patched container, after the kubelet has observed the patch's generation and with the container running:
//
//	another container than recorded, other imageID or the wanted name in status.image   proven at once
//	another container, neither (two tags of one digest, or a crash before it acted)     after 5 quiet seconds
//	the recorded container, recorded from the wanted image (rolled back in time)        after 5 quiet seconds
//	a record of OpenKruise (no containerID): other imageID, or the wanted name          proven at once
//	a kubelet that never sets observedGeneration                                        as above, after 5 quiet seconds
func Prove(p inplace.Pod, now time.Time) Proof {
	switch {
	case p.StateProblem != "":
		return Proof{Missing: p.StateProblem}
	case p.Parked != nil:
		return Proof{Missing: "another controller parked its update and its images are not patched yet"}
	case p.State == nil:
		return created(p)
	case p.State.Next():
		return Proof{Missing: "further containers of its update, planned by another controller, are not patched yet"}
	}
	return proveContainers(p, now)
}

// created proves a pod none of whose containers was patched.
func created(p inplace.Pod) Proof {
	if p.Phase == inplace.PhasePending {
		return Proof{Missing: "it has not started yet"}
	}
	return Proof{Done: true}
}

func proveContainers(p inplace.Pod, now time.Time) Proof {
	if len(p.State.LastContainerStatuses) == 0 {
		return created(p)
	}
	asked := p.State.Generation
	if asked == 0 || (p.Generation > 0 && asked > p.Generation) {
		// The patch did not raise the generation: admission on the member made the spec what it was. State and generation
		// are of one object, so the present one is what the kubelet has to reach.
		asked = p.Generation
	}
	tracked := p.ObservedGeneration > 0
	if tracked && p.ObservedGeneration < asked {
		return Proof{Missing: fmt.Sprintf("the kubelet has observed generation %d of %d", p.ObservedGeneration, asked)}
	}
	needsQuiet := !tracked
	for _, name := range slices.Sorted(maps.Keys(p.State.LastContainerStatuses)) {
		evidence, missing := judge(p.Container(name), name, p.State.LastContainerStatuses[name])
		if missing != "" {
			return Proof{Missing: missing}
		}
		needsQuiet = needsQuiet || evidence == inconclusive
	}
	if needsQuiet {
		return afterQuiet(p, now)
	}
	return Proof{Done: true}
}

// afterQuiet wants the containers unchanged for a while, by our own clock.
func afterQuiet(p inplace.Pod, now time.Time) Proof {
	left := quiet
	if !p.Seen.SameSince.IsZero() {
		left = p.Seen.SameSince.Add(quiet).Sub(now)
	}
	if left <= 0 {
		return Proof{Done: true}
	}
	return Proof{
		Missing:     fmt.Sprintf("its containers must stay as they are for %d s, as nothing else tells the old from the new", int(quiet.Seconds())),
		LookAgainIn: left,
	}
}

// evidence is how much one container's status says.
type evidence int

const (
	none evidence = iota
	inconclusive
	conclusive
)

// judge weighs one patched container. missing is set when there is no evidence.
func judge(c *inplace.Container, name string, was inplace.ContainerState) (found evidence, missing string) {
	switch {
	case c == nil:
		return none, fmt.Sprintf("container %s is not in the pod", name)
	case !c.Known:
		return none, fmt.Sprintf("container %s is not in the status yet", name)
	case !c.Running && c.Waiting != "":
		return none, fmt.Sprintf("container %s waits with %s for image %s", name, c.Waiting, c.Image)
	case !c.Running:
		return none, fmt.Sprintf("container %s is not running", name)
	case was.ContainerID == nil:
		return judgeForeign(c, was)
	case c.ContainerID == "":
		return none, fmt.Sprintf("container %s has no id yet", name)
	case c.ContainerID == *was.ContainerID:
		return judgeSame(c, was)
	default:
		return judgeOther(c, was), ""
	}
}

// judgeForeign is OpenKruise's rule for a record that OpenKruise wrote.
func judgeForeign(c *inplace.Container, was inplace.ContainerState) (evidence, string) {
	if c.ImageID != was.ImageID || imagediff.SameImage(c.Image, c.RunningImage) {
		return conclusive, ""
	}
	return none, fmt.Sprintf("container %s shows neither another imageID nor image %s, and its record, written by another controller, has no containerID", c.Name, c.Image)
}

// judgeSame is the rule for the container that was there before the patch.
func judgeSame(c *inplace.Container, was inplace.ContainerState) (evidence, string) {
	if imagediff.SameImage(was.Image, c.Image) {
		return inconclusive, ""
	}
	return none, fmt.Sprintf("container %s is still the one from before the patch to %s", c.Name, c.Image)
}

func judgeOther(c *inplace.Container, was inplace.ContainerState) evidence {
	otherImage := was.ImageID != "" && c.ImageID != "" && c.ImageID != was.ImageID
	if !was.Unsure && (otherImage || imagediff.SameImage(c.Image, c.RunningImage)) {
		return conclusive
	}
	return inconclusive
}

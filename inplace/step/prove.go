package step

import (
	"fmt"
	"maps"
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

// Reasons of a Proof that is not done.
const (
	// ReasonNotProven: the containers do not show what was asked for.
	ReasonNotProven = "NotProven"
	// ReasonResizeDeferred: the node has no room for the new cpu or memory now.
	ReasonResizeDeferred = "ResizeDeferred"
	// ReasonResizeInfeasible: the node can never hold it.
	ReasonResizeInfeasible = "ResizeInfeasible"
	// ReasonResizeRefused: the API server refuses it.
	ReasonResizeRefused = "ResizeRefused"
	// ReasonResizeFailing: the kubelet tries, and fails.
	ReasonResizeFailing = "ResizeFailing"
)

// Proof says whether a pod runs what it was asked to run.
type Proof struct {
	// Done is set when that is proven.
	Done bool
	// Missing is one sentence about what the proof lacks, Reason one CamelCase word.
	Missing string
	Reason  string
	// Resize is set when what is missing is cpu or memory.
	Resize bool
	// Settled is set when all containers run that were to be started anew, and no other will be: what is missing then is a
	// resize that restarts nothing, or one that is given up. The pod may serve meanwhile.
	Settled bool
	// Hopeless is set when waiting changes nothing: only a recreate, or another revision, brings the pod on.
	Hopeless bool
	// LookAgainIn is when time alone may complete it; 0: never.
	LookAgainIn time.Duration

	// batchDue and resizeDue say what is to be sent to get on.
	batchDue, resizeDue bool
}

// Prove judges a pod by its state annotation and what its status shows. A pod without a state was created with the
// template it names; it is proven once it has started. Of u only Undrained counts: whether the rest of an update in batches
// could be carried out on a pod without the gate.
//
// Per patched container, native sidecars too, after the kubelet has observed the patch's generation and with the container
// running:
//
//	another container than recorded, other imageID or the wanted name in status.image   proven at once
//	another container, neither (two tags of one digest, or a crash before it acted)     after 5 quiet seconds
//	the recorded container, recorded from the wanted image (rolled back in time)        after 5 quiet seconds
//	a record of OpenKruise (no containerID): other imageID, or the wanted name          proven at once
//	a kubelet that never sets observedGeneration                                        as above, after 5 quiet seconds
//
// And per resized container, with the latest generation observed: the spec and the running resources show what was asked,
// and where the resizePolicy says so the container is another one. A kubelet that reports no resources proves by 5 quiet
// seconds without a resize under way.
func Prove(p inplace.Pod, u Update, now time.Time) Proof {
	return prove(&p, &u, now)
}

func prove(p *inplace.Pod, u *Update, now time.Time) Proof {
	switch {
	case p.StateProblem != "":
		return Proof{Missing: p.StateProblem, Reason: ReasonNotProven}
	case p.Parked != nil:
		return proveParked(p, u, now)
	case p.State == nil:
		return created(p)
	}
	proof := proveBatch(p, now)
	if !p.State.Next() {
		return proof
	}
	return proveNext(p, u, proof)
}

// proveParked says why an update that OpenKruise parked is not done.
func proveParked(p *inplace.Pod, u *Update, now time.Time) Proof {
	proof := Proof{Missing: "another controller parked its update and its images are not patched yet", Reason: ReasonNotProven}
	why := ""
	switch {
	case p.Parked.Problem != "":
		why = "the update that another controller parked on it " + p.Parked.Problem
	case parkedHere(p):
		if obstacle := blocked(p, u); obstacle != "" {
			why = "another controller parked its update, and " + obstacle
		}
	}
	if why != "" {
		// What is parked was not patched: the pod may serve as it is, unless an earlier update of ours is under way.
		proof.Missing, proof.Hopeless = why, true
		proof.Settled = p.State == nil || p.State.Generation == 0
		if !proof.Settled {
			batch := proveBatch(p, now)
			proof.Settled, proof.LookAgainIn = batch.Done, batch.LookAgainIn
		}
	}
	return proof
}

// blocked says why what is begun cannot be finished.
func blocked(p *inplace.Pod, u *Update) string {
	rest := Update{Undrained: u.Undrained}
	w := due(p, &rest)
	return obstacle(p, &rest, &w)
}

// proveNext judges an update of which further containers are to be patched.
func proveNext(p *inplace.Pod, u *Update, proof Proof) Proof {
	if why := blocked(p, u); why != "" {
		return Proof{Missing: "the next containers of its update cannot be patched: " + why, Reason: ReasonNotProven, Hopeless: true}
	}
	if !proof.Done && (!proof.Settled || proof.resizeDue) {
		proof.Settled = false
		return proof
	}
	// A resize that waits for room, or is given up, does not hold up the containers that follow.
	next := Proof{Missing: "further containers of its update are patched next", Reason: ReasonNotProven, batchDue: true}
	if proof.Hopeless {
		next.Missing, next.Reason, next.Resize, next.Hopeless = proof.Missing, proof.Reason, true, true
	}
	if p.State.PreCheckBeforeNext == nil {
		return next
	}
	for _, name := range p.State.PreCheckBeforeNext.ContainersRequiredReady {
		if c := p.Container(name); c != nil && !c.Ready {
			next.Missing, next.batchDue = fmt.Sprintf("container %s must be ready before the next ones are patched", name), false
			return next
		}
	}
	return next
}

// created proves a pod none of whose containers was patched.
func created(p *inplace.Pod) Proof {
	if p.Phase == inplace.PhasePending {
		return Proof{Missing: "it has not started yet", Reason: ReasonNotProven}
	}
	return Proof{Done: true, Settled: true}
}

// proveBatch judges what was patched, whatever is to follow: first the containers, then their resources.
func proveBatch(p *inplace.Pod, now time.Time) Proof {
	images := proveImages(p, now)
	resources := proveResources(p, now)
	switch {
	case resources.Done:
		images.Settled = images.Done
		return images
	case resources.Hopeless || resources.resizeDue:
		// Said or sent at once, whatever the containers do.
		resources.Settled = images.Done && resources.Settled
		if !images.Done && (resources.LookAgainIn == 0 || images.LookAgainIn > 0 && images.LookAgainIn < resources.LookAgainIn) {
			// The pod may come back once its containers are proven, and by time alone nothing else tells.
			resources.LookAgainIn = images.LookAgainIn
		}
		return resources
	case !images.Done:
		return images
	default:
		return resources
	}
}

// proveImages judges the containers whose image was patched.
func proveImages(p *inplace.Pod, now time.Time) Proof {
	records := imageRecords(p)
	if len(records) == 0 {
		return created(p)
	}
	asked := p.State.Generation
	if asked == 0 || (p.Generation > 0 && asked > p.Generation) {
		// The patch did not raise the generation: admission on the member made the spec what it was. State and generation
		// are of one object, so the present one is what the kubelet has to reach.
		asked = p.Generation
	}
	if missing := unobserved(p, asked); missing != "" {
		return Proof{Missing: missing, Reason: ReasonNotProven}
	}
	needsQuiet := p.ObservedGeneration == 0
	for _, name := range sorted(records) {
		evidence, missing := judge(p, name, records[name])
		if missing != "" {
			return Proof{Missing: missing, Reason: ReasonNotProven}
		}
		needsQuiet = needsQuiet || evidence == inconclusive
	}
	if needsQuiet {
		return afterQuiet(p, now)
	}
	if missing := unprovableEnvironment(p); missing != "" {
		return Proof{Missing: missing, Reason: ReasonNotProven, Hopeless: !now.Before(p.State.UpdateTimestamp.Add(reportAfter))}
	}
	return Proof{Done: true}
}

// imageRecords are the records of containers whose image was patched. A container of the other list that keeps its image is
// judged by its resources alone.
func imageRecords(p *inplace.Pod) map[string]inplace.ContainerState {
	if len(p.State.OtherContainerStatuses) == 0 {
		return p.State.LastContainerStatuses
	}
	records := maps.Clone(p.State.LastContainerStatuses)
	for name, was := range p.State.OtherContainerStatuses {
		if c := p.Container(name); c == nil || c.Kind == inplace.KindSidecar || was.Unsure {
			records = put(records, name, was)
		}
	}
	return records
}

// unprovableEnvironment is about an update by OpenKruise that changed metadata which the environment reads: only its node
// agent knows whether the container has read it. Where OpenKruise gave the pod back it had its proof.
func unprovableEnvironment(p *inplace.Pod) string {
	if !p.State.UpdateEnvFromMetadata || p.State.Generation > 0 || p.Gate != inplace.GateFalse {
		return ""
	}
	return "another controller changed metadata that its environment reads, and only that controller's node agent can say whether it was read"
}

// unobserved says that the kubelet has not seen a generation; empty where it has, or never says.
func unobserved(p *inplace.Pod, asked int64) string {
	if p.ObservedGeneration > 0 && p.ObservedGeneration < asked {
		return fmt.Sprintf("the kubelet has observed generation %d of %d", p.ObservedGeneration, asked)
	}
	return ""
}

// afterQuiet wants the containers unchanged for a while, by our own clock.
func afterQuiet(p *inplace.Pod, now time.Time) Proof {
	left := quiet
	if !p.Seen.SameSince.IsZero() {
		left = p.Seen.SameSince.Add(quiet).Sub(now)
	}
	if left <= 0 {
		return Proof{Done: true}
	}
	return Proof{
		Reason:      ReasonNotProven,
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
func judge(p *inplace.Pod, name string, was inplace.ContainerState) (found evidence, missing string) {
	c := p.Container(name)
	switch {
	case c == nil:
		return none, fmt.Sprintf("container %s is not in the pod", name)
	case !c.Known:
		return none, fmt.Sprintf("container %s is not in the status yet", name)
	case !c.Running && c.Waiting != "":
		return none, fmt.Sprintf("container %s waits with %s for image %s", name, c.Waiting, c.Image)
	case !c.Running:
		return none, fmt.Sprintf("container %s is not running", name)
	case was.ContainerID == nil && p.State.Generation == 0 && p.Gate == inplace.GateTrue:
		// OpenKruise gave the pod back, so it had its proof, from its node agent.
		return conclusive, ""
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

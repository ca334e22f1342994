package plan

// Knobs are the numbers of a CloneSet, resolved.
type Knobs struct {
	Replicas, Partition int
	// MaxUnavailable and MaxSurge are those of the update strategy.
	MaxUnavailable, MaxSurge int
	// Paused stops surge, not scaling.
	Paused bool
	// CreateMaxUnavailable is scaleStrategy.maxUnavailable; negative: no bound.
	CreateMaxUnavailable int
	// ExcludePreparingDelete leaves pods in PreparingDelete out of the replicas.
	ExcludePreparingDelete bool
	// Rollback: pods beyond replicas-partition go back to the current revision.
	Rollback bool
	// MustRecreate bounds the surge of an update: a pod that is changed in place needs none (W6, N6).
	MustRecreate Recreates
}

// Recreates is how many pods would be recreated, and not changed in place, when they move.
type Recreates struct {
	// ToUpdate counts pods of other revisions, ToCurrent those of the update revision that could go back.
	ToUpdate, ToCurrent int32
}

// Side counts the pods of one side: on the update revision, or on any other.
type Side struct {
	// Total are the active pods.
	Total int
	// Preparing of them are in PreparingDelete. The other counts are without these.
	Preparing int
	// Asked to be deleted (specified-delete, podsToDelete). Unavailable and Young are without these.
	Asked int
	// Unavailable do not serve, or their lifecycle state is another than Normal. Young serve and wait for minReadySeconds.
	Unavailable, Young int
}

// Census counts the pods of a CloneSet. A pod that is about to be moved to the update revision (drained for it, or in
// PreparingUpdate or Updating) counts as new, as with OpenKruise's gate PreparingUpdateAsUpdate: what replaces another pod
// meanwhile then leaves its place in the grant to it (B063).
type Census struct {
	New, Old Side
}

// Diff is how the pods that exist differ from those that should. The names of OpenKruise's fields stand beside ours.
type Diff struct {
	// ScaleUp pods are missing (scaleUpNum), ScaleUpOld of them at the current revision (scaleUpNumOldRevision); ScaleUpLimit
	// may be created now (scaleUpLimit).
	ScaleUp, ScaleUpOld, ScaleUpLimit int
	// ScaleDown pods are too many (scaleDownNum), ScaleDownOld of them of other revisions (scaleDownNumOldRevision). Pods that
	// are asked to go are not among them.
	ScaleDown, ScaleDownOld int
	// DeleteReady is how many pods that serve may be deleted now (deleteReadyLimit); 0 when none is to be.
	DeleteReady int
	// Surge is how many pods more than replicas should exist (useSurge), SurgeOld of them at the current revision
	// (useSurgeOldRevision).
	Surge, SurgeOld int
	// Update is how many pods should move to the update revision, negative: back (updateNum). UpdateMaxUnavailable is how many
	// may be unavailable meanwhile. Both are OpenKruise's and only shown: who moves is decided by inplace/plan.
	Update, UpdateMaxUnavailable int
}

// Numbers compares what exists with what should, by the rules of OpenKruise (reference/kruise.md 3.1) with two exceptions:
// an update surges only for pods that must be recreated (W6), and pods that wait for minReadySeconds hold up no scale-in
// (W13).
//
// Worked example, replicas 5, partition 3, maxUnavailable 1, maxSurge 1, five old pods, ReCreate: two pods are to be moved
// and none is there that could, so one surge pod is missing; when it is there, and ready, one old pod goes.
func Numbers(k Knobs, c Census) Diff {
	var d Diff
	old, fresh := c.Old.Total, c.New.Total
	total := old + fresh
	asked := c.Old.Asked + c.New.Asked
	preparing := c.Old.Preparing + c.New.Preparing
	oldDiff := old - c.Old.Preparing - k.Partition
	newDiff := fresh - c.New.Preparing - (k.Replicas - k.Partition)
	if !k.Rollback {
		oldDiff, newDiff = max(oldDiff, 0), min(newDiff, 0)
	}
	unavailable := preparing + c.Old.Unavailable + c.New.Unavailable
	waiting := unavailable + c.Old.Young + c.New.Young

	d.Surge, d.SurgeOld = surge(k, c, waiting, oldDiff, newDiff)
	counted, countedOld := total, old
	if k.ExcludePreparingDelete {
		counted, countedOld = total-preparing, old-c.Old.Preparing
	}
	expected, expectedOld := k.Replicas+d.Surge, k.Partition+d.SurgeOld
	if n := expected - counted; n > 0 {
		d.ScaleUp, d.ScaleUpLimit = n, n
		d.ScaleUpOld = max(expectedOld-countedOld, 0)
		if k.CreateMaxUnavailable >= 0 {
			d.ScaleUpLimit = min(n, max(k.CreateMaxUnavailable-waiting, 0))
		}
	}
	if n := counted - asked - expected; n > 0 {
		d.ScaleDown = n
		d.ScaleDownOld = max(countedOld-c.Old.Asked-expectedOld, 0)
	}
	switch {
	case asked > 0:
		d.DeleteReady = max(k.MaxUnavailable+total-k.Replicas-waiting, 0)
	case d.ScaleDown > 0:
		d.DeleteReady = max(k.MaxUnavailable+total-k.Replicas-unavailable, 0)
	}
	d.Update = -newDiff
	if abs(oldDiff) <= abs(newDiff) {
		d.Update = oldDiff
	}
	if d.Update != 0 {
		d.UpdateMaxUnavailable = k.MaxUnavailable + total - k.Replicas
	}
	return d
}

// surge is the larger of what replacing pods that are asked to go needs, and what an update needs.
func surge(k Knobs, c Census, unavailable, oldDiff, newDiff int) (use, useOld int) {
	if k.MaxSurge <= 0 || k.Paused {
		return 0, 0
	}
	asked := c.Old.Asked + c.New.Asked
	scale := min(max(unavailable+asked-k.MaxUnavailable, 0), asked)
	scaleOld := max(scale-c.New.Asked, 0)
	update, updateOld := 0, 0
	switch {
	case oldDiff > 0 && newDiff < 0:
		update = min(oldDiff, -newDiff, int(k.MustRecreate.ToUpdate))
	case oldDiff < 0 && newDiff > 0:
		update = min(-oldDiff, newDiff, int(k.MustRecreate.ToCurrent))
		updateOld = update
	}
	if scale >= update {
		use = min(k.MaxSurge, scale)
		return use, min(use, scaleOld)
	}
	use = min(k.MaxSurge, update)
	return use, min(use, updateOld)
}

func abs(n int) int {
	return max(n, -n)
}

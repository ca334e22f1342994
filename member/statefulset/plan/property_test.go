package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

// anySet is any set in any state, with claims.
func anySet(tb testing.TB, t *rapid.T, partition int) Input {
	tb.Helper()
	management := rapid.SampledFrom([]string{"Parallel", "OrderedReady"}).Draw(t, "management")
	unordered := ""
	if management == "Parallel" && rapid.Bool().Draw(t, "unordered") {
		unordered = ", unorderedUpdate: {}"
	}
	text := fmt.Sprintf("{replicas: %d, podManagementPolicy: %s, ordinals: {start: %d}, reserveOrdinals: [%s], updateStrategy: {rollingUpdate: {partition: %d%s}}, "+
		"persistentVolumeClaimRetentionPolicy: {whenScaled: %s, whenDeleted: %s}, volumeClaimUpdateStrategy: {type: %s}, %s}",
		rapid.IntRange(0, 6).Draw(t, "replicas"), management, rapid.IntRange(0, 2).Draw(t, "start"),
		rapid.SampledFrom([]string{"", "1", "0, 2", `"1-3"`}).Draw(t, "reserved"), partition, unordered,
		rapid.SampledFrom([]string{"Retain", "Delete"}).Draw(t, "scaled"), rapid.SampledFrom([]string{"Retain", "Delete"}).Draw(t, "deleted"),
		rapid.SampledFrom([]string{"OnDelete", "OnPodRollingUpdate"}).Draw(t, "volumes"), dataTemplate)
	in := input(tb, text)
	in.Expandable = map[string]bool{"fast": true}
	for n := range int64(9) {
		if rapid.Bool().Draw(t, "there") {
			change := rapid.SampledFrom([]func(*inplace.Pod){func(*inplace.Pod) {}, down, young, asked, evicted, refused, terminating(-time.Hour), terminating(time.Minute), begunPod}).Draw(t, "state")
			in.Pods = append(in.Pods, pod(n, rapid.SampledFrom([]string{"r0", "r1", "r2"}).Draw(t, "revision"), change))
		}
		if rapid.Bool().Draw(t, "claim") {
			size := rapid.SampledFrom([]string{"1Gi", "2Gi", "3Gi"}).Draw(t, "size")
			change := rapid.SampledFrom([]func(*Claim){func(*Claim) {}, ofPod(n), ofSet, goes, someoneElse}).Draw(t, "owner")
			in.Claims = append(in.Claims, claim(n, size, size, change))
		}
	}
	return in
}

func begunPod(p *inplace.Pod) { down(p); p.Gate = inplace.GateFalse }

// TestTheOrderOfTheObservationDecidesNothing, and the same question has the same answer.
func TestTheOrderOfTheObservationDecidesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		in := anySet(t, rt, rapid.IntRange(0, 7).Draw(rt, "partition"))
		want := Scale(in)
		in.Pods, in.Claims = rapid.Permutation(in.Pods).Draw(rt, "pods"), rapid.Permutation(in.Claims).Draw(rt, "claims")
		if diff := cmp.Diff(want, Scale(in), cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// TestMonotone: a smaller partition never makes the revision of a new pod older, and deletes nobody else.
func TestMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		more := anySet(t, rt, rapid.IntRange(1, 7).Draw(rt, "partition"))
		less := more
		less.Intent.Partition = rapid.Int32Range(0, more.Intent.Partition).Draw(rt, "smaller")
		if newScaling(more).crowded() || newScaling(less).crowded() {
			return // Who has no slot makes room then, as the grant says.
		}
		a, b := Scale(more), Scale(less)
		// What takes the place of an updated pod that goes is created after it.
		later := slices.ContainsFunc(b.Deletes, func(x inplace.Delete) bool {
			return slices.ContainsFunc(less.Pods, func(p inplace.Pod) bool { return p.Name == x.Name && p.Revision == "r2" })
		})
		if len(a.Creates) != len(b.Creates) && !later || deleted(a.Deletes) != deleted(b.Deletes) {
			rt.Fatalf("creates %q and %q, deletes %q and %q", created(a), created(b), deleted(a.Deletes), deleted(b.Deletes))
		}
		updated := func(r Result) (n int) {
			for _, c := range r.Creates {
				if c.Revision == "r2" {
					n++
				}
			}
			return n
		}
		revisions := map[string]string{}
		for _, c := range b.Creates {
			revisions[c.Object.GetName()] = c.Revision
		}
		for _, c := range a.Creates {
			if c.Revision == "r2" && revisions[c.Object.GetName()] != "r2" && !more.Strategy.Unordered {
				rt.Fatalf("partition %d: %s, partition %d: %s", more.Intent.Partition, created(a), less.Intent.Partition, created(b))
			}
		}
		if updated(a) > updated(b) {
			rt.Fatalf("partition %d: %s, partition %d: %s", more.Intent.Partition, created(a), less.Intent.Partition, created(b))
		}
	})
}

// TestAHoldLeaksNothing: under the hub's hold nothing is created on the update revision, whatever the scaling.
func TestAHoldLeaksNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		in := anySet(t, rt, 2147483647)
		r, d := next(in)
		for _, c := range r.Creates {
			if c.Revision != "r1" {
				rt.Fatalf("%s", created(r))
			}
		}
		if got := moving(r, d); got != "" || r.AbsentNew != 0 {
			rt.Fatalf("moves %q, %d absent", got, r.AbsentNew)
		}
	})
}

// TestWhatAnyDecisionKeeps: the judge of the random stories on any state, also on those that no story comes to.
func TestWhatAnyDecisionKeeps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		in := anySet(t, rt, rapid.IntRange(0, 7).Draw(rt, "partition"))
		r, d := next(in)
		if err := check(in, r, d, int(in.Intent.Grant())); err != nil {
			rt.Fatal(err)
		}
		for _, x := range r.Deletes {
			if slices.ContainsFunc(in.Pods, func(p inplace.Pod) bool { return p.Name == x.Name && p.Phase == inplace.PhaseTerminating }) {
				rt.Fatalf("%s is terminating and deleted again", x.Name)
			}
		}
		for _, p := range in.Pods {
			state, _ := hooks.Of(p.Labels)
			if goes := slices.Contains(r.Leaving, p.Name); goes != (p.Active() && (!newView(in, r, d).wanted(p.Name) || p.SpecifiedDelete || state == hooks.PreparingDelete || slices.ContainsFunc(r.Deletes, func(x inplace.Delete) bool { return x.Name == p.Name }))) {
				rt.Fatalf("%s leaving: %t", p.Name, goes)
			}
		}
	})
}

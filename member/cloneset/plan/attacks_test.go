package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/hooks"
)

// R1: docs/cloneset.md: podsToDelete at the same replicas keeps the claims for the next pod, which waits.
func TestR1PodsToDeleteKeepsTheClaims(t *testing.T) {
	in := withVolumes(t, strategies{replicas: 3, unavailable: 1, equal: true}.input(t, "3N"), true)
	in.Pods[0].Phase, in.Pods[0].GoneBy = inplace.PhaseTerminating, in.Now.Add(30*time.Second)
	in.Strategy.PodsToDelete = []string{in.Pods[0].Name}
	if got := Scale(in); told(got) != "Claim 1" {
		t.Errorf("%q %v, want Claim 1: the next pod waits for the claims", told(got), idsOf(got))
	}
	// Gone: the name stands in the list until this pass takes it out; a pod made now would be deleted at once.
	in.Pods = in.Pods[1:]
	if got := Scale(in); told(got) != "Claim 1" || len(got.NoSuchPods) != 1 {
		t.Errorf("%q %v %v", told(got), idsOf(got), got.NoSuchPods)
	}
	in.Strategy.PodsToDelete = nil
	if diff := cmp.Diff([]string{ID("uid", 0)}, idsOf(Scale(in))); diff != "" {
		t.Error(diff)
	}
}

// R2: a release with surge is stopped by raising the partition: nobody asked to scale in.
func TestR2SurgeSurplusKeepsClaims(t *testing.T) {
	// Pod 3 is new and has the claims of an old pod that was recreated (ID 0); pod 2 is the surge pod with fresh claims.
	in := withVolumes(t, strategies{replicas: 3, unavailable: 0, surge: 1, partition: 2, noRollback: true}.input(t, "2O 2N"), true)
	for _, d := range Scale(in).Deletes {
		if len(d.Claims) > 0 {
			t.Errorf("%s is deleted with its claims %v; replicas never changed", d.Name, d.Claims)
		}
	}
}

// R3: specified-delete with surge, the surge pod was made while another pod was down: nobody asked to scale in.
func TestR3ReplacedUnderSurgeKeepsClaims(t *testing.T) {
	s := strategies{replicas: 3, unavailable: 1, surge: 1, equal: true}
	in := withVolumes(t, s.input(t, "Nd N Nn"), true)
	if got := told(Scale(in)); got != "create n; Budget 1" {
		t.Fatalf("%q", got)
	}
	in = withVolumes(t, s.input(t, "Nd 3N"), true)
	for _, d := range Scale(in).Deletes {
		if len(d.Claims) > 0 {
			t.Errorf("%s is deleted with its claims; replicas is 3 all along and it is replaced", d.Name)
		}
	}
}

// R4: scale-in 3 to 2, hooked and marked not ready; replicas is 3 again; the hook lets go: the pod is replaced.
func TestR4WantedAgainKeepsClaims(t *testing.T) {
	in := withVolumes(t, strategies{replicas: 3, unavailable: 1, equal: true, life: preDelete(true)}.input(t, "2N Nn"), true)
	in.Pods[2].Labels[appsv1alpha1.LabelLifecycleState] = string(hooks.PreparingDelete)
	in.Pods[2].Gate = inplace.GateFalse
	for _, d := range Scale(in).Deletes {
		if len(d.Claims) > 0 {
			t.Errorf("%s is deleted with its claims; 3 are wanted and the next pod is to have them", d.Name)
		}
	}
}

// R7: a failed pod whose finalizer waits for PreparingDelete is deleted past its hook.
func TestR7TerminalPodsHook(t *testing.T) {
	in := strategies{replicas: 3, unavailable: 1, equal: true, life: preDelete(false)}.input(t, "3N")
	in.Pods[0].Phase, in.Pods[0].Finalizers = inplace.PhaseTerminal, []string{"fin"}
	t.Log(told(Scale(in)))
}

// R11: a copy of a pod (kubectl debug --copy-to --keep-labels, no controller, so it is adopted) has the same id: it goes as one
// too many, and must not take the claims of the pod that it was copied from.
func TestR11CopyOfAPodTakesNoClaims(t *testing.T) {
	in := withVolumes(t, strategies{replicas: 3, unavailable: 1, equal: true}.input(t, "3N"), true)
	twin := in.Pods[0]
	twin.Name, twin.UID, twin.Created = "web-copy", "uid-copy", in.Now
	twin.ReadySince = in.Now
	in.Pods = append(in.Pods, twin)
	got := Scale(in)
	for _, d := range got.Deletes {
		if len(d.Claims) > 0 {
			t.Errorf("%s is deleted with claim %s, which %s uses too", d.Name, d.Claims[0].Name, in.Pods[0].Name)
		}
	}
}

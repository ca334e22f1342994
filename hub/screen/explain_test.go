package screen_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/screen"
)

// suffering is a release with a canary whose pods do not come up, a member that is not heard from, and a held subset.
func suffering() *appsv1alpha1.UnitedDeployment {
	ud := canary()
	eu, us, ap := &ud.Status.SubsetStatuses[0], &ud.Status.SubsetStatuses[1], &ud.Status.SubsetStatuses[2]
	eu.State, eu.UpdatedReadyReplicas, eu.ReadyReplicas, eu.Kind = "Updating", 0, 6, "CloneSet.apps.kruise.io"
	eu.Message = "0 of 2 granted pods updated; 2 pods broken since 2026-11-29T14:05:00Z, ImagePullBackOff: the image app:v9 of container web cannot be pulled"
	eu.Failing = []appsv1alpha1.PodProblem{{
		Reason: "ImagePullBackOff", Message: "the image app:v9 of container web cannot be pulled", Count: 5,
		Since: new(stamp(5, 0)), Pods: []string{"web-eu-abcde-x7k2p", "web-eu-abcde-z9q4t"},
	}}
	us.State, us.Stale, us.HeardAt, us.Report = "Stale", true, new(stamp(2, 0)), nil
	us.Message = "member us-1 is not heard from since 2026-11-29T14:02:00Z (it does not answer); it keeps its replicas and its grant, and nobody waits for it"
	ap.Message = "0 of 8 updated, the rest is held (partitions has 100% for it): kubectl patch ud web -n shop --type merge -p '{\"spec\":{\"updateStrategy\":{\"manualUpdate\":{\"partitions\":{\"ap\":0}}}}}'; hpa scales it to 9 on the member, so its partition is a percent"
	ud.Status.Conditions = append(ud.Status.Conditions, metav1.Condition{
		Type: appsv1alpha1.ConditionPodsFailing, Status: metav1.ConditionTrue, LastTransitionTime: stamp(5, 0),
		Message: "eu: 5 pods broken since 2026-11-29T14:05:00Z, ImagePullBackOff: the image app:v9 of container web cannot be pulled",
	})
	return ud
}

func TestExplain(t *testing.T) {
	for name, tc := range map[string]struct {
		ud     *appsv1alpha1.UnitedDeployment
		subset string
	}{
		"explain":            {ud: suffering()},
		"explain-one-subset": {ud: suffering(), subset: "ap"},
		"explain-current": {ud: func() *appsv1alpha1.UnitedDeployment {
			ud := canary()
			ud.Status.CurrentRevision, ud.Status.Conditions = ud.Status.UpdatedRevision, nil
			ud.Status.UpdatedReplicas, ud.Status.UpdatedReadyReplicas = 24, 24
			for i := range ud.Status.SubsetStatuses {
				s := &ud.Status.SubsetStatuses[i]
				s.State, s.Message, s.UpdatedReplicas, s.UpdatedReadyReplicas = "Current", "", 8, 8
			}
			return ud
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := screen.Explain(tc.ud, nil, tc.subset, at(10, 0))
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, got.Render())
		})
	}
	if _, err := screen.Explain(suffering(), nil, "nowhere", at(10, 0)); err == nil || !strings.Contains(err.Error(), "no subset nowhere") {
		t.Errorf("a subset that there is not: %v", err)
	}
}

// TestEveryWaitHasAName: each state that waits names an object, a time and a command (rollout-ux 7.6, 9).
func TestEveryWaitHasANameATimeAndACommand(t *testing.T) {
	for _, state := range []string{
		"Updating", "Returning", "Starting", "Scaling", "Held", "Creating", "Waiting", "Stale", "Conflict", "Refused", "NotAllowed",
		"NamespaceMissing", "NotServed", "Leaving", "Stuck", "Unselected", "Joining", "Unscheduled",
	} {
		ud := canary()
		s := &ud.Status.SubsetStatuses[0]
		s.State, s.Message = state, "because"
		got, err := screen.Explain(ud, nil, "eu", at(10, 0))
		if err != nil || len(got.Waits) != 1 {
			t.Fatalf("%s: %v %+v", state, err, got)
		}
		w := got.Waits[0]
		if w.Member == "" || w.Since != "3m" || !strings.HasPrefix(w.Command, "kubectl ") || w.For != "because" {
			t.Errorf("%s: %+v", state, w)
		}
	}
}

func TestExplainObeysNoTerminalCodes(t *testing.T) {
	ud := suffering()
	ud.Status.SubsetStatuses[0].Failing[0].Message = "\x1b[2Jgone\u202e"
	ud.Status.SubsetStatuses[0].Failing[0].Pods = []string{"\x1b]0;x\a"}
	ud.Status.SubsetStatuses[1].Message = "\x1b[31mred"
	got, err := screen.Explain(ud, nil, "", at(10, 0))
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(got.Render(), "\x1b\a\u202e") {
		t.Errorf("%q", got.Render())
	}
}

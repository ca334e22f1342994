package screen_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/hub/screen"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func at(minute, second int) time.Time {
	return time.Date(2026, 11, 29, 14, minute, second, 0, time.UTC)
}

func stamp(minute, second int) metav1.Time { return metav1.NewTime(at(minute, second)) }

func subset(name, member string, granted, updated int32) appsv1alpha1.SubsetStatus {
	s := appsv1alpha1.SubsetStatus{
		Name: name, Cluster: member, Workload: "web-" + name + "-abcde",
		Replicas: 8, DesiredReplicas: 8, ReadyReplicas: 8, Partition: 8 - granted, Granted: granted,
		UpdatedReplicas: updated, UpdatedReadyReplicas: updated, State: "Held", Message: "the rest is held (partitions has 100% for it): kubectl patch ud web -n shop ...",
		Report: &appsv1alpha1.WorkloadReport{UpdatedInPlace: updated}, Since: new(stamp(7, 0)),
	}
	return s
}

// canary is a release held after its canary.
func canary() *appsv1alpha1.UnitedDeployment {
	return &appsv1alpha1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 3, CreationTimestamp: stamp(0, 0)},
		Status: appsv1alpha1.UnitedDeploymentStatus{
			ObservedGeneration: 3, Replicas: 24, ReadyReplicas: 24, UpdatedReplicas: 2, UpdatedReadyReplicas: 2,
			UpdatedInPlace: 2, CurrentRevision: "web-7f3c9d2b1a", UpdatedRevision: "web-9c1e2",
			SubsetStatuses: []appsv1alpha1.SubsetStatus{
				subset("eu", "eu-1", 2, 2), subset("us", "us-1", 0, 0), subset("ap", "ap-1", 0, 0),
			},
			Conditions: []metav1.Condition{
				{Type: appsv1alpha1.ConditionHeld, Status: metav1.ConditionTrue, Message: "eu: 2 of 8 granted; us: 0 of 8 granted; go on with: kubectl patch ud web ...", LastTransitionTime: stamp(9, 0)},
				{Type: appsv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Message: "2 of 24 updated", LastTransitionTime: stamp(9, 0)},
			},
		},
	}
}

func TestTree(t *testing.T) {
	tests := map[string]struct {
		change func(*appsv1alpha1.UnitedDeployment)
		frozen *corev1.ConfigMap
		style  screen.Style
		state  screen.State
	}{
		"held-at-a-canary": {state: screen.StateHeld},
		"held-wide":        {state: screen.StateHeld, style: screen.Style{Wide: true}},
		"held-80-columns":  {state: screen.StateHeld, style: screen.Style{Width: 80}},
		"held-coloured":    {state: screen.StateHeld, style: screen.Style{Color: true}},
		"current": {state: screen.StateCurrent, change: func(ud *appsv1alpha1.UnitedDeployment) {
			s := &ud.Status
			s.CurrentRevision, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedInPlace = s.UpdatedRevision, 24, 24, 24
			s.Conditions = nil
			for i := range s.SubsetStatuses {
				s.SubsetStatuses[i] = subset(s.SubsetStatuses[i].Name, s.SubsetStatuses[i].Cluster, 8, 8)
				s.SubsetStatuses[i].State, s.SubsetStatuses[i].Message = "Current", ""
			}
		}},
		"a-change-of-kind": {state: screen.StateHeld, change: func(ud *appsv1alpha1.UnitedDeployment) {
			for i := range ud.Status.SubsetStatuses {
				ud.Status.SubsetStatuses[i].Kind = "CloneSet.apps.kruise.io"
			}
			eu := &ud.Status.SubsetStatuses[0]
			eu.Kind, eu.State, eu.Message = "Deployment.apps", "Current", ""
		}},
		"first-install-needs-no-grant": {state: screen.StateCurrent, change: func(ud *appsv1alpha1.UnitedDeployment) {
			s := &ud.Status
			s.CurrentRevision, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedInPlace, s.Conditions = s.UpdatedRevision, 24, 24, 0, nil
			for i := range s.SubsetStatuses {
				s.SubsetStatuses[i] = subset(s.SubsetStatuses[i].Name, s.SubsetStatuses[i].Cluster, 0, 8)
				s.SubsetStatuses[i].State, s.SubsetStatuses[i].Message, s.SubsetStatuses[i].Report.UpdatedInPlace = "Current", "", 0
			}
		}},
		"updating-stale-and-broken": {state: screen.StateUpdating, change: func(ud *appsv1alpha1.UnitedDeployment) {
			eu, us := &ud.Status.SubsetStatuses[0], &ud.Status.SubsetStatuses[1]
			eu.State, eu.UpdatedReadyReplicas, eu.ReadyReplicas = "Updating", 1, 7
			eu.Message = "1 of 2 granted pods updated; 1 pod broken since 2026-11-29T14:05:00Z, ImagePullBackOff: registry says 403"
			eu.Failing = []appsv1alpha1.PodProblem{{Reason: "ImagePullBackOff", Message: "registry says 403", Count: 1, Since: new(stamp(5, 0)), Pods: []string{"web-eu-abcde-x7k2p"}}}
			us.State, us.Message, us.Stale, us.HeardAt, us.Report = "Stale", "us-1 does not answer", true, new(stamp(2, 0)), nil
			ud.Status.Conditions = append(ud.Status.Conditions, metav1.Condition{
				Type: appsv1alpha1.ConditionStale, Status: metav1.ConditionTrue, Message: "us: us-1 was last heard at 14:02:00", LastTransitionTime: stamp(3, 0),
			})
		}},
		"frozen": {state: screen.StateHeld, frozen: &corev1.ConfigMap{
			Data: map[string]string{screen.FreezeWho: "anna", screen.FreezeWhen: at(7, 0).Format(time.RFC3339), screen.FreezeWhy: "incident 991"},
		}},
		"removal-held-is-blocked": {state: screen.StateBlocked, change: func(ud *appsv1alpha1.UnitedDeployment) {
			ud.Status.Conditions = append(ud.Status.Conditions, metav1.Condition{
				Type: appsv1alpha1.ConditionRemovalHeld, Status: metav1.ConditionTrue, Message: "ap and us leave at once", LastTransitionTime: stamp(9, 0),
			})
		}},
		"pending-before-the-hub-has-seen-it": {state: screen.StatePending, change: func(ud *appsv1alpha1.UnitedDeployment) {
			ud.Generation++
		}},
		"hostile-text": {state: screen.StateHeld, change: func(ud *appsv1alpha1.UnitedDeployment) {
			ud.Status.SubsetStatuses[0].Message = "\x1b[2J\x1b]0;owned\arm -rf\n\u202etxt.exe"
			ud.Status.Conditions[0].Message = "line\r\nline\x00"
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ud := canary()
			if tc.change != nil {
				tc.change(ud)
			}
			tree := screen.TreeOf(ud, screen.FreezeOf(tc.frozen, at(10, 0)), at(10, 0))
			if tree.State != tc.state {
				t.Errorf("state %s, want %s", tree.State, tc.state)
			}
			golden(t, name, tree.Render(tc.style))
		})
	}
}

func TestChangesNameOnlyWhatDiffers(t *testing.T) {
	before := screen.TreeOf(canary(), nil, at(10, 0))
	if lines := screen.Changes(&before, screen.TreeOf(canary(), nil, at(11, 0)), at(11, 0)); len(lines) > 0 {
		t.Errorf("nothing but time changed, got %q", lines)
	}
	ud := canary()
	ud.Status.SubsetStatuses[0].UpdatedReplicas = 1
	var out bytes.Buffer
	for _, line := range append(screen.Changes(nil, before, at(10, 0)), screen.Changes(&before, screen.TreeOf(ud, nil, at(10, 5)), at(10, 5))...) {
		out.WriteString(line + "\n")
	}
	golden(t, "changes", out.String())
}

func TestAStaleRowIsNoChangeEachSecond(t *testing.T) {
	stale := canary()
	stale.Status.SubsetStatuses[1].Stale, stale.Status.SubsetStatuses[1].HeardAt = true, new(stamp(9, 0))
	before := screen.TreeOf(stale, nil, at(10, 0))
	if lines := screen.Changes(&before, screen.TreeOf(stale, nil, at(10, 1)), at(10, 1)); len(lines) > 0 {
		t.Errorf("only the age changed, got %q", lines)
	}
}

func members() []fleetv1alpha1.MemberCluster {
	good := func(kind string) metav1.Condition { return metav1.Condition{Type: kind, Status: metav1.ConditionTrue} }
	return []fleetv1alpha1.MemberCluster{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "eu-1", CreationTimestamp: stamp(0, 0)},
			Status: fleetv1alpha1.MemberClusterStatus{
				Identity: "uid-eu", Server: "https://eu-1.example", KubernetesVersion: "v1.37.2", LastHeardAt: new(stamp(9, 56)),
				WorkloadKinds: []fleetv1alpha1.WorkloadKind{{Kind: "CloneSet.apps.kruise.io", Reconciler: "Underway", Version: "v0.1.0"}},
				HubID:         "0123456789abcdef",
				Conditions:    []metav1.Condition{good(fleetv1alpha1.ConditionReady), good(fleetv1alpha1.ConditionReachable)},
			},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "us-1", CreationTimestamp: stamp(5, 0)},
			Status: fleetv1alpha1.MemberClusterStatus{
				KubernetesVersion: "v1.36.0", LastHeardAt: new(stamp(2, 0)),
				Conditions: []metav1.Condition{
					{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Message: "it does not answer"},
					{Type: fleetv1alpha1.ConditionReachable, Status: metav1.ConditionFalse},
				},
			},
		},
		{ObjectMeta: metav1.ObjectMeta{Name: "new", CreationTimestamp: stamp(9, 59)}},
	}
}

func TestTables(t *testing.T) {
	for name, tc := range map[string]struct {
		table     *metav1.Table
		wide      bool
		namespace bool
	}{
		"clusters":      {table: screen.ClusterTable(members(), at(10, 0))},
		"clusters-wide": {table: screen.ClusterTable(members(), at(10, 0)), wide: true},
		"list":          {table: screen.ListTable([]appsv1alpha1.UnitedDeployment{*canary()}, at(10, 0)), namespace: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			opts := printers.PrintOptions{Wide: tc.wide, WithNamespace: tc.namespace}
			if err := printers.NewTablePrinter(opts).PrintObj(tc.table, &out); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

func TestCanvasTakesTheRoomOfWhatItDrew(t *testing.T) {
	var c screen.Canvas
	if got, want := c.Draw("a\nb\n", 80, 24), "a\nb\n"; got != want {
		t.Errorf("first drawing %q, want %q", got, want)
	}
	if got, want := c.Draw("1234567890\n", 4, 24), "\x1b[2A\r\x1b[J1234567890\n"; got != want {
		t.Errorf("second drawing %q, want %q", got, want)
	}
	if got, want := c.Draw("a\nb\nc\nd\n", 80, 4), "\x1b[3A\r\x1b[Ja\nb\n… 2 more lines\n"; got != want {
		t.Errorf("a wrapped line takes three, and too long a text is cut: %q, want %q", got, want)
	}
}

func TestConfirmable(t *testing.T) {
	held := func(kind, message string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Message: message}}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		seen, want string
	}{
		"the value the hub names": {
			conditions: held("RemovalHeld", "ap,us leave at once: kubectl underway confirm ud web -n shop (annotation fleet.underway.dev/confirm: RemovalHeld/ap,us)"),
			want:       "RemovalHeld/ap,us",
		},
		"a value of several words": {
			conditions: held("RemovalHeld", "x (annotation fleet.underway.dev/confirm: RemovalHeld/a b (c))"), want: "RemovalHeld/a b (c)",
		},
		"the value seen, where the hub names none": {conditions: held("RemovalHeld", "x"), seen: "uid-2", want: "RemovalHeld/uid-2"},
		"nothing to be told":                       {conditions: held("RemovalHeld", "x")},
		"another condition is not confirmed":       {conditions: held("Conflict", "(annotation fleet.underway.dev/confirm: Conflict/x)")},
		"a message about another condition is not believed": {
			conditions: held("RemovalHeld", "(annotation fleet.underway.dev/confirm: IdentityChanged/x)"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := screen.Confirmable(tc.conditions, []string{"RemovalHeld"}, tc.seen)
			if got.Value != tc.want || ok != (tc.want != "") {
				t.Errorf("got %q, %v; want %q", got.Value, ok, tc.want)
			}
		})
	}
}

package root_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/root"
)

// world is a hub in memory.
type world struct {
	env         *cli.Env
	out, errOut *bytes.Buffer
	hub         client.WithWatch
}

func newWorld(t *testing.T, stdin string, objects ...client.Object) *world {
	t.Helper()
	w := &world{out: &bytes.Buffer{}, errOut: &bytes.Buffer{}}
	w.hub = fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(objects...).WithStatusSubresource(&appsv1alpha1.UnitedDeployment{}).Build()
	w.env = &cli.Env{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: w.out, ErrOut: w.errOut},
		Clock:     clocktesting.NewFakeClock(time.Date(2026, 11, 29, 14, 10, 0, 0, time.UTC)),
		Connect:   func(*rest.Config) (client.WithWatch, error) { return w.hub, nil },
		Config: func(*genericclioptions.ConfigFlags) (*rest.Config, error) {
			return &rest.Config{Host: "https://hub.example"}, nil
		},
	}
	return w
}

func (w *world) run(t *testing.T, args ...string) int {
	t.Helper()
	return root.Run(t.Context(), w.env, args)
}

func TestErrorsNameTheFlagAndTheRemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"an unknown flag":           {[]string{"get", "ud", "--frob"}, []string{"unknown flag: --frob", "usage: kubectl underway get ud", "--help"}},
		"get without a noun":        {[]string{"get"}, []string{"clusters or ud"}},
		"an unknown format":         {[]string{"get", "clusters", "-o", "picture"}, []string{"--output", "wide"}},
		"names with a selector":     {[]string{"get", "clusters", "a", "-l", "x=y"}, []string{"--selector"}},
		"all namespaces and a name": {[]string{"get", "ud", "web", "-A"}, []string{"--all-namespaces", "--namespace"}},
		"watch without a name":      {[]string{"get", "ud", "-w"}, []string{"--watch"}},
		"watch as json":             {[]string{"get", "ud", "web", "-w", "-o", "json"}, []string{"--watch", "--output"}},
		"two names":                 {[]string{"get", "ud", "a", "b"}, []string{"accepts at most 1 arg"}},
		"freeze one thing":          {[]string{"freeze"}, []string{"--all is required"}},
		"unfreeze one thing":        {[]string{"unfreeze"}, []string{"--all is required"}},
		"confirm without a noun":    {[]string{"confirm"}, []string{"cluster NAME, hub, ud NAME or KIND NAME"}},
		"confirm what is not there": {[]string{"confirm", "cluster", "nobody"}, []string{"not found"}},
		"join without a name":       {[]string{"join"}, []string{"accepts 1 arg", "join NAME --kubeconfig FILE"}},
		"join without a kubeconfig": {[]string{"join", "eu-1"}, []string{"--kubeconfig is required", "MEMBER", "--hub-kubeconfig"}},
		"join without namespaces":   {[]string{"join", "eu-1", "--kubeconfig", "f", "--no-agent"}, []string{"--namespaces a,b or --all-namespaces"}},
		"join with both":            {[]string{"join", "eu-1", "--kubeconfig", "f", "--no-agent", "--all-namespaces", "--namespaces", "a"}, []string{"either --namespaces"}},
		"join without an agent":     {[]string{"join", "eu-1", "--kubeconfig", "f", "--all-namespaces"}, []string{"--agent-image", "--no-agent"}},
		"join with a bad name":      {[]string{"join", "Eu_1", "--kubeconfig", "f", "--all-namespaces", "--no-agent"}, []string{"DNS label"}},
		"join with a bad namespace": {[]string{"join", "eu-1", "--kubeconfig", "f", "--namespaces", "A", "--no-agent"}, []string{"--namespaces", `"A"`}},
		"join with a bad selector":  {[]string{"join", "eu-1", "--kubeconfig", "f", "--all-namespaces", "--no-agent", "--allow-namespaces", "!!"}, []string{"--allow-namespaces"}},
		"unjoin without a file":     {[]string{"unjoin", "eu-1"}, []string{"--kubeconfig FILE", "--force"}},
		"drain what is lost":        {[]string{"unjoin", "eu-1", "--force", "--drain"}, []string{"--drain", "--force"}},
		"drain and orphan":          {[]string{"unjoin", "eu-1", "--kubeconfig", "f", "--drain", "--orphan"}, []string{"--drain and --orphan exclude"}},
		"a timeout of nothing":      {[]string{"unjoin", "eu-1", "--kubeconfig", "f", "--timeout", "1m"}, []string{"--timeout is for --drain"}},
		"completion for no shell":   {[]string{"completion", "tcsh"}, []string{"tcsh", "bash"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			if code := w.run(t, tc.args...); code != 1 {
				t.Errorf("exit %d, want 1", code)
			}
			for _, want := range append(tc.says, "error: ") {
				if !strings.Contains(w.errOut.String(), want) {
					t.Errorf("it does not say %q:\n%s", want, w.errOut)
				}
			}
			if w.out.Len() > 0 {
				t.Errorf("an error belongs on stderr, stdout has:\n%s", w.out)
			}
		})
	}
}

// TestExamplesAreUnderstood: every example of every help text parses, and names flags that exist.
func TestExamplesAreUnderstood(t *testing.T) {
	seen := 0
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			line = strings.TrimSpace(line)
			words := strings.Fields(line)
			if len(words) < 3 || words[0] != "kubectl" || words[1] != "underway" {
				continue
			}
			if i := slices.Index(words, ">"); i > 0 {
				words = words[:i]
			}
			seen++
			found, rest, err := root.New(newWorld(t, "").env).Find(words[2:])
			if err != nil || found.CommandPath() != cmd.CommandPath() {
				t.Errorf("%q is %q's example and runs %q (%v)", line, cmd.CommandPath(), found.CommandPath(), err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", line, err)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root.New(newWorld(t, "").env))
	if seen < 12 {
		t.Errorf("only %d examples were found", seen)
	}
}

func TestHelpSaysKubectlUnderway(t *testing.T) {
	w := newWorld(t, "")
	if code := w.run(t, "join", "--help"); code != 0 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"kubectl underway join NAME", "kubeconfig file of the MEMBER", "kubeconfig file of the HUB"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("help does not say %q:\n%s", want, w.out)
		}
	}
}

func TestFreezeSaysWhoWhenWhy(t *testing.T) {
	w := newWorld(t, "")
	if code := w.run(t, "freeze", "--all", "--reason", "incident 991"); code != 0 {
		t.Fatal(w.errOut)
	}
	cm := &corev1.ConfigMap{}
	if err := w.hub.Get(t.Context(), client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: appsv1alpha1.ConfigMapFreeze}, cm); err != nil {
		t.Fatal(err)
	}
	if cm.Data["when"] != "2026-11-29T14:10:00Z" || cm.Data["why"] != "incident 991" {
		t.Errorf("got %v", cm.Data)
	}
	if code := w.run(t, "freeze", "--all"); code != 0 || !strings.Contains(w.out.String(), "already frozen") {
		t.Errorf("exit %d: %s", code, w.out)
	}
	if code := w.run(t, "unfreeze", "--all"); code != 0 || !strings.Contains(w.out.String(), "unfrozen") {
		t.Errorf("exit %d: %s", code, w.out)
	}
}

func held() *appsv1alpha1.UnitedDeployment {
	return &appsv1alpha1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid"},
		Status: appsv1alpha1.UnitedDeploymentStatus{Conditions: []metav1.Condition{{
			Type: appsv1alpha1.ConditionRemovalHeld, Status: metav1.ConditionTrue, Reason: "NotConfirmed",
			Message: "ap,us leave at once: kubectl underway confirm ud web -n default (annotation fleet.underway.dev/confirm: RemovalHeld/ap,us)",
		}}},
	}
}

func TestConfirmAsksAndWritesWhatWasShown(t *testing.T) {
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		want  string
		code  int
	}{
		"yes":            {stdin: "y\n", want: "RemovalHeld/ap,us"},
		"no":             {stdin: "n\n", code: 1},
		"end of input":   {stdin: "", code: 1},
		"without asking": {args: []string{"--yes"}, want: "RemovalHeld/ap,us"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.stdin, held())
			if code := w.run(t, append([]string{"confirm", "ud", "web", "-n", "default"}, tc.args...)...); code != tc.code {
				t.Errorf("exit %d, want %d: %s", code, tc.code, w.errOut)
			}
			if !strings.Contains(w.errOut.String(), "ap,us leave at once") {
				t.Errorf("it does not show what it accepts: %s", w.errOut)
			}
			got := &appsv1alpha1.UnitedDeployment{}
			if err := w.hub.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, got); err != nil {
				t.Fatal(err)
			}
			if value := got.Annotations[appsv1alpha1.AnnotationConfirm]; value != tc.want {
				t.Errorf("confirmed %q, want %q", value, tc.want)
			}
		})
	}
}

func TestConfirmHubReachesEveryMemberThatSaysSo(t *testing.T) {
	behind := func(name string, kinds ...string) *fleetv1alpha1.MemberCluster {
		m := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, kind := range kinds {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue,
				Message: "a newer intent (annotation fleet.underway.dev/confirm: " + kind + "/7 of eu-1)",
			})
		}
		return m
	}
	w := newWorld(t, "", behind("eu-1", fleetv1alpha1.ConditionHubBehind), behind("us-1"), behind("ap-1", fleetv1alpha1.ConditionTwoHubs))
	if code := w.run(t, "confirm", "cluster", "eu-1", "--yes"); code != 1 || !strings.Contains(w.errOut.String(), "confirm hub") {
		t.Errorf("exit %d: %s", code, w.errOut)
	}
	if code := w.run(t, "confirm", "hub", "--yes"); code != 0 {
		t.Fatal(w.errOut)
	}
	for name, want := range map[string]string{"eu-1": "HubBehind/7 of eu-1", "us-1": "", "ap-1": "TwoHubs/7 of eu-1"} {
		m := &fleetv1alpha1.MemberCluster{}
		if err := w.hub.Get(t.Context(), client.ObjectKey{Name: name}, m); err != nil {
			t.Fatal(err)
		}
		if got := m.Annotations[appsv1alpha1.AnnotationConfirm]; got != want {
			t.Errorf("%s: confirmed %q, want %q", name, got, want)
		}
	}
}

func TestAnEmptyListIsNoError(t *testing.T) {
	w := newWorld(t, "")
	if code := w.run(t, "get", "clusters"); code != 0 || w.out.Len() > 0 || !strings.Contains(w.errOut.String(), "kubectl underway join") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, w.out, w.errOut)
	}
}

// TestWatchPrintsALinePerChange where stdout is no terminal, until the object is deleted.
func TestWatchPrintsALinePerChange(t *testing.T) {
	ud := held()
	ud.Status.SubsetStatuses = []appsv1alpha1.SubsetStatus{{Name: "eu", Cluster: "eu-1", State: "Held", DesiredReplicas: 8, Replicas: 8}}
	w := newWorld(t, "", ud)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	ended := make(chan int)
	go func() { ended <- root.Run(ctx, w.env, []string{"get", "ud", "web", "-n", "default", "-w"}) }()
	// The fake client's watch tells nothing that happened before it, so the deletion is tried until it is heard.
	if err := deleteUntilEnded(ctx, w.hub, ud, ended); err != nil {
		t.Fatal(err, w.errOut)
	}
	if !strings.Contains(w.out.String(), "14:10:00 ud=default/web subset=eu member=eu-1 state=Held granted=0/8") {
		t.Errorf("stdout %q", w.out)
	}
}

func deleteUntilEnded(ctx context.Context, c client.Client, ud *appsv1alpha1.UnitedDeployment, ended <-chan int) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case code := <-ended:
			if code != 0 {
				return errors.New("it failed")
			}
			return nil
		case <-again.C:
			_ = c.Delete(ctx, ud)
			fresh := held()
			_ = c.Create(ctx, fresh)
		}
	}
}

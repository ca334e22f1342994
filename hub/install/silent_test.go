package install_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/underway-dev/underway/hub/install"
)

// hasty is a clock that is some seconds later at each look.
type hasty struct{ seconds, step int64 }

// Now is of clock.PassiveClock.
func (h *hasty) Now() time.Time {
	h.seconds += h.step
	return time.Unix(h.seconds, 0)
}

// Since is of clock.PassiveClock.
func (h *hasty) Since(t time.Time) time.Duration { return time.Unix(h.seconds, 0).Sub(t) }

// TestADrainWithoutAHubSaysSo: it says what it waits for again and again, after 30 s that no hub seems to run, and so does the
// error when the time is over.
func TestADrainWithoutAHubSaysSo(t *testing.T) {
	t.Parallel()
	hub, member := fakeHub(t, shopWeb()), fakeMember(t)
	edit := func(o *install.DrainOptions) { o.Clock, o.Timeout = &hasty{step: 1}, 2*time.Second }
	steps, err := drain(t.Context(), hub, member, edit, nil)
	if err == nil || !strings.Contains(err.Error(), "no hub seems to run") || !strings.Contains(err.Error(), "(--timeout) are over") {
		t.Errorf("the error does not name it: %v", err)
	}
	if n := strings.Count(steps, "waiting   still for"); n < 2 {
		t.Errorf("it speaks %d times of what it waits for:\n%s", n, steps)
	}
	if !strings.Contains(steps, "Lease underway-system/underway-hub does not exist") || !strings.Contains(steps, "start it: underway-hub --kubeconfig FILE") {
		t.Errorf("it does not say what to do:\n%s", steps)
	}
}

// TestAnUninstallSaysThatItWaitsForTheHub, at once and again, and ends with words when the hub goes on.
func TestAnUninstallSaysThatItWaitsForTheHub(t *testing.T) {
	t.Parallel()
	holder := "hub-0"
	hub := fakeHubWith(t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "underway-hub"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	})
	var steps strings.Builder
	o := install.UninstallOptions{Orphan: true, Force: true, Now: time.Unix(0, 0), Patience: 2500 * time.Millisecond}
	o.Clock = &hasty{step: 6}
	o.Report = func(s install.Step) { steps.WriteString(s.String() + "\n") }
	err := install.Uninstall(t.Context(), hub, o)
	if err == nil || !strings.Contains(err.Error(), "stop its process and do this again") {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{
		"waiting   the hub stops: Lease/underway-system/underway-hub is held by hub-0",
		"waiting   Lease/underway-system/underway-hub is no more renewed: for 6s, 2.5s at most; a hub that runs as a process is yours to stop",
	} {
		if !strings.Contains(steps.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, steps.String())
		}
	}
	if !exists(t, hub, &coordinationv1.Lease{}, system, "underway-hub") {
		t.Error("it went on")
	}
}

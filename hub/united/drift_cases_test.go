package united

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"

	"github.com/underway-dev/underway/propagation/outbox"
)

// TestB159Events: what was taken back on a member is an event that names the field, the manager and the place; once for each
// write, whatever the number of passes.
func TestB159Events(t *testing.T) {
	t.Parallel()
	b := newBench(t, crd("cluster"), web())
	recorder := events.NewFakeRecorder(100)
	b.Events = recorder
	for range 4 {
		b.reconcile()
		b.clock.Step(2 * time.Second)
	}
	if len(b.box.items) != 1 {
		t.Fatalf("%d items are posted", len(b.box.items))
	}
	tookBack := func() (out []string) {
		for {
			select {
			case e := <-recorder.Events:
				if strings.Contains(e, reasonTookBack) {
					out = append(out, e)
				}
			default:
				return out
			}
		}
	}
	if got := tookBack(); len(got) > 0 {
		t.Errorf("before anything was taken back: %q", got)
	}
	write := func(at time.Time, taken ...outbox.Taken) {
		for key := range b.box.outcomes {
			b.box.outcomes[key] = outbox.Outcome{State: outbox.StateDone, WrittenAt: at, TookBack: taken}
		}
		for range 3 {
			b.reconcile()
			b.clock.Step(2 * time.Second)
		}
	}
	first := b.clock.Now()
	write(first, outbox.Taken{Field: "spec.template.spec.containers[web].image", Manager: "kubectl-edit"})
	got := tookBack()
	if len(got) != 1 || !strings.Contains(got[0], "Warning") || !strings.Contains(got[0], "member east, CloneSet web-a-") ||
		!strings.Contains(got[0], "spec.template.spec.containers[web].image from kubectl-edit") {
		t.Errorf("%q", got)
	}
	write(first, outbox.Taken{Field: "spec.paused", Manager: "kubectl-edit"})
	if got := tookBack(); len(got) > 0 {
		t.Errorf("told again of one write: %q", got)
	}
	write(first.Add(time.Minute), outbox.Taken{Field: "spec.paused", Manager: "kubectl-edit"})
	if got := tookBack(); len(got) != 1 || !strings.Contains(got[0], "spec.paused") {
		t.Errorf("the next one: %q", got)
	}
}

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// large is a template with so many bytes in one variable.
func large(ud *appsv1alpha1.UnitedDeployment, n int) {
	setSpec(ud, fmt.Sprintf(`{"template":{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"web","image":"web:1","env":[{"name":"BIG","value":%q}]}]}}}`,
		ud.Name, strings.Repeat("x", n)))
}

// stalledBecause is the message of condition Stalled, with the reason.
func (w *world) stalledBecause() string {
	if c := meta.FindStatusCondition(w.ud.Status.Conditions, appsv1alpha1.ConditionStalled); c != nil {
		return c.Reason + ": " + c.Message
	}
	return ""
}

// TestARevisionTooLargeToKeep: nothing moves, the object says the size, the limit and what helps, and goes on with a smaller one.
func TestARevisionTooLargeToKeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 4, "web:1", sub("a", "a", ""), sub("b", "b", "")))
	partitions(w.ud, map[string]string{"a": "0", "b": "0"})
	w.run()
	clear(w.writes)
	large(w.ud, maxRevision)
	w.run()
	got := w.stalledBecause()
	for _, part := range []string{"Invalid: ", fmt.Sprintf("at most %d can be kept", maxRevision), "ConfigMap"} {
		if !strings.Contains(got, part) {
			t.Errorf("it says %q, without %q", got, part)
		}
	}
	if w.last.Create != nil || len(w.writes) > 0 {
		t.Errorf("it creates %v and writes %v", w.last.Create, w.writes)
	}
	large(w.ud, 1_000_000)
	w.run()
	if got := w.stalledBecause(); got != "" || w.ud.Status.CurrentRevision != w.ud.Status.UpdatedRevision || w.ud.Status.UpdatedReplicas != 4 {
		t.Errorf("with 1 MB: %q, %v", got, w.states())
	}
}

// TestARevisionThatIsRefused: a refusal is said, holds that very content only, and is tried again after its time.
func TestARevisionThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 4, "web:1", sub("a", "a", "")))
	partitions(w.ud, map[string]string{"a": "0"})
	w.run()
	setImage(w.ud, "web:2")
	d := Next(w.observe(), w.now)
	if d.Create == nil {
		t.Fatal("no revision")
	}
	o := w.observe()
	o.Unkept = UnkeptOf(d.Create, "exceeded quota", w.now.Add(time.Minute))
	if pushes := w.passOn(o); len(pushes) > 0 || w.last.Create != nil || w.last.LookAgainIn != time.Minute {
		t.Errorf("pushes %v, create %v, looks again in %s", pushes, w.last.Create, w.last.LookAgainIn)
	}
	if got := w.stalledBecause(); !strings.Contains(got, d.Create.Name) || !strings.Contains(got, "exceeded quota") {
		t.Errorf("it says %q", got)
	}
	setImage(w.ud, "web:3")
	if o.United = w.ud.DeepCopy(); Next(o, w.now).Create == nil {
		t.Error("another template is not tried")
	}
	setImage(w.ud, "web:2")
	w.run()
	if got := w.stalledBecause(); got != "" || w.ud.Status.UpdatedReplicas != 4 {
		t.Errorf("taken at last: %q, %v", got, w.states())
	}
}

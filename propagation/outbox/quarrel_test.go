package outbox_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/outbox"
)

// TestTwoHubsThatAdoptDoNotQuarrel: what another hub has taken over from this one is not taken back, whatever adopt says:
// both would write for ever. What that hub lets go is.
func TestTwoHubsThatAdoptDoNotQuarrel(t *testing.T) {
	t.Parallel()
	child := item("m1", "a", "v1", intent(1, 1))
	content := shared("owner", 1)
	for name, i := range map[string]outbox.Item{"a child": child, "content": content} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i.Adopt = appsv1alpha1.AdoptAny
			w := newWorld("m1")
			o := outbox.New(outbox.Options{HubID: hub, Members: w, Pusher: w, Fence: w})
			o.Post(i)
			look := func(want outbox.State) {
				t.Helper()
				for range 3 {
					o.Once(t.Context(), i.Key())
				}
				if got, _ := o.Outcome(i.Key()); got.State != want {
					t.Fatalf("outcome is %s %q, want %s", got.State, got.Message, want)
				}
			}
			look(outbox.StateDone)
			name := i.Object.GetName()
			edit := func(change func(*unstructured.Unstructured)) {
				w.with(func() { change(w.members["m1"].objects["shop/"+name]) })
			}
			edit(func(u *unstructured.Unstructured) {
				u.SetLabels(map[string]string{appsv1alpha1.LabelHub: "fedcba9876543210"})
				u.SetResourceVersion("200")
			})
			look(outbox.StateConflict)
			if n := len(w.writes()); n != 1 {
				t.Fatalf("writes %v", w.writes())
			}
			edit(func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{appsv1alpha1.AnnotationOrphaned: "2026-11-30T12:00:00Z"})
				u.SetResourceVersion("201")
			})
			look(outbox.StateDone)
		})
	}
}

package outbox_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

// withTemplate is an item whose object carries a subset revision.
func withTemplate(image, revision, carried string) outbox.Item {
	i := item("m1", "a", image, intent(2, 1))
	labels := i.Object.GetLabels()
	labels[appsv1alpha1.LabelSubsetRevision] = revision
	i.Object.SetLabels(labels)
	i.Carried = carried
	return i
}

// TestAPlanIsBoundToTheTemplateItSaw: plans of one intent may differ, because what they saw differed. One that was made before
// the last template reached the child does not take it back, for any kind; one that wants the template that is there goes on.
func TestAPlanIsBoundToTheTemplateItSaw(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		item  outbox.Item
		want  outbox.State
		image string
	}{
		"made before the last template": {withTemplate("held", "one", "one"), outbox.StateReplan, "there"},
		"made for what is there":        {withTemplate("next", "three", "two"), outbox.StateDone, "next"},
		"wants what is there":           {withTemplate("grant", "two", "one"), outbox.StateDone, "grant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld("m1")
			live := w.members["m1"].store("shop/a", withTemplate("there", "two", "").Object, "uid")
			o := start(t, w)
			tc.item.Judged = live.GetUID()
			o.Post(tc.item)
			eventually(t, o, tc.item, tc.want)
			if got := image(w.live("m1", "a")); got != tc.image {
				t.Errorf("the child has %s", got)
			}
		})
	}
}

// TestAConflictDoesNotBringAnOlderPlanBack: a write that the member refuses, because somebody was there meanwhile, is not sent
// again when another plan was posted since, when the plan was withdrawn, or when another process of this hub leads now.
func TestAConflictDoesNotBringAnOlderPlanBack(t *testing.T) {
	t.Parallel()
	older, newer := item("m1", "a", "older", intent(2, 1)), item("m1", "a", "newer", intent(2, 1))
	older.Judged, newer.Judged = "uid", "uid"
	for name, tc := range map[string]struct {
		meanwhile func(*world, *outbox.Outbox)
		want      []string
		image     string
	}{
		"another plan":    {func(_ *world, o *outbox.Outbox) { o.Post(newer) }, []string{"m1 Apply a", "m1 Apply a"}, "newer"},
		"withdrawn":       {func(_ *world, o *outbox.Outbox) { o.Withdraw(older.Key()) }, []string{"m1 Apply a"}, "there"},
		"another leader":  {func(w *world, _ *outbox.Outbox) { w.with(func() { w.leading = false }) }, []string{"m1 Apply a"}, "there"},
		"nothing of ours": {func(*world, *outbox.Outbox) {}, []string{"m1 Apply a", "m1 Apply a"}, "older"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld("m1")
			w.members["m1"].store("shop/a", item("m1", "a", "there", intent(1, 0)).Object, "uid")
			w.members["m1"].hang = make(chan struct{})
			w.members["m1"].errs = []error{apierrors.NewConflict(render.CloneSet().GVR().GroupResource(), "a", errors.New("not what was judged"))}
			o := outbox.New(outbox.Options{HubID: hub, Members: w, Pusher: w, Fence: w})
			o.Post(older)
			looked := make(chan struct{})
			go func() {
				defer close(looked)
				o.Once(t.Context(), older.Key())
			}()
			until(t, "the write is on its way", func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.asked > 0
			})
			tc.meanwhile(w, o)
			close(w.members["m1"].hang)
			<-looked
			o.Once(t.Context(), older.Key())
			if diff := cmp.Diff(tc.want, w.writes()); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if got := image(w.live("m1", "a")); got != tc.image {
				t.Errorf("the child has %s", got)
			}
		})
	}
}

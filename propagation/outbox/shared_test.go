package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/render"
)

func configMaps() render.Kind { k, _ := content.KindNamed(content.KindConfigMap); return k }

// shared wants ConfigMap settings as of a version, for an owner.
func shared(owner string, version int64) outbox.Item {
	return outbox.Item{
		Member: "m1", Want: changeset.WantApplied, Shared: true, Kind: configMaps(),
		Owner: types.NamespacedName{Namespace: "shop", Name: owner}, Intent: render.Intent{Term: 1, OwnerUID: types.UID(owner)},
		Source: render.Intent{Term: 1, OwnerUID: "source", Generation: version},
		Object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": "settings"},
			"data": map[string]any{"version": fmt.Sprint(version)},
		}},
		Gone:        func(context.Context, []string) ([]string, error) { return nil, nil },
		StillWanted: func(context.Context) (bool, error) { return true, nil },
	}
}

func held(i outbox.Item) outbox.Item { i.Hold = true; return i }

func want(i outbox.Item, w changeset.Want) outbox.Item { i.Want = w; return i }

// seen is the version and the marks of an object; "-" when there is none.
func seen(w *world) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	obj := w.members["m1"].objects["shop/settings"]
	if obj == nil {
		return "-"
	}
	version, _, _ := unstructured.NestedString(obj.Object, "data", "version")
	out := version + " " + strings.Join(content.Marks(obj.GetAnnotations()), ",")
	if obj.GetAnnotations()[appsv1alpha1.AnnotationOrphaned] != "" {
		out += " let go"
	}
	return strings.TrimSpace(out)
}

func shows(t *testing.T, w *world, want string) {
	t.Helper()
	for range 400 {
		if seen(w) == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("the member has %q, want %q; writes %v", seen(w), want, w.writes())
}

func contentWorld() *world {
	w := newWorld("m1")
	w.members["m1"].view.Kinds = []clusters.KindView{{GVK: configMaps().GVK, Served: true, Synced: true}}
	return w
}

// TestOwnersShareAnObject has two owners come and go.
func TestOwnersShareAnObject(t *testing.T) {
	t.Parallel()
	w := contentWorld()
	o := start(t, w)
	o.Post(shared("a", 1))
	shows(t, w, "1 a")
	o.Post(shared("b", 1))
	shows(t, w, "1 a,b")
	o.Post(shared("b", 2))
	shows(t, w, "2 a,b")
	o.Post(want(shared("a", 0), changeset.WantDeleted))
	shows(t, w, "2 b")
	got := eventually(t, o, shared("a", 0), outbox.StateDone)
	if diff := cmp.Diff([]string{"b"}, got.Marked); diff != "" {
		t.Errorf("marked (-want +got):\n%s", diff)
	}
	o.WithdrawShare(shared("a", 0).Key(), "a")
	o.Post(want(shared("b", 0), changeset.WantDeleted))
	shows(t, w, "-")
	if got := eventually(t, o, shared("b", 0), outbox.StateDone); got.Reason != changeset.ReasonGone || len(got.Marked) > 0 {
		t.Errorf("outcome %+v", got)
	}
	if n := len(w.writes()); n != 5 {
		t.Errorf("%d writes, want 5: %v", n, w.writes())
	}
}

// TestNothingMovesPastAGrant: the newest content waits for the owner that holds it, who is named.
func TestNothingMovesPastAGrant(t *testing.T) {
	t.Parallel()
	w := contentWorld()
	o := start(t, w)
	o.Post(shared("a", 1))
	o.Post(shared("b", 1))
	shows(t, w, "1 a,b")
	o.Post(held(shared("b", 2)))
	o.Post(shared("a", 2))
	until(t, "the holder is named", func() bool {
		got, _ := o.Outcome(shared("a", 2).Key())
		return got.State == outbox.StateDone && slices.Equal(got.HeldBy, []string{"shop/b"})
	})
	shows(t, w, "1 a,b")
	o.Post(shared("b", 2))
	shows(t, w, "2 a,b")
	if got := eventually(t, o, shared("a", 2), outbox.StateDone); len(got.HeldBy) > 0 {
		t.Errorf("held by %v", got.HeldBy)
	}
}

// TestARestartLosesNoMark: a new hub process that has heard of one owner only neither writes nor takes the other's mark off,
// and does not move content past an owner that has not had its say.
func TestARestartLosesNoMark(t *testing.T) {
	t.Parallel()
	w := contentWorld()
	first := start(t, w)
	first.Post(shared("a", 1))
	first.Post(shared("b", 1))
	shows(t, w, "1 a,b")
	before := len(w.writes())

	second := start(t, w)
	second.Post(shared("a", 1))
	eventually(t, second, shared("a", 1), outbox.StateDone)
	if n := len(w.writes()); n != before {
		t.Fatalf("the restart wrote: %v", w.writes()[before:])
	}
	second.Post(shared("a", 2))
	until(t, "the stranger holds", func() bool {
		got, _ := second.Outcome(shared("a", 2).Key())
		return got.State == outbox.StateDone && len(got.HeldBy) == 1 && strings.Contains(got.HeldBy[0], "UID b")
	})
	second.Post(want(shared("a", 2), changeset.WantDeleted))
	shows(t, w, "1 b")
	second.Post(shared("b", 2))
	shows(t, w, "2 b")
}

// TestGoneOwnersGiveWay: a mark of an owner that is proven gone neither holds nor keeps.
func TestGoneOwnersGiveWay(t *testing.T) {
	t.Parallel()
	w := contentWorld()
	first := start(t, w)
	first.Post(shared("a", 1))
	first.Post(shared("b", 1))
	shows(t, w, "1 a,b")
	second := start(t, w)
	i := shared("a", 2)
	fail := true
	i.Gone = func(context.Context, []string) ([]string, error) {
		if fail {
			fail = false
			return nil, errors.New("the hub does not answer")
		}
		return []string{"b"}, nil
	}
	second.Post(i)
	shows(t, w, "2 a")
	second.Post(want(i, changeset.WantDeleted))
	shows(t, w, "-")
}

// TestForeignContentIsNotTouched: whoever made it, with or without our label, it stays as it is, and is enough for who only
// needs it to be there.
func TestForeignContentIsNotTouched(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		want                outbox.State
	}{
		"nobody's":          {nil, nil, outbox.StateConflict},
		"another hub's":     {map[string]string{appsv1alpha1.LabelHub: "other"}, nil, outbox.StateConflict},
		"managed elsewhere": {nil, map[string]string{appsv1alpha1.AnnotationPropagate: "false"}, outbox.StateDone},
		"a copy of ours":    {map[string]string{appsv1alpha1.LabelHub: hub}, map[string]string{appsv1alpha1.AnnotationOwnerPrefix + "a": ""}, outbox.StateDone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := contentWorld()
			obj := shared("a", 9).Object.DeepCopy()
			obj.SetLabels(tc.labels)
			obj.SetAnnotations(tc.annotations)
			obj.SetUID("theirs")
			obj.SetResourceVersion("7")
			w.members["m1"].objects["shop/settings"] = obj
			o := start(t, w)
			if name != "a copy of ours" {
				o.Post(shared("a", 1))
				got := eventually(t, o, shared("a", 1), tc.want)
				if tc.want == outbox.StateConflict && !strings.Contains(got.Message, "would change data.version") {
					t.Errorf("the message does not say what would change: %q", got.Message)
				}
			}
			o.Post(want(shared("a", 1), changeset.WantDeleted))
			eventually(t, o, shared("a", 1), outbox.StateDone)
			o.Post(want(shared("a", 1), changeset.WantPresent))
			eventually(t, o, shared("a", 1), outbox.StateDone)
			if len(w.writes()) > 0 {
				t.Errorf("it was written: %v", w.writes())
			}
		})
	}
}

// TestMissingContentIsSaid, and noticed when somebody makes it.
func TestMissingContentIsSaid(t *testing.T) {
	t.Parallel()
	w := contentWorld()
	o := start(t, w)
	i := want(shared("a", 1), changeset.WantPresent)
	o.Post(i)
	if got := eventually(t, o, i, outbox.StateMissing); got.Message != "ConfigMap settings is not there" {
		t.Errorf("message %q", got.Message)
	}
	w.with(func() { w.members["m1"].objects["shop/settings"] = shared("a", 1).Object })
	eventually(t, o, i, outbox.StateDone)
}

// TestContentIsNotDeletedOnDoubt: an owner that changed its mind, and a question that nobody answers.
func TestContentIsNotDeletedOnDoubt(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) (bool, error){
		"changed its mind": func(context.Context) (bool, error) { return false, nil },
		"no answer":        func(context.Context) (bool, error) { return false, errors.New("timeout") },
		"nobody asked":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := contentWorld()
			o := start(t, w)
			o.Post(shared("a", 1))
			shows(t, w, "1 a")
			i := want(shared("a", 1), changeset.WantDeleted)
			i.StillWanted = answer
			o.Post(i)
			until(t, "an answer", func() bool {
				got, _ := o.Outcome(i.Key())
				return got.State == outbox.StateUnwantedDelete || got.State == outbox.StateFailed
			})
			time.Sleep(50 * time.Millisecond)
			if seen(w) != "1 a" {
				t.Errorf("the member has %q", seen(w))
			}
		})
	}
}

// TestB129 wants content and takes it back within moments: nothing is left.
func TestB129(t *testing.T) {
	t.Parallel()
	for n := range 20 {
		w := contentWorld()
		o := start(t, w)
		o.Post(shared("a", 1))
		time.Sleep(time.Duration(n%5) * time.Millisecond)
		o.Post(want(shared("a", 1), changeset.WantDeleted))
		until(t, "gone", func() bool {
			got, _ := o.Outcome(shared("a", 1).Key())
			return got.State == outbox.StateDone && got.Reason == changeset.ReasonGone && seen(w) == "-"
		})
	}
}

// TestContentIsReadWhereItCannotBeWatched: where the hub was joined for a few namespaces no cache holds it.
func TestContentIsReadWhereItCannotBeWatched(t *testing.T) {
	t.Parallel()
	w := contentWorld()
	w.members["m1"].view.Kinds[0] = clusters.KindView{GVK: configMaps().GVK, Served: true, Refused: "forbidden"}
	o := start(t, w)
	o.Post(shared("a", 1))
	shows(t, w, "1 a")
	o.Post(want(shared("a", 1), changeset.WantDeleted))
	shows(t, w, "-")
}

// TestWithdrawnKeysAreForgotten: the limiter of a member remembers failures of what is wanted only.
func TestWithdrawnKeysAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	w.members["m1"].errs = slices.Repeat([]error{errors.New("timeout")}, 3)
	o := start(t, w)
	i := item("m1", "a", "v1", intent(1, 0))
	o.Post(i)
	until(t, "a failure", func() bool { return o.Failures(i.Key()) > 0 })
	o.Withdraw(i.Key())
	time.Sleep(60 * time.Millisecond)
	if n := o.Failures(i.Key()); n != 0 {
		t.Errorf("%d failures are remembered of what nobody wants", n)
	}
}

// TestSharedContentProperties posts, holds, leaves and restarts at random. Whatever the order: content never moves while an
// owner that has its mark there holds it, no mark of another owner is lost, and the object is gone only when nobody wants it.
func TestSharedContentProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"a", "b", "c"}
		wants := map[string]outbox.Item{}
		var live *unstructured.Unstructured
		version := int64(1)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			name := rapid.SampledFrom(names).Draw(rt, "owner")
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				wants[name] = shared(name, version)
			case 1:
				wants[name] = held(shared(name, version))
			case 2:
				wants[name] = want(shared(name, version), changeset.WantDeleted)
			case 3:
				version++
			case 4:
				delete(wants, name) // the hub restarts: it has not heard of this one yet
			}
			before, wasThere := "", live != nil
			marked := []string{}
			if wasThere {
				before, _, _ = unstructured.NestedString(live.Object, "data", "version")
				marked = content.Marks(live.GetAnnotations())
			}
			next := settle(live, wants)
			live = next
			for _, m := range marked {
				i, heard := wants[m]
				leaves := heard && i.Want == changeset.WantDeleted
				if !leaves && (next == nil || !slices.Contains(content.Marks(next.GetAnnotations()), m)) {
					rt.Fatalf("the mark of %s is lost", m)
				}
				if next == nil {
					continue
				}
				after, _, _ := unstructured.NestedString(next.Object, "data", "version")
				if (!heard || i.Hold) && !leaves && after != before {
					rt.Fatalf("content moved from %s to %s past %s", before, after, m)
				}
			}
		}
	})
}

// settle carries out one look of an outbox at an object, with what the owners want.
func settle(live *unstructured.Unstructured, wants map[string]outbox.Item) *unstructured.Unstructured {
	w := contentWorld()
	if live != nil {
		w.members["m1"].objects["shop/settings"] = live
		w.members["m1"].version = 1000
	}
	o := outbox.New(outbox.Options{HubID: hub, Members: w, Pusher: w, Fence: w})
	for _, i := range wants {
		o.Post(i)
	}
	if len(wants) > 0 {
		o.Once(context.Background(), shared("a", 1).Key())
	}
	return w.members["m1"].objects["shop/settings"]
}

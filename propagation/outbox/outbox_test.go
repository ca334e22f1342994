package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/clusters"
	"github.com/underway-dev/underway/propagation/outbox"
	"github.com/underway-dev/underway/propagation/push"
	"github.com/underway-dev/underway/propagation/render"
)

func TestOneChangeIsOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	o := start(t, w)
	first := item("m1", "a", "v1", intent(1, 0))
	o.Post(first)
	created := eventually(t, o, first, outbox.StateDone)
	if created.Op != changeset.OpCreate || created.UID != "m1-1" || created.Generation != 1 || created.WrittenAt.IsZero() {
		t.Errorf("outcome %+v", created)
	}
	reads := w.members["m1"].reads

	second := item("m1", "a", "v2", intent(2, 0))
	second.Judged = created.UID
	o.Post(second)
	until(t, "v2", func() bool { return image(w.live("m1", "a")) == "v2" })
	got := eventually(t, o, second, outbox.StateDone)
	if got.Generation != 2 || got.Intent != intent(2, 0) {
		t.Errorf("outcome %+v", got)
	}
	for range 50 {
		o.Post(second)
	}
	time.Sleep(50 * time.Millisecond)
	if diff := cmp.Diff([]string{"m1 Create a", "m1 Apply a"}, w.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if more := w.members["m1"].reads - reads; more != 0 {
		t.Errorf("%d reads of the member for a change that nobody else wrote into", more)
	}
}

// TestB139 is a restart: a new outbox without memory over the same members writes nothing that is not due.
func TestB139(t *testing.T) {
	t.Parallel()
	w := newWorld("m1", "m2")
	var items []outbox.Item
	for n := range 6 {
		i := item(fmt.Sprintf("m%d", n%2+1), fmt.Sprintf("c%d", n), "v1", intent(3, 1))
		w.members[i.Member].store("shop/"+i.Object.GetName(), i.Object, types.UID(fmt.Sprint("u", n)))
		i.Judged = types.UID(fmt.Sprint("u", n))
		items = append(items, i)
	}
	for restart := range 20 {
		o := start(t, w)
		// The caches fill at any time during the start.
		w.with(func() { w.members["m2"].view.Kinds = []clusters.KindView{{GVK: render.CloneSet().GVK, Served: true}} })
		for _, i := range items {
			o.Post(i)
		}
		w.with(func() {
			w.members["m2"].view.Kinds = []clusters.KindView{{GVK: render.CloneSet().GVK, Served: true, Synced: true}}
		})
		w.event(clusters.Event{Member: "m2"})
		for _, i := range items {
			eventually(t, o, i, outbox.StateDone)
		}
		if restart == 10 {
			items[0] = item("m1", "c0", "v2", intent(4, 1))
			items[0].Judged = "u0"
			o.Post(items[0])
			until(t, "v2", func() bool { return image(w.live("m1", "c0")) == "v2" })
		}
	}
	if diff := cmp.Diff([]string{"m1 Apply c0"}, w.writes()); diff != "" {
		t.Errorf("writes over 20 restarts (-want +got):\n%s", diff)
	}
}

func TestDeadMemberDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	w := newWorld("dead", "slow", "down", "good")
	w.members["dead"].hang = make(chan struct{})
	w.members["slow"].errs = slices.Repeat([]error{errors.New("timeout")}, 6)
	w.members["down"].view.State = clusters.StateDegraded
	o := start(t, w)
	var good, slow []outbox.Item
	for n := range 40 {
		for _, m := range []string{"dead", "slow", "down", "good"} {
			i := item(m, fmt.Sprintf("c%d", n), "v1", intent(1, 0))
			o.Post(i)
			switch m {
			case "good":
				good = append(good, i)
			case "slow":
				slow = append(slow, i)
			}
		}
	}
	for _, i := range append(good, slow...) {
		eventually(t, o, i, outbox.StateDone)
	}
	down := item("down", "c0", "v1", intent(1, 0))
	eventually(t, o, down, outbox.StateMemberNotReady)
	for _, line := range w.writes() {
		if strings.HasPrefix(line, "down") {
			t.Fatalf("a member that is not ready was tried: %s", line)
		}
	}
	w.with(func() { w.members["down"].view.State = clusters.StateReady })
	w.event(clusters.Event{Member: "down"})
	eventually(t, o, down, outbox.StateDone)
	close(w.members["dead"].hang)
	w.with(func() { w.members["dead"].hang = nil })
	eventually(t, o, item("dead", "c39", "", intent(1, 0)), outbox.StateDone)
}

func TestLastPostWins(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	w.members["m1"].hang = make(chan struct{})
	o := start(t, w)
	for n := range 100 {
		o.Post(item("m1", "a", fmt.Sprintf("v%d", n), intent(int64(n), 0)))
	}
	close(w.members["m1"].hang)
	until(t, "the last image or a plan for anew", func() bool {
		got, _ := o.Outcome(item("m1", "a", "", intent(0, 0)).Key())
		return image(w.live("m1", "a")) == "v99" || got.State == outbox.StateReplan
	})
	if n := len(w.writes()); n > 2 {
		t.Errorf("%d writes for 100 posts: %v", n, w.writes())
	}
}

func TestFreezeStopsWritesAndUnreadableIsFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	w.frozen = "ann: christmas"
	o := start(t, w)
	i := item("m1", "a", "v1", intent(1, 0))
	o.Post(i)
	if got := eventually(t, o, i, outbox.StateFrozen); got.Message != "ann: christmas" {
		t.Errorf("message %q", got.Message)
	}
	w.with(func() { w.frozen, w.frozenErr = "", errors.New("etcd is gone") })
	o.Post(i)
	until(t, "unreadable", func() bool {
		got, _ := o.Outcome(i.Key())
		return got.State == outbox.StateFrozen && strings.Contains(got.Message, "etcd is gone")
	})
	if len(w.writes()) != 0 {
		t.Fatalf("written while frozen: %v", w.writes())
	}
	w.with(func() { w.frozenErr = nil })
	eventually(t, o, i, outbox.StateDone)
}

func TestNothingDueAsksNobody(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	o := start(t, w)
	i := item("m1", "a", "v1", intent(1, 0))
	i.Judged = w.members["m1"].store("shop/a", i.Object, "u").GetUID()
	o.Post(i)
	eventually(t, o, i, outbox.StateDone)
	if w.asked != 0 || w.members["m1"].reads != 0 {
		t.Errorf("%d reads of the freeze and %d of the member, with nothing due", w.asked, w.members["m1"].reads)
	}
}

func TestNewerIntentOnTheMember(t *testing.T) {
	t.Parallel()
	newer := item("m1", "a", "v9", intent(9, 0))
	cases := map[string]struct {
		edit    func(*world)
		want    outbox.State
		stopped bool
	}{
		"not the leader: dropped":                      {func(w *world) { w.leading = false; w.current[owner()] = intent(1, 0) }, outbox.StateNotLeading, false},
		"the owner is newer than the plan: plan again": {func(w *world) { w.current[owner()] = intent(9, 0) }, outbox.StateReplan, false},
		"the owner is gone: plan again":                {func(*world) {}, outbox.StateReplan, false},
		"still lower: every write stops":               {func(w *world) { w.current[owner()] = intent(8, 5) }, outbox.StateStopped, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld("m1", "m2")
			w.members["m1"].store("shop/a", newer.Object, "u")
			tc.edit(w)
			o := start(t, w)
			i := item("m1", "a", "v1", intent(1, 0))
			i.Judged = "u"
			o.Post(i)
			eventually(t, o, i, tc.want)
			if got := len(o.Stopped()) > 0; got != tc.stopped {
				t.Fatalf("stopped %v, want %v", o.Stopped(), tc.stopped)
			}
			other := item("m2", "b", "v1", intent(1, 0))
			o.Post(other)
			if !tc.stopped {
				eventually(t, o, other, outbox.StateDone)
				return
			}
			eventually(t, o, other, outbox.StateStopped)
			if len(w.writes()) != 0 {
				t.Fatalf("written though the hub is behind: %v", w.writes())
			}
			want := []outbox.StopReason{{Condition: outbox.StopHubBehind, Member: "m1", Owner: owner(), Seen: "1/owner/9/0"}}
			if diff := cmp.Diff(want, o.Stopped()); diff != "" {
				t.Error(diff)
			}
			// A person confirms: the hub raises its term and goes on.
			confirmed := i
			confirmed.Intent.Term = 2
			confirmed.Object = item("m1", "a", "v1", confirmed.Intent).Object
			w.with(func() { w.current[owner()] = confirmed.Intent }) // or the old plan, looked at again before the new one is posted, stops all anew
			o.Resume(outbox.StopHubBehind)
			o.Post(confirmed)
			until(t, "writes go on", func() bool { return image(w.live("m1", "a")) == "v1" && image(w.live("m2", "b")) == "v1" })
		})
	}
}

func TestTwoHubsStopEveryWrite(t *testing.T) {
	t.Parallel()
	w := newWorld("m1", "m2")
	o := start(t, w)
	told := make(chan struct{}, 8)
	o.SubscribeStop(func() { told <- struct{}{} })
	w.with(func() { w.members["m1"].view.TwoHubs, w.members["m1"].view.OtherHolder = true, "clone" })
	w.event(clusters.Event{Member: "m1"})
	<-told
	i := item("m2", "a", "v1", intent(1, 0))
	o.Post(i)
	eventually(t, o, i, outbox.StateStopped)
	// A person confirms something else: this one still holds.
	o.Stop(outbox.StopReason{Condition: outbox.StopHubBehind, Member: "m1"})
	o.Resume(outbox.StopHubBehind)
	if diff := cmp.Diff([]outbox.StopReason{{Condition: outbox.StopTwoHubs, Member: "m1", Seen: "clone"}}, o.Stopped()); diff != "" {
		t.Error(diff)
	}
	eventually(t, o, i, outbox.StateStopped)
	if len(w.writes()) != 0 {
		t.Fatalf("written with two hubs: %v", w.writes())
	}
}

// TestPlanIsBoundToItsChild is the held subset whose child is deleted by hand between plan and write: the plan with the
// grant never creates it.
func TestPlanIsBoundToItsChild(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	o := start(t, w)
	i := item("m1", "a", "v2", intent(2, 1))
	i.Judged = "deleted-by-hand"
	o.Post(i)
	eventually(t, o, i, outbox.StateReplan)

	w.with(func() { w.members["m1"].store("shop/a", item("m1", "a", "v1", intent(1, 0)).Object, "another") })
	o.Post(i)
	until(t, "the other object is named", func() bool {
		got, _ := o.Outcome(i.Key())
		return got.State == outbox.StateReplan && got.UID == "another"
	})

	unseen := item("m1", "a", "v2", intent(2, 1))
	o.Post(unseen)
	eventually(t, o, unseen, outbox.StateReplan)
	if len(w.writes()) != 0 {
		t.Errorf("written: %v", w.writes())
	}
}

// TestB151 is the cache that does not show our own create yet.
func TestB151(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	w.members["m1"].cached = map[string]*unstructured.Unstructured{}
	o := start(t, w)
	i := item("m1", "a", "v1", intent(1, 0))
	o.Post(i)
	eventually(t, o, i, outbox.StateDone)
	o.Post(i)
	time.Sleep(30 * time.Millisecond)
	if got, _ := o.Outcome(i.Key()); got.State != outbox.StateDone {
		t.Errorf("outcome %s %q", got.State, got.Message)
	}
	if diff := cmp.Diff([]string{"m1 Create a"}, w.writes()); diff != "" {
		t.Error(diff)
	}
}

// TestB151OlderContent: a hub that starts anew finds nothing in its cache, and on the member its own object with older
// content: recognised by the mark, read back once, updated, and no conflict is told.
func TestB151OlderContent(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	first := start(t, w)
	old := item("m1", "a", "v1", intent(1, 0))
	first.Post(old)
	uid := eventually(t, first, old, outbox.StateDone).UID
	w.with(func() {
		w.members["m1"].cached = map[string]*unstructured.Unstructured{}
		w.members["m1"].reads, w.log = 0, nil
	})
	o := start(t, w)
	next := item("m1", "a", "v2", intent(2, 0))
	next.Judged = uid
	o.Post(next)
	if got := eventually(t, o, next, outbox.StateDone); got.UID != uid {
		t.Errorf("outcome %+v, want the object that was there", got)
	}
	writes, reads := w.writes(), w.members["m1"].reads
	if image(w.live("m1", "a")) != "v2" || len(writes)-1+reads > 2 {
		t.Errorf("the object has %s; writes %v and %d reads, want at most 2 calls more than the update", image(w.live("m1", "a")), writes, reads)
	}
}

// TestACacheBehindOurOwnWriteIsWaitedFor posts the same plan before the watch shows what it did.
func TestACacheBehindOurOwnWriteIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	i := item("m1", "a", "v1", intent(1, 0))
	i.Judged = w.members["m1"].store("shop/a", i.Object, "u").GetUID()
	o := start(t, w)
	w.with(func() {
		p := w.members["m1"]
		p.cached = map[string]*unstructured.Unstructured{"shop/a": p.objects["shop/a"].DeepCopy()}
	})
	next := item("m1", "a", "v2", intent(2, 0))
	next.Judged = "u"
	o.Post(next)
	eventually(t, o, next, outbox.StateDone)
	for range 20 {
		o.Post(next)
		w.event(clusters.Event{Member: "m1", GVK: render.CloneSet().GVK, Object: types.NamespacedName{Namespace: "shop", Name: "a"}})
		time.Sleep(time.Millisecond)
	}
	if got := eventually(t, o, next, outbox.StateDone); got.Reason != changeset.ReasonChanged || got.Generation != 2 {
		t.Errorf("outcome %+v", got)
	}
	w.with(func() {
		if diff := cmp.Diff([]string{"m1 Apply a"}, w.log); diff != "" || w.members["m1"].reads != 0 {
			t.Errorf("%d reads; writes (-want +got):\n%s", w.members["m1"].reads, diff)
		}
	})
	// What the cache shows once it is ahead of our write counts.
	w.with(func() {
		p := w.members["m1"]
		p.store("shop/a", i.Object, "u")
		p.cached = nil
	})
	w.event(clusters.Event{Member: "m1", GVK: render.CloneSet().GVK, Object: types.NamespacedName{Namespace: "shop", Name: "a"}})
	until(t, "drift after it", func() bool { return image(w.live("m1", "a")) == "v2" })
}

func TestConflictIsDecidedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	first := item("m1", "a", "v1", intent(1, 0))
	w.members["m1"].store("shop/a", first.Object, "u")
	stale := w.members["m1"].objects["shop/a"].DeepCopy()
	w.members["m1"].store("shop/a", first.Object, "u")
	w.members["m1"].cached = map[string]*unstructured.Unstructured{"shop/a": stale}
	o := start(t, w)
	i := item("m1", "a", "v2", intent(2, 0))
	i.Judged = "u"
	o.Post(i)
	eventually(t, o, i, outbox.StateDone)
	if diff := cmp.Diff([]string{"m1 Apply a", "m1 Apply a"}, w.writes()); diff != "" {
		t.Error(diff)
	}
}

func TestDriftIsTakenBackAndNamed(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	o := start(t, w)
	i := item("m1", "a", "v1", intent(1, 0))
	o.Post(i)
	done := eventually(t, o, i, outbox.StateDone)
	i.Judged = done.UID
	o.Post(i)
	w.with(func() {
		live := w.members["m1"].objects["shop/a"]
		live.Object["spec"] = map[string]any{"image": "hacked"}
		live.SetResourceVersion("500")
		meta := live.Object["metadata"].(map[string]any)
		meta["managedFields"] = []any{
			map[string]any{"manager": appsv1alpha1.FieldManagerHub, "operation": "Apply", "fieldsV1": map[string]any{"f:metadata": map[string]any{}}},
			map[string]any{"manager": "intruder", "operation": "Update", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:image": map[string]any{}}}},
		}
	})
	w.event(clusters.Event{Member: "m1", Owner: owner(), GVK: render.CloneSet().GVK, Object: types.NamespacedName{Namespace: "shop", Name: "a"}})
	until(t, "the image is back", func() bool { return image(w.live("m1", "a")) == "v1" })
	until(t, "the manager is named", func() bool {
		got, _ := o.Outcome(i.Key())
		return slices.Contains(got.TookBack, outbox.Taken{Field: "spec.image", Manager: "intruder"}) && got.Reason == changeset.ReasonDrifted
	})
}

func TestForeignObjectIsNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	foreign := item("m1", "a", "theirs", intent(1, 0)).Object
	foreign.SetLabels(nil)
	w.members["m1"].store("shop/a", foreign, "u")
	o := start(t, w)
	i := item("m1", "a", "v1", intent(1, 0))
	o.Post(i)
	eventually(t, o, i, outbox.StateConflict)
	if len(w.writes()) != 0 {
		t.Fatalf("a foreign object was written: %v", w.writes())
	}
	i.Adopt = appsv1alpha1.AdoptAny
	o.Post(i)
	eventually(t, o, i, outbox.StateDone)
	if image(w.live("m1", "a")) != "v1" {
		t.Error("not adopted")
	}
}

func TestDeleteNeedsFreshProof(t *testing.T) {
	t.Parallel()
	del := func(still func(context.Context) (bool, error)) outbox.Item {
		i := item("m1", "a", "", intent(5, 0))
		i.Want, i.StillWanted = changeset.WantDeleted, still
		return i
	}
	yes := func(context.Context) (bool, error) { return true, nil }
	cases := map[string]struct {
		item outbox.Item
		edit func(*world)
		want outbox.State
		gone bool
	}{
		"wanted":                {del(yes), func(*world) {}, outbox.StateDone, true},
		"not wanted any more":   {del(func(context.Context) (bool, error) { return false, nil }), func(*world) {}, outbox.StateUnwantedDelete, false},
		"the owner is unread":   {del(func(context.Context) (bool, error) { return true, errors.New("no quorum") }), func(*world) {}, outbox.StateFailed, false},
		"nobody answers for it": {del(nil), func(*world) {}, outbox.StateUnwantedDelete, false},
		"not synced": {del(yes), func(w *world) {
			w.members["m1"].view.Kinds[0].Synced = false
			w.members["m1"].cached = map[string]*unstructured.Unstructured{}
		}, outbox.StateMemberNotReady, false},
		"the cache shows ours, the member another's": {del(yes), func(w *world) {
			p := w.members["m1"]
			p.cached = map[string]*unstructured.Unstructured{"shop/a": p.objects["shop/a"].DeepCopy()}
			theirs := p.objects["shop/a"].DeepCopy()
			theirs.SetLabels(nil)
			p.objects["shop/a"] = theirs
		}, outbox.StateDone, false},
		"frozen": {del(yes), func(w *world) { w.frozen = "x" }, outbox.StateFrozen, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld("m1")
			w.members["m1"].store("shop/a", item("m1", "a", "v1", intent(5, 0)).Object, "u")
			tc.edit(w)
			o := start(t, w)
			o.Post(tc.item)
			eventually(t, o, tc.item, tc.want)
			if gone := w.live("m1", "a") == nil; gone != tc.gone {
				t.Errorf("gone %v, want %v", gone, tc.gone)
			}
		})
	}
}

func TestOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	w.members["m1"].store("shop/a", item("m1", "a", "v1", intent(5, 0)).Object, "u")
	o := start(t, w)
	i := item("m1", "a", "", intent(5, 0))
	i.Want = changeset.WantOrphaned
	o.Post(i)
	eventually(t, o, i, outbox.StateDone)
	o.Post(i)
	time.Sleep(20 * time.Millisecond)
	if diff := cmp.Diff([]string{"m1 Orphan a"}, w.writes()); diff != "" {
		t.Error(diff)
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("namespaces"), "shop", errors.New("no"))
	cases := map[string]struct {
		ensure bool
		answer error
		want   outbox.State
	}{
		"absent and created":           {true, nil, outbox.StateDone},
		"absent and not to be created": {false, nil, outbox.StateNamespaceMissing},
		"absent and forbidden":         {true, forbidden, outbox.StateNamespaceMissing},
		"terminating":                  {true, push.ErrNamespaceTerminating, outbox.StateNamespaceTerminating},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld("m1")
			w.members["m1"].namespaces = map[string]error{"shop": tc.answer}
			o := start(t, w)
			i := item("m1", "a", "v1", intent(1, 0))
			i.EnsureNamespace = tc.ensure
			o.Post(i)
			eventually(t, o, i, tc.want)
			if tc.want == outbox.StateDone {
				return
			}
			w.with(func() { w.members["m1"].namespaces = nil })
			eventually(t, o, i, outbox.StateDone)
		})
	}
}

func TestAnswersOfTheMember(t *testing.T) {
	t.Parallel()
	terminating := apierrors.NewForbidden(render.CloneSet().GVR().GroupResource(), "a", errors.New("x"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		err  error
		want outbox.State
	}{
		"invalid":               {apierrors.NewInvalid(render.CloneSet().GVK.GroupKind(), "a", nil), outbox.StateRefused},
		"forbidden":             {apierrors.NewForbidden(render.CloneSet().GVR().GroupResource(), "a", errors.New("x")), outbox.StateRefused},
		"namespace terminating": {terminating, outbox.StateNamespaceTerminating},
		"another cluster":       {fmt.Errorf("x: %w", clusters.ErrIdentity), outbox.StateMemberNotReady},
		"foreign after all":     {push.ErrForeign, outbox.StateConflict},
		"anything else":         {errors.New("boom"), outbox.StateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld("m1")
			w.members["m1"].store("shop/a", item("m1", "a", "v1", intent(1, 0)).Object, "u")
			w.members["m1"].errs = slices.Repeat([]error{tc.err}, 1000)
			o := start(t, w)
			i := item("m1", "a", "v2", intent(2, 0))
			i.Judged = "u"
			o.Post(i)
			eventually(t, o, i, tc.want)
		})
	}
}

func TestAMemberWithAnotherLifeIsJudgedWithoutMemory(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	o := start(t, w)
	i := item("m1", "a", "v1", intent(1, 0))
	o.Post(i)
	i.Judged = eventually(t, o, i, outbox.StateDone).UID
	// A restored store: the same object in an older version, with lower resourceVersions.
	w.with(func() {
		p := w.members["m1"]
		p.version = -50
		p.store("shop/a", item("m1", "a", "v0", intent(1, 0)).Object, i.Judged)
		p.view.Memory++
	})
	w.event(clusters.Event{Member: "m1"})
	o.Post(i)
	until(t, "v1 again", func() bool { return image(w.live("m1", "a")) == "v1" })
}

func TestARestoredStoreIsNotReadAroundItsCacheForEver(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	o := start(t, w)
	i := item("m1", "a", "v1", intent(1, 0))
	o.Post(i)
	i.Judged = eventually(t, o, i, outbox.StateDone).UID
	reads := 0
	w.with(func() {
		p := w.members["m1"]
		p.version = -50
		p.store("shop/a", item("m1", "a", "v1", intent(1, 0)).Object, i.Judged)
		p.view.Memory++
		reads = p.reads
	})
	o.Post(i)
	eventually(t, o, i, outbox.StateDone)
	w.with(func() {
		if more := w.members["m1"].reads - reads; more != 0 {
			t.Errorf("%d fresh reads: the versions of the store before count", more)
		}
	})
}

func TestOwnersAreToldAndWithdrawnItemsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld("m1")
	o := outbox.New(outbox.Options{HubID: hub, Members: w, Pusher: w, Fence: w})
	told := make(chan types.NamespacedName, 100)
	o.Subscribe(func(n types.NamespacedName) { told <- n })
	run(t, o)
	i := item("m1", "a", "v1", intent(1, 0))
	o.Post(i)
	if got := <-told; got != owner() {
		t.Errorf("told %v", got)
	}
	o.WithdrawOwner(owner())
	if _, ok := o.Outcome(i.Key()); ok {
		t.Error("still remembered")
	}
	o.Post(i)
	o.WithdrawMember("m1")
	if _, ok := o.Outcome(i.Key()); ok {
		t.Error("still remembered")
	}
	o.Post(i)
	eventually(t, o, i, outbox.StateDone)
}

// TestAnyStormSettles posts, edits, deletes and fails at random and holds that the last plan is what is there at the
// end, and that no write was sent while frozen.
func TestAnyStormSettles(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld("m1", "m2", "m3")
			o := start(t, w)
			var mu sync.Mutex
			last := map[outbox.Key]outbox.Item{}
			post := func(i outbox.Item) {
				if live := w.live(i.Member, i.Object.GetName()); live != nil {
					i.Judged = live.GetUID()
				}
				last[i.Key()] = i
				o.Post(i)
			}
			// The hub plans anew whenever it is told to.
			o.Subscribe(func(types.NamespacedName) {
				go func() {
					mu.Lock()
					defer mu.Unlock()
					for key, i := range last {
						if got, ok := o.Outcome(key); ok && got.State == outbox.StateReplan {
							i.Judged = ""
							post(i)
						}
					}
				}()
			})
			generation := int64(0)
			for range 300 {
				generation++
				m := fmt.Sprintf("m%d", 1+r.IntN(3))
				name := fmt.Sprintf("c%d", r.IntN(3))
				mu.Lock()
				switch r.IntN(6) {
				case 0:
					w.with(func() { w.members[m].errs = append(w.members[m].errs, errors.New("flaky"), nil) })
				case 1:
					w.with(func() { delete(w.members[m].objects, "shop/"+name) })
				case 2:
					w.with(func() { w.frozen = []string{"", "frozen"}[r.IntN(2)] })
				default:
					post(item(m, name, fmt.Sprintf("v%d", generation), intent(generation, 0)))
				}
				mu.Unlock()
				w.event(clusters.Event{Member: m})
				if r.IntN(10) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			w.with(func() { w.frozen = "" })
			for _, m := range []string{"m1", "m2", "m3"} {
				w.event(clusters.Event{Member: m})
			}
			mu.Lock()
			keys := slices.Collect(func(yield func(outbox.Key) bool) {
				for k := range last {
					if !yield(k) {
						return
					}
				}
			})
			mu.Unlock()
			for _, k := range keys {
				until(t, fmt.Sprint("settled ", k), func() bool {
					mu.Lock()
					defer mu.Unlock()
					got, _ := o.Outcome(k)
					if got.State == outbox.StateReplan {
						i := last[k]
						i.Judged = ""
						post(i)
					}
					return got.State == outbox.StateDone && image(w.live(k.Member, k.Name)) == image(last[k].Object)
				})
			}
		})
	}
}

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// undo applies the way back as the API server does.
func (w *world) undo(number int64, known map[string]Known) Undoing {
	w.t.Helper()
	out, err := w.tryUndo(number, known)
	if err != nil {
		w.t.Fatal(err)
	}
	if out.Nothing {
		return out
	}
	raw, err := json.Marshal(w.ud)
	if err != nil {
		w.t.Fatal(err)
	}
	if raw, err = applied(raw, out.Patch); err != nil {
		w.t.Fatalf("%s: %v", out.Patch, err)
	}
	back := &appsv1alpha1.UnitedDeployment{}
	if err := json.Unmarshal(raw, back); err != nil {
		w.t.Fatal(err)
	}
	back.Status = w.ud.Status
	w.ud = back
	w.ud.Generation++
	return out
}

// applied is RFC 6902 for what Undo makes: add, replace and remove of members of objects, and tests.
func applied(raw, patch []byte) ([]byte, error) {
	var doc any
	var ops []operation
	if err := errors.Join(json.Unmarshal(raw, &doc), json.Unmarshal(patch, &ops)); err != nil {
		return nil, err
	}
	for _, op := range ops {
		path := strings.Split(strings.TrimPrefix(op.Path, "/"), "/")
		at := doc
		for _, step := range path[:len(path)-1] {
			switch there := at.(type) {
			case map[string]any:
				at = there[step]
			case []any:
				i, err := strconv.Atoi(step)
				if err != nil || i >= len(there) {
					return nil, fmt.Errorf("%s: no such item", op.Path)
				}
				at = there[i]
			}
		}
		object, ok := at.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: no such object", op.Path)
		}
		last := path[len(path)-1]
		was, has := object[last]
		var value any
		if len(op.Value) > 0 {
			if err := json.Unmarshal(op.Value, &value); err != nil {
				return nil, err
			}
		}
		switch {
		case op.Op == "test" && !cmp.Equal(was, value), op.Op != "add" && !has:
			return nil, fmt.Errorf("%s %s: there is %v", op.Op, op.Path, was)
		case op.Op == "remove":
			delete(object, last)
		case op.Op != "test":
			object[last] = value
		}
	}
	return json.Marshal(doc)
}

func (w *world) tryUndo(number int64, known map[string]Known) (Undoing, error) {
	w.t.Helper()
	raw, err := json.Marshal(w.ud)
	if err != nil {
		w.t.Fatal(err)
	}
	return Undo(w.ud, raw, w.revs, number, known)
}

func TestHistoryAndUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "app:v1", sub("a", "east", "4"), sub("b", "west", "4")))
	w.ud.Spec.Topology.Subsets[1].Patch = rawJSON(`{"metadata":{"annotations":{"x":"1"}}}`)
	partitions(w.ud, map[string]string{"a": "0", "b": "0"})
	w.run()
	setImage(w.ud, "app:v2")
	w.run()
	v2 := w.ud.Status.CurrentRevision
	partitions(w.ud, map[string]string{"a": "0", "b": "100%"})
	w.ud.Spec.Topology.Subsets[1].Patch = rawJSON(`{"metadata":{"annotations":{"x":"2"}}}`)
	setImage(w.ud, "app:v3")
	w.run()
	got := HistoryOf(w.ud, w.revs)
	type row struct {
		Number          int64
		Image           string
		Subsets         []string
		Completed, Spec bool
	}
	var rows []row
	for _, p := range got {
		rows = append(rows, row{p.Number, p.Images[0].Image, p.Subsets, p.Completed, p.Spec})
	}
	want := []row{{3, "app:v3", []string{"a"}, false, true}, {2, "app:v2", []string{"b"}, true, false}, {1, "app:v1", nil, false, false}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Fatalf("history (-want +got):\n%s", diff)
	}

	// In mid-release the way back is the completed revision, with the overrides of then, and it is no release.
	way := w.undo(0, nil)
	if way.To.Name != v2 || !strings.Contains(strings.Join(way.Says, "\n"), "no release: a go back at once") {
		t.Errorf("%+v", way)
	}
	if diff := cmp.Diff([]string{"container web: image app:v3 -> app:v2", "subset b: patch as the revision has it"}, way.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	w.run()
	if w.ud.Status.UpdatedRevision != v2 || w.ud.Status.UpdatedReplicas != 8 || len(w.revs) != 3 || !strings.Contains(string(w.ud.Spec.Topology.Subsets[1].Patch.Raw), `"1"`) {
		t.Errorf("not back: %+v", w.ud.Status)
	}
	if again := w.undo(w.numberOf(v2), nil); !again.Nothing {
		t.Errorf("the spec is it already: %+v", again)
	}

	// To an older one it is a release, and partitions hold it; without a number it is the one before.
	w.ud.Status.ObservedGeneration = w.ud.Generation
	way = w.undo(1, nil)
	if text := strings.Join(way.Says, "\n"); !strings.Contains(text, "is a release: a moves at once, b keeps 100% back") {
		t.Errorf("%q", text)
	}
	w.run()
	if w.ud.Status.CurrentRevision != v2 || w.ud.Status.UpdatedRevision == v2 || w.entry("b").State != stateHeld {
		t.Errorf("%+v", w.ud.Status)
	}
}

func (w *world) numberOf(name string) int64 {
	at := slices.IndexFunc(HistoryOf(w.ud, w.revs), func(p Past) bool { return p.Name == name })
	return HistoryOf(w.ud, w.revs)[at].Number
}

func TestUndoRefuses(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) *world {
		t.Helper()
		w := newWorld(t, united("web", 8, "app:v1", sub("a", "east", "4"), sub("b", "west", "4")))
		w.ud.Spec.Topology.Subsets[1].Patch = rawJSON(`{"metadata":{"annotations":{"x":"1"}}}`)
		partitions(w.ud, map[string]string{"a": "0", "b": "0"})
		w.run()
		setImage(w.ud, "app:v2")
		w.run()
		return w
	}
	for name, tc := range map[string]struct {
		edit   func(w *world)
		number int64
		says   string
	}{
		"a number that is not there": {number: 9, says: "there are 2, 1"},
		"a subset that is gone":      {number: 1, says: "overrides for b", edit: func(w *world) { w.ud.Spec.Topology.Subsets = w.ud.Spec.Topology.Subsets[:1] }},
		"an edit that nobody saw":    {says: "has not seen", edit: func(w *world) { w.ud.Generation++ }},
		"an object that goes":        {says: "deleted", edit: func(w *world) { w.ud.DeletionTimestamp = second(w.now) }},
		"nothing before":             {says: "no revision before", edit: func(w *world) { w.revs = w.revs[1:] }},
		"no revisions":               {says: "no stored revision", edit: func(w *world) { w.revs = nil }},
		"one that cannot be read":    {number: 1, says: "cannot be read", edit: func(w *world) { w.revs[0].Data = []byte(`{"spec":1}`) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			if tc.edit != nil {
				tc.edit(w)
			}
			if _, err := w.tryUndo(tc.number, nil); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q", err, tc.says)
			}
		})
	}
	t.Run("a spec that has changed", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		out, err := w.tryUndo(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.ud.Generation++
		raw, _ := json.Marshal(w.ud)
		if _, err := applied(raw, out.Patch); err == nil {
			t.Error("the patch of an older spec is taken")
		}
	})
	t.Run("a newer subset keeps its overrides", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		c := sub("c", "north", "4")
		c.Patch = rawJSON(`{"metadata":{"annotations":{"only":"c"}}}`)
		w.ud.Spec.Topology.Subsets = append(w.ud.Spec.Topology.Subsets, c)
		first := HistoryOf(w.ud, w.revs)[1].Name
		out := w.undo(1, map[string]Known{first: {Subsets: []string{"a", "b"}}})
		if w.ud.Spec.Topology.Subsets[2].Patch == nil || !strings.Contains(strings.Join(out.Says, "\n"), "subset c is newer") {
			t.Errorf("%+v", out)
		}
	})
}

// TestHistoryIsTrimmedAroundWhatIsHeld: the limit is kept, and never at the price of a revision that a child holds, on a
// member that answers or on one that does not.
func TestHistoryIsTrimmedAroundWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, united("web", 8, "app:v1", sub("a", "east", "4"), sub("b", "west", "4")))
	w.ud.Spec.RevisionHistoryLimit = new(int32(2))
	partitions(w.ud, map[string]string{"a": "0", "b": "0"})
	w.run()
	first := w.ud.Status.CurrentRevision
	w.members["west"].down = true
	for _, image := range []string{"app:v2", "app:v3", "app:v4", "app:v5", "app:v6", "app:v7"} {
		setImage(w.ud, image)
		w.run()
	}
	has := func(name string) bool {
		return slices.ContainsFunc(HistoryOf(w.ud, w.revs), func(p Past) bool { return p.Name == name })
	}
	if !has(first) || len(w.revs) > 5 {
		t.Errorf("%d kept, the one that an unreachable member holds among them: %v", len(w.revs), has(first))
	}
	if list := HistoryOf(w.ud, w.revs); !slices.Equal(list[len(list)-1].Subsets, []string{"b"}) || !slices.Equal(list[0].Subsets, []string{"a"}) {
		t.Errorf("%+v", list)
	}
	w.members["west"].down = false
	w.run()
	setImage(w.ud, "app:v8")
	w.run()
	if has(first) || len(w.revs) > 4 {
		t.Errorf("nobody holds it any more, and %d are kept", len(w.revs))
	}
}

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// tiered is a released object with a template of subsets for tier=a (patched as of says), one for tier=b (never patched), and
// every member.
func tiered(t *testing.T, of string) *world {
	t.Helper()
	w := selectedFleet(t, 6, []appsv1alpha1.SubsetSelector{patched("tier=a", of), tmpl("tier=b", "")}, "x:tier=a", "y:tier=b", "z:tier=c")
	w.run()
	return w
}

// noted are what the templates of subsets say of the annotation that patched makes, in order.
func noted(ud *appsv1alpha1.UnitedDeployment) []string {
	var out []string
	for i := range ud.Spec.Topology.SubsetTemplates {
		raw := "-"
		if p := ud.Spec.Topology.SubsetTemplates[i].Patch; p != nil {
			raw = string(p.Raw)
		}
		out = append(out, raw)
	}
	return out
}

// TestUndoFollowsSelectors: what a revision says of a template of subsets goes to the one with that selector, wherever it
// stands, and to no other.
func TestUndoFollowsSelectors(t *testing.T) {
	t.Parallel()
	first, second, none := string(patched("tier=a", "1").Patch.Raw), string(patched("tier=a", "2").Patch.Raw), "-"
	for name, tc := range map[string]struct {
		edit func(list []appsv1alpha1.SubsetSelector) []appsv1alpha1.SubsetSelector
		want []string
		says string
	}{
		"as they stood": {want: []string{first, none}},
		"reordered": {
			edit: func(list []appsv1alpha1.SubsetSelector) []appsv1alpha1.SubsetSelector {
				slices.Reverse(list)
				return list
			},
			want: []string{none, first},
		},
		"the other one is gone": {
			edit: func(list []appsv1alpha1.SubsetSelector) []appsv1alpha1.SubsetSelector { return list[:1] },
			want: []string{first},
		},
		"it is gone": {
			edit: func(list []appsv1alpha1.SubsetSelector) []appsv1alpha1.SubsetSelector { return list[1:] },
			says: "whose selector spec.topology.subsetTemplates has no more",
		},
		"another one, in front": {
			edit: func(list []appsv1alpha1.SubsetSelector) []appsv1alpha1.SubsetSelector {
				return append([]appsv1alpha1.SubsetSelector{patched("tier=c", "new")}, list...)
			},
			want: []string{string(patched("tier=c", "new").Patch.Raw), first, none},
		},
		"one that cannot be read, in front": {
			edit: func(list []appsv1alpha1.SubsetSelector) []appsv1alpha1.SubsetSelector {
				return append([]appsv1alpha1.SubsetSelector{{}}, list...)
			},
			want: []string{none, first, none},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := tiered(t, "1")
			known := map[string]Known{w.ud.Status.UpdatedRevision: {Subsets: []string{""}, Templates: TemplateKeys(w.ud)}}
			w.ud.Spec.Topology.SubsetTemplates[0].Patch = patched("tier=a", "2").Patch
			setImage(w.ud, "web:2")
			w.run()
			if got := noted(w.ud); got[0] != second {
				t.Fatalf("the patch of the second release: %v", got)
			}
			if tc.edit != nil {
				w.ud.Spec.Topology.SubsetTemplates = tc.edit(w.ud.Spec.Topology.SubsetTemplates)
				w.ud.Generation++
			}
			if tc.says != "" {
				if _, err := w.tryUndo(1, known); err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v, want %q", err, tc.says)
				}
				return
			}
			w.undo(1, known)
			if diff := cmp.Diff(tc.want, noted(w.ud)); diff != "" {
				t.Errorf("patches after the undo (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUndoOfTemplatesOfSubsets goes back in the middle of a release: the member goes back as a whole, and no other moves.
func TestUndoOfTemplatesOfSubsets(t *testing.T) {
	t.Parallel()
	w := tiered(t, "1")
	before := w.ud.Status.UpdatedRevision
	known := map[string]Known{before: {Templates: TemplateKeys(w.ud)}}
	w.hold("100%")
	w.ud.Spec.Topology.SubsetTemplates[0].Patch = patched("tier=a", "2").Patch
	w.run()
	if w.ud.Status.UpdatedRevision == before {
		t.Fatal("another patch of a template of subsets is no release")
	}
	partitions(w.ud, map[string]string{"x": "0", "y": "100%"})
	w.run()
	moved := w.child("x").clone()
	way := w.undo(0, known)
	if diff := cmp.Diff([]string{"template of subsets 0: patch as the revision has it"}, way.Changes); diff != "" || way.To.Name != before {
		t.Errorf("changes (-want +got):\n%s\n%s", diff, way.To.Name)
	}
	w.run()
	if w.ud.Status.UpdatedRevision != before || w.ud.Status.CurrentRevision != before || fmt.Sprint(w.child("x").pods) == fmt.Sprint(moved.pods) {
		t.Errorf("not back: %+v", w.ud.Status)
	}
	w.wants("x Current 3/3", "y Current 3/3")
}

// TestUndoToldWhatItKeeps: with something newer that overrides fields the spec is no stored revision, so going there is a
// release, and is said to be one; something newer without overrides is not worth a word.
func TestUndoToldWhatItKeeps(t *testing.T) {
	t.Parallel()
	for _, overrides := range []bool{true, false} {
		w := tiered(t, "1")
		before := w.ud.Status.UpdatedRevision
		known := map[string]Known{before: {Subsets: []string{""}, Templates: TemplateKeys(w.ud)}}
		w.hold("100%")
		setImage(w.ud, "web:2")
		w.run()
		newer := tmpl("tier=c", "")
		if overrides {
			newer = patched("tier=c", "new")
		}
		w.ud.Spec.Topology.SubsetTemplates = append(w.ud.Spec.Topology.SubsetTemplates, newer)
		w.ud.Generation++
		w.run()
		way := w.undo(0, known)
		says := strings.Join(way.Says, "\n")
		if got := strings.Contains(says, "template of subsets 2 is newer"); got != overrides {
			t.Errorf("overrides %v: %s", overrides, says)
		}
		if got := strings.Contains(says, "so going there is a release"); got != overrides {
			t.Errorf("overrides %v: %s", overrides, says)
		}
		w.run()
		if back := w.ud.Status.UpdatedRevision == before; back == overrides {
			t.Errorf("overrides %v: the spec's revision is the old one: %v", overrides, back)
		}
	}
}

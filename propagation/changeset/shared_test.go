package changeset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/changeset"
	"github.com/underway-dev/underway/propagation/render"
)

const sharingHub = "0123456789abcdef"

// claim is a PersistentVolumeClaim of a size, as the hub has it.
func claimOf(size string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"namespace": "shop", "name": "data"},
		"spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "fast",
			"resources": map[string]any{"requests": map[string]any{"storage": size}},
		},
	}}
}

func settings(value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": "settings"},
		"data": map[string]any{"a": value},
	}}
}

func sharing(desired, live *unstructured.Unstructured, version int64, owners ...string) changeset.SharedInput {
	return changeset.SharedInput{
		Desired: desired, Live: live, HubID: sharingHub, Owners: owners,
		Source: render.Intent{Term: 1, OwnerUID: "source", Generation: version},
	}
}

// lives is what a member has after the hub's apply of obj: every leaf is ours.
func lives(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	out.SetUID(types.UID("live"))
	out.SetResourceVersion("7")
	fields := tree(obj.Object)
	for _, field := range []string{"f:apiVersion", "f:kind"} {
		delete(fields, field)
	}
	for _, field := range []string{"f:name", "f:namespace"} {
		delete(fields["f:metadata"].(map[string]any), field)
	}
	out.Object["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
		"manager": appsv1alpha1.FieldManagerHub, "operation": "Apply", "fieldsV1": fields,
	}}
	return out
}

func tree(m map[string]any) map[string]any {
	out := map[string]any{}
	for field, v := range m {
		below := map[string]any{}
		if t, ok := v.(map[string]any); ok {
			below = tree(t)
		}
		out["f:"+field] = below
	}
	return out
}

func TestShared(t *testing.T) {
	t.Parallel()
	made := changeset.DecideShared(sharing(settings("1"), nil, 3, "x"))
	ours := lives(made.Object)
	edited := func(obj *unstructured.Unstructured, edit func(*unstructured.Unstructured)) *unstructured.Unstructured {
		out := obj.DeepCopy()
		edit(out)
		return out
	}
	annotated := func(name, value string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			all := u.GetAnnotations()
			all[name] = value
			u.SetAnnotations(all)
		}
	}
	marks := func(in changeset.SharedInput, leaving ...string) changeset.SharedInput {
		in.Leaving = leaving
		return in
	}
	hold := func(in changeset.SharedInput) changeset.SharedInput { in.Hold = true; return in }
	for name, tc := range map[string]struct {
		in     changeset.SharedInput
		op     changeset.Op
		reason changeset.Reason
		// sent are the fields that differ.
		sent string
	}{
		"nothing there":                  {sharing(settings("1"), nil, 3, "x"), changeset.OpCreate, changeset.ReasonAbsent, ""},
		"nothing there and nobody wants": {marks(sharing(settings("1"), nil, 3), "x"), changeset.OpNothing, changeset.ReasonGone, ""},
		"as it was":                      {sharing(settings("1"), ours, 3, "x"), changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"a newer version of equal text":  {sharing(settings("1"), ours, 9, "x"), changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"other text":                     {sharing(settings("2"), ours, 9, "x"), changeset.OpApply, changeset.ReasonChanged, "data.a"},
		"other text that is held":        {hold(sharing(settings("2"), ours, 9, "x")), changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"a second owner":                 {sharing(settings("1"), ours, 3, "y"), changeset.OpApply, changeset.ReasonChanged, "metadata.annotations.owner.fleet.underway.dev/y"},
		"an older version":               {sharing(settings("0"), ours, 2, "x"), changeset.OpHubBehind, changeset.ReasonNewerIntent, ""},
		"an older version of another one": {func() changeset.SharedInput {
			i := sharing(settings("0"), ours, 2, "x")
			i.Source.OwnerUID = "again"
			return i
		}(), changeset.OpApply, changeset.ReasonChanged, "data.a"},
		"the last owner leaves": {marks(sharing(settings("1"), ours, 3), "x"), changeset.OpDelete, changeset.ReasonUnwanted, ""},
		"a stranger leaves":     {marks(sharing(settings("1"), ours, 3), "y"), changeset.OpNothing, changeset.ReasonUpToDate, ""},
		"the last owner lets it go": {func() changeset.SharedInput {
			i := marks(sharing(settings("1"), ours, 3), "x")
			i.LetGo = true
			return i
		}(), changeset.OpOrphan, changeset.ReasonLetGo, ""},
		"what we let go comes back": {sharing(settings("1"), edited(ours, annotated(appsv1alpha1.AnnotationOrphaned, "t")), 3, "x"), changeset.OpApply, changeset.ReasonAdopted, ""},
		"managed elsewhere":         {sharing(settings("2"), edited(ours, annotated(appsv1alpha1.AnnotationPropagate, "false")), 9, "x"), changeset.OpNothing, changeset.ReasonManagedElsewhere, ""},
		"another hub's":             {sharing(settings("2"), edited(ours, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{appsv1alpha1.LabelHub: "b"}) }), 9, "x"), changeset.OpConflict, changeset.ReasonOtherHub, ""},
		"nobody's":                  {sharing(settings("2"), edited(ours, func(u *unstructured.Unstructured) { u.SetLabels(nil) }), 9, "x"), changeset.OpConflict, changeset.ReasonNotOurs, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := changeset.DecideShared(tc.in)
			if got.Op != tc.op || got.Reason != tc.reason {
				t.Fatalf("%s %s: %s", got.Op, got.Reason, got.Message)
			}
			if tc.sent != "" && !slices.Contains(got.Fields, tc.sent) {
				t.Errorf("fields %v, want %s", got.Fields, tc.sent)
			}
			if tc.op == changeset.OpApply && tc.in.Memory == nil {
				again := tc.in
				again.Live = lives(got.Object)
				if d := changeset.DecideShared(again); d.Op != changeset.OpNothing {
					t.Errorf("it is not at rest after that: %s %s", d.Op, d.Message)
				}
			}
		})
	}
}

// TestClaimsAreOnlyMadeLarger: of a claim that exists nothing is sent but more storage, and it is never deleted.
func TestClaimsAreOnlyMadeLarger(t *testing.T) {
	t.Parallel()
	ours := lives(changeset.DecideShared(sharing(claimOf("1Gi"), nil, 3, "x")).Object)
	for size, want := range map[string]string{"1Gi": "", "1024Mi": "", "2Gi": "2Gi", "512Mi": ""} {
		next := claimOf(size)
		_ = unstructured.SetNestedField(next.Object, "slow", "spec", "storageClassName")
		d := changeset.DecideShared(sharing(next, ours, 4, "x"))
		if want == "" {
			if d.Op != changeset.OpNothing {
				t.Errorf("%s: %s %s", size, d.Op, d.Message)
			}
			continue
		}
		class, _, _ := unstructured.NestedString(d.Object.Object, "spec", "storageClassName")
		storage, _, _ := unstructured.NestedString(d.Object.Object, "spec", "resources", "requests", "storage")
		if d.Op != changeset.OpApply || storage != want || class != "fast" {
			t.Errorf("%s: %s sends %s of class %s", size, d.Op, storage, class)
		}
	}
	leaving := sharing(claimOf("1Gi"), ours, 3)
	leaving.Leaving = []string{"x"}
	if d := changeset.DecideShared(leaving); d.Op != changeset.OpOrphan || len(d.Unmark) != 1 {
		t.Errorf("%s, takes off %v", d.Op, d.Unmark)
	}
}

// TestCopiesOfOurContentAreLeftAlone: somebody copies an object of ours with all its marks; it is not deleted.
func TestCopiesOfOurContentAreLeftAlone(t *testing.T) {
	t.Parallel()
	made := changeset.DecideShared(sharing(settings("1"), nil, 3, "x")).Object
	made.SetUID("copy")
	in := sharing(settings("1"), made, 3)
	in.Leaving = []string{"x"}
	if d := changeset.DecideShared(in); d.Op != changeset.OpNothing || d.Reason != changeset.ReasonNotOurs {
		t.Errorf("%s %s", d.Op, d.Reason)
	}
}

// TestConflictSaysWhatAdoptionWouldChange before anybody allows it.
func TestConflictSaysWhatAdoptionWouldChange(t *testing.T) {
	t.Parallel()
	live := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec": map[string]any{"replicas": int64(7), "template": map[string]any{"spec": map[string]any{"x": "same"}}},
	}}
	desired := live.DeepCopy()
	_ = unstructured.SetNestedField(desired.Object, int64(3), "spec", "replicas")
	got := changeset.Decide(changeset.Input{
		Want: changeset.WantApplied, Desired: desired, Live: live, HubID: sharingHub, Intent: render.Intent{OwnerUID: "ud"},
	})
	if got.Op != changeset.OpConflict || !strings.HasSuffix(got.Message, "; taking it over would change spec.replicas") {
		t.Errorf("%s: %q", got.Op, got.Message)
	}
	if diff := cmp.Diff([]string{"spec.replicas"}, got.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// TestB039: two containers share a repository, and one of them was changed on the member: the difference names it, and what
// is sent has both images as wanted. B159 is the same with any image, at any time.
func TestB039(t *testing.T) {
	t.Parallel()
	for _, kind := range []render.Kind{render.CloneSet(), render.Deployment()} {
		child := func(main string) *unstructured.Unstructured {
			u := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{
					"namespace": "shop", "name": "web", "labels": map[string]any{appsv1alpha1.LabelHub: sharingHub},
					"annotations": map[string]any{appsv1alpha1.AnnotationIntent: "1/ud/3/1", appsv1alpha1.AnnotationOwner: "shop/web"},
				},
				"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
					"initContainers": []any{map[string]any{"name": "prep", "image": "app:7"}},
					"containers":     []any{map[string]any{"name": "main", "image": main}},
				}}},
			}}
			u.SetGroupVersionKind(kind.GVK)
			return u
		}
		live := lives(child("app:5"))
		for _, memory := range []*changeset.Memory{nil, new(changeset.Remember(child("app:7"), lives(child("app:7"))))} {
			got := changeset.Decide(changeset.Input{
				Want: changeset.WantApplied, Desired: child("app:7"), Live: live, Memory: memory, HubID: sharingHub,
				Intent: render.Intent{Term: 1, OwnerUID: "ud", Generation: 3, Epoch: 1},
			})
			if memory != nil {
				memory.UID = "live"
			}
			if got.Op != changeset.OpApply || got.Reason != changeset.ReasonDrifted || !slices.ContainsFunc(got.Fields, func(f string) bool {
				return strings.Contains(f, "containers[main].image") && !strings.Contains(f, "initContainers")
			}) {
				t.Errorf("%s: %s %s %v", kind.GVK.Kind, got.Op, got.Reason, got.Fields)
			}
			if fmt.Sprint(got.Object.Object["spec"]) != fmt.Sprint(child("app:7").Object["spec"]) {
				t.Errorf("what is sent is %v", got.Object.Object)
			}
		}
	}
}

// TestASharedTermThatNoHubHas: what somebody wrote on a member stops no hub; the copy is put right.
func TestASharedTermThatNoHubHas(t *testing.T) {
	t.Parallel()
	for lead, stops := range map[int64]bool{0: false, 1: true, render.MaxLead: true, render.MaxLead + 1: false, render.MaxIntent - 1: false} {
		live := lives(changeset.DecideShared(sharing(settings("1"), nil, 3, "x")).Object)
		annotations := live.GetAnnotations()
		annotations[appsv1alpha1.AnnotationIntent] = render.Intent{Term: 1 + lead, OwnerUID: "source", Generation: 3}.String()
		live.SetAnnotations(annotations)
		got := changeset.DecideShared(sharing(settings("2"), live, 4, "x"))
		if want := changeset.OpApply; (got.Op == changeset.OpHubBehind) != stops || !stops && got.Op != want {
			t.Errorf("a lead of %d: %s, %s", lead, got.Op, got.Reason)
		}
	}
}

package cloneset

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// TestB161Strike: names of pods that do not exist are dropped from podsToDelete, but for those that a hub or another applier
// owns: it would write them again.
func TestB161Strike(t *testing.T) {
	t.Parallel()
	fields := func(operation metav1.ManagedFieldsOperationType, sub, names string) metav1.ManagedFieldsEntry {
		raw := fmt.Sprintf(`{"f:spec":{"f:replicas":{},"f:scaleStrategy":{"f:podsToDelete":%s}}}`, names)
		return metav1.ManagedFieldsEntry{Operation: operation, Subresource: sub, FieldsV1: metav1.NewFieldsV1(raw)}
	}
	apply, update := metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	for name, tc := range map[string]struct {
		managers   []metav1.ManagedFieldsEntry
		left, stay []string
	}{
		"a person's":                     {managers: []metav1.ManagedFieldsEntry{fields(update, "", `{".":{},"v:\"a\"":{},"v:\"b\"":{}}`)}, left: []string{"c"}},
		"nobody's":                       {left: []string{"c"}},
		"one of them is the hub's":       {managers: []metav1.ManagedFieldsEntry{fields(apply, "", `{"v:\"a\"":{}}`)}, left: []string{"a", "c"}, stay: []string{"a"}},
		"another one is the hub's":       {managers: []metav1.ManagedFieldsEntry{fields(apply, "", `{"v:\"c\"":{}}`)}, left: []string{"c"}},
		"the list is the hub's":          {managers: []metav1.ManagedFieldsEntry{fields(apply, "", `{}`)}, left: []string{"a", "b", "c"}, stay: []string{"a", "b"}},
		"an apply of the status":         {managers: []metav1.ManagedFieldsEntry{fields(apply, "status", `{}`)}, left: []string{"c"}},
		"an apply that cannot be read":   {managers: []metav1.ManagedFieldsEntry{{Operation: apply, FieldsV1: metav1.NewFieldsV1(`[`)}}, left: []string{"a", "b", "c"}, stay: []string{"a", "b"}},
		"an apply of something else":     {managers: []metav1.ManagedFieldsEntry{{Operation: apply, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)}}, left: []string{"c"}},
		"an apply with nothing in it":    {managers: []metav1.ManagedFieldsEntry{{Operation: apply}}, left: []string{"c"}},
		"the whole list, by a v1 client": {managers: []metav1.ManagedFieldsEntry{fields(update, "", `{}`)}, left: []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cs, _ := read(t, `{scaleStrategy: {podsToDelete: [a, b, c]}}`)
			cs.ManagedFields = tc.managers
			stay := Kind{}.Strike(cs, []string{"a", "b"})
			if diff := cmp.Diff(tc.stay, stay) + cmp.Diff(tc.left, cs.Spec.ScaleStrategy.PodsToDelete); diff != "" {
				t.Error(diff)
			}
		})
	}
	if stay := (Kind{}).Strike(&appsv1alpha1.CloneSet{}, []string{"a"}); len(stay) != 0 {
		t.Errorf("%v", stay)
	}
}

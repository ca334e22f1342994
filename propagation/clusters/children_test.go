package clusters

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/underway-dev/underway/propagation/render"
)

func object(name, version, owner string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"namespace": "shop", "name": name, "resourceVersion": version,
		"annotations": map[string]any{"fleet.underway.dev/owner": owner, "kubectl.kubernetes.io/last-applied-configuration": "{}"},
	}}}
	u.SetGroupVersionKind(render.CloneSet().GVK)
	return u
}

func TestReplaceReportsOnlyDifferences(t *testing.T) {
	t.Parallel()
	var told []string
	filled := false
	c := newChildren(render.CloneSet(), func(u *unstructured.Unstructured) {
		told = append(told, u.GetName()+"@"+u.GetResourceVersion())
	}, func() { filled = true })
	if err := c.Replace([]any{object("a", "1", "shop/web"), object("b", "1", "shop/web"), object("c", "1", "shop/api")}, "1"); err != nil || !filled {
		t.Fatal(err, filled)
	}
	told = nil
	if err := c.Replace([]any{object("a", "1", "shop/web"), object("b", "2", "shop/web")}, "2"); err != nil {
		t.Fatal(err)
	}
	slices.Sort(told)
	if diff := cmp.Diff([]string{"b@2", "c@1"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if got := len(c.of(types.NamespacedName{Namespace: "shop", Name: "web"})); got != 2 {
		t.Errorf("%d children of web, want 2", got)
	}
	if err := c.Delete(object("a", "3", "shop/web")); err != nil {
		t.Fatal(err)
	}
	if got := len(c.of(types.NamespacedName{Namespace: "shop", Name: "web"})); got != 1 {
		t.Errorf("%d children of web after a delete, want 1", got)
	}
}

func TestLeanKeepsOurEntryAndTheScalers(t *testing.T) {
	t.Parallel()
	ours := map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}, "f:template": map[string]any{}}}
	u := object("a", "1", "shop/web")
	u.Object["metadata"].(map[string]any)["managedFields"] = []any{
		map[string]any{"manager": "underway-hub", "operation": "Apply", "fieldsV1": ours},
		map[string]any{"manager": "underway-hub", "operation": "Update", "fieldsV1": map[string]any{"f:metadata": map[string]any{}}},
		map[string]any{"manager": "hpa", "operation": "Update", "subresource": "scale", "fieldsV1": map[string]any{
			"f:spec": map[string]any{"f:replicas": map[string]any{}, "f:other": map[string]any{}},
		}},
		map[string]any{"manager": "agent", "operation": "Update", "subresource": "status", "fieldsV1": map[string]any{"f:status": map[string]any{}}},
	}
	got := lean(u).Object["metadata"].(map[string]any)
	want := []any{
		map[string]any{"manager": "underway-hub", "operation": "Apply", "fieldsV1": ours},
		map[string]any{"manager": "hpa", "operation": "Update", "subresource": "scale", "fieldsV1": map[string]any{
			"f:spec": map[string]any{"f:replicas": map[string]any{}},
		}},
	}
	if diff := cmp.Diff(want, got["managedFields"]); diff != "" {
		t.Errorf("managedFields (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"fleet.underway.dev/owner": "shop/web"}, got["annotations"]); diff != "" {
		t.Error(diff)
	}
}

func TestStateOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		view View
		want State
	}{
		"new":                   {View{}, StateConnecting},
		"first contact":         {View{Reachable: true, Block: BlockIdentityUnstored}, StateConnecting},
		"reading":               {View{Reachable: true}, StateSyncing},
		"ready":                 {View{Reachable: true, Synced: true}, StateReady},
		"silent after that":     {View{Synced: true, Block: BlockUnreachable, Identity: "x", SeenIdentity: "x"}, StateDegraded},
		"silent from the start": {View{Block: BlockUnreachable, Identity: "x"}, StateConnecting},
		"another cluster":       {View{Reachable: true, Synced: true, Block: BlockIdentityChanged}, StateBlocked},
		"taken":                 {View{Reachable: true, Block: BlockIdentityTaken}, StateBlocked},
		"credential refused":    {View{Synced: true, Block: BlockUnauthorized, Identity: "x", SeenIdentity: "x"}, StateBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := stateOf(tc.view); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

package push

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestUndeclaredFieldsAreLeftOut(t *testing.T) {
	t.Parallel()
	const head = "creating: failed to create typed patch object (ns/web; apps/v1, Kind=Deployment): "
	object := func() map[string]any {
		return map[string]any{
			"metadata": map[string]any{"name": "web", "odd": "x"},
			"spec": map[string]any{
				"new": map[string]any{"a": int64(1)}, "paused": true,
				"template": map[string]any{"spec": map[string]any{"containers": []any{
					map[string]any{"name": "side", "newer": true},
					map[string]any{"name": "web", "newer": true, "ports": []any{
						map[string]any{"containerPort": int64(53), "protocol": "UDP", "later": "x"},
						map[string]any{"containerPort": int64(53), "later": "y"},
					}},
				}}},
			},
		}
	}
	for name, tc := range map[string]struct {
		message string
		want    func(spec map[string]any)
		refused bool
	}{
		"one": {message: head + ".spec.new: field not declared in schema", want: func(s map[string]any) { delete(s, "new") }},
		"more": {
			message: head + "errors:\n  .spec.new: field not declared in schema\n" +
				"  .spec.template.spec.containers[name=\"web\"].newer: field not declared in schema\n" +
				"  .spec.template.spec.containers[name=\"web\"].ports[containerPort=53,protocol=\"TCP\"].later: field not declared in schema",
			want: func(s map[string]any) {
				delete(s, "new")
				web := s["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[1].(map[string]any)
				delete(web, "newer")
				delete(web["ports"].([]any)[1].(map[string]any), "later")
			},
		},
		"by index": {message: head + ".spec.template.spec.containers[0].newer: field not declared in schema", want: func(s map[string]any) {
			delete(s["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any), "newer")
		}},
		"user namespaces":     {message: head + ".spec.template.spec.hostUsers: field not declared in schema", refused: true},
		"below the context":   {message: head + ".spec.template.spec.containers[name=\"web\"].securityContext.newer: field not declared in schema", refused: true},
		"a newer confinement": {message: head + ".spec.template.spec.podSecurityLevel: field not declared in schema", refused: true},
		"a source of volumes": {message: head + ".spec.template.spec.volumes[name=\"v\"].newer: field not declared in schema", refused: true},
		"a mount":             {message: head + ".spec.template.spec.containers[name=\"web\"].volumeMounts[mountPath=\"/x\"].recursiveReadOnly: field not declared in schema", refused: true},
		"one among others": {message: head + "errors:\n  .spec.new: field not declared in schema\n" +
			"  .spec.template.spec.hostUsers: field not declared in schema", refused: true},
		"the hold":            {message: head + ".spec.paused: field not declared in schema", refused: true},
		"the identity":        {message: head + ".metadata.odd: field not declared in schema", refused: true},
		"the spec":            {message: head + ".spec: field not declared in schema", refused: true},
		"what is not there":   {message: head + ".spec.other: field not declared in schema", refused: true},
		"what cannot be read": {message: head + ".spec.a[=x].b: field not declared in schema", refused: true},
		"nothing":             {message: "field not declared in schema", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := &unstructured.Unstructured{Object: object()}
			err := dropUndeclared(obj, tc.message)
			if tc.refused {
				if !errors.Is(err, ErrUndeclared) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := object()
			tc.want(want["spec"].(map[string]any))
			if diff := cmp.Diff(want, obj.Object); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

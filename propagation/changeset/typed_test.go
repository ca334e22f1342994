package changeset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/underway-dev/underway/propagation/render"
)

// What a typed API server writes in another way is no difference; what somebody else wrote is.
func TestDifferencesOfTypedKinds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		desired, live string
		want          []string
	}{
		"defaults beside ours":            {`{"a": 1}`, `{"a": 1, "strategy": {"type": "RollingUpdate"}}`, nil},
		"zero values are left out":        {`{"f": false, "n": 0, "s": "", "m": {"x": {"y": false}}, "l": []}`, `{}`, nil},
		"a value is not":                  {`{"m": {"x": false, "y": 1}}`, `{}`, []string{"spec.m"}},
		"a zero over a value":             {`{"n": 0}`, `{"n": 30}`, []string{"spec.n"}},
		"two mounts of one volume":        {`{"volumeMounts": [{"name": "v", "mountPath": "/b"}, {"name": "v", "mountPath": "/a"}]}`, `{"volumeMounts": [{"name": "v", "mountPath": "/b"}, {"name": "v", "mountPath": "/a"}]}`, nil},
		"one port in two protocols":       {`{"ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP", "name": "u"}]}`, `{"ports": [{"containerPort": 53, "protocol": "UDP", "name": "u"}, {"containerPort": 53, "protocol": "TCP"}]}`, nil},
		"a port that is gone":             {`{"ports": [{"containerPort": 53}]}`, `{"ports": [{"containerPort": 53, "protocol": "UDP"}]}`, []string{"spec.ports[0]"}},
		"somebody's container beside":     {`{"containers": [{"name": "web", "image": "a"}]}`, `{"containers": [{"name": "theirs"}, {"name": "web", "image": "a"}]}`, nil},
		"another image":                   {`{"containers": [{"name": "web", "image": "a"}]}`, `{"containers": [{"name": "web", "image": "b"}]}`, []string{"spec.containers[web].image"}},
		"an atomic list that has names":   {`{"sources": [{"name": "a"}]}`, `{"sources": [{"name": "a"}, {"name": "b"}]}`, []string{"spec.sources"}},
		"an atomic list in another order": {`{"tolerations": [{"key": "a"}, {"key": "b"}]}`, `{"tolerations": [{"key": "b"}, {"key": "a"}]}`, []string{"spec.tolerations[0].key", "spec.tolerations[1].key"}},
		"an amount":                       {`{"requests": {"cpu": "1000m"}}`, `{"requests": {"cpu": "1"}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := names(differences(typed(t, tc.desired), typed(t, tc.live)), nil)
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func typed(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(spec), &v); err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": v}}
	obj.SetGroupVersionKind(render.Deployment().GVK)
	return obj
}

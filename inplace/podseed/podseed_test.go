package podseed_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/podseed"
)

func seed(template string) podseed.Seed {
	return podseed.Seed{
		Namespace: "ns", Name: "web-abcde", Owner: metav1.OwnerReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web", UID: "u"},
		Revision: inplace.Revision{Name: "web-h2", Hash: "h2", Template: []byte(template)},
		Labels:   map[string]string{"apps.kruise.io/cloneset-instance-id": "abcde"}, Replaces: "web-h1",
	}
}

func TestObjectKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	pod, err := podseed.Object(seed(`{"metadata":{"labels":{"app":"web"},"annotations":{"a":"1","apps.kruise.io/inplace-update-state":"{}"},"finalizers":["f"]},
		"spec":{"fieldOf2031":{"n":9007199254740993},"containers":[{"name":"web","image":"app:v1"}],"readinessGates":[{"conditionType":"x"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"namespace": "ns", "name": "web-abcde", "finalizers": []any{"f"},
			"labels": map[string]any{
				"app": "web", "apps.kruise.io/cloneset-instance-id": "abcde", "controller-revision-hash": "web-h2", "pod-template-hash": "h2",
			},
			"annotations":     map[string]any{"a": "1", "apps.underway.dev/replaces": "web-h1"},
			"ownerReferences": []any{map[string]any{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "u"}},
		},
		"spec": map[string]any{
			"fieldOf2031":    map[string]any{"n": int64(9007199254740993)},
			"containers":     []any{map[string]any{"name": "web", "image": "app:v1"}},
			"readinessGates": []any{map[string]any{"conditionType": "x"}, map[string]any{"conditionType": "InPlaceUpdateReady"}},
		},
	}
	if diff := cmp.Diff(want, pod.Object); diff != "" {
		t.Error(diff)
	}
	pod.DeepCopy() // panics on types that JSON does not have
}

func TestTheGateIsThereOnce(t *testing.T) {
	t.Parallel()
	s := seed(`{"spec":{"readinessGates":[{"conditionType":"InPlaceUpdateReady"}]}}`)
	s.Replaces = ""
	pod, err := podseed.Object(s)
	if err != nil {
		t.Fatal(err)
	}
	gates, _, _ := unstructured.NestedSlice(pod.Object, "spec", "readinessGates")
	if len(gates) != 1 || len(pod.GetAnnotations()) != 0 {
		t.Errorf("%v %v", gates, pod.GetAnnotations())
	}
}

func TestATemplateThatCannotBeUsedIsAnError(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{``, `{`, `{}`, `{"spec":1}`, `{"spec":{"readinessGates":"x"}}`, `{"metadata":{"labels":[]},"spec":{}}`, `{"metadata":{"annotations":{"a":1}},"spec":{}}`, `{"metadata":{"finalizers":{}},"spec":{}}`} {
		if pod, err := podseed.Object(seed(bad)); err == nil {
			t.Errorf("%s gave %v", bad, pod)
		}
	}
}

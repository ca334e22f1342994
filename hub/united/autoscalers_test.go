package united

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/underway-dev/underway/hub/united/plan"
	"github.com/underway-dev/underway/propagation/render"
)

func hpa(target string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
		"metadata": map[string]any{"name": "hpa-" + target, "namespace": "demo"},
		"spec": map[string]any{"scaleTargetRef": map[string]any{
			"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": target,
		}},
	}}
}

// TestAnAutoscalerThatIsGone loses its word after a minute without any HPA, never while it cannot be looked for.
func TestAnAutoscalerThatIsGone(t *testing.T) {
	t.Parallel()
	at := plan.Target{Member: "east", Kind: plan.KindName(render.CloneSet()), Name: "web-a"}
	hpas := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	for name, tc := range map[string]struct {
		manager, target string
		want            bool
	}{
		"its HPA is there":              {"kube-controller-manager", "web-a", false},
		"only another child's is":       {"kube-controller-manager", "web-b", true},
		"another kind of autoscaler is": {"keda", "web-b", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, crd("cluster"), web())
			b.members.pods = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(b.Client.Scheme(),
				map[schema.GroupVersionResource]string{hpas: "HorizontalPodAutoscalerList"}, hpa(tc.target))
			m := &memory{}
			gone := false
			for range 6 {
				seen := &observation{memory: m}
				seen.United = web()
				seen.Children = []plan.Child{{Member: at.Member}}
				r := &seen.Children[0].Report
				r.Kind, r.Name, r.ScaledBy = at.Kind, at.Name, []string{tc.manager}
				b.observeScalers(t.Context(), seen)
				if s := m.scalers[at]; s != nil && s.look != nil {
					<-s.look.done
				}
				if gone = seen.Children[0].ScalerGone; gone != (len(r.ScaledBy) == 0) {
					t.Fatalf("gone %v, scaled by %v", gone, r.ScaledBy)
				}
				b.clock.Step(20 * time.Second)
			}
			if gone != tc.want {
				t.Errorf("gone: %v", gone)
			}
		})
	}
}

// TestScales holds that what cannot be read counts as an autoscaler of the child.
func TestScales(t *testing.T) {
	t.Parallel()
	at := plan.Target{Kind: plan.KindName(render.CloneSet()), Name: "web-a"}
	broken := hpa("web-a")
	broken.Object["spec"] = map[string]any{"scaleTargetRef": map[string]any{"kind": int64(3)}}
	other := hpa("web-a")
	_ = unstructured.SetNestedField(other.Object, "apps/v1", "spec", "scaleTargetRef", "apiVersion")
	for name, tc := range map[string]struct {
		h    *unstructured.Unstructured
		want bool
	}{
		"of any version": {hpa("web-a"), true}, "another name": {hpa("web-b"), false}, "another group": {other, false}, "unreadable": {broken, true},
	} {
		if got := scales(tc.h, at); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

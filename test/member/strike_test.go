//go:build lab

package member

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/test/kit"
)

// TestPodsToDeleteOfAnApplier: a name that a person wrote is taken out when no pod has it, one that a hub (or any server-side
// applier) owns stays and is told: it would be written again and again.
func TestPodsToDeleteOfAnApplier(t *testing.T) {
	t.Parallel()
	p := in(t, steady)
	body, err := yaml.YAMLToJSON([]byte(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  scaleStrategy: {podsToDelete: [of-the-hub]}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "app:v1"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	apply := func() {
		t.Helper()
		set := &appsv1alpha1.CloneSet{}
		set.Name, set.Namespace = "web", p.NS
		if err := p.Patch(p.Context(), set, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner("underway-hub"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	p.Ready("web", 1, time.Minute)
	p.Merge("web", `{spec: {scaleStrategy: {podsToDelete: [of-the-hub, of-a-person]}}}`)
	left := func() string {
		set := p.CloneSet("web")
		names := set.Spec.ScaleStrategy.PodsToDelete
		if !slices.Equal(names, []string{"of-the-hub"}) {
			return strings.Join(names, " ")
		}
		// The condition may be from before the person's edit: the agent has looked at this spec when its status says so.
		if set.Status.ObservedGeneration != set.Generation {
			return kit.Text(set.Status)
		}
		c := p.Condition("web", appsv1alpha1.ConditionWarning)
		if c == nil || !strings.Contains(c.Message, "of-the-hub") || strings.Contains(c.Message, "of-a-person") {
			return kit.Text(c)
		}
		return ""
	}
	p.Eventually(20*time.Second, left)
	since := p.Marked()
	apply()
	p.During(3*time.Second, left)
	if calls := p.calls(since, "clonesets"); calls["patch"] != 0 || calls["update"] != 0 || calls["get"] != 0 {
		t.Errorf("the agent goes on with names that stay: %v", calls)
	}
}

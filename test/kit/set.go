//go:build lab

package kit

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Set is an Advanced StatefulSet of a place.
type Set struct {
	Place
	Name string
}

// Set names an Advanced StatefulSet of the place.
func (p Place) Set(name string) Set { return Set{Place: p, Name: name} }

// Stateful creates an Advanced StatefulSet of one container, with a headless Service's name that is its own. spec, YAML of
// StatefulSetSpec, is added to it.
func (p Place) Stateful(name, image, spec string) Set {
	p.Helper()
	p.Make(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: %[1]s}
spec:
  serviceName: %[1]s
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers: [{name: main, image: "%[2]s"}]
%[3]s`, name, image, indent(spec)))
	return p.Set(name)
}

// Get reads the set.
func (s Set) Get() *appsv1alpha1.StatefulSet {
	s.Helper()
	set := &appsv1alpha1.StatefulSet{}
	if err := s.Cluster.Get(s.Context(), client.ObjectKey{Namespace: s.NS, Name: s.Name}, set); err != nil {
		s.Fatal(err)
	}
	return set
}

// Merge merges YAML into the set.
func (s Set) Merge(text string) {
	s.Helper()
	if err := s.TryMerge(text); err != nil {
		s.Fatal(err)
	}
}

// TryMerge is Merge for what may be refused.
func (s Set) TryMerge(text string) error {
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	return s.patch(types.MergePatchType, body)
}

// Image changes the image of the first container, and nothing else.
func (s Set) Image(image string) {
	s.Helper()
	body := fmt.Sprintf(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %q}]`, image)
	if err := s.patch(types.JSONPatchType, []byte(body)); err != nil {
		s.Fatal(err)
	}
}

func (s Set) patch(kind types.PatchType, body []byte) error {
	set := &appsv1alpha1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.NS, Name: s.Name}}
	return s.Cluster.Patch(s.Context(), set, client.RawPatch(kind, body))
}

// Ready waits until the set is done: observed, condition Ready, and this many pods updated and ready.
func (s Set) Ready(updatedReady int32, within time.Duration) *appsv1alpha1.StatefulSet {
	s.Helper()
	var set *appsv1alpha1.StatefulSet
	s.Eventually(within, func() string {
		set = s.Get()
		is := set.Status
		switch {
		case is.ObservedGeneration != set.Generation:
			return fmt.Sprintf("generation %d of %d observed", is.ObservedGeneration, set.Generation)
		case !meta.IsStatusConditionTrue(is.Conditions, appsv1alpha1.ConditionReady):
			return "not Ready: " + Text(is)
		case is.UpdatedReadyReplicas != updatedReady:
			return fmt.Sprintf("%d pods are updated and ready, want %d", is.UpdatedReadyReplicas, updatedReady)
		}
		return ""
	})
	return set
}

// Condition reads a condition of the set, nil when it has none of that type.
func (s Set) Condition(kind string) *metav1.Condition {
	s.Helper()
	return meta.FindStatusCondition(s.Get().Status.Conditions, kind)
}

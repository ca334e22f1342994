package crd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Case is one object and what admission must answer.
type Case struct {
	// Name is a sentence.
	Name string
	// Kind is CloneSet, StatefulSet, UnitedDeployment or MemberCluster.
	Kind string
	// Patch is YAML merged over the smallest object of the kind.
	Patch string
	// Extra is merged over that, for what is too long to write down.
	Extra map[string]any
	// Refused maps the path of each field error to a part of its message; empty: accepted.
	Refused map[string]string
	// Noisy is true where the API server adds errors of its own beside the expected one.
	Noisy bool
	// CRDOnly is true where the Go rules (Problems) have no say: the API server's own checks, or immutability.
	CRDOnly bool
}

// Object is the smallest object of the case's kind with the patch merged in, under apiVersion version of its group.
func (c Case) Object(version string) (*unstructured.Unstructured, error) {
	base, err := smallest(c.Kind, version)
	if err != nil {
		return nil, err
	}
	patch := map[string]any{}
	if err := yaml.Unmarshal([]byte(c.Patch), &patch); err != nil {
		return nil, fmt.Errorf("case %q: %w", c.Name, err)
	}
	merge(base, patch)
	merge(base, c.Extra)
	u := &unstructured.Unstructured{}
	raw, err := yaml.Marshal(base)
	if err != nil {
		return nil, err
	}
	raw, err = yaml.YAMLToJSON(raw)
	if err != nil {
		return nil, err
	}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("case %q: %w", c.Name, err)
	}
	return u, nil
}

func smallest(kind, version string) (map[string]any, error) {
	text := map[string]string{
		"CloneSet": `
apiVersion: apps.kruise.io/%s
kind: CloneSet
metadata: {name: case}
spec:
  selector: {matchLabels: {app: case}}
  template:
    metadata: {labels: {app: case}}
    spec: {containers: [{name: main, image: "app:v1"}]}`,
		"StatefulSet": `
apiVersion: apps.kruise.io/%s
kind: StatefulSet
metadata: {name: case}
spec:
  selector: {matchLabels: {app: case}}
  template:
    metadata: {labels: {app: case}}
    spec: {containers: [{name: main, image: "app:v1"}]}`,
		"UnitedDeployment": `
apiVersion: apps.kruise.io/%s
kind: UnitedDeployment
metadata: {name: case}
spec:
  selector: {matchLabels: {app: case}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: case}}
      spec:
        selector: {matchLabels: {app: case}}
        template:
          metadata: {labels: {app: case}}
          spec: {containers: [{name: main, image: "app:v1"}]}
  topology: {subsets: [{name: east}, {name: west}]}`,
		"MemberCluster": `
apiVersion: fleet.underway.dev/%s
kind: MemberCluster
metadata: {name: case}
spec: {kubeconfigSecretRef: {name: case}}`,
	}[kind]
	object := map[string]any{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, text, version), &object); err != nil {
		return nil, fmt.Errorf("smallest %s: %w", kind, err)
	}
	return object, nil
}

// merge is a JSON merge patch: null removes.
func merge(into, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		old, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(old, inner)
		default:
			into[key] = value
		}
	}
}

// Cases are all of them.
func Cases() []Case {
	var all []Case
	all = append(all, intOrString()...)
	all = append(all, cloneSets()...)
	all = append(all, cloneSetPods()...)
	all = append(all, statefulSets()...)
	all = append(all, unitedDeployments()...)
	return append(all, memberClusters()...)
}

package crd

import (
	"embed"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed testdata
var manifests embed.FS

// Manifests are CloneSets and UnitedDeployments as users write them and as articles show them, by the id of the sample.
// Each must be accepted.
func Manifests() (map[string]*unstructured.Unstructured, error) {
	files, err := manifests.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	all := map[string]*unstructured.Unstructured{}
	for _, file := range files {
		raw, err := manifests.ReadFile("testdata/" + file.Name())
		if err != nil {
			return nil, err
		}
		raw, err = yaml.YAMLToJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		all[strings.TrimSuffix(file.Name(), ".yaml")] = object
	}
	return all, nil
}

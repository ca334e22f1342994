package config

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed hub member
var manifests embed.FS

// HubCRDs are the CRDs a hub needs.
func HubCRDs() ([]*unstructured.Unstructured, error) { return read("hub/crd") }

// HubNamespace is the install namespace.
func HubNamespace() ([]*unstructured.Unstructured, error) { return read("hub/namespace.yaml") }

// HubRBAC is the hub's account in its own cluster and what it may do there.
func HubRBAC() ([]*unstructured.Unstructured, error) { return read("hub/rbac") }

// HubClusterAPI is what the hub's account may do beside, in its own cluster, where Cluster API's Clusters become members.
func HubClusterAPI() ([]*unstructured.Unstructured, error) { return read("hub/cluster-api") }

// HubManager is the hub's Deployment; its image is a placeholder.
func HubManager() ([]*unstructured.Unstructured, error) { return read("hub/manager") }

// MemberCRDs are the CRDs a member needs.
func MemberCRDs() ([]*unstructured.Unstructured, error) { return read("member/crd") }

// MemberNamespace is the install namespace.
func MemberNamespace() ([]*unstructured.Unstructured, error) { return read("member/namespace.yaml") }

// MemberRBAC is the agent's account in its cluster and what it may do there.
func MemberRBAC() ([]*unstructured.Unstructured, error) { return read("member/rbac") }

// MemberManager is the agent's Deployment; its image is a placeholder.
func MemberManager() ([]*unstructured.Unstructured, error) { return read("member/manager") }

// HubAccess is the hub's account in a member and what it may do there: the account underway-hub and the ClusterRole
// and Role of the cluster-wide minimum with their bindings, and the ClusterRole HubWorkloadsRole, which nothing binds
// yet. Whoever joins a member binds it, by a ClusterRoleBinding or by one RoleBinding per namespace.
func HubAccess() ([]*unstructured.Unstructured, error) { return read("member/hub-access") }

// Names in HubAccess.
const (
	// HubAccount is the hub's ServiceAccount in a member, in the install namespace.
	HubAccount = "underway-hub"
	// HubBaseRole is the ClusterRole of the cluster-wide minimum.
	HubBaseRole = "underway-hub-base"
	// HubWorkloadsRole is the ClusterRole of the workloads the hub pushes.
	HubWorkloadsRole = "underway-hub-workloads"
)

// read returns the objects of a file, or of the files of a folder, in the order of their names.
func read(path string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	err := fs.WalkDir(manifests, path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "kustomization.yaml" {
			return err
		}
		raw, err := manifests.ReadFile(name)
		if err != nil {
			return err
		}
		inFile, err := parse(raw)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		objects = append(objects, inFile...)
		return nil
	})
	return objects, err
}

func parse(raw []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		content := map[string]any{}
		if err := decoder.Decode(&content); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(content) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}
}

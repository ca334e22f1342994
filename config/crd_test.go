package config_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/config"
)

// The API server's own check: structural schemas, defaults, and the estimated cost of every rule.
func TestCRDsAreValid(t *testing.T) {
	t.Parallel()
	for kind, crd := range crds(t) {
		crd.Status.StoredVersions = []string{"v1alpha1"}
		if errs := validation.ValidateCustomResourceDefinition(t.Context(), crd); len(errs) > 0 {
			t.Errorf("%s: %v", kind, errs.ToAggregate())
		}
	}
}

func TestCRDsAreSmallAndOurs(t *testing.T) {
	t.Parallel()
	for _, object := range slices.Concat(must(t, config.HubCRDs), must(t, config.MemberCRDs)) {
		raw, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) >= 256<<10 {
			t.Errorf("%s has %d bytes, the limit is 256 KiB", object.GetName(), len(raw))
		}
		if object.GetLabels()[appsv1alpha1.LabelPartOf] != appsv1alpha1.PartOf {
			t.Errorf("%s does not carry our label, so nobody may write it", object.GetName())
		}
	}
}

func TestVersionsShareOneSchema(t *testing.T) {
	t.Parallel()
	for _, object := range must(t, config.HubCRDs) {
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		if group != appsv1alpha1.GroupVersion.Group {
			continue
		}
		versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions")
		names := make([]any, 0, len(versions))
		for _, one := range versions {
			version, ok := one.(map[string]any)
			if !ok {
				t.Fatalf("%s: %T is no version", object.GetName(), one)
			}
			names = append(names, version["name"])
			if stores := version["name"] == "v1alpha1"; version["storage"] != stores {
				t.Errorf("%s: %s: storage is %v", object.GetName(), version["name"], version["storage"])
			}
			delete(version, "name")
			delete(version, "storage")
		}
		if diff := cmp.Diff([]any{"v1alpha1", "v1beta1"}, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", object.GetName(), diff)
		}
		if diff := cmp.Diff(versions[0], versions[1]); diff != "" {
			t.Errorf("%s: the versions differ:\n%s", object.GetName(), diff)
		}
		if strategy, _, _ := unstructured.NestedString(object.Object, "spec", "conversion", "strategy"); strategy != "None" {
			t.Errorf("%s: conversion %q", object.GetName(), strategy)
		}
	}
}

// A kind on both sides is the same, so that a cluster can be hub and member at once.
func TestSharedCRDsAreTheSame(t *testing.T) {
	t.Parallel()
	hub := map[string]*unstructured.Unstructured{}
	for _, object := range must(t, config.HubCRDs) {
		hub[object.GetName()] = object
	}
	for _, object := range must(t, config.MemberCRDs) {
		if diff := cmp.Diff(hub[object.GetName()], object); diff != "" {
			t.Errorf("%s (-hub +member):\n%s", object.GetName(), diff)
		}
	}
}

func TestPrinterColumnsAreUpstreams(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"CloneSet": {
			"DESIRED", "UPDATED", "UPDATED_READY", "READY", "TOTAL", "AGE",
			// Ours, only in -o wide: scripts count the columns of the short form.
			"STATE (wide)", "IN_PLACE (wide)", "RECREATED (wide)",
			"CONTAINERS (wide)", "IMAGES (wide)", "SELECTOR (wide)",
		},
		"StatefulSet": {
			"DESIRED", "CURRENT", "UPDATED", "READY", "AGE", "STATE (wide)", "IN_PLACE (wide)", "RECREATED (wide)",
			"CONTAINERS (wide)", "IMAGES (wide)",
		},
		"UnitedDeployment": {"DESIRED", "CURRENT", "UPDATED", "READY", "STATE (wide)", "AGE"},
	}
	short := map[string][]string{"CloneSet": {"clone"}, "StatefulSet": {"sts", "asts"}, "UnitedDeployment": {"ud"}}
	all := crds(t)
	for kind, columns := range want {
		crd := all[kind]
		for _, version := range crd.Spec.Versions {
			list := version.AdditionalPrinterColumns
			if list == nil {
				list = crd.Spec.AdditionalPrinterColumns
			}
			got := make([]string, 0, len(list))
			for _, column := range list {
				name := column.Name
				if column.Priority > 0 {
					name += " (wide)"
				}
				got = append(got, name)
			}
			if diff := cmp.Diff(columns, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", kind, version.Name, diff)
			}
			sub := version.Subresources
			if sub == nil {
				sub = crd.Spec.Subresources
			}
			if sub == nil || sub.Status == nil || sub.Scale == nil || *sub.Scale.LabelSelectorPath != ".status.labelSelector" {
				t.Errorf("%s %s lacks the status or the scale subresource", kind, version.Name)
			}
		}
		if diff := cmp.Diff(short[kind], crd.Spec.Names.ShortNames); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

// Every manifest must be readable, and a side must find what its kustomization lists.
func TestManifestsAreRead(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func() ([]*unstructured.Unstructured, error){
		"HubCRDs": config.HubCRDs, "HubNamespace": config.HubNamespace, "HubRBAC": config.HubRBAC, "HubManager": config.HubManager,
		"MemberCRDs": config.MemberCRDs, "MemberNamespace": config.MemberNamespace, "MemberRBAC": config.MemberRBAC,
		"MemberManager": config.MemberManager, "HubAccess": config.HubAccess, "HubClusterAPI": config.HubClusterAPI,
	} {
		objects := must(t, read)
		if len(objects) == 0 {
			t.Errorf("%s is empty", name)
		}
		for _, object := range objects {
			if object.GetKind() == "" || object.GetName() == "" || object.GetLabels()[appsv1alpha1.LabelPartOf] != appsv1alpha1.PartOf {
				t.Errorf("%s: %s %q lacks its kind, name or label", name, object.GetKind(), object.GetName())
			}
		}
	}
}

func must(tb testing.TB, read func() ([]*unstructured.Unstructured, error)) []*unstructured.Unstructured {
	tb.Helper()
	objects, err := read()
	if err != nil {
		tb.Fatal(err)
	}
	return objects
}

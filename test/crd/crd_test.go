//go:build lab

package crd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/underway-dev/underway/config"
	"github.com/underway-dev/underway/test/crd"
	"github.com/underway-dev/underway/test/lab"
)

// The namespace of the stored objects; nothing reconciles in this cluster.
const namespace = "default"

var client dynamic.Interface

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	fleet, err := lab.Start(ctx, lab.Options{Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the lab:", err)
		return 1
	}
	defer func() {
		if err := fleet.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the lab:", err)
		}
	}()
	cfg := fleet.Hub().RESTConfig()
	cfg.QPS = -1
	client = dynamic.NewForConfigOrDie(cfg)
	if err := install(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "installing the CRDs:", err)
		return 1
	}
	return m.Run()
}

// install creates each CRD, and waits until the API server serves every version of it.
func install(ctx context.Context) error {
	kinds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	objects, err := config.HubCRDs()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if _, err := kinds.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, kind := range []string{"CloneSet", "StatefulSet", "UnitedDeployment", "MemberCluster"} {
		for _, version := range versions(kind) {
			err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
				_, err := resource(kind, version).List(ctx, metav1.ListOptions{})
				return err == nil, nil
			})
			if err != nil {
				return fmt.Errorf("%s %s is not served: %w", kind, version, err)
			}
		}
	}
	return nil
}

func versions(kind string) []string {
	if kind == "MemberCluster" {
		return []string{"v1alpha1"}
	}
	return []string{"v1alpha1", "v1beta1"}
}

func resource(kind, version string) dynamic.ResourceInterface {
	if kind == "MemberCluster" {
		return client.Resource(schema.GroupVersionResource{Group: "fleet.underway.dev", Version: version, Resource: "memberclusters"})
	}
	plural := strings.ToLower(kind) + "s"
	return client.Resource(schema.GroupVersionResource{Group: "apps.kruise.io", Version: version, Resource: plural}).Namespace(namespace)
}

// Every case is answered as written, at creation and when a stored object is changed to it; a refused change leaves the
// stored object as it was.
func TestCases(t *testing.T) {
	for _, kind := range []string{"CloneSet", "StatefulSet", "UnitedDeployment", "MemberCluster"} {
		for _, version := range versions(kind) {
			t.Run(kind+" "+version, func(t *testing.T) {
				api := resource(kind, version)
				stored := create(t, api, crd.Case{Kind: kind, Patch: "metadata: {name: stored}"}, version)
				for _, tc := range crd.Cases() {
					if tc.Kind != kind {
						continue
					}
					object, err := tc.Object(version)
					if err != nil {
						t.Fatal(err)
					}
					_, err = api.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
					check(t, tc, err)
					if len(tc.Refused) == 0 || strings.Contains(tc.Patch, "metadata:") {
						continue
					}
					object.SetName(stored.GetName())
					object.SetResourceVersion(stored.GetResourceVersion())
					if _, err := api.Update(t.Context(), object, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
						t.Errorf("%s: changed to it: want Invalid, got %v", tc.Name, err)
					}
				}
				after, err := api.Get(t.Context(), stored.GetName(), metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(stored, after); diff != "" {
					t.Errorf("a refused change left its mark (-before +after):\n%s", diff)
				}
			})
		}
	}
}

// check compares the answer of the API server with the case.
func check(t *testing.T, tc crd.Case, err error) {
	t.Helper()
	if len(tc.Refused) == 0 {
		if err != nil {
			t.Errorf("%s: want it accepted, got %v", tc.Name, err)
		}
		return
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		t.Errorf("%s: want Invalid, got %v", tc.Name, err)
		return
	}
	at := strings.NewReplacer("<nil>", "", "[east]", ".east")
	for path, says := range tc.Refused {
		found := false
		for _, cause := range status.Status().Details.Causes {
			found = found || (at.Replace(cause.Field) == at.Replace(path) && strings.Contains(cause.Message, says))
		}
		if !found {
			t.Errorf("%s: no error at %q that says %q: %v", tc.Name, path, says, err)
		}
	}
}

func create(t *testing.T, api dynamic.ResourceInterface, tc crd.Case, version string) *unstructured.Unstructured {
	t.Helper()
	object, err := tc.Object(version)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := api.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("%s: %v", tc.Name, err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.WithoutCancel(t.Context()), stored.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return stored
}

func TestLargestObjects(t *testing.T) {
	for _, tc := range crd.Largest() {
		stored := create(t, resource(tc.Kind, "v1alpha1"), tc, "v1alpha1")
		// Once more as a change: transition rules run as well.
		stored.SetLabels(map[string]string{"changed": "true"})
		if _, err := resource(tc.Kind, "v1beta1").Update(t.Context(), as(stored, "v1beta1"), metav1.UpdateOptions{}); err != nil {
			t.Errorf("%s: %v", tc.Name, err)
		}
	}
	for _, tc := range crd.TooLarge() {
		object, err := tc.Object("v1alpha1")
		if err != nil {
			t.Fatal(err)
		}
		_, err = resource(tc.Kind, "v1alpha1").Create(t.Context(), object, metav1.CreateOptions{})
		check(t, tc, err)
	}
}

func as(object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	other := object.DeepCopy()
	group, _, _ := strings.Cut(object.GetAPIVersion(), "/")
	other.SetAPIVersion(group + "/" + version)
	return other
}

func TestManifests(t *testing.T) {
	manifests, err := crd.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for id, object := range manifests {
		object.SetNamespace(namespace)
		_, version, _ := strings.Cut(object.GetAPIVersion(), "/")
		_, err := resource(object.GetKind(), version).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// Fields of a template that no type of ours knows survive both versions and a server-side apply of something else.
func TestUnknownTemplateFieldsSurvive(t *testing.T) {
	patch := `spec: {template: {newField: {b: 1, a: [1, 2]}, spec: {containers: [{name: main, image: "app:v1", newField: x}]}}}`
	stored := create(t, resource("CloneSet", "v1alpha1"), crd.Case{Kind: "CloneSet", Patch: patch}, "v1alpha1")
	want, _, _ := unstructured.NestedMap(stored.Object, "spec", "template")
	if want["newField"] == nil {
		t.Fatalf("pruned at creation: %v", want)
	}
	apply := []byte(`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"case"},"spec":{"replicas":3}}`)
	force := true
	_, err := resource("CloneSet", "v1beta1").Patch(t.Context(), "case", types.ApplyPatchType, apply, metav1.PatchOptions{FieldManager: "somebody", Force: &force})
	if err != nil {
		t.Fatal(err)
	}
	after, err := resource("CloneSet", "v1alpha1").Get(t.Context(), "case", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, _, _ := unstructured.NestedMap(after.Object, "spec", "template")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// kubectl wait --for=condition=Ready needs the status subresource and conditions by type; an HPA needs scale.
func TestSubresources(t *testing.T) {
	for _, kind := range []string{"CloneSet", "StatefulSet", "UnitedDeployment"} {
		t.Run(kind, func(t *testing.T) {
			create(t, resource(kind, "v1alpha1"), crd.Case{Kind: kind, Patch: "spec: {replicas: 2}"}, "v1alpha1")
			status := []byte(`{"spec":{"replicas":9},"status":{"replicas":2,"readyReplicas":2,"availableReplicas":2,"currentReplicas":2,"updatedReplicas":2,"updatedReadyReplicas":2,
				"labelSelector":"app=case","conditions":[{"type":"Ready","status":"True","reason":"Updated","message":"","lastTransitionTime":"2026-11-29T00:00:00Z"}]}}`)
			got, err := resource(kind, "v1beta1").Patch(t.Context(), "case", types.MergePatchType, status, metav1.PatchOptions{}, "status")
			if err != nil {
				t.Fatal(err)
			}
			if replicas, _, _ := unstructured.NestedInt64(got.Object, "spec", "replicas"); replicas != 2 {
				t.Errorf("a write of status changed the spec: %d", replicas)
			}
			conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
			if len(conditions) != 1 || got.GetGeneration() != 1 {
				t.Errorf("conditions %v, generation %d", conditions, got.GetGeneration())
			}
			scale, err := resource(kind, "v1alpha1").Get(t.Context(), "case", metav1.GetOptions{}, "scale")
			if err != nil {
				t.Fatal(err)
			}
			if selector, _, _ := unstructured.NestedString(scale.Object, "status", "selector"); selector != "app=case" {
				t.Errorf("scale has selector %q", selector)
			}
			if err := unstructured.SetNestedField(scale.Object, int64(5), "spec", "replicas"); err != nil {
				t.Fatal(err)
			}
			if _, err := resource(kind, "v1alpha1").Update(t.Context(), scale, metav1.UpdateOptions{}, "scale"); err != nil {
				t.Fatal(err)
			}
			after, err := resource(kind, "v1alpha1").Get(t.Context(), "case", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if replicas, _, _ := unstructured.NestedInt64(after.Object, "spec", "replicas"); replicas != 5 {
				t.Errorf("scaled to 5, stored %d", replicas)
			}
		})
	}
}

// The selector is fixed once written.
func TestSelectorCannotBeChanged(t *testing.T) {
	for _, kind := range []string{"CloneSet", "StatefulSet", "UnitedDeployment"} {
		create(t, resource(kind, "v1alpha1"), crd.Case{Kind: kind}, "v1alpha1")
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "other"}}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = resource(kind, "v1alpha1").Patch(t.Context(), "case", types.MergePatchType, patch, metav1.PatchOptions{})
		check(t, crd.Case{Name: kind, Refused: map[string]string{"spec.selector": "cannot be changed"}}, err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A new int-or-string field without a kind must stop the generator: without a rule it would accept "50".
func TestIntOrStringWithoutAKind(t *testing.T) {
	t.Parallel()
	field := func() map[string]any { return map[string]any{"x-kubernetes-int-or-string": true} }
	schema := func(name string) map[string]any {
		return map[string]any{"properties": map[string]any{
			"spec": map[string]any{"properties": map[string]any{
				"updateStrategy": map[string]any{"properties": map[string]any{name: field()}},
			}},
		}}
	}
	if err := bound("", schema("partition")); err != nil {
		t.Errorf("a known field: %v", err)
	}
	if err := bound("", schema("newField")); err == nil || !strings.Contains(err.Error(), "spec.updateStrategy.newField") {
		t.Errorf("got %v, want the path of the field", err)
	}
	known := schema("partition")
	if err := bound("", known); err != nil {
		t.Fatal(err)
	}
	partition := dig(known, "properties", "spec", "properties", "updateStrategy", "properties", "partition")
	if partition["maxLength"] != maxLength || partition["x-kubernetes-validations"] == nil {
		t.Errorf("got %v", partition)
	}
}

func TestMarkersThatControllerGenDoesNotSee(t *testing.T) {
	t.Parallel()
	const marker = "// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get\n"
	for name, tc := range map[string]struct {
		source string
		found  bool
	}{
		"in a comment of its own":       {"package a\n\n" + marker + "\n// F is f.\nfunc F() {}\n", false},
		"in the package's comment":      {"// Package a is a.\n//\n" + marker + "package a\n", false},
		"in the comment of a function":  {"package a\n\n// F is f.\n//\n" + marker + "func F() {}\n", true},
		"in the comment of a type":      {"package a\n\n// T is t.\n" + marker + "type T struct{}\n", true},
		"below the last of its kind":    {"package a\n\nfunc F() {}\n\n" + marker, false},
		"in the comment of a constant":  {"package a\n\n" + marker + "const c = 1\n", true},
		"in a test file it is no claim": {"package a\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "a.go"), []byte(tc.source), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "a_test.go"), []byte("package a\n\n"+marker+"func f() {}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := unseen([]string{folder + "/..."}); (err != nil) != tc.found {
				t.Errorf("got %v, want an error: %v", err, tc.found)
			}
		})
	}
}

func TestRolesElsewhereAreRefused(t *testing.T) {
	t.Parallel()
	for namespace, refused := range map[any]bool{nil: false, "underway-system": false, "kruise-system": true} {
		role := map[string]any{"metadata": map[string]any{"name": "a"}}
		if namespace != nil {
			role["metadata"] = map[string]any{"name": "a", "namespace": namespace}
		}
		if err := placed(role); (err != nil) != refused {
			t.Errorf("namespace %v: got %v", namespace, err)
		}
	}
}

package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/underway-dev/underway/config"
)

// The hub's access to a member is written by hand, because it is two roles that are bound apart; the markers beside
// the code of propagation say what that code calls. Neither may say more than the other.
func TestHubAccessIsWhatPropagationCalls(t *testing.T) {
	t.Parallel()
	granted, called := map[string]bool{}, map[string]bool{}
	for _, rule := range accessRules(t) {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[strings.Join([]string{group, resource, verb}, "/")] = true
				}
			}
		}
	}
	for _, marker := range markers(t, filepath.Join("..", "propagation")) {
		for group := range strings.SplitSeq(marker["groups"], ";") {
			for resource := range strings.SplitSeq(marker["resources"], ";") {
				for verb := range strings.SplitSeq(marker["verbs"], ";") {
					called[strings.Join([]string{strings.Trim(group, `"`), resource, verb}, "/")] = true
				}
			}
		}
	}
	if len(called) == 0 {
		t.Fatal("found no RBAC markers in propagation")
	}
	for call := range called {
		if !granted[call] {
			t.Errorf("propagation calls %s and hub-access does not grant it", call)
		}
	}
	for grant := range granted {
		if !called[grant] {
			t.Errorf("hub-access grants %s and propagation does not call it", grant)
		}
	}
}

// The two roles are bound apart: what every join gives reads named objects and the workload kinds, and writes nothing
// outside the install namespace.
func TestHubBaseRoleIsTheMinimum(t *testing.T) {
	t.Parallel()
	for _, object := range must(t, config.HubAccess) {
		if object.GetKind() != "ClusterRole" || object.GetName() != config.HubBaseRole {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			writes := slices.ContainsFunc(rule.Verbs, func(verb string) bool {
				return verb != "get" && verb != "list" && verb != "watch"
			})
			named := len(rule.NonResourceURLs) > 0 || len(rule.ResourceNames) > 0
			if writes || (!named && !slices.Equal(rule.APIGroups, []string{"apps.kruise.io"}) && !slices.Equal(rule.APIGroups, []string{"apps"})) {
				t.Errorf("more than reads of named objects and of workloads: %v", rule)
			}
		}
		return
	}
	t.Errorf("no ClusterRole %s", config.HubBaseRole)
}

func TestNobodyBindsTheWorkloadsRole(t *testing.T) {
	t.Parallel()
	for _, object := range must(t, config.HubAccess) {
		if ref, ok := object.Object["roleRef"].(map[string]any); ok && ref["name"] == config.HubWorkloadsRole {
			t.Errorf("%s %s binds it; join alone does", object.GetKind(), object.GetName())
		}
	}
}

func accessRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, object := range must(t, config.HubAccess) {
		if object.GetKind() != "ClusterRole" && object.GetKind() != "Role" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		rules = append(rules, role.Rules...)
	}
	return rules
}

// markers reads every RBAC marker below a folder into its arguments.
func markers(t *testing.T, folder string) []map[string]string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:(.*)$`)
	var all []map[string]string
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, match := range line.FindAllStringSubmatch(string(source), -1) {
			marker := map[string]string{}
			for argument := range strings.SplitSeq(match[1], ",") {
				key, value, _ := strings.Cut(argument, "=")
				marker[key] = value
			}
			all = append(all, marker)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

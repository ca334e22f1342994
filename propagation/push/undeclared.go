package push

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// undeclared is how a server-side apply answers fields that the member's schema does not have. Any other write leaves them
// out; an apply refuses the object.
const undeclared = "field not declared in schema"

// dropRounds bounds how often fields are left out of one apply: an answer names the fields of one level.
const dropRounds = 5

// ErrUndeclared is returned when the member does not know a field without which the child would be another one, or would
// not be held.
var ErrUndeclared = errors.New("the member does not know a field that must not be left out")

// applied applies obj, without the fields that the member does not know. Such a field then differs in the answer, which is
// remembered and said as any other that a member does not keep.
func applied(ctx context.Context, to dynamic.ResourceInterface, obj *unstructured.Unstructured, force bool) (*unstructured.Unstructured, error) {
	options := metav1.ApplyOptions{FieldManager: appsv1alpha1.FieldManagerHub, Force: force}
	for range dropRounds {
		answer, err := to.Apply(ctx, obj.GetName(), obj, options)
		if err == nil || !strings.Contains(err.Error(), undeclared) {
			return answer, err //nolint:wrapcheck // the caller says which operation it was
		}
		if drop := dropUndeclared(obj, err.Error()); drop != nil {
			return nil, fmt.Errorf("%w: %w", drop, err)
		}
	}
	return nil, fmt.Errorf("%w: the member goes on naming others", ErrUndeclared)
}

// dropUndeclared takes the fields that message names out of obj.
func dropUndeclared(obj *unstructured.Unstructured, message string) error {
	found := false
	for part := range strings.SplitSeq(message, ": "+undeclared) {
		at := strings.LastIndexAny(part, " \n\t")
		steps, ok := parsePath(part[at+1:])
		if !ok {
			continue
		}
		name := steps[len(steps)-1].field
		if steps[0].field != "spec" || len(steps) < 2 || slices.Contains(
			[]string{"partition", "paused", "replicas", "selector", "template", "updateStrategy", "rollingUpdate"}, name) {
			return fmt.Errorf("%w: %s", ErrUndeclared, part[at+1:])
		}
		if confines(steps) {
			return fmt.Errorf("%w: %s confines the pods there; take it out of the template, or patch it out for this subset until the member is upgraded",
				ErrUndeclared, part[at+1:])
		}
		found = remove(obj.Object, steps) || found
	}
	if !found {
		return ErrUndeclared
	}
	return nil
}

// confines is true for a field, or one below it, that says what pods may do or see on their node, who they are, or where they
// run: pods without it would be other pods. Newer fields are told by their names.
func confines(steps []step) bool {
	if len(steps) < 2 || steps[1].field != "template" {
		return false
	}
	named := []string{
		"os", "affinity", "tolerations", "nodeSelector", "nodeName", "runtimeClassName", "schedulingGates", "schedulerName", "volumes",
		"serviceAccountName", "serviceAccount", "resourceClaims", "enableServiceLinks", "procMount", "priorityClassName", "valueFrom",
	}
	parts := []string{
		"security", "privileg", "seccomp", "apparmor", "selinux", "capabilit", "readonly", "runas", "token", "namespace",
		"credential", "groups", "sysctl", "isolat", "sandbox", "pullsecret",
	}
	return slices.ContainsFunc(steps, func(s step) bool {
		lower := strings.ToLower(s.field)
		return slices.Contains(named, s.field) || strings.HasPrefix(lower, "host") ||
			slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(lower, part) })
	})
}

// step is a field's name, or a list item by its index or its keys.
type step struct {
	field string
	index int
	keys  map[string]string
}

// parsePath reads a path as the API server writes it: .spec.containers[name="web"].ports[0].x.
func parsePath(text string) ([]step, bool) {
	var out []step
	for text != "" {
		switch text[0] {
		case '.':
			end := strings.IndexAny(text[1:], ".[")
			if end < 0 {
				end = len(text) - 1
			}
			if end == 0 {
				return nil, false
			}
			out, text = append(out, step{field: text[1 : end+1]}), text[end+1:]
		case '[':
			end := strings.IndexByte(text, ']')
			if end < 0 {
				return nil, false
			}
			s, ok := parseItem(text[1:end])
			if !ok {
				return nil, false
			}
			out, text = append(out, s), text[end+1:]
		default:
			return nil, false
		}
	}
	return out, len(out) > 0 && out[len(out)-1].field != ""
}

func parseItem(text string) (step, bool) {
	if n, err := strconv.Atoi(text); err == nil {
		return step{index: n}, n >= 0
	}
	keys := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return step{}, false
		}
		keys[name] = strings.Trim(value, `"`)
	}
	return step{keys: keys}, true
}

// remove deletes what the path names; false when it is not there.
func remove(at any, steps []step) bool {
	for _, s := range steps[:len(steps)-1] {
		if at = s.in(at); at == nil {
			return false
		}
	}
	m, ok := at.(map[string]any)
	name := steps[len(steps)-1].field
	if !ok {
		return false
	}
	_, there := m[name]
	delete(m, name)
	return there
}

// in is what a step leads to, nil when there is nothing.
func (s step) in(at any) any {
	switch t := at.(type) {
	case map[string]any:
		return t[s.field]
	case []any:
		i := s.index
		if s.keys != nil {
			i = slices.IndexFunc(t, s.names)
		}
		if i >= 0 && i < len(t) {
			return t[i]
		}
	}
	return nil
}

func (s step) names(item any) bool {
	m, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for name, want := range s.keys {
		have := m[name]
		if have == nil && name == "protocol" {
			have = "TCP"
		}
		if fmt.Sprint(have) != want {
			return false
		}
	}
	return true
}

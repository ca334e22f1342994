package changeset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// tree is a fieldsV1: keys "f:<field>", "k:<keys of a list item>", "v:<value of a set item>" and ".".
type tree = map[string]any

// entry is one managedFields entry.
type entry struct {
	manager, operation, subresource string
	fields                          tree
}

// entries reads metadata.managedFields without converting it.
func entries(obj *unstructured.Unstructured) []entry {
	raw, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", "managedFields")
	list, _ := raw.([]any)
	out := make([]entry, 0, len(list))
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		e := entry{manager: text(m["manager"]), operation: text(m["operation"]), subresource: text(m["subresource"])}
		e.fields, _ = m["fieldsV1"].(map[string]any)
		out = append(out, e)
	}
	return out
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// own is what the hub's applies own.
func own(obj *unstructured.Unstructured) tree {
	for _, e := range entries(obj) {
		if e.mine() {
			return e.fields
		}
	}
	return nil
}

func (e entry) mine() bool {
	return e.manager == appsv1alpha1.FieldManagerHub && e.operation == "Apply" && e.subresource == ""
}

// scaled is true when an autoscaler owns spec.replicas, as feedback.Report.ScaledBy has it: through the scale subresource,
// and not by kubectl.
func scaled(obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(entries(obj), func(e entry) bool {
		return e.subresource == "scale" && !strings.HasPrefix(e.manager, "kubectl") && owns(e.fields, "spec", "replicas")
	})
}

// scales is true when somebody beside the hub's applies owns spec.replicas.
func scales(obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(entries(obj), func(e entry) bool { return !e.mine() && owns(e.fields, "spec", "replicas") })
}

func owns(t tree, path ...string) bool {
	for _, p := range path {
		next, ok := t["f:"+p].(map[string]any)
		if !ok {
			return false
		}
		t = next
	}
	return true
}

// missing lists the paths of desired that t does not own. A node without children owns all below it.
func missing(desired map[string]any, t tree, at path) []path {
	var out []path
	for _, field := range sorted(desired) {
		if at.unmanaged(field) {
			continue
		}
		here := at.field(field)
		node, ok := t["f:"+field].(map[string]any)
		if !ok {
			out = append(out, here)
			continue
		}
		out = append(out, missingBelow(desired[field], node, here)...)
	}
	return out
}

func missingBelow(v any, node tree, at path) []path {
	if len(node) == 0 {
		return nil
	}
	switch t := v.(type) {
	case map[string]any:
		return missing(t, node, at)
	case []any:
		var out []path
		for i, item := range t {
			child, ok := itemNode(item, node)
			if !ok {
				out = append(out, at.item(item, i))
				continue
			}
			out = append(out, missingBelow(item, child, at.item(item, i))...)
		}
		return out
	}
	return nil
}

// extra lists the paths that t owns and desired does not have: an apply without them takes them away.
func extra(desired map[string]any, t tree, at path) []path {
	var out []path
	for _, key := range sorted(t) {
		field, ok := strings.CutPrefix(key, "f:")
		if !ok {
			continue
		}
		here := at.field(field)
		v, ok := desired[field]
		if !ok {
			out = append(out, here)
			continue
		}
		node, _ := t[key].(map[string]any)
		out = append(out, extraBelow(v, node, here)...)
	}
	return out
}

func extraBelow(v any, node tree, at path) []path {
	switch t := v.(type) {
	case map[string]any:
		return extra(t, node, at)
	case []any:
		var out []path
		matched := 0
		for i, item := range t {
			if child, ok := itemNode(item, node); ok {
				matched++
				out = append(out, extraBelow(item, child, at.item(item, i))...)
			}
		}
		if matched < itemCount(node) {
			out = append(out, at)
		}
		return out
	}
	return nil
}

func itemCount(node tree) int {
	n := 0
	for key := range node {
		if strings.HasPrefix(key, "k:") || strings.HasPrefix(key, "v:") {
			n++
		}
	}
	return n
}

// itemNode finds a list item in a node by its keys or its value.
func itemNode(item any, node tree) (tree, bool) {
	for key, v := range node {
		child, _ := v.(map[string]any)
		if raw, ok := strings.CutPrefix(key, "k:"); ok && keysMatch(item, raw) {
			return child, true
		}
		if raw, ok := strings.CutPrefix(key, "v:"); ok && raw == canonical(item) {
			return child, true
		}
	}
	return nil, false
}

// keysMatch compares an item with the keys of a list; a key that the item leaves out has the server's default.
func keysMatch(item any, raw string) bool {
	m, ok := item.(map[string]any)
	if !ok {
		return false
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(raw), &keys); err != nil {
		return false
	}
	for k, v := range keys {
		if have := itemKey(m, k); have != nil && canonical(have) != canonical(v) {
			return false
		}
	}
	return true
}

// canonical is JSON with sorted keys.
func canonical(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}

func digest(v any) string {
	sum := sha256.Sum256([]byte(canonical(v)))
	return hex.EncodeToString(sum[:8])
}

func sorted(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

package changeset

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// path is where a value is: field names, and in brackets the name or index of a list item.
type path []string

func (p path) field(name string) path { return append(slices.Clip(p), name) }

func (p path) item(v any, i int) path {
	if m, ok := v.(map[string]any); ok {
		if name := text(m["name"]); name != "" {
			return append(slices.Clip(p), "["+name+"]")
		}
	}
	return append(slices.Clip(p), fmt.Sprintf("[%d]", i))
}

func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		if i > 0 && !strings.HasPrefix(s, "[") {
			b.WriteByte('.')
		}
		b.WriteString(s)
	}
	return b.String()
}

// unmanaged is true for the fields that say which object it is: the API server keeps them out of managedFields.
func (p path) unmanaged(field string) bool {
	switch len(p) {
	case 0:
		return field == "apiVersion" || field == "kind"
	case 1:
		return p[0] == "metadata" && slices.Contains(
			[]string{"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}, field)
	}
	return false
}

// quantity is true below a field that holds amounts, where "1000m" is "1".
func (p path) quantity() bool {
	return slices.ContainsFunc(p, func(s string) bool {
		return slices.Contains([]string{"requests", "limits", "sizeLimit", "divisor", "storage", "overhead", "capacity"}, s)
	})
}

// difference is one owned leaf whose live value is another.
type difference struct {
	at   path
	live any
}

// comparer compares owned leaves: what the live object has beside them does not count.
type comparer struct {
	// typedLists is true for the API server's own kinds: lists are merged by key, zero values are left out.
	typedLists bool
	found      []difference
}

// differences lists where live is not what desired says, intent aside.
func differences(desired, live *unstructured.Unstructured) []difference {
	c := comparer{typedLists: mergesLists(desired.GroupVersionKind())}
	c.maps(withoutIntent(desired.Object), live.Object, nil)
	return c.found
}

// mergesLists is true for kinds of the API server itself. Those of other API groups are taken to be custom ones.
func mergesLists(gvk schema.GroupVersionKind) bool {
	if k, ok := render.KindOf(gvk); ok {
		return k.TypedLists
	}
	return gvk.Group == "" || slices.Contains([]string{"apps", "batch", "autoscaling", "policy", "networking.k8s.io", "discovery.k8s.io"}, gvk.Group)
}

func (c *comparer) maps(desired, live map[string]any, at path) {
	for _, field := range sorted(desired) {
		if at.unmanaged(field) {
			continue
		}
		c.values(desired[field], live[field], at.field(field))
	}
}

func (c *comparer) values(desired, live any, at path) {
	if c.typedLists && live == nil && zero(desired) {
		// A typed API server leaves it out: to it the two are one.
		return
	}
	switch d := desired.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if ok || (live == nil && len(d) == 0) {
			c.maps(d, l, at)
			return
		}
	case []any:
		l, ok := live.([]any)
		if ok || (live == nil && len(d) == 0) {
			c.lists(d, l, at)
			return
		}
	default:
		if equalLeaves(desired, live, at) {
			return
		}
	}
	c.found = append(c.found, difference{at: at, live: live})
}

func (c *comparer) lists(desired, live []any, at path) {
	if keys := c.mergeKeys(desired, at); len(keys) > 0 {
		for i, item := range desired {
			at := at.item(item, i)
			if j := indexOf(live, keys, item); j >= 0 {
				c.values(item, live[j], at)
			} else {
				c.found = append(c.found, difference{at: at})
			}
		}
		return
	}
	if len(desired) != len(live) {
		c.found = append(c.found, difference{at: at, live: live})
		return
	}
	for i := range desired {
		c.values(desired[i], live[i], at.item(desired[i], i))
	}
}

// typedKeys are the keys by which the API server merges the lists of its own kinds, by the list's field. Others can put items
// of their own beside ours there; every list that is not named is atomic.
func typedKeys(field string) []string {
	switch field {
	case "containers", "initContainers", "ephemeralContainers", "env", "volumes", "imagePullSecrets", "schedulingGates",
		"resourceClaims", "claims":
		return []string{"name"}
	case "ports":
		return []string{"containerPort", "protocol"}
	case "volumeMounts":
		return []string{"mountPath"}
	case "volumeDevices":
		return []string{"devicePath"}
	case "hostAliases":
		return []string{"ip"}
	case "topologySpreadConstraints":
		return []string{"topologyKey", "whenUnsatisfiable"}
	}
	return nil
}

// mergeKeys are the keys by which others may add items beside ours; none for an atomic list.
func (c *comparer) mergeKeys(desired []any, at path) []string {
	var keys []string
	switch {
	case len(at) == 2 && at[0] == "metadata" && at[1] == "ownerReferences":
		keys = []string{"uid"}
	case c.typedLists && servicePorts(desired, at):
		keys = []string{"port", "protocol"}
	case c.typedLists && len(at) > 0:
		keys = typedKeys(at[len(at)-1])
	}
	for _, item := range desired {
		m, ok := item.(map[string]any)
		if !ok || slices.ContainsFunc(keys, func(key string) bool { return itemKey(m, key) == nil }) {
			return nil
		}
	}
	return keys
}

// servicePorts is true for the ports of a Service, whose key is another one than that of a container's.
func servicePorts(desired []any, at path) bool {
	if len(at) != 2 || at[0] != "spec" || at[1] != "ports" {
		return false
	}
	return !slices.ContainsFunc(desired, func(item any) bool {
		m, ok := item.(map[string]any)
		return !ok || m["port"] == nil
	})
}

// itemKey is the value of a key of a list item, with the API server's default.
func itemKey(item map[string]any, key string) any {
	if v := item[key]; v != nil || key != "protocol" {
		return v
	}
	return "TCP"
}

func indexOf(live []any, keys []string, item any) int {
	want := item.(map[string]any)
	return slices.IndexFunc(live, func(v any) bool {
		m, ok := v.(map[string]any)
		return ok && !slices.ContainsFunc(keys, func(key string) bool {
			return canonical(itemKey(m, key)) != canonical(itemKey(want, key))
		})
	})
}

// zero is true for a value that says nothing: false, 0, empty, or made of such.
func zero(v any) bool {
	switch t := v.(type) {
	case map[string]any:
		for _, e := range t {
			if !zero(e) {
				return false
			}
		}
		return true
	case []any:
		return len(t) == 0
	}
	n, isNumber := number(v)
	b, isBool := v.(bool)
	return v == nil || v == "" || (isBool && !b) || (isNumber && n == 0)
}

// equalLeaves compares two scalars: numbers by value, amounts as quantities. A null equals an absent field.
func equalLeaves(a, b any, at path) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	if at.quantity() {
		x, errX := resource.ParseQuantity(fmt.Sprint(a))
		y, errY := resource.ParseQuantity(fmt.Sprint(b))
		if errX == nil && errY == nil {
			return x.Cmp(y) == 0
		}
	}
	x, okX := number(a)
	y, okY := number(b)
	if okX && okY {
		return x == y
	}
	return a == b
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// withoutIntent is the object without the intent annotation, which alone never makes a write due.
func withoutIntent(obj map[string]any) map[string]any {
	meta, _ := obj["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if _, ok := annotations[appsv1alpha1.AnnotationIntent]; !ok {
		return obj
	}
	return with(obj, "metadata", with(meta, "annotations", without(annotations, appsv1alpha1.AnnotationIntent)))
}

func with(m map[string]any, field string, v any) map[string]any {
	out := without(m, field)
	out[field] = v
	return out
}

func without(m map[string]any, field string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if k != field {
			out[k] = v
		}
	}
	return out
}

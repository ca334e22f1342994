package render

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// HasClaims is true when the workload's pods have claims made from volumeClaimTemplates: their data stays with the child,
// so that pods of another child start empty. A spec that cannot be read is taken to have claims.
func HasClaims(w Workload) bool {
	spec, err := object(w.Spec)
	if err != nil {
		return true
	}
	claims, err := childList(spec, "volumeClaimTemplates")
	return err != nil || len(claims) > 0
}

// Change is a field that an update changes and that no API server lets change.
type Change struct {
	// Field is below the template: "spec.serviceName".
	Field string
	// Remedy is a sentence for people.
	Remedy string
}

// Immutable lists the fields that differ between two templates of one kind and cannot be changed in a child that exists,
// in a fixed order. It is empty between different kinds, which are different objects. The template's selector is not among
// them: the hub writes the children's selector itself, from the UnitedDeployment's.
//
// For the advanced StatefulSet these are the fields that our CRD refuses; OpenKruise's webhook refuses more, and its
// answer becomes the outcome Refused.
func Immutable(was, now Workload) ([]Change, error) {
	if was.Kind.GVK.GroupKind() != now.Kind.GVK.GroupKind() {
		return nil, nil
	}
	fields := map[string][]string{
		StatefulSet().GVK.GroupKind().String():         {"podManagementPolicy", "serviceName", "volumeClaimTemplates"},
		AdvancedStatefulSet().GVK.GroupKind().String(): {"serviceName"},
	}[now.Kind.GVK.GroupKind().String()]
	if len(fields) == 0 {
		return nil, nil
	}
	before, err := object(was.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading the template before: %w", err)
	}
	after, err := object(now.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading %s.spec: %w", now.Kind.Template, err)
	}
	var out []Change
	for _, field := range fields {
		if !sameField(field, before[field], after[field]) {
			out = append(out, Change{Field: "spec." + field, Remedy: remedy(now.Kind, field)})
		}
	}
	return out, nil
}

// sameField compares a field of two templates as the API server will have it: defaults filled in.
func sameField(field string, a, b any) bool {
	switch field {
	case "podManagementPolicy":
		return orDefault(a, "OrderedReady") == orDefault(b, "OrderedReady")
	case "serviceName":
		return orDefault(a, "") == orDefault(b, "")
	}
	return sameValue(claims(a), claims(b))
}

func orDefault(v any, fallback string) any {
	if v == nil || v == "" {
		return fallback
	}
	return v
}

// claims are claim templates as the API server compares them: with the default of volumeMode, and without what it fills in
// or ignores (apiVersion, kind, status, as `kubectl get -o yaml` shows them).
func claims(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := make([]any, len(list))
	for i, item := range list {
		out[i] = item
		claim, ok := item.(map[string]any)
		if !ok {
			continue
		}
		claim = maps.Clone(claim)
		for _, filledIn := range []string{"apiVersion", "kind", "status"} {
			delete(claim, filledIn)
		}
		if meta, ok := claim["metadata"].(map[string]any); ok {
			meta = maps.Clone(meta)
			delete(meta, "creationTimestamp")
			claim["metadata"] = meta
		}
		if spec, ok := claim["spec"].(map[string]any); ok && spec["volumeMode"] == nil {
			spec = maps.Clone(spec)
			spec["volumeMode"] = "Filesystem"
			claim["spec"] = spec
		}
		out[i] = claim
	}
	return out
}

// sameValue compares raw JSON; null, empty and absent are one, and so are two ways to write one amount.
func sameValue(a, b any) bool {
	if empty(a) || empty(b) {
		return empty(a) && empty(b)
	}
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return false
		}
		for field := range union(x, y) {
			if !sameValue(x[field], y[field]) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, sameValue)
	}
	if a == b {
		return true
	}
	x, errX := resource.ParseQuantity(fmt.Sprint(a))
	y, errY := resource.ParseQuantity(fmt.Sprint(b))
	return errX == nil && errY == nil && x.Cmp(y) == 0
}

func empty(v any) bool {
	switch t := v.(type) {
	case nil:
		return true
	case string:
		return t == ""
	case map[string]any:
		return len(t) == 0
	case []any:
		return len(t) == 0
	}
	return false
}

func union(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func remedy(k Kind, field string) string {
	const another = "put the old value back, or make another UnitedDeployment with the new one and move over"
	switch field {
	case "serviceName":
		return "serviceName is part of the DNS name of every pod; " + another
	case "volumeClaimTemplates":
		return "claims that exist keep what they were made from; put the old templates back and resize the claims themselves, " +
			"or use advancedStatefulSetTemplate in another UnitedDeployment, which can resize them"
	}
	return fmt.Sprintf("%s of a %s cannot be changed once it exists; %s", field, k.GVK.Kind, another)
}

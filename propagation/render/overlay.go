package render

import (
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func overlaid(w Workload, o Overlay) (map[string]any, error) {
	spec, err := object(w.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading %s.spec: %w", w.Kind.Template, err)
	}
	out := map[string]any{"spec": spec}
	if len(w.Metadata) > 0 {
		meta, err := object(w.Metadata)
		if err != nil {
			return nil, fmt.Errorf("reading %s.metadata: %w", w.Kind.Template, err)
		}
		out["metadata"] = meta
	}
	pod, err := childMap(spec, "template")
	if err != nil {
		return nil, fmt.Errorf("reading %s.spec: %w", w.Kind.Template, err)
	}
	if pod, err = overlay(pod, o); err != nil {
		return nil, err
	}
	spec["template"] = pod
	return out, nil
}

func overlay(pod map[string]any, o Overlay) (map[string]any, error) {
	spec, err := childMap(pod, "spec")
	if err != nil {
		return nil, fmt.Errorf("reading the pod template: %w", err)
	}
	if o.NodeSelectorTerm != nil {
		if err := addTerms(spec, []corev1.NodeSelectorTerm{*o.NodeSelectorTerm}); err != nil {
			return nil, fmt.Errorf("adding nodeSelectorTerm: %w", err)
		}
	}
	if o.NodeSelector != nil {
		if err := addTerms(spec, o.NodeSelector.NodeSelectorTerms); err != nil {
			return nil, fmt.Errorf("adding nodeSelector: %w", err)
		}
	}
	if err := addTolerations(spec, o.Tolerations); err != nil {
		return nil, fmt.Errorf("adding tolerations: %w", err)
	}
	if len(spec) > 0 {
		pod["spec"] = spec
	}
	return patched(pod, o.Patch)
}

// addTerms lets pods go only where one of the alternatives holds as well: each is put into every required term of the
// template, as requirements in a term are ANDed and terms are ORed. A template's empty term matches no node, so it is left
// as it is. An empty alternative is none; no alternative adds no affinity.
func addTerms(podSpec map[string]any, alternatives []corev1.NodeSelectorTerm) error {
	var add []map[string]any
	for i := range alternatives {
		if len(alternatives[i].MatchExpressions)+len(alternatives[i].MatchFields) == 0 {
			continue
		}
		term, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&alternatives[i])
		if err != nil {
			return fmt.Errorf("converting a term: %w", err)
		}
		add = append(add, term)
	}
	if len(add) == 0 {
		return nil
	}
	at := podSpec
	for _, field := range []string{"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"} {
		next, err := childMap(at, field)
		if err != nil {
			return err
		}
		at[field] = next
		at = next
	}
	terms, err := childList(at, "nodeSelectorTerms")
	if err != nil {
		return err
	}
	var out []any
	for i := range terms {
		both, err := extended(terms[i], add)
		if err != nil {
			return fmt.Errorf("nodeSelectorTerms[%d]: %w", i, err)
		}
		out = append(out, both...)
	}
	if len(terms) == 0 {
		for _, term := range add {
			out = append(out, term)
		}
	}
	at["nodeSelectorTerms"] = out
	return nil
}

// extended is a term of the template with each of the alternatives added.
func extended(term any, add []map[string]any) ([]any, error) {
	out := make([]any, 0, len(add))
	for _, alternative := range add {
		both := runtime.DeepCopyJSONValue(term)
		matchesNothing, err := extendTerm(both, alternative)
		if err != nil {
			return nil, err
		}
		out = append(out, both)
		if matchesNothing {
			break
		}
	}
	return out, nil
}

// extendTerm adds an alternative's requirements to a term; one without requirements matches nothing, and stays so.
func extendTerm(to any, add map[string]any) (matchesNothing bool, err error) {
	have, ok := to.(map[string]any)
	if !ok {
		return false, fmt.Errorf("is %s, want an object", typeName(to))
	}
	lists := map[string][]any{}
	for _, field := range []string{"matchExpressions", "matchFields"} {
		l, err := childList(have, field)
		if err != nil {
			return false, err
		}
		lists[field] = l
	}
	if len(lists["matchExpressions"])+len(lists["matchFields"]) == 0 {
		return true, nil
	}
	for field, l := range lists {
		more, err := childList(add, field)
		if err != nil {
			return false, err
		}
		if len(more) > 0 {
			have[field] = append(l, runtime.DeepCopyJSONValue(more).([]any)...)
		}
	}
	return false, nil
}

func addTolerations(podSpec map[string]any, tolerations []corev1.Toleration) error {
	if len(tolerations) == 0 {
		return nil
	}
	have, err := childList(podSpec, "tolerations")
	if err != nil {
		return err
	}
	for i := range tolerations {
		t, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&tolerations[i])
		if err != nil {
			return fmt.Errorf("converting toleration %d: %w", i, err)
		}
		have = append(have, t)
	}
	podSpec["tolerations"] = have
	return nil
}

// patched applies a strategic merge patch. A field that corev1.PodTemplateSpec does not know is merged as plain JSON.
func patched(pod map[string]any, patch []byte) (map[string]any, error) {
	if len(patch) == 0 {
		return pod, nil
	}
	p, err := object(patch)
	if err != nil {
		return nil, fmt.Errorf("reading the subset's patch: %w", err)
	}
	if err := harmless(p); err != nil {
		return nil, err
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(corev1.PodTemplateSpec{})
	if err != nil {
		return nil, fmt.Errorf("reading the schema of pod templates: %w", err)
	}
	out, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(pod, p, lenient{meta})
	if err != nil {
		return nil, fmt.Errorf("applying the subset's patch: %w", err)
	}
	return out, nil
}

// lenient looks merge strategies up and has none for fields it does not know, instead of failing: such a field is newer
// than this build.
type lenient struct {
	known strategicpatch.LookupPatchMeta
}

// LookupPatchMetadataForStruct is of strategicpatch.LookupPatchMeta.
func (l lenient) LookupPatchMetadataForStruct(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if l.known != nil {
		if next, meta, err := l.known.LookupPatchMetadataForStruct(key); err == nil {
			return lenient{next}, meta, nil
		}
	}
	return lenient{}, strategicpatch.PatchMeta{}, nil
}

// LookupPatchMetadataForSlice is of strategicpatch.LookupPatchMeta.
func (l lenient) LookupPatchMetadataForSlice(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	if l.known != nil {
		if next, meta, err := l.known.LookupPatchMetadataForSlice(key); err == nil {
			return lenient{next}, meta, nil
		}
	}
	return lenient{}, strategicpatch.PatchMeta{}, nil
}

// Name is of strategicpatch.LookupPatchMeta.
func (l lenient) Name() string {
	if l.known != nil {
		return l.known.Name()
	}
	return "unknown"
}

func object(raw []byte) (map[string]any, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("decoding JSON: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is %s, want an object", typeName(v))
	}
	return m, nil
}

// childMap is the object at a field; absent and null are an empty one that is not attached.
func childMap(m map[string]any, field string) (map[string]any, error) {
	v := m[field]
	if v == nil {
		return map[string]any{}, nil
	}
	out, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is %s, want an object", field, typeName(v))
	}
	return out, nil
}

func childList(m map[string]any, field string) ([]any, error) {
	v := m[field]
	if v == nil {
		return nil, nil
	}
	out, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is %s, want a list", field, typeName(v))
	}
	return out, nil
}

func childBool(m map[string]any, field string) (bool, error) {
	v := m[field]
	if v == nil {
		return false, nil
	}
	out, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%s is %s, want true or false", field, typeName(v))
	}
	return out, nil
}

// childTexts is a map of text, as labels are.
func childTexts(m map[string]any, field string) (map[string]any, error) {
	out, err := childMap(m, field)
	if err != nil {
		return nil, err
	}
	for k, v := range out {
		if _, ok := v.(string); !ok {
			return nil, fmt.Errorf("%s[%q] is %s, want text", field, k, typeName(v))
		}
	}
	return out, nil
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	if k := reflect.TypeOf(v).Kind(); k == reflect.Int64 || k == reflect.Float64 {
		return "a number"
	}
	return fmt.Sprintf("a %T", v)
}

// withoutNulls drops nulls at any depth: in a server-side apply they would be values.
func withoutNulls(v any) any {
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			if e == nil {
				delete(t, k)
				continue
			}
			t[k] = withoutNulls(e)
		}
	case []any:
		for i := range t {
			t[i] = withoutNulls(t[i])
		}
	}
	return v
}

var errBothShapes = errors.New("updateStrategy has both shapes: use either the flat fields or rollingUpdate")

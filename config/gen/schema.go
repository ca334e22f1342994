package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// maxLength of an int-or-string: the longest percent anybody needs. Without a bound the API server refuses every rule
// on such a field, and with it the CRD.
const maxLength = 16

// Bounds of labels: a value's length is Kubernetes' own, their number keeps the cost of a rule over all of them in bounds.
const (
	maxLabels     = 100
	maxLabelValue = 63
)

// A kind of int-or-string field: the rule and what to write instead.
type kind struct {
	rule, message string
}

// number is the part of a rule that judges a number; typed clients read it as int32, so a larger one would keep them
// from reading the whole list.
const number = "type(self) == int ? self >= 0 && self <= 2147483647 : "

// intOrString returns the kind of the field at path ("spec.updateStrategy.partition", "[]" for list items, "{}" for
// map values).
func intOrString(path string) (kind, bool) {
	percent := kind{
		rule:    number + `self.matches('^[0-9]+([.][0-9]+)?%$')`,
		message: `must be a number >= 0 or a percent such as "25%"; write 50 instead of "50"`,
	}
	whole := kind{
		rule:    number + `self.matches('^[0-9]+%$')`,
		message: `must be a number >= 0 or a whole percent such as "25%"; write 50 instead of "50"`,
	}
	share := kind{
		rule:    number + `self.matches('^(100|[1-9]?[0-9])%$')`,
		message: `must be a number >= 0 or a whole percent from "0%" to "100%"; write 50 instead of "50"`,
	}
	ordinals := kind{
		rule: number + `(self.matches('^[0-9]{1,10}(-[0-9]{1,10})?$') && int(self.split('-')[0]) <= int(self.split('-')[size(self.split('-')) - 1])` +
			` && int(self.split('-')[size(self.split('-')) - 1]) <= 2147483647)`,
		message: `must be an ordinal >= 0 or a range such as "3-5", its lower end first`,
	}
	kinds := map[string]kind{
		"reserveOrdinals[]":                           ordinals,
		"updateStrategy.partition":                    percent,
		"updateStrategy.maxUnavailable":               whole,
		"updateStrategy.maxSurge":                     whole,
		"updateStrategy.rollingUpdate.partition":      percent,
		"updateStrategy.rollingUpdate.maxUnavailable": whole,
		"updateStrategy.rollingUpdate.maxSurge":       whole,
		"scaleStrategy.maxUnavailable":                whole,
		"updateStrategy.manualUpdate.partition":       percent,
		"updateStrategy.manualUpdate.partitions{}":    percent,
	}
	for _, list := range []string{"topology.subsets[].", "topology.subsetTemplates[]."} {
		for _, field := range []string{"replicas", "minReplicas", "maxReplicas"} {
			kinds[list+field] = share
		}
	}
	k, ok := kinds[strings.TrimPrefix(path, "spec.")]
	return k, ok
}

// complete adds to a CRD what controller-gen cannot say, and returns its name.
func complete(crd map[string]any) (string, error) {
	label(crd)
	name, _ := dig(crd, "metadata")["name"].(string)
	spec := dig(crd, "spec")
	versions, _ := spec["versions"].([]any)
	if name == "" || len(versions) != 1 {
		return name, fmt.Errorf("CRD %q: want one version, found %d", name, len(versions))
	}
	version, _ := versions[0].(map[string]any)
	if err := bound("", dig(version, "schema", "openAPIV3Schema")); err != nil {
		return name, fmt.Errorf("CRD %s: %w", name, err)
	}
	if group := "." + appsv1alpha1.GroupVersion.Group; name == "clonesets"+group || name == "statefulsets"+group {
		open(dig(version, "schema", "openAPIV3Schema", "properties", "spec"))
	}
	if spec["group"] == appsv1alpha1.GroupVersion.Group {
		newer := maps.Clone(version)
		newer["name"], newer["storage"] = "v1beta1", false
		spec["versions"] = []any{version, newer}
	}
	spec["conversion"] = map[string]any{"strategy": "None"}
	return name, nil
}

// bound walks a schema and gives every int-or-string its length and its rule.
func bound(path string, schema map[string]any) error {
	var errs []error
	if either, _ := schema["x-kubernetes-int-or-string"].(bool); either {
		k, ok := intOrString(path)
		if !ok {
			return fmt.Errorf("%s is an int-or-string without a kind: add it to intOrString", path)
		}
		schema["maxLength"] = maxLength
		schema["x-kubernetes-validations"] = []any{map[string]any{"rule": k.rule, "message": k.message}}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		errs = append(errs, bound(strings.TrimPrefix(path+"."+name, "."), dig(properties, name)))
	}
	if items := dig(schema, "items"); len(items) > 0 {
		errs = append(errs, bound(path+"[]", items))
	}
	if values := dig(schema, "additionalProperties"); len(values) > 0 {
		errs = append(errs, bound(path+"{}", values))
	}
	return errors.Join(errs...)
}

// open declares, of the raw parts of the spec of a CloneSet or StatefulSet, the few fields that rules read: a rule sees nothing of an object
// without properties. Everything beside them is kept as before.
func open(spec map[string]any) {
	kept := func(properties map[string]any) map[string]any {
		object := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		if properties != nil {
			object["properties"] = properties
		}
		return object
	}
	labels := map[string]any{
		"type": "object", "maxProperties": maxLabels,
		"additionalProperties": map[string]any{"type": "string", "maxLength": maxLabelValue},
	}
	dig(spec, "properties", "template")["properties"] = map[string]any{
		"metadata": kept(map[string]any{"labels": labels}),
	}
	selected := dig(spec, "properties", "selector", "properties", "matchLabels")
	selected["maxProperties"] = maxLabels
	dig(selected, "additionalProperties")["maxLength"] = maxLabelValue

	for _, selector := range selectors(spec) {
		operator := dig(selector, "properties", "matchExpressions", "items", "properties", "operator")
		operator["enum"] = []any{"In", "NotIn", "Exists", "DoesNotExist"}
	}
	for _, hook := range []string{"preDelete", "inPlaceUpdate", "preNormal"} {
		value := dig(spec, "properties", "lifecycle", "properties", hook, "properties", "labelsHandler", "additionalProperties")
		value["maxLength"], value["pattern"] = maxLabelValue, `^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	}

	claims := dig(spec, "properties", "volumeClaimTemplates")
	claims["x-kubernetes-validations"] = []any{map[string]any{
		"rule":    "self.all(a, !has(a.metadata) || !has(a.metadata.name) || self.exists_one(b, has(b.metadata) && has(b.metadata.name) && a.metadata.name == b.metadata.name))",
		"message": "two claim templates have one name, and a pod one volume of that name; give each its own metadata.name",
	}}
	claim := dig(claims, "items")
	claim["properties"] = map[string]any{
		"metadata": kept(map[string]any{"name": map[string]any{"type": "string", "maxLength": maxLabelValue}}),
		"spec":     kept(nil),
	}
	claim["x-kubernetes-validations"] = []any{
		map[string]any{
			"rule":      "has(self.metadata) && has(self.metadata.name) && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
			"fieldPath": ".metadata.name",
			"message":   "must be a DNS label, the name of the volume that the containers mount; write one such as data",
		},
		map[string]any{
			"rule": "has(self.spec)", "fieldPath": ".spec",
			"message": "is missing, so no claim can be made of it; write accessModes and resources.requests.storage",
		},
	}
}

// selectors are the label selectors of the spec of a CloneSet or StatefulSet.
func selectors(spec map[string]any) []map[string]any {
	out := []map[string]any{dig(spec, "properties", "selector")}
	strategy := dig(spec, "properties", "updateStrategy")
	for _, shape := range []map[string]any{
		strategy, dig(strategy, "properties", "rollingUpdate"),
		dig(strategy, "properties", "rollingUpdate", "properties", "unorderedUpdate"),
	} {
		out = append(out, dig(shape, "properties", "priorityStrategy", "properties", "weightPriority", "items", "properties", "matchSelector"))
	}
	return out
}

// label marks an object as ours.
func label(object map[string]any) {
	metadata := dig(object, "metadata")
	labels, ok := metadata["labels"].(map[string]any)
	if !ok {
		labels = map[string]any{}
		metadata["labels"] = labels
	}
	labels[appsv1alpha1.LabelPartOf] = appsv1alpha1.PartOf
}

// dig returns the map at path, or an empty one.
func dig(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		next, ok := object[name].(map[string]any)
		if !ok {
			return map[string]any{}
		}
		object = next
	}
	return object
}

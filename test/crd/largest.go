package crd

import (
	"fmt"
	"maps"
	"strings"
)

// Largest are objects as large as the CRDs allow where they bound something: their rules must still fit the API
// server's budget.
func Largest() []Case {
	subsets, partitions := make([]any, 1000), map[string]any{}
	for i := range subsets {
		name := fmt.Sprintf("s%062d", i)
		subsets[i] = map[string]any{"name": name, "cluster": name, "minReplicas": "99%", "maxReplicas": "100%"}
		partitions[name] = "99.99999999999%"
	}
	delete(subsets[len(subsets)-1].(map[string]any), "maxReplicas") //nolint:forcetypeassert // written above
	templates := make([]any, 100)
	for i := range templates {
		templates[i] = map[string]any{
			"clusterSelector": map[string]any{"matchLabels": map[string]any{"region": fmt.Sprint(i)}}, "minReplicas": "99%",
		}
	}
	pods := make([]any, 1000)
	for i := range pods {
		pods[i] = fmt.Sprintf("case-%05d", i)
	}
	return []Case{
		{
			Name: "1,000 subsets with 1,000 partitions and 100 templates", Kind: "UnitedDeployment",
			Extra: map[string]any{"spec": map[string]any{
				"topology":       map[string]any{"subsets": subsets, "subsetTemplates": templates},
				"updateStrategy": map[string]any{"manualUpdate": map[string]any{"partitions": partitions}},
			}},
		},
		{
			Name: "1,000 ranges of reserved ordinals", Kind: "StatefulSet",
			Extra: map[string]any{"spec": map[string]any{"reserveOrdinals": reserved(1000)}},
		},
		{
			Name: "1,000 pods to delete", Kind: "CloneSet",
			Extra: map[string]any{"spec": map[string]any{"scaleStrategy": map[string]any{"podsToDelete": pods}}},
		},
		{Name: "every list of a CloneSet at its end", Kind: "CloneSet", Patch: "metadata: {name: full}", Extra: map[string]any{"spec": fullCloneSet()}},
	}
}

// fullCloneSet is a spec with as many claims, terms, hooks and labels as there may be, each as long as it may be.
func fullCloneSet() map[string]any {
	key := func(i int) string {
		domain := strings.Repeat(strings.Repeat("d", 60)+".", 4)
		return fmt.Sprintf("%s%08d/%063d", domain, i, i)
	}
	var claims, scatter, weights, orders, finalizers []any
	for i := range 32 {
		claims = append(claims, map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("c%062d", i)}, "spec": map[string]any{}})
		scatter = append(scatter, map[string]any{"key": key(i), "value": fmt.Sprintf("%063d", i)})
		weights = append(weights, map[string]any{"weight": i, "matchSelector": map[string]any{"matchLabels": map[string]any{key(i): "x"}}})
		orders = append(orders, map[string]any{"orderedKey": key(i)})
		finalizers = append(finalizers, key(i))
	}
	handlers, labels := map[string]any{}, map[string]any{}
	for i := range 16 {
		handlers[key(i)] = fmt.Sprintf("%063d", i)
	}
	for i := range 100 {
		labels[key(i)] = fmt.Sprintf("%063d", i)
	}
	hook := map[string]any{"labelsHandler": handlers, "finalizersHandler": finalizers}
	return map[string]any{
		"selector":             map[string]any{"matchLabels": map[string]any{"app": nil, key(0): labels[key(0)], key(99): labels[key(99)]}},
		"template":             map[string]any{"metadata": map[string]any{"labels": merged(map[string]any{"app": nil}, labels)}},
		"volumeClaimTemplates": claims,
		"updateStrategy": map[string]any{
			"scatterStrategy":  scatter,
			"priorityStrategy": map[string]any{"weightPriority": weights, "orderPriority": orders},
		},
		"lifecycle": map[string]any{"preDelete": hook, "inPlaceUpdate": hook, "preNormal": hook},
	}
}

func merged(into, more map[string]any) map[string]any {
	maps.Copy(into, more)
	return into
}

// TooLarge are objects one beyond it.
func TooLarge() []Case {
	subsets, partitions := make([]any, 1001), map[string]any{}
	for i := range subsets {
		name := fmt.Sprintf("s%d", i)
		subsets[i] = map[string]any{"name": name}
		partitions[name] = 1
	}
	claims := make([]any, 33)
	for i := range claims {
		claims[i] = map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("c%d", i)}, "spec": map[string]any{}}
	}
	return []Case{
		{
			Name: "1,001 reserved ordinals", Kind: "StatefulSet", Refused: map[string]string{"spec.reserveOrdinals": "1000"},
			Extra: map[string]any{"spec": map[string]any{"reserveOrdinals": reserved(1001)}},
		},
		{
			Name: "33 claim templates", Kind: "CloneSet", Refused: map[string]string{"spec.volumeClaimTemplates": "32"},
			Extra: map[string]any{"spec": map[string]any{"volumeClaimTemplates": claims}},
		},
		{
			Name: "1,001 subsets", Kind: "UnitedDeployment", Refused: map[string]string{"spec.topology.subsets": "1000"},
			Extra: map[string]any{"spec": map[string]any{"topology": map[string]any{"subsets": subsets}}},
		},
		{
			Name: "1,001 partitions", Kind: "UnitedDeployment",
			Refused: map[string]string{"spec.updateStrategy.manualUpdate.partitions": "1000"},
			Extra: map[string]any{"spec": map[string]any{
				"updateStrategy": map[string]any{"manualUpdate": map[string]any{"partitions": partitions}},
			}},
		},
	}
}

// reserved are n ranges of reserved ordinals.
func reserved(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = fmt.Sprintf("%d-%d", 10_000+10*i, 10_005+10*i)
	}
	return out
}

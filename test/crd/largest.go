package crd

import "fmt"

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
	}
}

// TooLarge are objects one beyond it.
func TooLarge() []Case {
	subsets, partitions := make([]any, 1001), map[string]any{}
	for i := range subsets {
		name := fmt.Sprintf("s%d", i)
		subsets[i] = map[string]any{"name": name}
		partitions[name] = 1
	}
	return []Case{
		{
			Name: "1,001 reserved ordinals", Kind: "StatefulSet", Refused: map[string]string{"spec.reserveOrdinals": "1000"},
			Extra: map[string]any{"spec": map[string]any{"reserveOrdinals": reserved(1001)}},
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

package plan

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestA06OldNodeSelector: the field of early releases is honoured, said to be superseded, and part of the revision.
func TestA06OldNodeSelector(t *testing.T) {
	t.Parallel()
	a := sub("a", "a", "2")
	a.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "node", Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-a"}}},
	}}}
	ud := united("web", 4, "web:1", a, sub("b", "b", "2"))
	partitions(ud, map[string]string{"a": "0", "b": "0"})
	w := newWorld(t, ud)
	w.run()
	if c := w.condition("DeprecatedFields"); c == nil || c.Message != "honoured, and superseded by the field in brackets: spec.topology.subsets[0].nodeSelector (nodeSelectorTerm)" {
		t.Errorf("condition %+v", c)
	}
	if c := w.condition("FieldsNotActedOn"); c != nil {
		t.Errorf("condition %+v", c)
	}
	rendered := map[string]string{}
	for _, p := range w.passOn(w.observe()) {
		raw, err := json.Marshal(p.Input.Overlay)
		if err != nil {
			t.Fatal(err)
		}
		rendered[p.Subset] = string(raw)
	}
	if !strings.Contains(rendered["a"], "zone-a") || strings.Contains(rendered["b"], "zone-a") {
		t.Errorf("overlays %v", rendered)
	}
	first := w.entry("a").Revision
	if first == w.entry("b").Revision {
		t.Error("both subsets have one revision")
	}
	before := w.entry("b").Revision
	w.ud.Spec.Topology.Subsets[0].NodeSelector.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "zone-b"
	w.ud.Generation++
	w.edited()
	w.run()
	if w.entry("a").Revision == first || w.entry("b").Revision != before {
		t.Errorf("after the edit: %s (was %s) and %s (was %s)", w.entry("a").Revision, first, w.entry("b").Revision, before)
	}
}

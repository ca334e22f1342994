package plan

import (
	"encoding/json"
	"slices"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace/revision"
	travels "github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

// Named are all objects that the template of the spec, those of the stored revisions, and the patches of subsets name:
// more than any one child does, and never less. What cannot be read names nothing here; it sends nothing either.
func Named(ud *appsv1alpha1.UnitedDeployment, stored []revision.Stored) []travels.Ref {
	lists := [][]travels.Ref{namedIn(ud.Spec.Template)}
	for _, t := range Templates(stored) {
		lists = append(lists, namedIn(t))
	}
	raws := make([][]byte, 0, len(stored)+1)
	if raw, err := json.Marshal(map[string]any{"topology": ud.Spec.Topology}); err == nil {
		raws = append(raws, raw)
	}
	for _, s := range stored {
		if raw, err := revision.Decode(s.Data); err == nil {
			raws = append(raws, raw)
		}
	}
	for _, raw := range raws {
		var all map[string]any
		if json.Unmarshal(raw, &all) != nil {
			continue
		}
		delete(all, "template")
		for _, patch := range patches(all, nil) {
			if refs, err := travels.References(patch); err == nil {
				lists = append(lists, refs)
			}
		}
	}
	return travels.Union(lists...)
}

// namedIn are what a template's pods name.
func namedIn(t appsv1alpha1.SubsetTemplate) []travels.Ref {
	w, err := render.WorkloadOf(t)
	if err != nil {
		return nil
	}
	var spec struct {
		Template json.RawMessage `json:"template"`
	}
	if json.Unmarshal(w.Spec, &spec) != nil {
		return nil
	}
	refs, err := travels.References(spec.Template)
	if err != nil {
		return nil
	}
	return refs
}

// patches collects what every field called patch holds.
func patches(v any, out [][]byte) [][]byte {
	switch t := v.(type) {
	case map[string]any:
		for field, below := range t {
			if field != "patch" {
				out = patches(below, out)
				continue
			}
			if raw, err := json.Marshal(below); err == nil && !slices.Equal(raw, []byte("null")) {
				out = append(out, raw)
			}
		}
	case []any:
		for _, below := range t {
			out = patches(below, out)
		}
	}
	return out
}

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/revision"
	"github.com/underway-dev/underway/propagation/render"
)

// override is what one subset changes in the template.
type override struct {
	NodeSelectorTerm *corev1.NodeSelectorTerm `json:"nodeSelectorTerm,omitempty"`
	Tolerations      []corev1.Toleration      `json:"tolerations,omitempty"`
	Patch            *runtime.RawExtension    `json:"patch,omitempty"`
	NodeSelector     *corev1.NodeSelector     `json:"nodeSelector,omitempty"`

	// template is the key of the template of subsets that says so; empty: the list of subsets does.
	template string
}

func overrideOf(s *appsv1alpha1.SubsetPlace) override {
	return override{NodeSelectorTerm: s.NodeSelectorTerm, NodeSelector: s.NodeSelector, Tolerations: s.Tolerations, Patch: s.Patch}
}

func (o override) overlay() render.Overlay {
	out := render.Overlay{NodeSelectorTerm: o.NodeSelectorTerm, NodeSelector: o.NodeSelector, Tolerations: o.Tolerations}
	if o.Patch != nil {
		out.Patch = o.Patch.Raw
	}
	return out
}

func (o override) empty() bool {
	return o.NodeSelectorTerm == nil && o.NodeSelector == nil && len(o.Tolerations) == 0 && o.Patch == nil
}

// content is what a UnitedDeployment revision stores: both parts, so that any subset can be rendered from it. Selected are
// the overrides of templates of subsets, by the key of their selector: which members they match is not part of a revision.
type content struct {
	Template  appsv1alpha1.SubsetTemplate `json:"template"`
	Overrides map[string]override         `json:"overrides,omitempty"`
	Selected  map[string]override         `json:"selected,omitempty"`
}

// of are the overrides of a subset; false when it has none here.
func (c *content) of(subset string, present override) (override, bool) {
	if present.template != "" {
		o, ok := c.Selected[present.template]
		return o, ok
	}
	o, ok := c.Overrides[subset]
	return o, ok
}

// all are the distinct overrides that some subset has, the ones of a subset first, in a fixed order.
func (c *content) all(subset string) []override {
	out := []override{c.Overrides[subset]}
	for _, key := range slices.Sorted(maps.Keys(c.Selected)) {
		out = append(out, c.Selected[key])
	}
	if len(c.Selected) > 0 {
		out = append(out, override{})
	}
	return out
}

// contentOf is the revision of the spec as it is. The first of two templates with one selector is the one that counts.
func contentOf(spec *appsv1alpha1.UnitedDeploymentSpec, templates []selector) content {
	c := content{Template: spec.Template, Overrides: map[string]override{}, Selected: map[string]override{}}
	for i := range templates {
		t := &templates[i]
		if _, there := c.Selected[t.key]; !there && !t.changes.empty() {
			c.Selected[t.key] = t.changes
		}
	}
	for i := range spec.Topology.Subsets {
		s := &spec.Topology.Subsets[i]
		if o := overrideOf(&s.SubsetPlace); !o.empty() {
			c.Overrides[s.Name] = o
		}
	}
	return c
}

// rendered is a template with one subset's overrides, hashed.
type rendered struct {
	workload render.Workload
	overlay  render.Overlay
	// revision is the subset revision.
	revision string
	// pod is the overlaid pod template as raw JSON.
	pod []byte
}

// book holds the revisions of a UnitedDeployment and renders subsets from them, each distinct one once.
type book struct {
	contents map[string]content
	cache    map[string]rendered
}

func newBook(revisions []inplace.Revision) (*book, error) {
	b := &book{contents: map[string]content{}, cache: map[string]rendered{}}
	for _, r := range revisions {
		var c content
		if err := json.Unmarshal(r.Template, &c); err != nil {
			return nil, fmt.Errorf("reading revision %s: %w", r.Name, err)
		}
		b.contents[r.Name] = c
	}
	return b, nil
}

// render is the template of a revision with an override.
func (b *book) render(name string, o override) (rendered, error) {
	key := name
	if !o.empty() {
		raw, err := json.Marshal(o)
		if err != nil {
			return rendered{}, fmt.Errorf("writing the overrides: %w", err)
		}
		key += "\x00" + string(raw)
	}
	if r, ok := b.cache[key]; ok {
		return r, nil
	}
	c, ok := b.contents[name]
	if !ok {
		return rendered{}, fmt.Errorf("revision %s is not stored", name)
	}
	r := rendered{overlay: o.overlay()}
	var err error
	if r.workload, err = render.WorkloadOf(c.Template); err != nil {
		return rendered{}, err
	}
	merged, err := render.Overlaid(r.workload, r.overlay)
	if err != nil {
		return rendered{}, err
	}
	whole, err := json.Marshal(merged)
	if err != nil {
		return rendered{}, fmt.Errorf("writing the template: %w", err)
	}
	if r.revision, err = revision.Hash(whole); err != nil {
		return rendered{}, fmt.Errorf("hashing the template: %w", err)
	}
	spec, _ := merged["spec"].(map[string]any)
	if r.pod, err = json.Marshal(spec["template"]); err != nil {
		return rendered{}, fmt.Errorf("writing the pod template: %w", err)
	}
	b.cache[key] = r
	return r, nil
}

// held is what a child carries: its subset revision, and its kind, which is not part of that hash.
type held struct {
	revision, kind string
}

// of finds the template that a child holds, among all revisions, with the overrides stored there or with the present
// ones. A member that was relabelled holds what another template of subsets made.
func (b *book) of(names []string, subset string, carries held, present override) (rendered, bool) {
	for _, name := range names {
		c := b.contents[name]
		stored, _ := c.of(subset, present)
		for _, o := range []override{stored, present} {
			if r, ok := b.carried(name, o, carries); ok {
				return r, true
			}
		}
	}
	for _, name := range names {
		c := b.contents[name]
		for _, o := range c.all(subset) {
			if r, ok := b.carried(name, o, carries); ok {
				return r, true
			}
		}
	}
	return rendered{}, false
}

// carried renders a revision with an override; false when that is not what a child carries.
func (b *book) carried(name string, o override, carries held) (rendered, bool) {
	r, err := b.render(name, o)
	return r, err == nil && r.revision == carries.revision && r.kind() == carries.kind
}

// completed is what a child that does not exist is created from. A subset that never had a child is new: where the
// completed revision does not know it, its present overrides apply. One that had a child gets what it had, and otherwise
// what the completed revision says, which is nothing when it does not name the subset.
func (b *book) completed(name, subset, lastRevision string, present override) (rendered, error) {
	c := b.contents[name]
	if known, ok := c.of(subset, present); ok {
		return b.render(name, known)
	}
	withPresent, err := b.render(name, present)
	if err != nil || lastRevision == "" || withPresent.revision == lastRevision {
		return withPresent, err
	}
	if len(c.Selected) > 0 {
		for _, o := range c.all(subset) {
			if r, err := b.render(name, o); err == nil && r.revision == lastRevision {
				return r, nil
			}
		}
	}
	return b.render(name, override{})
}

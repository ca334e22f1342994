package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/revision"
	"github.com/underway-dev/underway/propagation/render"
)

// Past is one stored revision of a UnitedDeployment, as a person reads it.
type Past struct {
	// Name of the ControllerRevision, and its number: the higher, the later it was the spec's.
	Name   string
	Number int64
	// Kind is "<kind>.<group>"; Images are those of its pod template, init containers first.
	Kind   string
	Images []Image
	// Template is spec.template as stored; Overrides are those of subsets by name, Selected those of templates of subsets by
	// the key of their selector. All raw JSON.
	Template  json.RawMessage
	Overrides map[string]map[string]json.RawMessage
	Selected  map[string]map[string]json.RawMessage
	// Subsets are those whose child carries it, as last heard, in the order of the status.
	Subsets []string
	// Completed is true for the revision whose release was finished last, Spec for the one of the spec as the hub last saw it.
	Completed, Spec bool
	// Unreadable says why nothing but name and number is known; empty: it was read.
	Unreadable string
}

// Image is what one container runs.
type Image struct {
	Container, Image string
}

// past is a revision's content in the shape it was written in, so that a field newer than this build survives.
type past struct {
	Template  json.RawMessage                       `json:"template"`
	Overrides map[string]map[string]json.RawMessage `json:"overrides"`
	Selected  map[string]map[string]json.RawMessage `json:"selected"`
}

// HistoryOf lists the stored revisions of a UnitedDeployment, newest first. A subset is listed under the revision that its
// child carries: the spec's or the completed one where several render alike.
func HistoryOf(ud *appsv1alpha1.UnitedDeployment, stored []revision.Stored) []Past {
	out := make([]Past, 0, len(stored))
	var readable []inplace.Revision
	for _, s := range stored {
		one := Past{
			Name: s.Name, Number: s.Number,
			Completed: s.Name == ud.Status.CurrentRevision, Spec: s.Name == ud.Status.UpdatedRevision,
		}
		raw, err := revision.Decode(s.Data)
		if err == nil {
			err = one.read(raw)
		}
		if err != nil {
			one.Unreadable = err.Error()
		} else {
			readable = append(readable, inplace.Revision{Name: s.Name, Number: s.Number, Template: raw})
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Past) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), cmp.Compare(b.Name, a.Name))
	})
	attribute(ud, out, readable)
	return out
}

func (o *Past) read(raw []byte) error {
	var c past
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("reading what is stored: %w", err)
	}
	var typed appsv1alpha1.SubsetTemplate
	if err := json.Unmarshal(c.Template, &typed); err != nil {
		return fmt.Errorf("reading the stored template: %w", err)
	}
	w, err := render.WorkloadOf(typed)
	if err != nil {
		return fmt.Errorf("reading the stored template: %w", err)
	}
	o.Kind, o.Images = KindName(w.Kind), imagesOf(w.Spec)
	o.Template, o.Overrides, o.Selected = c.Template, c.Overrides, c.Selected
	return nil
}

// imagesOf reads the images of a workload's pod template; what cannot be read has none.
func imagesOf(spec []byte) []Image {
	type container struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	}
	var w struct {
		Template struct {
			Spec struct {
				InitContainers []container `json:"initContainers"`
				Containers     []container `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	}
	if json.Unmarshal(spec, &w) != nil {
		return nil
	}
	var out []Image
	for _, c := range append(w.Template.Spec.InitContainers, w.Template.Spec.Containers...) {
		out = append(out, Image{Container: c.Name, Image: c.Image})
	}
	return out
}

// attribute finds, for every subset of the status, the revision that its child carries.
func attribute(ud *appsv1alpha1.UnitedDeployment, list []Past, readable []inplace.Revision) {
	book, err := newBook(readable)
	if err != nil {
		return
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rankOf(&list[a]), rankOf(&list[b])) })
	present := presentOverrides(ud)
	for i := range ud.Status.SubsetStatuses {
		e := &ud.Status.SubsetStatuses[i]
		if e.Revision == "" {
			continue
		}
		carries := held{e.Revision, cmp.Or(e.Kind, KindName(render.CloneSet()))}
		now := present[e.Name]
		now.template = e.SelectedBy
		for _, at := range order {
			if _, ok := book.of([]string{list[at].Name}, e.Name, carries, now); ok && list[at].Unreadable == "" {
				list[at].Subsets = append(list[at].Subsets, e.Name)
				break
			}
		}
	}
}

func rankOf(p *Past) int {
	switch {
	case p.Spec:
		return 0
	case p.Completed:
		return 1
	default:
		return 2
	}
}

// presentOverrides are what the spec says of its subsets by name.
func presentOverrides(ud *appsv1alpha1.UnitedDeployment) map[string]override {
	out := map[string]override{}
	for i := range ud.Spec.Topology.Subsets {
		s := &ud.Spec.Topology.Subsets[i]
		out[s.Name] = overrideOf(&s.SubsetPlace)
	}
	return out
}

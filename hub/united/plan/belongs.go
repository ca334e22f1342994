package plan

import (
	"slices"

	"github.com/underway-dev/underway/propagation/render"
)

// named gives each child of ours the name of the subset that it is, whatever its label says: somebody on a member can write
// another name there, or none. A child that is filed under a wrong name would be looked for and never found, and since nobody
// pushes it the label would stay.
func (p *pass) named() {
	cloned := false
	for i := range p.Children {
		c := &p.Children[i]
		if at, ok := p.entries[site{c.Report.Subset, c.Member}]; ok && p.was.SubsetStatuses[at].Workload == c.Report.Name || !p.ours(c) {
			continue
		}
		name := p.subsetOf(c)
		if name == c.Report.Subset {
			continue
		}
		if !cloned {
			p.Children, cloned = slices.Clone(p.Children), true // what was observed is the caller's
		}
		p.Children[i].Report.Subset = name
	}
}

// subsetOf is the subset whose child has this name: by the status, which knows adopted names, then by the rule of names, and
// only then by what the label says.
func (p *pass) subsetOf(c *Child) string {
	for i := range p.was.SubsetStatuses {
		if e := &p.was.SubsetStatuses[i]; e.Cluster == c.Member && e.Workload == c.Report.Name && sameKind(e.Kind, c.Report.Kind) {
			return e.Name
		}
	}
	label := c.Report.Subset
	if label != "" && render.ChildName(p.United.Name, label) == c.Report.Name {
		return label
	}
	for i := range p.United.Spec.Topology.Subsets {
		if s := &p.United.Spec.Topology.Subsets[i]; s.Cluster == c.Member && render.ChildName(p.United.Name, s.Name) == c.Report.Name {
			return s.Name
		}
	}
	// A template names its subsets after their members.
	if c.Member != "" && render.ChildName(p.United.Name, c.Member) == c.Report.Name {
		return c.Member
	}
	return label
}

package plan

import (
	"cmp"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// takenBack is true for a subset outside of the plan that carries what is taken back now: the revision of a release that is
// given up for the completed one. As everywhere, going back is no release, so no partition holds it there.
func (p *pass) takenBack(e *appsv1alpha1.SubsetStatus) bool {
	was := p.was.Release
	if was == nil || was.Revision == p.target || p.underWay() || e.Revision == "" {
		return false
	}
	carries, of := held{e.Revision, cmp.Or(e.Kind, KindName(render.CloneSet()))}, override{template: e.SelectedBy}
	_, back := p.book.of([]string{was.Revision}, e.Name, carries, of)
	_, done := p.book.of([]string{p.completed}, e.Name, carries, of)
	return back && !done
}

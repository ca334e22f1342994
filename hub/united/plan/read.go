package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/inplace"
	"github.com/underway-dev/underway/inplace/revision"
	"github.com/underway-dev/underway/propagation/render"
)

// read reads the spec; false when something in it cannot be read, or cannot be acted on at all.
func (p *pass) read() bool {
	spec := &p.United.Spec
	p.invalid = append(p.invalid, spec.Problems()...)
	templates, invalid := readSelectors(spec.Topology.SubsetTemplates)
	p.selectors, p.invalid = templates, append(p.invalid, invalid...)
	p.unacted = spec.NotActedOn()
	if len(p.invalid) > 0 {
		return false
	}
	var err error
	if p.workload, err = render.WorkloadOf(spec.Template); err != nil {
		p.invalid = append(p.invalid, err.Error())
		return false
	}
	p.kindName = KindName(p.workload.Kind)
	p.readTemplate("spec.template." + p.workload.Kind.Template + ".")
	return len(p.invalid) == 0
}

// refuse is the decision about an object that cannot be read: nothing moves, and it says so. What was posted is
// withdrawn; what a member was granted already it goes on with.
func (p *pass) refuse() {
	s := p.status
	s.ObservedGeneration = p.United.Generation
	p.set(appsv1alpha1.ConditionInvalid, "CannotBeRead", "nothing moves until this is corrected: "+strings.Join(p.invalid, "; "))
	p.setFalse(appsv1alpha1.ConditionReady, "Invalid", p.invalid[0])
	p.sayFields()
}

// revisions finds or makes the revision of the spec.
func (p *pass) revisions() bool {
	raw, err := json.Marshal(contentOf(&p.United.Spec, p.selectors))
	if err != nil {
		p.invalid = append(p.invalid, "spec.template: "+err.Error())
		return false
	}
	limit := int32(defaultHistory)
	if n := p.United.Spec.RevisionHistoryLimit; n != nil {
		limit = *n
	}
	history := revision.History{
		Owner: p.United.Name, Template: raw, Existing: p.Revisions, Taken: p.TakenNames,
		InUse: []string{p.was.CurrentRevision}, Limit: limit,
	}
	if p.was.CollisionCount != nil {
		history.CollisionCount = *p.was.CollisionCount
	}
	if p.was.Release != nil {
		history.InUse = append(history.InUse, p.was.Release.Revision)
	}
	changes, err := revision.Plan(history)
	if err == nil && p.unkept(changes.Create) {
		return false
	}
	var all []inplace.Revision
	if err == nil {
		all = withTrimmed(changes, p.Revisions)
		p.book, err = newBook(all)
	}
	if err != nil {
		p.invalid = append(p.invalid, "spec.template: "+err.Error())
		return false
	}
	p.target = changes.Update.Name
	p.completed = p.was.CurrentRevision
	if p.completed == "" {
		p.completed = p.target // the first template is the completed one
	}
	p.names = []string{p.target, p.completed}
	for _, v := range slices.Backward(all) {
		if name := v.Name; name != p.target && name != p.completed {
			p.names = append(p.names, name)
		}
	}
	if !p.renderTargets() || !p.stampTargets() {
		return false // nothing of a template that cannot be sent is stored
	}
	p.out.Create, p.out.Renumber = changes.Create, changes.Renumber
	p.status.CollisionCount = nil
	if changes.CollisionCount > 0 {
		p.status.CollisionCount = &changes.CollisionCount
	}
	p.trim(changes.Trim)
	return true
}

// maxRevision is how large a template may be with the overrides of all subsets, in bytes. An etcd takes 1.5 MiB for one object,
// and the object itself holds its status beside them.
const maxRevision = 1_200_000

// unkept is true for a revision that cannot be stored: nothing can be made of a template whose history is not kept.
func (p *pass) unkept(create *revision.Stored) bool {
	switch {
	case create == nil:
		return false
	case len(create.Data) > maxRevision:
		p.invalid = append(p.invalid, fmt.Sprintf("spec.template and the overrides of subsets take %d bytes together, and at most %d can be kept as a revision: make them smaller, for example by putting text into a ConfigMap",
			len(create.Data), maxRevision))
	case p.Unkept.Message != "" && p.Unkept.of(create):
		p.invalid = append(p.invalid, fmt.Sprintf("spec.template: the hub's API server does not take ControllerRevision %s, %d bytes large: %s; correct what it names, or make the template smaller; it is tried again once a minute",
			create.Name, len(create.Data), p.Unkept.Message))
		p.lookAgain(p.Unkept.Until.Sub(p.now))
	default:
		return false
	}
	return true
}

// UnkeptOf remembers that a revision was refused.
func UnkeptOf(s *revision.Stored, message string, until time.Time) Unkept {
	return Unkept{Message: message, Until: until, sum: sha256.Sum256(s.Data)}
}

func (u *Unkept) of(s *revision.Stored) bool { return u.sum == sha256.Sum256(s.Data) }

// withTrimmed are all readable revisions, those that may go first: a child may still hold one of them.
func withTrimmed(changes revision.Changes, stored []revision.Stored) []inplace.Revision {
	var out []inplace.Revision
	for _, s := range stored {
		if !slices.Contains(changes.Trim, s.Name) {
			continue
		}
		if template, err := revision.Decode(s.Data); err == nil {
			out = append(out, inplace.Revision{Name: s.Name, Number: s.Number, Template: template})
		}
	}
	return append(out, changes.Revisions...)
}

// trim deletes revisions that no child is known to hold.
func (p *pass) trim(names []string) {
	held := map[string]bool{}
	for i := range p.was.SubsetStatuses {
		held[p.was.SubsetStatuses[i].Revision] = true
	}
	for i := range p.Children {
		held[p.Children[i].Report.SubsetRevision] = true
	}
	for _, name := range names {
		if !p.holds(name, held) {
			p.out.Trim = append(p.out.Trim, name)
		}
	}
}

// holds is true when some subset rendered from the revision, with the overrides stored there or with the present ones,
// is among the subset revisions held: the same that holdChild looks for. Subsets that are not in the plan hold, too.
func (p *pass) holds(name string, held map[string]bool) bool {
	c := p.book.contents[name]
	all := append(c.all(""), slices.Collect(maps.Values(c.Overrides))...)
	for _, pl := range p.places {
		if !pl.present.empty() {
			all = append(all, pl.present)
		}
	}
	return slices.ContainsFunc(all, func(o override) bool {
		r, err := p.book.render(name, o)
		return err == nil && held[r.revision]
	})
}

// renderTargets renders the target revision for every place.
func (p *pass) renderTargets() bool {
	for _, pl := range p.places {
		r, err := p.book.render(p.target, pl.present)
		if err != nil {
			p.invalid = append(p.invalid, fmt.Sprintf("%ssubset %s: %v", p.badPatch(pl), pl.name, err))
			return false
		}
		pl.target = r
		was, err := p.book.completed(p.completed, pl.name, pl.old.Revision, pl.present)
		pl.settled = err == nil && was.same(r)
	}
	return true
}

// stampTargets makes a child of each distinct template, as it would be sent: what cannot be made opens no release.
func (p *pass) stampTargets() bool {
	seen := map[string]bool{}
	for _, pl := range p.places {
		if seen[pl.target.revision] {
			continue
		}
		seen[pl.target.revision] = true
		if _, err := render.Child(p.inputOf(pl, pl.target, render.Partition{Hold: true})); err != nil {
			where := cmp.Or(p.badPatch(pl), "spec.template."+p.workload.Kind.Template+", for ")
			p.invalid = append(p.invalid, fmt.Sprintf("%ssubset %s: %v", where, pl.name, err))
			return false
		}
	}
	return true
}

// badPatch is the path of a place's patch, with a colon, where that is what keeps its child from being made: without it the
// same template makes one. Empty: it is something else, or there is no patch.
func (p *pass) badPatch(pl *place) string {
	without := pl.present
	if without.Patch == nil {
		return ""
	}
	without.Patch = nil
	r, err := p.book.render(p.target, without)
	if err != nil {
		return ""
	}
	if _, err := render.Child(p.inputOf(pl, r, render.Partition{Hold: true})); err != nil {
		return ""
	}
	if key := pl.present.template; key != "" {
		at := slices.IndexFunc(p.selectors, func(s selector) bool { return s.key == key })
		return fmt.Sprintf("spec.topology.subsetTemplates[%d].patch: ", at)
	}
	at := slices.IndexFunc(p.United.Spec.Topology.Subsets, func(s appsv1alpha1.Subset) bool { return s.Name == pl.name })
	return fmt.Sprintf("spec.topology.subsets[%d].patch: ", at)
}

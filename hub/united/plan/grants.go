package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/subset"
	"github.com/underway-dev/underway/inplace/imagediff"
	"github.com/underway-dev/underway/inplace/partition"
	"github.com/underway-dev/underway/propagation/render"
)

// grants decides what every place may do, as the spec's partitions say.
func (p *pass) grants() {
	p.openRelease()
	switch {
	case len(p.spoilt) > 0:
		p.refused = "the template is invalid: " + p.spoilt[0]
	case p.underWay():
		p.refused, p.refusedFor = p.refusedChange(), "CannotChange"
		if p.refused == "" {
			p.refused, p.refusedFor = p.refusal(), "InPlaceOnly"
		}
	}
	manual := p.United.Spec.UpdateStrategy.ManualUpdate
	if manual == nil {
		manual = &appsv1alpha1.ManualUpdate{}
	}
	var rest []*place
	for _, pl := range p.places {
		value, named := manual.Partitions[pl.name]
		switch {
		case p.United.Spec.UpdateStrategy.Type == appsv1alpha1.StagedUpdateType:
			pl.hold("updateStrategy.type Staged is not acted on by this version")
		case named:
			p.grantNamed(pl, value)
		case manual.Partition != nil:
			rest = append(rest, pl)
		case manual.Unnamed == appsv1alpha1.UnnamedHold || (manual.Unnamed == "" && p.fleet()):
			pl.unnamed = true
			pl.hold("partitions does not name it")
		default:
			pl.grantAll()
		}
	}
	p.grantDivided(rest, manual)
	p.capMoved()
	p.wholeOnly()
	p.keepGrants()
	for _, pl := range p.places {
		switch {
		case len(p.spoilt) > 0:
			p.carryOn(pl)
		case p.refused != "":
			pl.hold("the template is refused")
		}
	}
	p.holdGrown()
	p.returning()
}

func (pl *place) hold(why string) {
	pl.grant, pl.held, pl.why = 0, true, why
}

func (pl *place) grantAll() {
	pl.grant, pl.held, pl.why = pl.replicas, false, ""
}

func (pl *place) grantOld(old int32, why string) {
	old = min(max(old, 0), pl.replicas)
	if old == 0 {
		pl.grantAll()
		return
	}
	if old == pl.replicas {
		pl.hold(why)
		return
	}
	pl.grant, pl.held, pl.why = pl.replicas-old, false, why
}

// full is true when nothing is held back.
func (pl *place) full() bool { return !pl.held && pl.grant >= pl.replicas }

// openRelease continues the stored release or begins a new one. The replicas by which a total is divided are those of
// its beginning; outside of a release they follow.
func (p *pass) openRelease() {
	was := p.was.Release
	if was == nil || was.Revision != p.target {
		epoch := int64(1)
		if was != nil {
			epoch = was.Epoch + 1
		}
		p.release = &appsv1alpha1.ReleaseStatus{Revision: p.target, Epoch: epoch, StartedAt: second(p.now)}
	} else {
		p.release = was.DeepCopy()
	}
	if was == nil || was.Revision != p.target || !p.underWay() {
		p.freeze()
		return
	}
	// Nobody who comes or goes meanwhile changes what the others are granted: what was frozen stays, of those that left,
	// too, and who joins takes no part in the division.
	if p.release.Replicas == nil {
		p.release.Replicas = map[string]int32{}
	}
	older := len(p.release.Order) == 0 // a hub that did not write the order down
	for _, pl := range p.places {
		if _, there := p.release.Replicas[pl.name]; !there {
			p.release.Replicas[pl.name] = pl.replicas
		} else if older {
			p.release.Order = append(p.release.Order, pl.name)
		}
	}
}

// freeze writes down the replicas by which a total is divided. Outside of a release they follow, and the order in which
// they are divided is written when one begins.
func (p *pass) freeze() {
	frozen := make(map[string]int32, len(p.places))
	order := make([]string, 0, len(p.places))
	for _, pl := range p.places {
		frozen[pl.name] = pl.replicas
		order = append(order, pl.name)
	}
	p.release.Replicas = frozen
	if p.underWay() {
		p.release.Order = order
	}
}

// underWay is true while the target is another revision than the completed one.
func (p *pass) underWay() bool { return p.target != p.completed }

// grantNamed applies partitions[<subset>]. A number that was all of the subset's replicas when the release began holds
// the subset whole, whatever it is scaled to meanwhile: no scaling leaks a hold.
func (p *pass) grantNamed(pl *place, value intstr.IntOrString) {
	why := fmt.Sprintf("partitions has %s for it", value.String())
	old, err := partition.Old(&value, pl.replicas)
	if err != nil {
		pl.hold(why + ", which cannot be read")
		return
	}
	frozen := p.release.Replicas[pl.name]
	switch {
	case value.Type == intstr.Int && value.IntVal > 0 && frozen > 0 && value.IntVal >= frozen:
		if pl.replicas > value.IntVal {
			why = fmt.Sprintf("partitions has %s for it, all the pods it had when the release began", value.String())
		}
		pl.hold(why)
	case value.Type == intstr.String && allOld(value):
		pl.hold(why)
	case pl.replicas == 0 && !none(value):
		pl.hold(why)
	default:
		pl.grantOld(old, why)
	}
}

func allOld(value intstr.IntOrString) bool {
	percent, err := partition.ParsePercent(value.StrVal)
	return err != nil || percent.Full()
}

// none is true for 0 and every spelling of 0%.
func none(value intstr.IntOrString) bool {
	old, err := partition.Old(&value, hundred)
	return err == nil && old == 0
}

// hundred replicas tell every percent above 0% from 0%.
const hundred = 100

// grantDivided divides manualUpdate.partition over the places that partitions does not name, by their replicas when the
// release began. A place that has grown since, or that joined, gets no more pods granted than it had then, until its share
// is 0. Those that left since keep their share, so that nobody's grant moves with them.
func (p *pass) grantDivided(rest []*place, manual *appsv1alpha1.ManualUpdate) {
	total := manual.Partition
	if len(rest) == 0 || total == nil {
		return
	}
	names, frozen, sum := p.divided(rest, manual)
	old, err := partition.Old(total, sum)
	if err != nil {
		for _, pl := range rest {
			pl.hold("manualUpdate.partition cannot be read")
		}
		return
	}
	shares := make(map[string]int32, len(names))
	for i, share := range subset.Divide(old, frozen) {
		shares[names[i]] = share
	}
	for _, pl := range rest {
		share, divided := shares[pl.name]
		had := int32(0)
		why := fmt.Sprintf("its share of partition %s is %d", total.String(), share)
		if divided {
			had = p.release.Replicas[pl.name]
		} else {
			why = fmt.Sprintf("it joined after the release began, and waits until partition %s is 0", total.String())
		}
		switch grant := min(had, pl.replicas) - share; {
		case share == 0 && (had > 0 || none(*total)):
			pl.grantAll()
		case grant <= 0:
			pl.hold(why)
		default:
			pl.grant, pl.held, pl.why = grant, false, why
		}
	}
}

// divided are the subsets over which a total is divided, with their replicas when the release began, and the sum.
func (p *pass) divided(rest []*place, manual *appsv1alpha1.ManualUpdate) (names []string, frozen []int32, sum int32) {
	if p.underWay() {
		names = slices.DeleteFunc(slices.Clone(p.release.Order), func(name string) bool { _, named := manual.Partitions[name]; return named })
	} else {
		for _, pl := range rest {
			names = append(names, pl.name)
		}
	}
	frozen = make([]int32, len(names))
	for i, name := range names {
		frozen[i] = p.release.Replicas[name]
		sum += frozen[i]
	}
	return names, frozen, sum
}

// keepGrants is for members that are not to be disturbed: while one is being upgraded what it was granted stays as it is,
// neither more nor less. Going back to the completed revision is no grant.
func (p *pass) keepGrants() {
	if !p.underWay() {
		return
	}
	for _, pl := range p.places {
		why := p.Members[pl.cluster].NoGrants
		if why == "" {
			continue
		}
		had := int32(0)
		was := p.was.Release
		if was != nil && was.Revision == p.target {
			had = was.Grants[pl.name]
		}
		pl.kept = why
		switch {
		case had > 0 && had >= p.was.SubsetReplicas[pl.name]:
			pl.grantAll() // there is no old revision any more that more pods could be of
		case had <= 0, had >= pl.replicas: // what is left when it was scaled below its grant is not all that it had
			pl.hold(why)
		default:
			pl.grantOld(pl.replicas-had, why)
		}
	}
}

// returning: going back to the completed revision is not a release. A partition guards pods from a revision that is not
// proven; the completed one is. So every child that holds another template, or is not back yet, gets the completed one
// without a partition, bounded by its own maxUnavailable only. The stored grant remembers it until the child is proven.
func (p *pass) returning() {
	if p.underWay() || p.refused != "" {
		return
	}
	for _, pl := range p.places {
		if pl.full() {
			continue
		}
		other := p.goesBack(pl) && (pl.carried() != "" && pl.carried() != pl.target.revision || len(pl.others) > 0)
		remembered := p.was.Release != nil && p.was.Release.Revision == p.target &&
			p.was.Release.Grants[pl.name] > pl.grant && p.was.CurrentRevision == p.target
		if other || (remembered && !pl.allUpdated()) {
			pl.grantAll()
			pl.why = "it goes back to the completed revision"
		}
	}
}

// goesBack is true for a place that was in the plan when the way to the completed revision began. One that was outside of it, and
// that the release was finished without, was never granted anything: it is held as the spec says.
func (p *pass) goesBack(pl *place) bool {
	was := p.was.Release
	if was == nil || was.Revision != p.target {
		return true
	}
	all := p.was.SubsetReplicas[pl.name]
	return was.Grants[pl.name] >= all && (all > 0 || pl.replicas == 0)
}

// carried is the subset revision that the child has, as last seen.
func (pl *place) carried() string {
	if c := pl.serving(); c != nil {
		return c.Report.SubsetRevision
	}
	return pl.old.Revision
}

// allUpdated is true when a fresh report says that every pod runs the target revision.
func (pl *place) allUpdated() bool {
	c := pl.child
	return c != nil && c.Unreadable == "" && c.Report.Fresh && c.Report.SubsetRevision == pl.target.revision &&
		c.Report.Updated == c.Report.Replicas
}

// refusal compares the target with what children hold, where the strategy allows in-place updates only. One refusal
// refuses the template: nothing moves anywhere.
func (p *pass) refusal() string {
	if !p.inPlaceOnly || p.onDelete {
		return ""
	}
	seen := map[string]bool{}
	for _, pl := range p.places {
		if pl.settled {
			continue
		}
		for _, old := range p.heldBy(pl) {
			if seen[old.revision+"/"+pl.target.revision] || old.kind() != p.kind() {
				continue // pods of another kind are never moved: the new ones are made beside them
			}
			seen[old.revision+"/"+pl.target.revision] = true
			if _, err := imagediff.Between(old.pod, pl.target.pod); err != nil {
				return fmt.Sprintf("subset %s: %v; InPlaceOnly recreates no pod: take the change back, or write InPlaceIfPossible", pl.name, err)
			}
		}
	}
	return ""
}

// heldBy are the templates that pods of a place can run: the completed one and those its children carry. The list is good until
// the next call.
func (p *pass) heldBy(pl *place) []rendered {
	out := p.heldRoom[:0]
	if r, err := p.book.completed(p.completed, pl.name, pl.old.Revision, pl.present); err == nil {
		out = append(out, r)
	}
	if c := pl.carried(); c != "" && pl.serving() == nil {
		out = p.appendHeld(out, pl, held{c, cmp.Or(pl.old.Kind, KindName(render.CloneSet()))})
	}
	for _, c := range pl.others {
		out = p.appendHeld(out, pl, held{c.Report.SubsetRevision, c.Report.Kind})
	}
	if c := pl.child; c != nil {
		out = p.appendHeld(out, pl, held{c.Report.SubsetRevision, c.Report.Kind})
	}
	p.heldRoom = out
	return out
}

func (p *pass) appendHeld(out []rendered, pl *place, carries held) []rendered {
	if carries == (held{pl.target.revision, pl.target.kind()}) {
		return out
	}
	if r, ok := p.book.of(p.names, pl.name, carries, pl.present); ok {
		out = append(out, r)
	}
	return out
}

// settleRelease writes the grants down. Every change of them is a new epoch.
func (p *pass) settleRelease() {
	grants := make(map[string]int32, len(p.places))
	for _, pl := range p.places {
		grants[pl.name] = pl.grant
	}
	was := p.was.Release
	if was != nil && was.Revision == p.target {
		for _, e := range p.outside() { // for the day they come back
			if n, ok := was.Grants[e.Name]; ok {
				grants[e.Name] = n
			}
		}
		if !maps.Equal(was.Grants, grants) {
			p.release.Epoch = was.Epoch + 1
		}
	}
	for _, e := range p.outside() {
		if p.takenBack(e) {
			grants[e.Name] = e.DesiredReplicas // all of it: it goes back when it is in the plan again
		}
	}
	p.release.Grants = grants
	p.status.Release = p.release
	p.status.CurrentRevision = p.completed
	p.status.UpdatedRevision = p.target
	if len(p.spoilt) > 0 {
		p.status.Release, p.status.UpdatedRevision = p.carriedOn(), p.was.UpdatedRevision
	}
}

// unknownKeys are the keys of partitions that name no subset, sorted.
func (p *pass) unknownKeys() []string {
	manual := p.United.Spec.UpdateStrategy.ManualUpdate
	if manual == nil {
		return nil
	}
	known := map[string]bool{}
	for _, pl := range p.places {
		known[pl.name] = true
	}
	for _, a := range p.asides {
		known[a.entry.Name] = true
	}
	var out []string
	for key := range manual.Partitions {
		if !known[key] {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

func quoted(names []string) string {
	return strings.Join(names, ", ")
}

package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/render"
)

// ConfirmRemoval is the left side of the annotation by which a person confirms a removal; the right side is the names
// of the subsets, sorted and joined by commas.
const ConfirmRemoval = appsv1alpha1.ConditionRemovalHeld

// leaver is a subset that the spec no longer has, and whose child may still be there.
type leaver struct {
	entry appsv1alpha1.SubsetStatus
	child *Child
	// startsEmpty is true for one whose claims stay where they are while a new place, under another name or in another cluster,
	// begins without their data: a subset that was renamed or moved.
	startsEmpty bool
	// back is true for a subset that a template made and whose removal, as one of several, waits for a person: nothing of
	// it is moved meanwhile.
	back bool
}

// holdRemoval decides whether a person is waited for: more than one subset that leaves at once, when they are a quarter of
// all or more, or the last one.
func (p *pass) holdRemoval() {
	names := p.leaverNames()
	n := len(names) + p.overlookedChildren
	p.removalOf = "several subsets leave at once"
	if n > 0 && (len(p.places) == 0 || (n > 1 && 4*n >= n+len(p.places))) && !p.confirmed(names) {
		p.removal = strings.Join(names, ",")
		for i := range p.leavers {
			l := &p.leavers[i]
			l.back = l.entry.SelectedBy != "" && l.entry.Name == l.entry.Cluster && !named(p.United, l.entry.Name)
			fewer(&l.entry, l.child)
			if p.nothingThere(&l.entry, l.child) {
				l.entry.DesiredReplicas, l.entry.AwaitedReplicas = 0, 0
			}
		}
	}
}

// leaving handles subsets that were taken out of the spec: each is drained when the others have taken over. One whose claims
// go with it waits for a person, too.
func (p *pass) leaving() {
	p.askForClaims()
	p.out.DropConfirm = p.usedUp()
	p.showAsides()
	var entries []appsv1alpha1.SubsetStatus
	for i := range p.leavers {
		if entry, keep := p.leaver(&p.leavers[i]); keep {
			entries = append(entries, entry)
		}
	}
	p.status.SubsetStatuses = make([]appsv1alpha1.SubsetStatus, 0, len(p.places)+len(p.asides)+len(entries))
	for _, pl := range p.places {
		p.status.SubsetStatuses = append(p.status.SubsetStatuses, *pl.entry)
	}
	for _, a := range p.asides {
		p.status.SubsetStatuses = append(p.status.SubsetStatuses, a.entry)
	}
	p.status.SubsetStatuses = append(p.status.SubsetStatuses, entries...)
}

// askForClaims waits for a person who has been told which claims go, also where the removal waits for one anyway.
func (p *pass) askForClaims() {
	names := p.leaverNames()
	claims := p.claimsOfLeavers()
	if len(claims) == 0 || p.confirmed(names) {
		return
	}
	var what []string
	if p.removal != "" {
		what = append(what, p.removalOf)
	}
	if of := claims[claimsGo]; len(of) > 0 {
		what = append(what, "claims are deleted with the child of "+quoted(of))
	}
	if of := claims[claimsStay]; len(of) > 0 {
		what = append(what, fmt.Sprintf("the claims of %s stay where they are, and the pods of the new subset start with empty volumes", quoted(of)))
	}
	if of := claims[claimsUnknown]; len(of) > 0 {
		what = append(what, "claims may be deleted with the child of "+quoted(of)+", whose template is not known here")
	}
	p.removal, p.removalOf = strings.Join(names, ","), strings.Join(what, "; ")
}

// asksToConfirm is what a subset says that waits for a person.
func (p *pass) asksToConfirm() string {
	return fmt.Sprintf("%s: kubectl underway confirm ud %s -n %s", p.removalOf, p.United.Name, p.United.Namespace)
}

// confirmed is true when a person confirmed the removal of each of these: the first to be gone does not revoke it for the
// rest.
func (p *pass) confirmed(names []string) bool {
	value, ok := strings.CutPrefix(p.United.Annotations[appsv1alpha1.AnnotationConfirm], ConfirmRemoval+"/")
	if !ok {
		return false
	}
	allowed := strings.Split(value, ",")
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(allowed, name) })
}

// usedUp is true when a confirmed removal is finished, as stored: the confirmation is not one of the next removal.
func (p *pass) usedUp() bool {
	return len(p.leavers) == 0 && strings.HasPrefix(p.United.Annotations[appsv1alpha1.AnnotationConfirm], ConfirmRemoval+"/")
}

// strangers is how many subsets that neither the spec nor the status knows are taken from one member. A member says whatever it
// likes: with thousands of them the status could not be stored any more.
const strangers = 10

// findLeavers collects what the status and the members know and the spec does not.
func (p *pass) findLeavers() {
	inSpec := p.planned()
	of := map[string]int{}
	for i := range p.was.SubsetStatuses {
		s := &p.was.SubsetStatuses[i]
		if !inSpec[site{s.Name, s.Cluster}] {
			p.leavers = append(p.leavers, leaver{entry: *s.DeepCopy()})
			of[s.Cluster]++
		}
	}
	var unknown []*Child
	for i := range p.Children {
		c := &p.Children[i]
		if inSpec[site{c.Report.Subset, c.Member}] || !p.ours(c) {
			continue
		}
		if at := p.leaverOf(c); at >= 0 {
			p.leavers[at].child = c
			continue
		}
		unknown = append(unknown, c)
	}
	p.takeStrangers(unknown, of)
	slices.SortStableFunc(p.leavers, func(a, b leaver) int {
		return cmp.Or(cmp.Compare(a.entry.Name, b.entry.Name), cmp.Compare(a.entry.Cluster, b.entry.Cluster))
	})
}

// takeStrangers adds children that neither the spec nor the status knows to the subsets that leave, of each member only as many
// as make ten with those that it has already; the others follow when these are gone.
func (p *pass) takeStrangers(unknown []*Child, of map[string]int) {
	slices.SortFunc(unknown, func(a, b *Child) int {
		return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Report.Name, b.Report.Name), cmp.Compare(a.Report.Kind, b.Report.Kind))
	})
	left := map[string]int{}
	for _, c := range unknown {
		if at := p.leaverOf(c); at >= 0 {
			p.leavers[at].child = c
			continue
		}
		if of[c.Member] >= strangers {
			left[c.Member]++
			p.overlookedChildren++
			continue
		}
		of[c.Member]++
		p.leavers = append(p.leavers, leaver{child: c, entry: appsv1alpha1.SubsetStatus{
			Name: c.Report.Subset, Cluster: c.Member, Workload: c.Report.Name, Kind: c.Report.Kind,
		}})
	}
	for _, member := range slices.Sorted(maps.Keys(left)) {
		p.overlooked = append(p.overlooked, fmt.Sprintf("member %s has %d more children that carry this object's mark and that it never had; they are looked at when those that leave are gone",
			member, left[member]))
	}
}

// leaverOf is the place among the leavers of what the status says of a child; -1: it says nothing.
func (p *pass) leaverOf(c *Child) int {
	return slices.IndexFunc(p.leavers, func(l leaver) bool {
		return l.entry.Name == c.Report.Subset && l.entry.Cluster == c.Member && sameKind(l.entry.Kind, c.Report.Kind) &&
			(l.child == nil || l.entry.Workload == c.Report.Name)
	})
}

// leaverNames are the distinct names, with the cluster where a subset only moved.
func (p *pass) leaverNames() []string {
	out := make([]string, 0, len(p.leavers))
	for _, l := range p.leavers {
		name := l.entry.Name
		if slices.ContainsFunc(p.places, func(pl *place) bool { return pl.name == name }) {
			name += "@" + l.entry.Cluster
		}
		out = append(out, name)
	}
	return slices.Compact(out)
}

// leaver decides for one; the second result is false when nothing of it is left.
func (p *pass) leaver(l *leaver) (appsv1alpha1.SubsetStatus, bool) {
	e := l.entry
	if !l.back {
		e.DesiredReplicas, e.AwaitedReplicas, e.Granted, e.Partition = 0, 0, 0, 0
	}
	e.Conditions = p.rememberEmpty(l)
	member, known := p.Members[e.Cluster]
	switch {
	case !known && l.back:
		e.Replicas, e.ReadyReplicas, e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Report = 0, 0, 0, 0, nil
		e.State, e.Stale = stateLeaving, false
		e.Message = fmt.Sprintf("its MemberCluster does not exist any more, like others at once; its %d replicas are placed on the rest when that is confirmed: kubectl underway confirm ud %s -n %s",
			e.DesiredReplicas, p.United.Name, p.United.Namespace)
		return e, true
	case !known:
		return e, false // its MemberCluster was deleted: the workload stays, out of our hands
	case member.Settling:
		p.unsettled = true
		return l.entry, true
	case !member.Ready:
		e.Stale = true
		if at := second(member.HeardAt); at != nil {
			e.HeardAt = at
		}
		e.State = stateLeaving
		e.Message = fmt.Sprintf("%s; member %s is not heard from (%s), so its child stays until it is", p.why(l), e.Cluster, member.Problem)
		return e, true
	case l.child == nil:
		return e, e.Workload != "" && p.stillCreating(l, &e)
	}
	e.State, e.Stale = stateLeaving, false
	r := &l.child.Report
	e.Workload, e.Kind, e.Replicas, e.ReadyReplicas, e.Revision = r.Name, r.Kind, r.Replicas, r.Ready, r.SubsetRevision
	e.UpdatedReplicas, e.UpdatedReadyReplicas, e.Report = 0, 0, nil
	if p.mayGo(l, &e) {
		p.pushEnd(WantDeleted, ended{member: e.Cluster, subset: e.Name, name: r.Name, kind: r.Kind}, "the subset was taken out of the list and the others have taken over")
		if d := p.Deliveries[Target{Member: e.Cluster, Kind: r.Kind, Name: r.Name}]; d.Problem != NoProblem {
			e.Message += ": " + d.Message
		}
	}
	return e, true
}

// why says what made it leave.
func (p *pass) why(l *leaver) string {
	if l.entry.SelectedBy != "" && p.Members[l.entry.Cluster].Draining {
		return "its member is being drained"
	}
	if l.entry.SelectedBy != "" {
		return "no template of topology.subsetTemplates selects it"
	}
	return "taken out of the list"
}

// stillCreating is true while what was posted for a subset that has just left may still be on its way. It goes as one that is
// seen does: not before a person has confirmed, nor before the others have taken over.
func (p *pass) stillCreating(l *leaver, e *appsv1alpha1.SubsetStatus) bool {
	kind := cmp.Or(e.Kind, KindName(render.CloneSet()))
	d, posted := p.Deliveries[Target{Member: e.Cluster, Kind: kind, Name: e.Workload}]
	if !posted || d.Gone {
		return false
	}
	e.State = stateLeaving
	if p.mayGo(l, e) {
		p.pushEnd(WantDeleted, ended{member: e.Cluster, subset: e.Name, name: e.Workload, kind: kind}, "the subset was taken out of the list")
	}
	return true
}

// mayGo says what a subset that leaves waits for, and is true when that is nothing.
func (p *pass) mayGo(l *leaver, e *appsv1alpha1.SubsetStatus) bool {
	waits := p.waitsFor()
	switch {
	case p.removal != "":
		e.Message = p.asksToConfirm()
	case p.unsettledEdit:
		// What the others have to take over is not known yet: they are not measured by what they had before the edit.
		e.Message = p.why(l) + "; its child goes when the others have taken over, and the edit is still settling"
	case len(waits) > 0:
		e.Message = p.why(l) + "; its child goes when these have taken over: " + quoted(waits)
	default:
		e.Message = p.why(l) + "; its child is being deleted"
		return true
	}
	return false
}

// waitsFor are the places that have not taken over yet: not all replicas ready, or not heard from.
func (p *pass) waitsFor() []string {
	var out []string
	for _, pl := range p.places {
		if c := pl.serving(); pl.entry.Stale || c == nil || !c.Report.Fresh || pl.entry.ReadyReplicas < pl.wanted() {
			out = append(out, pl.name)
		}
	}
	return out
}

// sameKind compares the kind of a status entry, which an older hub left empty, with a child's.
func sameKind(entry, child string) bool {
	return cmp.Or(entry, KindName(render.CloneSet())) == child
}

// fate is what becomes of a child's claims when the child is deleted.
type fate string

const (
	noClaims   fate = ""
	claimsGo   fate = "deleted"
	claimsStay fate = "kept"
	// claimsUnknown is that of a template that the book does not have: one that was adopted, or whose revision somebody deleted.
	claimsUnknown fate = "unknown"
)

// claimsOfLeavers are the names of the leavers that may have claims of which a person has to know, by what becomes of them.
func (p *pass) claimsOfLeavers() map[fate][]string {
	begins := slices.ContainsFunc(p.places, func(pl *place) bool { return !pl.known && pl.serving() == nil })
	out := map[fate][]string{}
	for i := range p.leavers {
		l := &p.leavers[i]
		if l.child == nil {
			continue
		}
		name := l.entry.Name
		f := p.fateOfClaims(name, l.child, override{template: l.entry.SelectedBy})
		if f == claimsStay {
			// What began beside it is known in the next pass: that it did is kept in the status.
			l.startsEmpty = begins || meta.FindStatusCondition(l.entry.Conditions, appsv1alpha1.ConditionVolumesStayBehind) != nil
		}
		if f != noClaims && (f != claimsStay || l.startsEmpty) && !slices.Contains(out[f], name) {
			out[f] = append(out[f], name)
		}
	}
	return out
}

// rememberEmpty are the conditions of a subset that leaves.
func (p *pass) rememberEmpty(l *leaver) []metav1.Condition {
	if !l.startsEmpty {
		return nil
	}
	next := p.subsetCondition(appsv1alpha1.ConditionVolumesStayBehind, metav1.ConditionTrue, "Renamed", "its claims stay where they are, and the pods of the subset that took its place start with empty volumes")
	if was := meta.FindStatusCondition(l.entry.Conditions, next.Type); was != nil {
		next.LastTransitionTime = was.LastTransitionTime
	}
	return []metav1.Condition{next}
}

// fateOfClaims says what becomes of the claims of a child that is deleted.
func (p *pass) fateOfClaims(subset string, c *Child, present override) fate {
	kind, ok := KindNamed(c.Report.Kind)
	if !ok || kind.GVK == render.Deployment().GVK {
		return noClaims
	}
	r, ok := p.book.of(p.names, subset, held{c.Report.SubsetRevision, c.Report.Kind}, present)
	switch {
	case !ok:
		return claimsUnknown
	case !render.HasClaims(r.workload):
		return noClaims
	case goWithTheirChild(r.workload):
		return claimsGo
	}
	return claimsStay
}

// goWithTheirChild is true for a workload whose claims are deleted with it: a CloneSet's always, a StatefulSet's where it says
// so.
func goWithTheirChild(w render.Workload) bool {
	if w.Kind.GVK.Kind != render.StatefulSet().GVK.Kind {
		return true
	}
	var spec struct {
		PersistentVolumeClaimRetentionPolicy struct {
			WhenDeleted string `json:"whenDeleted"`
		} `json:"persistentVolumeClaimRetentionPolicy"`
	}
	return json.Unmarshal(w.Spec, &spec) != nil || spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted == appsv1alpha1.DeleteClaims
}

// pushEnd wants one child deleted or let go. A kind that this hub does not know has nothing of ours.
func (p *pass) pushEnd(want Want, t ended, because string) {
	kind, ok := KindNamed(t.kind)
	if !ok {
		return
	}
	out := Push{
		Want: want, Member: t.member, Subset: t.subset, Name: t.name, Kind: kind, Because: because,
		Input: render.Input{Owner: p.owner(), Subset: t.subset, Name: t.name, HubID: p.HubID, Intent: p.intent()},
	}
	for i := range p.Children {
		if c := &p.Children[i]; c.Member == t.member && c.Report.Name == t.name && c.Report.Kind == KindName(kind) {
			out.Judged = c.Report.UID
		}
	}
	p.out.Pushes = append(p.out.Pushes, out)
}

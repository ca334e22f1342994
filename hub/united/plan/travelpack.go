package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	travels "github.com/underway-dev/underway/propagation/content"
	"github.com/underway-dev/underway/propagation/render"
)

// packer decides what travels in one pass.
type packer struct {
	*pass

	places    map[site]*place
	templates map[held]rendered
	named     map[held][]travels.Ref
	unread    map[held]error
	wants     map[Target]*Content
	// blind are members of which not all is known that their pods name: nothing is taken away there.
	blind map[string]bool
}

// travel decides what goes along with the pushes that were decided on, and holds back those whose content is not there
// yet. It comes after every place was decided for, and before their entries are copied.
//
//   - A child that does not exist waits for all that its pods cannot start without. One that is to get another template
//     goes on with what it holds. One that carries the template already is pushed as ever.
//   - While a release is under way, content stays as it is for a subset that it has not come to.
//   - Nothing is taken away while a pod of an older template may run on the member.
func (p *pass) travel() {
	if !p.Travel.On {
		return
	}
	t := p.newPacker()
	if p.optedOut() {
		t.letGoAll()
		p.out.Contents = t.list()
		return
	}
	kept := p.out.Pushes[:0:0]
	for i := range p.out.Pushes {
		push := p.out.Pushes[i]
		if push.Want != WantApplied || push.Member == "" || t.pack(&push) {
			kept = append(kept, push)
		}
	}
	p.out.Pushes = kept
	t.release()
	p.out.Contents = t.list()
}

func (p *pass) optedOut() bool {
	return p.United.Annotations[appsv1alpha1.AnnotationPropagateContent] == "false"
}

func (p *pass) newPacker() *packer {
	t := &packer{
		pass: p, places: map[site]*place{}, templates: map[held]rendered{}, named: map[held][]travels.Ref{},
		unread: map[held]error{}, wants: map[Target]*Content{}, blind: map[string]bool{},
	}
	for _, pl := range p.places {
		t.places[site{pl.name, pl.cluster}] = pl
	}
	if p.book != nil {
		for _, r := range p.book.cache {
			t.templates[held{r.revision, r.kind()}] = r
		}
	}
	return t
}

// refs are what a template's pods name, of the kinds that travel, with what those name.
func (t *packer) refs(of held) ([]travels.Ref, error) {
	if refs, ok := t.named[of]; ok {
		return refs, t.unread[of]
	}
	refs, err := travels.References(t.templates[of].pod)
	for _, r := range refs {
		if hub := t.Travel.Hub[plain(r)]; hub.Found && hub.Excluded == "" {
			refs = travels.Union(refs, hub.Needs)
		}
	}
	refs = slices.DeleteFunc(refs, func(r travels.Ref) bool { return !slices.Contains(t.Travel.Kinds, r.Kind) })
	t.named[of], t.unread[of] = refs, err
	return refs, err
}

func plain(r travels.Ref) travels.Ref { return travels.Ref{Kind: r.Kind, Name: r.Name} }

// pack wants what a push needs; false when the push is held back.
func (t *packer) pack(push *Push) bool {
	pl := t.places[site{push.Subset, push.Member}]
	if pl == nil {
		return true
	}
	of := held{push.Input.Revision, KindName(push.Kind)}
	refs, err := t.refs(of)
	if err != nil {
		t.blind[push.Member] = true
		return t.waits(pl, push, []string{err.Error()})
	}
	hold := t.underWay() && (pl.held || of != (held{pl.target.revision, pl.target.kind()}))
	for _, r := range refs {
		t.want(push.Member, r, hold)
	}
	if done, err := t.book.completed(t.completed, pl.name, pl.old.Revision, pl.present); err == nil && t.underWay() {
		also := held{done.revision, done.kind()}
		t.templates[also] = done
		old, _ := t.refs(also) // pods of it may be made anew in the release
		for _, r := range old {
			t.want(push.Member, r, hold)
		}
	}
	missing, notes := t.missing(push.Member, refs)
	if len(missing) > 0 {
		return t.waits(pl, push, missing)
	}
	if len(notes) > 0 {
		pl.entry.Message = strings.TrimPrefix(pl.entry.Message+"; "+strings.Join(notes, "; "), "; ")
	}
	return true
}

// want wants one object on a member.
func (t *packer) want(member string, r travels.Ref, hold bool) {
	hub, read := t.Travel.Hub[plain(r)]
	c := Content{Member: member, Ref: plain(r)}
	at := c.Target()
	if r.Kind == travels.KindServiceAccount && (!hub.Found || hub.Excluded != "") {
		t.blind[member] = true // the pull secrets that the one on the member names are not known
	}
	switch {
	case !read:
		t.blind[member] = true
		return
	case hub.Found && hub.Excluded == "":
		c.Want, c.UID, c.Version, c.Hold = ContentApplied, hub.UID, hub.Version, hold
		if had := t.wants[at]; had != nil {
			c.Hold = c.Hold || had.Hold
		}
	case hub.Found && slices.Contains(t.Travel.Marked[member].Refs, plain(r)):
		c.Want = ContentLetGo // it was ours; who manages it now finds it there
	case r.Optional:
		return
	default:
		c.Want = ContentPresent
	}
	t.wants[at] = &c
}

// missing says which objects are not there yet, each in words, and what else is to be said of those that are.
func (t *packer) missing(member string, refs []travels.Ref) (missing, notes []string) {
	for _, r := range refs {
		hub, read := t.Travel.Hub[plain(r)]
		c := t.wants[Target{Member: member, Kind: r.Kind, Name: r.Name}]
		switch {
		case !read:
			missing = append(missing, fmt.Sprintf("its %s is not read yet on the hub", r))
			continue
		case c == nil:
			continue // optional, and nowhere
		}
		d := t.Travel.Deliveries[c.Target()]
		answered := d.Posted == c.Fingerprint()
		switch {
		case answered && d.Ready:
			if len(d.HeldBy) > 0 {
				notes = append(notes, fmt.Sprintf("its %s stays as it is there: held by %s", r, strings.Join(d.HeldBy, ", ")))
			}
		case answered && r.Optional && d.Problem != NoProblem:
			notes = append(notes, fmt.Sprintf("its %s, which is optional, is not there: %s", r, d.Message))
		case answered && d.Problem != NoProblem:
			missing = append(missing, fmt.Sprintf("its %s is not there yet: %s%s", r, d.Message, t.remedy(hub, d)))
		default:
			missing = append(missing, fmt.Sprintf("its %s is not there yet", r))
		}
	}
	return missing, notes
}

// remedy says what a person can do.
func (t *packer) remedy(hub HubObject, d ContentDelivery) string {
	switch {
	case d.Problem == ProblemConflict:
		return fmt.Sprintf("; remove it there, set spec.adopt to take it over, or annotate it on the hub with %s: \"false\" to use it as it is",
			appsv1alpha1.AnnotationPropagate)
	case !hub.Found:
		return fmt.Sprintf("; create it in namespace %s of the hub, or on the member", t.United.Namespace)
	case hub.Excluded != "":
		return "; it does not travel: " + hub.Excluded
	}
	return ""
}

// waits holds a push back: nothing is made, and a child that is there goes on with what it holds.
func (t *packer) waits(pl *place, push *Push, missing []string) bool {
	text := strings.Join(missing[:min(len(missing), maxMissing)], "; ")
	if n := len(missing) - maxMissing; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	c := t.childNamed(pl, push)
	if c != nil && (held{c.Report.SubsetRevision, c.Report.Kind}) == (held{push.Input.Revision, KindName(push.Kind)}) {
		if t.problems(push.Member) {
			pl.entry.Message = strings.TrimPrefix(pl.entry.Message+"; "+text, "; ")
		}
		return true
	}
	pl.proven, pl.done = false, false
	if c == nil {
		pl.say(stateWaiting, "its child is created when what its pods need is there: "+text)
		return false
	}
	pl.say(stateWaiting, "it keeps its template until what the new one needs is there: "+text)
	r, ok := t.heldTemplate(pl, c)
	if !ok {
		return false
	}
	in := t.inputOf(pl, r, render.Partition{Hold: true})
	in.Name, in.Replicas, in.Controller = push.Input.Name, push.Input.Replicas, push.Input.Controller
	push.Input, push.Kind, push.Because = in, r.workload.Kind, "its content is not there yet"
	return true
}

// maxMissing bounds what one message names.
const maxMissing = 3

// problems is true when something on the member does not go on by itself: what is only on its way is not said of a child
// that runs.
func (t *packer) problems(member string) bool {
	for at, c := range t.wants {
		if d := t.Travel.Deliveries[at]; at.Member == member && d.Posted == c.Fingerprint() && d.Problem != NoProblem {
			return true
		}
	}
	return false
}

func (t *packer) childNamed(pl *place, push *Push) *Child {
	for _, c := range append(slices.Clone(pl.others), pl.child) {
		if c != nil && push.Judged != "" && c.Report.UID == push.Judged {
			return c
		}
	}
	return nil
}

// release takes our mark off what no push wants any more, on members where every pod runs what it is to run.
func (t *packer) release() {
	for member := range t.Members {
		if member == "" || !t.Members[member].Ready || !t.quiet(member) {
			continue
		}
		for _, r := range t.candidates(member) {
			c := Content{Member: member, Ref: r, Want: ContentReleased}
			if t.wants[c.Target()] == nil {
				t.wants[c.Target()] = &c
			}
		}
	}
}

// quiet is true when nothing of ours on the member may still use what it was sent before: no child is there that the plan
// does not push, and each runs the target with all its pods.
func (t *packer) quiet(member string) bool {
	if t.blind[member] {
		return false
	}
	pushed := map[string]bool{}
	for i := range t.out.Pushes {
		if push := &t.out.Pushes[i]; push.Member == member && push.Want == WantApplied {
			pushed[push.Subset] = true
		}
	}
	for _, pl := range t.pass.places {
		if pl.cluster == member && (!pushed[pl.name] || !pl.allUpdated() || len(pl.others) > 0) {
			return false
		}
	}
	for i := range t.Children {
		c := &t.Children[i]
		if c.Member != member || !t.ours(c) {
			continue
		}
		pl := t.places[site{c.Report.Subset, member}]
		if pl == nil || pl.child != c || c.Report.Deleting || t.behind(c) {
			return false
		}
	}
	return true
}

// behind is true for a child that a newer plan than this one wrote: this hub may be a restored one.
func (p *pass) behind(c *Child) bool {
	live, err := render.ParseIntent(c.Report.Intent)
	if err != nil {
		return true
	}
	order, ordered := live.Compare(p.intent())
	return !ordered || order > 0
}

// candidates are what may carry our mark on a member.
func (t *packer) candidates(member string) []travels.Ref {
	m := t.Travel.Marked[member]
	if m.Known || m.Settling {
		return m.Refs
	}
	out := slices.Collect(maps.Keys(t.Travel.Hub))
	slices.SortFunc(out, func(a, b travels.Ref) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return slices.DeleteFunc(out, func(r travels.Ref) bool { return !slices.Contains(t.Travel.Kinds, r.Kind) })
}

// letGoAll takes our marks off and leaves everything where it is.
func (t *packer) letGoAll() {
	for member := range t.Members {
		if member == "" || !t.Members[member].Ready {
			continue
		}
		for _, r := range t.Travel.Marked[member].Refs {
			c := Content{Member: member, Ref: r, Want: ContentLetGo}
			t.wants[c.Target()] = &c
		}
	}
}

// list is what is wanted, in a fixed order.
func (t *packer) list() []Content {
	out := make([]Content, 0, len(t.wants))
	for _, c := range t.wants {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Content) int {
		return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.Name, b.Ref.Name))
	})
	return out
}

// travelEnd takes our marks off on members that have no child of ours any more, and says what is waited for. busy are the
// members whose children are.
func (p *pass) travelEnd(want Want, busy map[string]bool) []string {
	if !p.Travel.On {
		return nil
	}
	t := p.newPacker()
	var waits []string
	for member := range p.Members {
		m := p.Travel.Marked[member]
		switch {
		case member == "" || busy[member] || !p.Members[member].Ready:
			continue
		case m.Settling:
			p.unsettled = true
			continue
		}
		for _, r := range t.candidates(member) {
			c := Content{Member: member, Ref: r, Want: ContentReleased}
			if want == WantOrphaned || p.optedOut() {
				c.Want = ContentLetGo
			}
			t.wants[c.Target()] = &c
			if d := p.Travel.Deliveries[c.Target()]; d.Posted != c.Fingerprint() || !d.Gone {
				waits = append(waits, strings.TrimSuffix(fmt.Sprintf("member %s: %s; %s", member, r, d.Message), "; "))
			}
		}
	}
	p.out.Contents = t.list()
	return waits
}

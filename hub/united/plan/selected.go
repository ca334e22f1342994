package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Subsets by selector: every member that a template of topology.subsetTemplates matches has a subset named after it.
// Members come, go and are relabelled without anybody asking this object, so nothing of that is a release, a removal, or
// a grant.

// selector is one template, read.
type selector struct {
	labels.Selector

	// key names the template in stored revisions and in the status: a hash of its selector.
	key string
	// place is what the template says of each subset, changes its overrides.
	place   *appsv1alpha1.SubsetPlace
	changes override
	drain   bool
}

// readSelectors reads the templates; "" is returned for what is wrong with none.
func readSelectors(templates []appsv1alpha1.SubsetSelector) ([]selector, []string) {
	var out []selector
	var invalid []string
	for i := range templates {
		t := &templates[i]
		at := fmt.Sprintf("spec.topology.subsetTemplates[%d].", i)
		if t.ClusterSelector == nil {
			invalid = append(invalid, at+"clusterSelector: must be set; {} selects every member")
			continue
		}
		if t.Cluster != "" {
			invalid = append(invalid, at+"cluster: a template makes a subset of each member that it selects; remove it")
			continue
		}
		read, err := metav1.LabelSelectorAsSelector(t.ClusterSelector)
		if err != nil {
			invalid = append(invalid, at+"clusterSelector: "+err.Error())
			continue
		}
		s := selector{
			Selector: read, key: selectorKey(read), place: &t.SubsetPlace, changes: overrideOf(&t.SubsetPlace),
			drain: t.WhenUnselected == appsv1alpha1.UnselectedDrain,
		}
		s.changes.template = s.key
		out = append(out, s)
	}
	return out, invalid
}

// selectorKey is equal for selectors that say the same, whatever the order in which they are written.
func selectorKey(s labels.Selector) string {
	requirements, _ := s.Requirements()
	lines := make([]string, len(requirements))
	for i := range requirements {
		lines[i] = requirements[i].String()
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:8])
}

// firstMatch is the template that a member takes; nil when none matches, or when it goes: its MemberCluster is being deleted,
// or it is being emptied.
func firstMatch(templates []selector, of labels.Set, goes bool) *selector {
	if goes {
		return nil
	}
	at := slices.IndexFunc(templates, func(s selector) bool { return s.Matches(of) })
	if at < 0 {
		return nil
	}
	return &templates[at]
}

// drains is true when the child of a member that no template matches any more is to go: the template that had it says
// so, or, where that is not in the spec any more, all that are there. Without any template the subset was taken out of the
// spec by a person, as one of the list can be.
func drains(templates []selector, key string) bool {
	if at := slices.IndexFunc(templates, func(s selector) bool { return s.key == key }); at >= 0 {
		return templates[at].drain
	}
	return !slices.ContainsFunc(templates, func(s selector) bool { return !s.drain })
}

// Selects is true when a template of ud selects a member with these labels. What cannot be read selects nothing.
func Selects(ud *appsv1alpha1.UnitedDeployment, of map[string]string) bool {
	templates, _ := readSelectors(ud.Spec.Topology.SubsetTemplates)
	return firstMatch(templates, of, false) != nil
}

// Leaves is true when the spec of ud has no place for the child of a subset on a member: what a delete needs to be true
// still, by a fresh read of both. of is the MemberCluster. What cannot be read leaves nothing.
func Leaves(ud *appsv1alpha1.UnitedDeployment, subset, cluster string, of Standing) bool {
	if slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s appsv1alpha1.Subset) bool { return s.Name == subset && s.Cluster == cluster }) {
		return false
	}
	templates, invalid := readSelectors(ud.Spec.Topology.SubsetTemplates)
	if len(invalid) > 0 {
		return false
	}
	if subset != cluster || named(ud, subset) {
		return true
	}
	if of.Draining && len(templates) > 0 {
		return true
	}
	if firstMatch(templates, of.Labels, false) != nil {
		return false
	}
	for i := range ud.Status.SubsetStatuses {
		if e := &ud.Status.SubsetStatuses[i]; e.Name == subset && e.Cluster == cluster {
			return e.SelectedBy == "" || drains(templates, e.SelectedBy)
		}
	}
	return drains(templates, "")
}

// named is true when the list of subsets has the name, wherever that lives.
func named(ud *appsv1alpha1.UnitedDeployment, subset string) bool {
	return slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s appsv1alpha1.Subset) bool { return s.Name == subset })
}

// selectMembers adds a place for every member that a template matches, by name; one that cannot take a child yet is put
// aside.
func (p *pass) selectMembers() {
	if len(p.selectors) == 0 {
		return
	}
	listed := map[string]string{}
	for i := range p.United.Spec.Topology.Subsets {
		s := &p.United.Spec.Topology.Subsets[i]
		listed[s.Name] = s.Cluster
	}
	for _, name := range p.memberNames() {
		member := p.Members[name]
		s := firstMatch(p.selectors, member.Labels, member.Deleting || member.Draining)
		if s == nil {
			continue
		}
		if cluster, taken := listed[name]; taken {
			if cluster != name {
				p.shadowed = append(p.shadowed, fmt.Sprintf("member %s gets no subset from subsetTemplates, because the subset of that name in the list lives elsewhere", name))
			}
			continue
		}
		pl := p.newPlace(name, name, s.place, s.changes)
		if why := p.notYet(pl); why != "" {
			p.asides = append(p.asides, &aside{entry: pl.old, key: s.key, joining: why})
			continue
		}
		p.places = append(p.places, pl)
	}
}

// memberNames are the MemberClusters, sorted; the hub's own cluster is none.
func (p *pass) memberNames() []string {
	out := make([]string, 0, len(p.Members))
	for name := range p.Members {
		if name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// notYet says why a member that a template matches takes no child yet; "" when it does. Once in the plan it stays there,
// whatever happens to it; but who only comes takes no replicas from the others before it can place them. On first install
// nobody has replicas that could be taken, so a member that is not heard from gets its share.
func (p *pass) notYet(pl *place) string {
	if pl.serving() != nil || (pl.known && pl.old.State != stateJoining) {
		return ""
	}
	member := p.Members[pl.cluster]
	unserved := member.notServed(pl.cluster, p.kind())
	switch {
	case member.NotAllowed != "":
		return member.NotAllowed
	case unserved != "":
		return unserved
	case member.unreconciled(pl.cluster, p.kind()) != "":
		return member.unreconciled(pl.cluster, p.kind())
	case p.was.CurrentRevision == "":
		return ""
	case member.Settling:
		return "the hub is still reading member " + pl.cluster
	case !member.Ready:
		return fmt.Sprintf("member %s is not heard from (%s)", pl.cluster, member.Problem)
	}
	return member.NoGrants
}

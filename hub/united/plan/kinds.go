package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/underway-dev/underway/propagation/render"
)

// KindName is a kind as reports, the status and MemberClusters name it: "<kind>.<group>".
func KindName(k render.Kind) string { return k.GVK.GroupKind().String() }

// KindNamed finds a kind by that name. The empty name is CloneSet: a status that an older hub wrote has no kinds.
func KindNamed(name string) (render.Kind, bool) {
	if name == "" {
		return render.CloneSet(), true
	}
	return render.KindOf(schema.ParseGroupKind(name).WithVersion(""))
}

// kindOfRevision is the name of the kind of children that a stored revision makes; false when it cannot be read.
func (b *book) kindOf(name string) (string, bool) {
	c, ok := b.contents[name]
	if !ok {
		return "", false
	}
	w, err := render.WorkloadOf(c.Template)
	return KindName(w.Kind), err == nil
}

func (r rendered) kind() string { return KindName(r.workload.Kind) }

// same is true when two templates make the same child. The subset revision alone does not tell: the kind is not hashed.
func (r rendered) same(other rendered) bool {
	return r.revision == other.revision && r.kind() == other.kind()
}

// plural is the kind's plural as people say it, with its group where another kind has that name, too.
func plural(kind string) string {
	name, group, _ := strings.Cut(kind, ".")
	if name == "StatefulSet" {
		return name + "s (" + group + ")"
	}
	return name + "s"
}

// notServed says what to do when a member does not know a kind; "" when it does.
func (m *Member) notServed(cluster, kind string) string {
	if !slices.Contains(m.NotServed, kind) {
		return ""
	}
	if cluster == "" {
		return fmt.Sprintf("this cluster does not serve %s: kubectl underway init installs them", plural(kind))
	}
	return fmt.Sprintf("member %s does not serve %s: kubectl underway join %s --upgrade --kubeconfig FILE installs them", cluster, plural(kind), cluster)
}

// unreconciled says what to do when nobody reconciles a kind on a member; "" when somebody does, or that is not known.
func (m *Member) unreconciled(cluster, kind string) string {
	if !slices.Contains(m.Nobody, kind) {
		return ""
	}
	if cluster == "" {
		return fmt.Sprintf("nobody reconciles %s in this cluster: install our agent, or OpenKruise", plural(kind))
	}
	return fmt.Sprintf("nobody reconciles %s on member %s: install our agent (kubectl underway join %s --upgrade --kubeconfig FILE), or OpenKruise",
		plural(kind), cluster, cluster)
}

// changesKind is true while a place goes to another kind and has not arrived: a child of another kind is there, or
// would be made from the completed template.
func (p *pass) changesKind(pl *place) bool {
	if len(pl.others) > 0 {
		return true
	}
	if pl.child != nil {
		return false
	}
	kind, ok := p.book.kindOf(p.completed)
	return ok && kind != p.kind()
}

// kind is the name of the kind that the spec asks for.
func (p *pass) kind() string { return p.kindName }

// wholeOnly turns a grant in part into a hold where no part can be held: of a Deployment, of a change of kind, and of a
// StatefulSet that somebody on the member scales. Its partition is a number: pods that an autoscaler adds would be above
// it, on the new revision, before the hub can answer (design.md 4: no pod beyond the largest grant).
func (p *pass) wholeOnly() {
	for _, pl := range p.places {
		if pl.full() {
			continue
		}
		switch {
		case !pl.settled && p.changesKind(pl):
			pl.hold(pl.why + "; held whole: a change of kind cannot be granted in part")
		case render.PodNames(p.workload.Kind) == render.NamesOrdinal && pl.child != nil && len(pl.child.Report.ScaledBy) > 0:
			pl.hold(fmt.Sprintf("%s; held whole: %s scales it on the member, and a StatefulSet's partition is a number that this would outgrow",
				pl.why, pl.child.Report.ScaledBy[0]))
		case p.workload.Kind.Hold == render.HoldWhole:
			pl.hold(pl.why + "; held whole: a Deployment cannot be held in part")
		}
	}
}

// refusedChange says why a template cannot follow what runs: a change of kind in which names or volumes collide, or
// another value of a field that the kind cannot change. It is refused before anything moves.
func (p *pass) refusedChange() string {
	seen := map[string]bool{}
	for _, pl := range p.places {
		if pl.settled {
			continue
		}
		for _, old := range p.heldBy(pl) {
			key := old.kind() + "/" + old.revision + "/" + pl.target.revision
			if seen[key] {
				continue
			}
			seen[key] = true
			if why := refusedFrom(old.workload, pl.target.workload); why != "" {
				return fmt.Sprintf("subset %s: %s", pl.name, why)
			}
		}
	}
	return ""
}

// refusedFields names what differs and cannot be changed in a child that exists.
func refusedFields(old, next render.Workload) string {
	changes, err := render.Immutable(old, next)
	if err != nil {
		return err.Error()
	}
	lines := make([]string, 0, len(changes))
	for _, c := range changes {
		lines = append(lines, fmt.Sprintf("spec.template.%s.%s cannot be changed in children that exist: %s", next.Kind.Template, c.Field, c.Remedy))
	}
	return strings.Join(lines, "; ")
}

// refusedFrom compares two templates.
func refusedFrom(old, next render.Workload) string {
	from, to := KindName(old.Kind), KindName(next.Kind)
	if from == to {
		return refusedFields(old, next)
	}
	remedy := "take the change back, or put the new template into another UnitedDeployment and move over"
	switch {
	case render.PodNames(old.Kind) == render.NamesOrdinal && render.PodNames(next.Kind) == render.NamesOrdinal:
		return fmt.Sprintf("from %s to %s the new pods and claims would have the names of the old ones, so that they cannot be there beside them; %s", from, to, remedy)
	case render.HasClaims(old):
		return fmt.Sprintf("the %s has volumeClaimTemplates, and the pods of a %s would start with empty volumes; %s", from, to, remedy)
	}
	return ""
}
